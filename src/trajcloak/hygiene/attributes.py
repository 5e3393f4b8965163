"""The request attributes of a log by value: how often each was sent, and by how many users."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from trajcloak.log import RequestLog


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


@dataclass(frozen=True)
class Senders:
    """The requests of a log, user after user.

    Attributes
    ----------
    kind : (requests,) int32
        Kinds of the requests, those of a user together.
    first : (users + 1,) int64
        Where the requests of each user start in ``kind``.
    """

    kind: npt.NDArray[np.int32]
    first: npt.NDArray[np.int64]


def group_by_sender(log: RequestLog) -> Senders:
    """Put the requests of each user together."""
    return Senders(*_group_by_sender(log.user, log.requests.row, log.requests.kind, log.num_users))


def list_attributes(log: RequestLog, senders: Senders) -> list[Attribute]:
    """Count requests and users for each value of each attribute."""
    attributes = []
    for name in log.requests.kinds.column_names:
        encoded = log.requests.kinds[name].combine_chunks().dictionary_encode()
        values = encoded.dictionary
        code = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        sent, users = _count_senders(senders.kind, senders.first, code, len(values))
        attributes.append(Attribute(name, values, code, sent, users))
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
def _group_by_sender(user, row, kind, num_users):  # type: ignore[no-untyped-def]
    """Sort kinds by user, by counting.

    Requires: ``row`` holds rows of ``user``.
    Ensures: as :class:`Senders`. O(requests + users) time.
    """
    first = np.zeros(num_users + 1, np.int64)
    for r in range(len(row)):
        first[user[row[r]] + 1] += 1
    for u in range(num_users):
        first[u + 1] += first[u]
    place = first[:-1].copy()
    grouped = np.empty(len(row), np.int32)
    for r in range(len(row)):
        u = user[row[r]]
        grouped[place[u]] = kind[r]
        place[u] += 1
    return grouped, first


@njit(cache=True, nogil=True)
def _count_senders(kind, first, code, num_values):  # type: ignore[no-untyped-def]
    """Count the requests and the users of each value; O(requests + users + values) time."""
    sent = np.zeros(num_values, np.int64)
    users = np.zeros(num_values, np.int64)
    last = np.full(num_values, -1, np.int64)
    for u in range(len(first) - 1):
        for r in range(first[u], first[u + 1]):
            c = code[kind[r]]
            if c < 0:
                continue
            sent[c] += 1
            if last[c] != u:
                last[c] = u
                users[c] += 1
    return sent, users
