"""User ids in the requests of a log, by plain loops, as docs/data-model.md says."""

import re


def count_ids(sent, users):
    """Count the ids that the values of an attribute give away; 0 if chance explains them.

    ``sent``: a pair of a user's id and a value, or None, for each request.
    """
    sent = [(user, value) for user, value in sent if value is not None]
    return (
        _count_own(sent, users, lambda value: {_spell(value)})
        or _count_own(sent, users, _list_numbers)
        or _count_inside(sent, users)
        or _count_known(sent, users)
    )


def _spell(value):
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else None
    return str(value).strip().lower()


def _list_numbers(value):
    return set(re.findall("[0-9]+", value)) if isinstance(value, str) else set()


def _count_own(sent, users, list_parts):
    named = {(user, part) for user, value in sent for part in list_parts(value)}
    own = {user for user in users if (user, _spell(user)) in named}
    ids = {_spell(user) for user in users}
    by_chance = sum(part in ids for _, part in named) / max(len({user for user, _ in sent}), 1)
    return len(own) if len(own) > 3 + 4 * by_chance else 0


def _count_inside(sent, users):
    texts = {value.lower() for _, value in sent if isinstance(value, str)}
    names = {_spell(user) for user in users if len(_spell(user)) >= 6}
    numbers = {name for name in names if re.fullmatch("-?[0-9]+", name)}
    found = sum(any(_is_inside(name, text) for text in texts) for name in names - numbers)
    sent_numbers = {n for text in texts for n in _list_numbers(text) if len(n) >= 6}
    by_chance = sum(
        10.0 ** -len(n) for name in numbers for n in sent_numbers if len(n) == len(name)
    )
    num_found = len(numbers & sent_numbers)
    if by_chance <= 0.01 or (num_found > 3 and num_found > 4 * by_chance):
        found += num_found
    return found


def _is_inside(name, text):
    if re.fullmatch("[0-9a-f]{32}", name.replace("-", "")):
        return name.replace("-", "") in text.replace("-", "")
    return name in text


def _count_known(sent, users):
    values = {_spell(value) for _, value in sent} - {None}
    numbers = {value for value in values if re.fullmatch("[0-9]{6,}", value)}
    ids = {_spell(user) for user in users if len(_spell(user)) >= 6}
    by_chance = sum(10.0 ** -len(n) for n in numbers for name in ids
                    if len(n) == len(name) and name.isdigit())  # fmt: skip
    found = len(ids & values)
    return found if found > 3 + 4 * by_chance else 0
