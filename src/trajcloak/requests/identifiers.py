"""Find request values that are ids of users, or that identify a single user."""

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from trajcloak.log import RequestLog
from trajcloak.requests.attributes import Attribute, group_by_user
from trajcloak.requests.patterns import is_bytes, is_text

MANY_VALUES = 200
"""An attribute with at most this many distinct values holds categories, however few users sent
each."""

NEAR_UNIQUE = 0.5
"""Above this share of distinct values among requests, or of values that one user sent among all
values, an attribute is near-unique."""


LONG_ID = 6
"""An id of at least this many characters does not equal a value by chance, unless both are
numbers."""

MIN_FOUND = 3
ABOVE_CHANCE = 4
"""An attribute holds ids if more than ``MIN_FOUND`` are found, and ``ABOVE_CHANCE`` times as many
as chance explains."""

BY_CHANCE = 0.01
"""If chance explains at most this many ids among the numbers in texts, one is enough."""

UUID = "^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$"
WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,18}")
LIMIT = 2**63
"""Integer ids are below this."""

Positions = npt.NDArray[np.int64]


class Ids:
    """The ids of the users of a shard.

    Parameters
    ----------
    users
        The ids, ascending: integers or text.
    num_digits
        How many ids of the whole log are numbers of 0, 1, 2, ... digits, if there are other
        shards.
    """

    def __init__(self, users: pa.Array, num_digits: Positions | None = None) -> None:
        self._users = users
        self._given_digits = num_digits
        self._is_integer = pa.types.is_integer(users.type)

    @property
    def are_some(self) -> bool:
        """Whether these are only some of the log's ids."""
        return self._given_digits is not None

    def match(self, texts: pa.Array) -> tuple[Positions, Positions]:
        """Find the users whose id, written as :func:`spell` does, is among some texts.

        Returns the positions of the users, and of the texts that are their ids.
        """
        if self._is_integer:
            return self._match_numbers(texts)
        found = pc.index_in(self._spelt, value_set=texts, skip_nulls=True)
        user = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        return user, found.drop_null().to_numpy().astype(np.int64)

    def count_names(self, texts: pa.Array) -> int:
        """Count the long ids that are not numbers and occur anywhere in some texts.

        Case is ignored, and so are the dashes of ids that are UUIDs.
        """
        if self._is_integer:
            return 0
        is_long = pc.greater_equal(pc.utf8_length(self._spelt), LONG_ID)
        is_number = pc.match_substring_regex(self._spelt, "^-?[0-9]+$")
        names = self._spelt.filter(pc.and_not(is_long, is_number))
        lowered = pc.utf8_lower(texts.unique())
        is_found = _is_inside(names, lowered)
        is_uuid = pc.match_substring_regex(names, UUID).to_numpy(zero_copy_only=False)
        if is_uuid.any():
            bare = pc.replace_substring(names.filter(pa.array(is_uuid)), "-", "")
            is_found[is_uuid] |= _is_inside(bare, pc.replace_substring(lowered, "-", ""))
        return int(is_found.sum())

    def expect(self, texts: pa.Array) -> float:
        """Compute how many whole numbers among some texts would be ids by chance.

        That is, if all numbers with as many digits as an id were equally likely.
        """
        digits = texts.filter(pc.match_substring_regex(texts, "^[0-9]+$"))
        counts = np.bincount(pc.utf8_length(digits).to_numpy(), minlength=1)
        size = min(len(counts), len(self.num_digits))
        return float((self.num_digits[:size] * counts[:size] / 10.0 ** np.arange(size)).sum())

    @cached_property
    def _spelt(self) -> pa.Array:
        return spell(self._users)

    @cached_property
    def num_digits(self) -> Positions:
        """How many ids are numbers of 0, 1, 2, ... digits."""
        if self._given_digits is not None:
            return self._given_digits
        if self._is_integer:
            numbers = self._users.to_numpy()
            sizes = np.concatenate([[0], 10 ** np.arange(1, 19)])
            # Negative ids are left out: a text of digits has no sign.
            counts = np.diff(np.searchsorted(numbers, sizes), append=len(numbers))
            return np.concatenate([[0], counts])
        digits = self._spelt.filter(pc.match_substring_regex(self._spelt, "^[0-9]+$"))
        return np.bincount(pc.utf8_length(digits).to_numpy(), minlength=1)

    def _match_numbers(self, texts: pa.Array) -> tuple[Positions, Positions]:
        numbers = [int(text) if text and WHOLE_NUMBER.fullmatch(text) else LIMIT
                   for text in texts.to_pylist()]  # fmt: skip
        value = np.flatnonzero([-LIMIT <= number < LIMIT for number in numbers])
        wanted = np.array([numbers[i] for i in value], np.int64)
        users = self._users.to_numpy()
        user = np.searchsorted(users, wanted)
        is_found = users[np.minimum(user, len(users) - 1)] == wanted
        return user[is_found], value[is_found]


def _is_inside(names: pa.Array, texts: pa.Array) -> npt.NDArray[np.bool_]:
    """Find which names occur anywhere in some texts."""
    lengths = pc.utf8_length(names).unique().to_pylist()
    parts = {text[i : i + n] for n in lengths for text in texts.to_pylist()
             for i in range(len(text) - n + 1)}  # fmt: skip
    is_found: npt.NDArray[np.bool_] = pc.is_in(
        names, value_set=pa.array(parts, names.type)
    ).to_numpy(zero_copy_only=False)
    return is_found.copy()


def spell(values: pa.Array) -> pa.Array:
    """Write values as text in the same way as ids, in lower case.

    Moments, days and durations become the numbers that they are stored as. Numbers that are
    not whole, and values of all other types, become null.
    """
    type_ = values.type
    texts = to_text(values)
    if texts is not None:
        return pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    if pa.types.is_decimal(type_):
        return pa.array(map(_spell_decimal, values.to_pylist()), pa.string())
    if pa.types.is_floating(type_):
        numbers = values.to_numpy(zero_copy_only=False)
        is_whole = (np.abs(numbers) < 2**53) & (np.rint(numbers) == numbers)
        values = pa.array(np.where(is_whole, numbers, 0).astype(np.int64), mask=~is_whole)
    elif pa.types.is_temporal(type_):
        values = values.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    elif not pa.types.is_integer(type_):
        return pa.nulls(len(values), pa.string())
    return values.cast(pa.string())


def to_text(values: pa.Array) -> pa.Array | None:
    """Convert text, and bytes as far as they are text, to plain text; None for other types."""
    if is_text(values.type):
        return values.cast(pa.string())
    if is_bytes(values.type):
        decoded = (value.rstrip(b"\0").decode(errors="replace") for value in values.to_pylist())
        return pa.array(decoded, pa.string())
    return None


def _spell_decimal(value: Decimal) -> str | None:
    numerator, denominator = value.as_integer_ratio()
    return str(numerator) if denominator == 1 else None


class NumbersInTexts(NamedTuple):
    """The numbers in some texts, each a run of digits.

    Attributes
    ----------
    spelt : pyarrow.Array
        The distinct numbers, as text.
    first : (texts + 1,) int64
        Where the numbers of each text start in ``number``.
    number : int64
        Positions in ``spelt``.
    """

    spelt: pa.Array
    first: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]


def list_numbers(texts: pa.Array, num_digits: npt.NDArray[np.int64]) -> NumbersInTexts:
    """List the numbers in some texts that have as many digits as some id.

    Parameters
    ----------
    texts
    num_digits
        How many ids are numbers of 0, 1, 2, ... digits.
    """
    groups = pc.split_pattern_regex(texts, "[^0-9]+")
    spelt, text = groups.flatten(), pc.list_parent_indices(groups).to_numpy()
    size = pc.utf8_length(spelt).to_numpy()
    is_wanted = (np.append(num_digits, 0)[np.minimum(size, len(num_digits))] > 0) & (size > 0)
    encoded = spelt.filter(pa.array(is_wanted)).dictionary_encode()
    return NumbersInTexts(
        encoded.dictionary,
        np.searchsorted(text[is_wanted], np.arange(len(texts) + 1)),
        encoded.indices.to_numpy().astype(np.int64),
    )


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
    """Counts of user ids found in an attribute; the counts of shards can be added.

    Attributes
    ----------
    own : (3,) int64
        Users who sent their own id as a value; senders of values that are ids, summed over
        the values; and users who sent anything.
    own_inside : (2,) int64
        Users who sent their own id as a number in a text, and users who sent anything.
    number_users : (numbers,) int64
        How many users sent each number in a text.
    number_is_id : (numbers,) int64
        1 if the number is the id of a user.
    names : int
        Long ids that are not numbers and occur somewhere in the values.
    known : int
        Users whose long id is a value.
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
    num_own, num_senders = _count_owners(
        log, attribute, NumbersInTexts(spelt, each, each), user, value
    )
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
    # A lower bound, known already: as many users sent a number as sent any one text with it.
    users = np.zeros_like(is_id)
    senders = np.repeat(attribute.users, np.diff(numbers.first))
    np.maximum.at(users, numbers.number, senders)
    if not ids.are_some and _is_chance(own[0], int(users @ is_id), own[1]):
        return own, users, is_id
    users[:] = 0
    if len(users):
        first, code = group_by_user(
            log.request_user, log.requests.kind, attribute.code, log.num_users
        )
        _add_users(first, code, numbers.first, numbers.number, users)
    return own, users, is_id


def _count_owners(
    log: RequestLog,
    attribute: Attribute,
    numbers: NumbersInTexts,
    user: npt.NDArray[np.int64],
    number: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Count the users who sent the number that is their id, and all users who sent anything."""
    wanted = np.full(log.num_users, -1, np.int64)
    wanted[user] = number
    if not len(user):
        return np.zeros(2, np.int64)
    counts: npt.NDArray[np.int64] = _count_senders(
        log.request_user, log.requests.kind, attribute.code, *numbers[1:], wanted
    )
    return counts


def add_id_counts(shards: Sequence[IdCounts]) -> IdCounts:
    """Add the counts of shards."""
    return IdCounts(*(sum(counts) for counts in zip(*shards, strict=True)))


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
    """Whether so many users may have sent their own id by chance.

    By chance, a user who sends somebody's id sends their own with probability 1 / senders.
    """
    return num_own <= MIN_FOUND + ABOVE_CHANCE * (num_alike / max(num_senders, 1))


def judge_known_ids(counts: IdCounts, ids: Ids, attribute: Attribute) -> int:
    """Count the users whose id is a value or occurs in one, or 0 if chance explains it.

    A single long id is enough if it is text, or a number in texts that hold few numbers.
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


def _list_numbers(ids: Ids, attribute: Attribute) -> NumbersInTexts:
    texts = to_text(attribute.values)
    if texts is None:
        texts = pa.nulls(attribute.num_values, pa.string())
    return list_numbers(texts, ids.num_digits)


def _list_long(texts: pa.Array) -> pa.Array:
    return texts.filter(pc.greater_equal(pc.utf8_length(texts), LONG_ID))


@njit(cache=True, nogil=True)
def _count_senders(user, kind, code, first, number, wanted):  # type: ignore[no-untyped-def]
    """Count the users who sent their wanted number, and all users who sent a request.

    ``first`` and ``number`` are as in :class:`NumbersInTexts`; ``wanted`` is -1 for users
    without one.
    """
    is_sender = np.zeros(len(wanted), np.bool_)
    is_own = np.zeros(len(wanted), np.bool_)
    for r in range(len(user)):
        u = user[r]
        is_sender[u] = True
        c = code[kind[r]]
        if wanted[u] >= 0 and c >= 0:
            for i in range(first[c], first[c + 1]):
                is_own[u] |= number[i] == wanted[u]
    return np.array([is_own.sum(), is_sender.sum()])


@njit(cache=True, nogil=True)
def _add_users(first, code, first_number, number, users):  # type: ignore[no-untyped-def]
    """Add how many users sent each number; O(users + requests * numbers in a text) time.

    ``first`` and ``code`` are the values that each user sent, from ``group_by_user``; -1 is
    null.
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
