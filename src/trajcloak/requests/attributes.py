"""Count, for each value of each request attribute, its requests and its users."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from trajcloak.log import RequestLog, ShardedLog

MASK_BITS = 64
"""Up to this many values, or kinds of requests, are counted with one word of bits per user."""


@dataclass(frozen=True)
class Attribute:
    """An attribute of the requests of a log.

    Attributes
    ----------
    name : str
    values : pyarrow.Array
        The distinct values, without null.
    code : (kinds,) int32
        Position in ``values`` of each distinct request's value; -1: null.
    sent : (values,) int64
        How many requests have each value.
    users : (values,) int64
        How many distinct users sent each value.
    """

    name: str
    values: pa.Array
    code: npt.NDArray[np.int32]
    sent: npt.NDArray[np.int64]
    users: npt.NDArray[np.int64]

    def plus(self, other: "Attribute") -> "Attribute":
        """Add the requests of other users."""
        return replace(self, sent=self.sent + other.sent, users=self.users + other.users)

    @property
    def num_values(self) -> int:
        """How many distinct values there are."""
        return len(self.values)

    @property
    def num_sent(self) -> int:
        """How many requests have a value."""
        return int(self.sent.sum())


def count_values(log: ShardedLog) -> list[Attribute]:
    """Count requests and users for each value of each attribute, over all shards."""
    return reduce(
        lambda one, other: list(map(Attribute.plus, one, other)), log.ask(list_attributes)
    )


def list_attributes(log: RequestLog) -> list[Attribute]:
    """Count requests and users of a shard for each value of each attribute."""
    requests = log.requests
    num_kinds = requests.kinds.num_rows
    sent_kinds = _count_kinds(requests.kind, num_kinds)
    # With few kinds of requests, one mask per user serves all attributes.
    masks = _mark(log, np.arange(num_kinds)) if num_kinds <= MASK_BITS else None
    attributes = []
    for name in requests.kinds.column_names:
        encoded = requests.kinds[name].combine_chunks().dictionary_encode()
        values = encoded.dictionary
        code = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        # Null has code -1, so its count goes to the last entry.
        sent = np.zeros(len(values) + 1, np.int64)
        np.add.at(sent, code, sent_kinds)
        if masks is not None:
            users = _count_masks(masks, _join_bits(code, len(values)))
        elif len(values) <= MASK_BITS:
            users = _count_masks(_mark(log, code), _join_bits(np.arange(len(values)), len(values)))
        else:
            users = _count_many(log.request_user, requests.kind, code, len(values), log.num_users)
        attributes.append(Attribute(name, values, code, sent[:-1], users))
    return attributes


def _mark(log: RequestLog, bit: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Build a word per user, with a bit set for each kind of request that the user sent.

    ``bit`` is the bit of each kind; -1: none.
    """
    word = np.where(bit < 0, 0, 1 << np.maximum(bit, 0).astype(np.uint64)).astype(np.uint64)
    masks: npt.NDArray[np.uint64] = _mark_senders(
        log.request_user, log.requests.kind, word, log.num_users
    )
    return masks


def _join_bits(code: npt.NDArray[Any], num_values: int) -> npt.NDArray[np.uint64]:
    """Build a word per value: bit i is set if ``code[i]`` is that value; -1 is ignored."""
    joined = np.zeros(num_values + 1, np.uint64)
    np.bitwise_or.at(joined, code, np.uint64(1) << np.arange(len(code), dtype=np.uint64))
    return joined[:-1]


def select_values(attribute: Attribute, kept: npt.NDArray[np.bool_]) -> Attribute:
    """Keep some values of an attribute; the others become null."""
    number = np.full(attribute.num_values + 1, -1, np.int32)
    number[np.flatnonzero(kept)] = np.arange(kept.sum(), dtype=np.int32)
    return Attribute(
        name=attribute.name,
        values=attribute.values.filter(pa.array(kept)),
        code=number[attribute.code],
        sent=attribute.sent[kept],
        users=attribute.users[kept],
    )


@njit(cache=True, nogil=True)
def _count_kinds(kind, num_kinds):  # type: ignore[no-untyped-def]
    """Count how often each kind was sent."""
    sent = np.zeros(num_kinds, np.int64)
    for r in range(len(kind)):
        sent[kind[r]] += 1
    return sent


@njit(cache=True, nogil=True)
def _mark_senders(user, kind, word, num_users):  # type: ignore[no-untyped-def]
    """Join, for each user, the words of all kinds that they sent; O(requests + users) time."""
    masks = np.zeros(num_users, np.uint64)
    for r in range(len(kind)):
        masks[user[r]] |= word[kind[r]]
    return masks


@njit(cache=True, nogil=True)
def _count_masks(masks, joined):  # type: ignore[no-untyped-def]
    """Count, for each value, the users whose mask shares a bit with the value's."""
    users = np.zeros(len(joined), np.int64)
    for value in range(len(joined)):
        for u in range(len(masks)):
            users[value] += (masks[u] & joined[value]) != np.uint64(0)
    return users


@njit(cache=True, nogil=True)
def group_by_user(user, kind, code, num_users):  # type: ignore[no-untyped-def]
    """Group the codes of requests by user, by counting sort.

    Returns where the codes of each user start, and all codes; O(requests + users) time.
    """
    first = np.zeros(num_users + 1, np.int64)
    for r in range(len(user)):
        first[user[r] + 1] += 1
    for u in range(num_users):
        first[u + 1] += first[u]
    place = first[:-1].copy()
    grouped = np.empty(len(user), np.int32)
    for r in range(len(user)):
        u = user[r]
        grouped[place[u]] = code[kind[r]]
        place[u] += 1
    return first, grouped


@njit(cache=True, nogil=True)
def _count_many(user, kind, code, num_values, num_users):  # type: ignore[no-untyped-def]
    """Count the users of each value; O(requests + users + values) time."""
    first, grouped = group_by_user(user, kind, code, num_users)
    users = np.zeros(num_values, np.int64)
    # The last user who was counted for each value, so that nobody is counted twice.
    last = np.full(num_values, -1, np.int64)
    for u in range(num_users):
        for r in range(first[u], first[u + 1]):
            c = grouped[r]
            if c >= 0 and last[c] != u:
                last[c] = u
                users[c] += 1
    return users
