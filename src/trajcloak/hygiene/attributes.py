"""The request attributes of a log by value: how often each was sent, and by how many users."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from trajcloak.log import RequestLog

MASK_BITS = 64
"""An attribute with no more values is counted with a word of bits for each user."""


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

    @property
    def num_values(self) -> int:
        """How many distinct values there are."""
        return len(self.values)

    @property
    def num_sent(self) -> int:
        """How many requests have a value."""
        return int(self.sent.sum())


def list_attributes(log: RequestLog) -> list[Attribute]:
    """Count requests and users for each value of each attribute."""
    requests = log.requests
    by_kind = np.bincount(requests.kind, minlength=requests.kinds.num_rows)
    sender = log.user[requests.row]
    attributes = []
    for name in requests.kinds.column_names:
        encoded = requests.kinds[name].combine_chunks().dictionary_encode()
        values = encoded.dictionary
        code = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        sent = np.zeros(len(values) + 1, np.int64)
        # The last entry is that of null, whose code is -1.
        np.add.at(sent, code, by_kind)
        if len(values) <= MASK_BITS:
            users = _count_few(sender, requests.kind, code, len(values), log.num_users)
        else:
            users = _count_many(sender, requests.kind, code, len(values), log.num_users)
        attributes.append(Attribute(name, values, code, sent[:-1], users))
    return attributes


def select_values(attribute: Attribute, kept: npt.NDArray[np.bool_]) -> Attribute:
    """Take some values of an attribute; the others count as null."""
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
def _count_few(sender, kind, code, num_values, num_users):  # type: ignore[no-untyped-def]
    """Count the users of each of at most 64 values: a bit for each value that a user sent.

    O(requests + users * values) time, a word for each user.
    """
    masks = np.zeros(num_users, np.uint64)
    bits = np.zeros(len(code), np.uint64)
    for i in range(len(code)):
        if code[i] >= 0:
            bits[i] = np.uint64(1) << np.uint64(code[i])
    for r in range(len(kind)):
        masks[sender[r]] |= bits[kind[r]]
    users = np.zeros(num_values, np.int64)
    for u in range(num_users):
        left = masks[u]
        value = 0
        while left != np.uint64(0):
            users[value] += np.int64(left & np.uint64(1))
            left >>= np.uint64(1)
            value += 1
    return users


@njit(cache=True, nogil=True)
def _count_many(sender, kind, code, num_values, num_users):  # type: ignore[no-untyped-def]
    """Count the users of each value, the requests of a user put together by counting.

    O(requests + users + values) time.
    """
    first = np.zeros(num_users + 1, np.int64)
    for r in range(len(kind)):
        first[sender[r] + 1] += 1
    for u in range(num_users):
        first[u + 1] += first[u]
    place = first[:-1].copy()
    grouped = np.empty(len(kind), np.int32)
    for r in range(len(kind)):
        grouped[place[sender[r]]] = code[kind[r]]
        place[sender[r]] += 1
    users = np.zeros(num_values, np.int64)
    last = np.full(num_values, -1, np.int64)
    for u in range(num_users):
        for r in range(first[u], first[u + 1]):
            c = grouped[r]
            if c >= 0 and last[c] != u:
                last[c] = u
                users[c] += 1
    return users
