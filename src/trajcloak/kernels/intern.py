"""Number user ids in order of first appearance, without Python loops over rows; and sort them.

Each interner keeps a hash table of the ids seen so far and compares the ids
themselves, so two ids that share a hash stay two users. Logs mostly repeat the same
user, or all users in the same order. So the row before predicts the next id: the same
user again, or the user with the next number. A right guess costs one comparison and
no hash.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

FIRST_CAPACITY = 1 << 12
EMPTY = np.int32(-1)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX2 = np.uint64(0xD6E8FEB86659FD93)


class IntegerIds:
    """Numbers integer ids."""

    def __init__(self) -> None:
        self._ids = np.empty(FIRST_CAPACITY, np.int64)
        self._table = np.full(2 * FIRST_CAPACITY, EMPTY, np.int32)
        self._count = 0
        self._last = 0

    def intern(self, ids: pa.Array) -> npt.NDArray[np.int32]:
        """Return the number of each id; ``ids`` is int64 without nulls."""
        values, number, row = ids.to_numpy(), np.empty(len(ids), np.int32), 0
        while True:
            row, self._count, self._last = _intern_integers(
                values, row, self._ids, self._table, self._count, self._last, number
            )
            if row == len(values):
                return number
            hashes = _hash_integer(self._ids.view(np.uint64))
            self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
            self._table = _rehash(hashes, self._count, 2 * len(self._table))

    def distinct(self) -> pa.Array:
        """List the ids by number."""
        return pa.array(self._ids[: self._count])


class TextIds:
    """Numbers text ids."""

    def __init__(self) -> None:
        self._data = np.empty(16 * FIRST_CAPACITY, np.uint8)
        self._ends = np.zeros(FIRST_CAPACITY + 1, np.int64)
        self._hashes = np.empty(FIRST_CAPACITY, np.uint64)
        self._table = np.full(2 * FIRST_CAPACITY, EMPTY, np.int32)
        self._count = 0
        self._last = 0

    def intern(self, ids: pa.Array) -> npt.NDArray[np.int32]:
        """Return the number of each id; ``ids`` is text, or numbers to be written as text."""
        offsets, data = _text_buffers(ids)
        number, row = np.empty(len(ids), np.int32), 0
        while True:
            row, self._count, self._last = _intern_texts(
                offsets, data, row,
                self._data, self._ends, self._hashes, self._table, self._count, self._last, number,
            )  # fmt: skip
            if row == len(ids):
                return number
            self._grow(int(offsets[row + 1] - offsets[row]))

    def _grow(self, needed: int) -> None:
        if self._count == len(self._hashes):
            self._hashes = np.concatenate([self._hashes, np.empty_like(self._hashes)])
            self._ends = np.concatenate([self._ends, np.empty_like(self._ends)])
            self._table = _rehash(self._hashes, self._count, 2 * len(self._table))
        used = int(self._ends[self._count])
        if used + needed > len(self._data):
            bigger = np.empty(max(2 * len(self._data), used + needed), np.uint8)
            bigger[:used] = self._data[:used]
            self._data = bigger

    def distinct(self) -> pa.Array:
        """List the ids by number."""
        ends = self._ends[: self._count + 1]
        return pa.LargeStringArray.from_buffers(
            self._count, pa.py_buffer(ends), pa.py_buffer(self._data[: ends[-1]])
        )


def hash_ids(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """Hash ids, int64 or text; the same on every machine, and for a number and its text."""
    hashes = np.empty(len(ids), np.uint64)
    _hash_texts(*_text_buffers(ids), hashes)
    return hashes


def sort_ids(ids: pa.Array) -> npt.NDArray[np.int64]:
    """List the positions of distinct ids in ascending order of the ids."""
    if pa.types.is_integer(ids.type):
        return np.argsort(ids.to_numpy())
    order: npt.NDArray[np.int64] = pc.sort_indices(ids).to_numpy().astype(np.int64)
    return order


def rank_ids(ids: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Sort distinct ids; returns them, and the position of each id among them."""
    order = sort_ids(ids)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return ids.take(pa.array(order)), rank


def _text_buffers(ids: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    text = ids.cast(pa.large_string())
    _, offsets, data = text.buffers()
    return (
        np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1],
        np.frombuffer(data or b"", np.uint8),
    )


@njit(cache=True, nogil=True)
def renumber(user, rank):  # type: ignore[no-untyped-def]
    """Replace each user number by ``rank[number]``, in place."""
    for i in range(len(user)):
        user[i] = rank[user[i]]


@njit(cache=True, nogil=True)
def _hash_texts(offsets, data, hashes):  # type: ignore[no-untyped-def]
    for i in range(len(hashes)):
        hashes[i] = _hash_text(data, offsets[i], offsets[i + 1])


@njit(cache=True, nogil=True)
def _hash_integer(value):  # type: ignore[no-untyped-def]
    """Hash one or an array of ``uint64``."""
    h = value * _MIX
    return (h ^ (h >> np.uint64(32))) * _MIX2


@njit(cache=True, nogil=True)
def _hash_text(data, start, stop):  # type: ignore[no-untyped-def]
    h = np.uint64(stop - start) * _MIX
    for i in range(start, stop):
        h = (h ^ np.uint64(data[i])) * _MIX
        h ^= h >> np.uint64(29)
    return h * _MIX2


@njit(cache=True, nogil=True)
def _slot(h, table):  # type: ignore[no-untyped-def]
    """Map a hash to a place in a table whose length is a power of two."""
    return np.int64((h >> np.uint64(20)) & np.uint64(len(table) - 1))


@njit(cache=True, nogil=True)
def _intern_integers(ids, row, known, table, count, last, out):  # type: ignore[no-untyped-def]
    """Write the numbers of ``ids[row:]`` to ``out``; stop early if ``known`` is full.

    ``known[number]`` is the id with that number, ``count`` are known, and ``last`` is the
    number of the row before. ``table`` is an open-addressing hash table of numbers, at most
    half full. Returns the next row, ``count`` and ``last``.
    """
    mask = len(table) - 1
    while row < len(ids):
        value = ids[row]
        # First guess: the user of the row before.
        if count > 0 and known[last] == value:
            out[row] = last
            row += 1
            continue
        # Second guess: the user with the next number.
        if last + 1 < count and known[last + 1] == value:
            last += 1
            out[row] = last
            row += 1
            continue
        # Probe slot after slot until the id or an empty slot is found.
        slot = _slot(_hash_integer(np.uint64(value)), table)
        while table[slot] != EMPTY and known[table[slot]] != value:
            slot = (slot + 1) & mask
        if table[slot] == EMPTY:
            # A new id, and no room: the caller enlarges the arrays and continues at this row.
            if count == len(known):
                return row, count, last
            known[count] = value
            table[slot] = count
            count += 1
        last = table[slot]
        out[row] = last
        row += 1
    return row, count, last


@njit(cache=True, nogil=True)
def _rehash(hashes, count, size):  # type: ignore[no-untyped-def]
    """Build a hash table of ``size`` slots from the hashes of the ids known so far."""
    table = np.full(size, EMPTY, np.int32)
    for number in range(count):
        slot = _slot(hashes[number], table)
        while table[slot] != EMPTY:
            slot = (slot + 1) & (size - 1)
        table[slot] = number
    return table


@njit(cache=True, nogil=True)
def _same_text(data, start, stop, known, ends, number):  # type: ignore[no-untyped-def]
    """Whether ``data[start:stop]`` is the known id with a number."""
    first = ends[number]
    if ends[number + 1] - first != stop - start:
        return False
    for i in range(stop - start):
        if data[start + i] != known[first + i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _intern_texts(offsets, data, row, known, ends, hashes, table, count, last, out):  # type: ignore[no-untyped-def]
    """Write the numbers of the ids from ``row`` on to ``out``; stop early if a buffer is full.

    Like ``_intern_integers``, for texts: the id of row r is ``data[offsets[r]:offsets[r + 1]]``,
    and ``known[ends[number]:ends[number + 1]]`` is the id with a number. Hashes are kept, so
    that few texts are compared.
    """
    mask = len(table) - 1
    while row < len(offsets) - 1:
        start = offsets[row]
        stop = offsets[row + 1]
        # The two guesses: the user of the row before, and the one with the next number.
        if count > 0 and _same_text(data, start, stop, known, ends, last):
            out[row] = last
            row += 1
            continue
        if last + 1 < count and _same_text(data, start, stop, known, ends, last + 1):
            last += 1
            out[row] = last
            row += 1
            continue
        h = _hash_text(data, start, stop)
        slot = _slot(h, table)
        while table[slot] != EMPTY and not (
            hashes[table[slot]] == h and _same_text(data, start, stop, known, ends, table[slot])
        ):
            slot = (slot + 1) & mask
        if table[slot] == EMPTY:
            # A new id, and no room: the caller enlarges the buffers and continues at this row.
            if count == len(hashes) or ends[count] + stop - start > len(known):
                return row, count, last
            for i in range(stop - start):
                known[ends[count] + i] = data[start + i]
            ends[count + 1] = ends[count] + stop - start
            hashes[count] = h
            table[slot] = count
            count += 1
        last = table[slot]
        out[row] = last
        row += 1
    return row, count, last
