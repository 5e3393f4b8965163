"""Values that are the ids of users, or that single one user out."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from trajcloak.hygiene.attributes import Attribute, group_by_user
from trajcloak.hygiene.ids import ABOVE_CHANCE, BY_CHANCE, LONG_ID, MIN_FOUND, Ids, spell, to_text
from trajcloak.hygiene.numbers import Numbers, list_numbers
from trajcloak.log import RequestLog

MANY_VALUES = 200
"""An attribute with no more distinct values has categories, however few users it has."""

NEAR_UNIQUE = 0.5
"""Share of distinct values among requests, or of values of one user among values."""


def is_near_unique(attribute: Attribute) -> bool:
    """Whether most values were sent once, or by one user only."""
    if attribute.num_values <= MANY_VALUES:
        return False
    alone = int((attribute.users == 1).sum())
    return (
        attribute.num_values > NEAR_UNIQUE * attribute.num_sent
        or alone > NEAR_UNIQUE * attribute.num_values
    )


class IdCounts(NamedTuple):
    """Where ids of users were found in an attribute; counts of parts of a log add up.

    Attributes
    ----------
    own : (3,) int64
        Users who sent their own id as a value, senders of all values that are ids, and
        users who sent anything.
    own_inside : (2,) int64
        Users who sent their own id as a number in a text, and users who sent anything.
    number_users : (numbers,) int64
        How many users sent each number in a text.
    number_is_id : (numbers,) int64
        1: it is the id of a user.
    names : int
        Long ids that are no numbers and stand somewhere in the values.
    known : int
        Users whose id is a long value.
    """

    own: npt.NDArray[np.int64]
    own_inside: npt.NDArray[np.int64]
    number_users: npt.NDArray[np.int64]
    number_is_id: npt.NDArray[np.int64]
    names: int
    known: int


def count_ids(ids: Ids, log: RequestLog, attribute: Attribute) -> IdCounts:
    """Find the ids of users in an attribute.

    Values are compared as a whole, and text also by each number in it.
    """
    texts = to_text(attribute.values)
    long_texts = _list_long(spell(attribute.values))
    return IdCounts(
        _count_own(ids, log, attribute),
        *_count_inside(ids, log, attribute),
        names=0 if texts is None else ids.count_names(texts),
        known=len(ids.match(long_texts)[0]) if len(long_texts) else 0,
    )


def _count_own(ids: Ids, log: RequestLog, attribute: Attribute) -> npt.NDArray[np.int64]:
    """Compare ids with whole values."""
    spelt = spell(attribute.values)
    user, value = ids.match(spelt)
    each = np.arange(len(spelt) + 1)
    num_own, num_senders = _count_owners(log, attribute, Numbers(spelt, each, each), user, value)
    return np.array([num_own, attribute.users[value].sum(), num_senders], np.int64)


def _count_inside(
    ids: Ids, log: RequestLog, attribute: Attribute
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Compare ids with the numbers in texts."""
    numbers = _list_numbers(ids, attribute)
    user, number = ids.match(numbers.spelt)
    is_id = np.zeros(len(numbers.spelt), np.int64)
    is_id[number] = 1
    own = _count_owners(log, attribute, numbers, user, number)
    # At least as many users sent a number as sent any text with it; that is known already.
    users = np.zeros_like(is_id)
    senders = np.repeat(attribute.users, np.diff(numbers.first))
    np.maximum.at(users, numbers.number, senders)
    if not ids.are_some and _is_chance(own[0], int(users @ is_id), own[1]):
        return own, users, is_id
    users[:] = 0
    for part in log.parts() if len(users) else ():
        requests = part.requests
        first, code = group_by_user(
            part.user, requests.row, requests.kind, attribute.code, log.num_users
        )
        _add_users(first, code, numbers.first, numbers.number, users)
    return own, users, is_id


def _count_owners(
    log: RequestLog,
    attribute: Attribute,
    numbers: Numbers,
    user: npt.NDArray[np.int64],
    number: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Count the users who sent the number that is their id, and all who sent anything."""
    wanted = np.full(log.num_users, -1, np.int64)
    wanted[user] = number
    counts = np.zeros(2, np.int64)
    for part in log.parts() if len(user) else ():
        requests = part.requests
        counts += _count_senders(
            part.user, requests.row, requests.kind, attribute.code, *numbers[1:], wanted
        )
    return counts


def add_id_counts(parts: Sequence[IdCounts]) -> IdCounts:
    """Add the counts of parts of a log."""
    return IdCounts(*(sum(counts) for counts in zip(*parts, strict=True)))


def judge_own_ids(counts: IdCounts) -> int:
    """Count the users who sent their own id, or 0 if chance explains it."""
    num_inside, num_senders = counts.own_inside.tolist()
    num_alike = int(counts.number_users @ counts.number_is_id)
    ways = counts.own.tolist(), (num_inside, num_alike, num_senders)
    for num_own, num_alike, num_senders in ways:
        if not _is_chance(num_own, num_alike, num_senders):
            return int(num_own)
    return 0


def _is_chance(num_own: int, num_alike: int, num_senders: int) -> bool:
    """Whether as many users may have sent their own id by chance, as the senders of ids go."""
    return num_own <= MIN_FOUND + ABOVE_CHANCE * (num_alike / max(num_senders, 1))


def judge_known_ids(counts: IdCounts, ids: Ids, attribute: Attribute) -> int:
    """Count the users whose id is a value or stands in one, or 0 if chance explains it.

    A single long id is no chance where it is text, or a number in texts that hold few.
    """
    inside = counts.names + _judge_numbers(counts, ids, attribute)
    if inside:
        return inside
    if counts.known <= MIN_FOUND:
        return 0
    by_chance = ids.expect(_list_long(spell(attribute.values)))
    return counts.known if counts.known > MIN_FOUND + ABOVE_CHANCE * by_chance else 0


def _judge_numbers(counts: IdCounts, ids: Ids, attribute: Attribute) -> int:
    """Count the long ids among the numbers in texts, or 0 if chance explains them."""
    if not counts.number_is_id.any():
        return 0
    spelt = _list_numbers(ids, attribute).spelt
    is_long = pc.greater_equal(pc.utf8_length(spelt), LONG_ID)
    found = int(counts.number_is_id[is_long.to_numpy(zero_copy_only=False)].sum())
    by_chance = ids.expect(spelt.filter(is_long))
    if by_chance > BY_CHANCE and found <= max(MIN_FOUND, ABOVE_CHANCE * by_chance):
        return 0
    return found


def _list_numbers(ids: Ids, attribute: Attribute) -> Numbers:
    texts = to_text(attribute.values)
    if texts is None:
        texts = pa.nulls(attribute.num_values, pa.string())
    return list_numbers(texts, ids.num_digits)


def _list_long(texts: pa.Array) -> pa.Array:
    return texts.filter(pc.greater_equal(pc.utf8_length(texts), LONG_ID))


@njit(cache=True, nogil=True)
def _count_senders(user, row, kind, code, first, number, wanted):  # type: ignore[no-untyped-def]
    """Count the users who sent the number that is wanted of them, and all who sent a request.

    ``first`` and ``number`` are those of :class:`Numbers`.
    """
    is_sender = np.zeros(len(wanted), np.bool_)
    is_own = np.zeros(len(wanted), np.bool_)
    for r in range(len(row)):
        u = user[row[r]]
        is_sender[u] = True
        c = code[kind[r]]
        if wanted[u] >= 0 and c >= 0:
            for i in range(first[c], first[c + 1]):
                is_own[u] |= number[i] == wanted[u]
    return np.array([is_own.sum(), is_sender.sum()])


@njit(cache=True, nogil=True)
def _add_users(first, code, first_number, number, users):  # type: ignore[no-untyped-def]
    """Add how many users sent each number; O(users + requests * numbers in a text) time.

    ``first`` and ``code`` are the values that each user sent, as ``group_by_user`` gives
    them; -1 is none.
    """
    last = np.full(len(users), -1, np.int64)
    for u in range(len(first) - 1):
        for r in range(first[u], first[u + 1]):
            if code[r] < 0:
                continue
            for i in range(first_number[code[r]], first_number[code[r] + 1]):
                n = number[i]
                if last[n] != u:
                    last[n] = u
                    users[n] += 1
