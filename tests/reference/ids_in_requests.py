"""User ids in the requests of a log, by plain loops, as docs/data-model.md says."""

import re


def count_ids(sent, users):
    """Count the ids that the values of an attribute give away; 0 if chance explains them.

    ``sent``: a pair of a user's id and a value, or None, for each request.
    """
    return _count_own(sent) or _count_inside(sent, users) or _count_known(sent, users)


def _spell(value):
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else None
    return str(value).strip().lower()


def _count_own(sent):
    def whole(value):
        return _spell(value)

    def single(value):
        numbers = re.findall("[0-9]+", value) if isinstance(value, str) else []
        return numbers[0] if len(numbers) == 1 else None

    senders = {user for user, _ in sent}
    for take in (whole, single):
        taken = [(user, take(value)) for user, value in sent if value is not None]
        own = {user for user, value in taken if value == _spell(user)}
        by_chance = 0
        for user in {user for user, _ in taken} | senders:
            # Of the values that are spelt like the id, the first one counts.
            same = sorted({str(v) for _, v in sent if v is not None and take(v) == _spell(user)})
            if same:
                by_chance += len({u for u, v in sent if str(v) == same[0]})
        if len(own) > 3 + 4 * by_chance / len(senders):
            return len(own)
    return 0


def _count_inside(sent, users):
    texts = {value for _, value in sent if isinstance(value, str)}
    numbers = {number for text in texts for number in re.findall("[0-9]+", text)}
    found = 0
    for user in users:
        if re.fullmatch("-?[0-9]+", str(user)):
            found += len(str(user)) >= 6 and str(user) in numbers
        elif len(user) >= 6:
            found += any(user in text for text in texts)
    return found


def _count_known(sent, users):
    values = {_spell(value) for _, value in sent if value is not None} - {None}
    found = sum(len(_spell(user)) >= 6 and _spell(user) in values for user in users)
    return found if found > 3 else 0
