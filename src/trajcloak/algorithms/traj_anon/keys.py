"""Trajectories as bit strings, and their sorted order.

The key of a trajectory lists one bit of one cell coordinate after another, from
coarse to fine, in the order that the tree splits space in (:class:`KeyLayout`).
A prefix of a key is a node of the tree: the trajectories that share it are
those that the node's cloak sequence masks. So the sorted keys, with the length
of the common prefix of each two neighbours, are the whole tree.

Keys are long (2 x instants x height bits) and are never built as a whole: the
next 64 bits are computed only for trajectories that are still tied with another.
Most ties are in the first words, so those are computed for all trajectories, in the
order of memory. After them, trajectories that are identical are set aside, since
no further word can separate them.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.kernels.sort import sort_words
from trajcloak.kernels.threads import build_slices, run_all

WORD_BITS = 64
SLICES_PER_THREAD = 8
"""Smaller slices balance better where ties are uneven; one thread takes all keys at once."""

KEYS_PER_THREAD = 1 << 12
WORDS_AHEAD = 4
"""First words of keys that are computed for all trajectories. Measured: they end most ties of
large logs."""

TILE = 256
"""Trajectories whose cells are transposed at a time, so that they stay in the first-level cache."""


class KeyLayout(NamedTuple):
    """Which bit of which coordinate each bit of a key is."""

    column: npt.NDArray[np.int32]  # (bits,): ``2 * instant + axis`` of each key bit.
    # (bits,): how far right to shift the cell number so that the bit becomes its lowest.
    shift: npt.NDArray[np.uint32]
    bits_per_level: int = 1  # Prefixes whose length is a multiple of this are nodes of the tree.

    @property
    def num_bits(self) -> int:
        """Length of a key in bits."""
        return len(self.column)


class SortedKeys(NamedTuple):
    """Trajectories in key order."""

    # (n,): row of the trajectory at each place of the order; equal keys in row order.
    order: npt.NDArray[np.int32]
    # (n,): number of leading key bits that a place shares with the place before; -1 at place 0.
    common: npt.NDArray[np.int32]


def build_layout(length: int, height: int, tree: str = "usb") -> KeyLayout:
    """Lay a key out in the order in which a tree of the paper splits space.

    ``usb``, the binary US-tree: level by level, first x at all instants, then y. All uniform
    quadrant and semi-quadrant sequences are nodes (section 4.2.2). ``usb-instant``: level by level,
    x and y of one instant after the other (section 4.1.3). ``us``: the same, both at once, a 4-way
    split. ``u``: all instants at once, up to 4^length children.
    """
    axes = (height, 2, length) if tree == "usb" else (height, length, 2)
    level, *rest = (part.ravel() for part in np.indices(axes, dtype=np.int32))
    axis, instant = rest if tree == "usb" else rest[::-1]
    return KeyLayout(
        column=np.ascontiguousarray(2 * instant + axis, dtype=np.int32),
        shift=np.ascontiguousarray(height - 1 - level, dtype=np.uint32),
        bits_per_level={"us": 2, "u": 2 * length}.get(tree, 1),
    )


def sort_keys(cells: npt.NDArray[np.uint32], layout: KeyLayout, threads: int) -> SortedKeys:
    """Sort trajectories by key, ties in row order; threads never change the result."""
    n = len(cells)
    flat = cells.reshape(n, 2 * cells.shape[1])
    order = np.arange(n, dtype=np.int32)
    common = np.full(n, layout.num_bits, np.int32)
    common[:1] = -1
    words = np.empty(n, np.uint64)
    spare_words = np.empty(n, np.uint64)
    spare_order = np.empty(n, np.int32)
    # Threads are started again for every 64 bits; for few keys they cost more than they save.
    threads = min(threads, 1 + n // KEYS_PER_THREAD)
    pieces = build_slices(n, threads * SLICES_PER_THREAD if threads > 1 else 1)
    ahead = np.empty((min(WORDS_AHEAD, -(-layout.num_bits // WORD_BITS)), n), np.uint64)
    run_all(lambda start, stop: _fill_ahead(flat, layout, start, stop, ahead), pieces, threads)
    for first_bit in range(0, layout.num_bits, WORD_BITS):
        runs = _cut_between_ties(common, layout.num_bits, pieces)
        if first_bit >= len(ahead) * WORD_BITS:
            run_all(
                lambda start, stop: _settle_alike(flat, order, common, layout, start, stop),
                runs,
                threads,
            )
        run_all(
            lambda start, stop, bit=first_bit: _fill_words(
                flat, order, common, layout, bit, ahead, start, stop, words
            ),
            pieces,
            threads,
        )
        ties = run_all(
            lambda start, stop, bit=first_bit: _sort_tied(
                words, order, common, layout.num_bits, bit, start, stop, spare_words, spare_order
            ),
            runs,
            threads,
        )
        if not any(ties):
            break
    return SortedKeys(order, np.minimum(common, layout.num_bits))


def _cut_between_ties(
    common: npt.NDArray[np.int32], num_bits: int, pieces: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Move the edges of the pieces right, so that no edge separates two tied places."""
    n = len(common)
    edges = [0]
    for _, edge in pieces:
        edge = max(edge, edges[-1])
        while edge < n and common[edge] == num_bits:
            step = common[edge : edge + 4096] != num_bits
            edge += int(step.argmax()) if step.any() else len(step)
        edges.append(edge)
    return [(a, b) for a, b in pairwise(edges) if a < b]


@njit(cache=True, nogil=True)
def _fill_ahead(flat, layout, start, stop, ahead):  # type: ignore[no-untyped-def]
    """Fill ``ahead[word, row]``, the first words of the keys, for a slice of the rows.

    The innermost loop picks one bit of one column for many rows, so that the compiler can
    handle several rows with one instruction. O(64) time per word.
    """
    # Transposed cells of some rows: all rows of a column are side by side.
    tile = np.empty((flat.shape[1], TILE), np.uint32)
    for first in range(start, stop, TILE):
        size = min(TILE, stop - first)
        for row in range(size):
            for column in range(flat.shape[1]):
                tile[column, row] = flat[first + row, column]
        for word in range(len(ahead)):
            out = ahead[word, first : first + size]
            out[:] = np.uint64(0)
            first_bit = word * WORD_BITS
            last_bit = min(first_bit + WORD_BITS, len(layout.column))
            for bit in range(first_bit, last_bit):
                cells = tile[layout.column[bit]]
                shift = layout.shift[bit]
                for row in range(size):
                    one = (cells[row] >> shift) & np.uint32(1)
                    out[row] = (out[row] << np.uint64(1)) | np.uint64(one)
            # The key's last word may have fewer bits; they go to the top.
            for row in range(size):
                out[row] <<= np.uint64(first_bit + WORD_BITS - last_bit)


@njit(cache=True, nogil=True)
def _settle_alike(flat, order, common, layout, start, stop):  # type: ignore[no-untyped-def]
    """End the ties of each tied run of a slice whose trajectories are all identical.

    Requires: no run crosses an edge of the slice.
    Ensures: in those runs ``common`` is the number of bits + 1, which no longer marks a tie.
    """
    num_bits = len(layout.column)
    place = start
    while place < stop:
        end = place + 1
        while end < stop and common[end] == num_bits and _alike(flat, order[place], order[end]):
            end += 1
        # The comparison reached the end of the run: all of it is identical.
        if end == stop or common[end] != num_bits:
            common[place + 1 : end] = num_bits + 1
        while end < stop and common[end] == num_bits:
            end += 1
        place = end


@njit(cache=True, nogil=True)
def _alike(flat, a, b):  # type: ignore[no-untyped-def]
    column = 0
    while column < flat.shape[1] and flat[a, column] == flat[b, column]:
        column += 1
    return column == flat.shape[1]


@njit(cache=True, nogil=True)
def _fill_words(flat, order, common, layout, first_bit, ahead, start, stop, words):  # type: ignore[no-untyped-def]
    """Fill ``words`` with the key bits from ``first_bit`` on, at the tied places of a slice.

    ``common[place]`` of exactly ``num_bits`` means that a place is tied with the one before.
    """
    num_bits = len(layout.column)
    word = first_bit // WORD_BITS
    n = len(order)
    for place in range(start, stop):
        tied_before = place > 0 and common[place] == num_bits
        tied_after = place + 1 < n and common[place + 1] == num_bits
        # All other places are final and are not sorted again.
        if tied_before or tied_after:
            row = order[place]
            if word < len(ahead):
                words[place] = ahead[word, row]
            else:
                words[place] = build_word(flat[row], layout, first_bit)


@njit(cache=True, nogil=True)
def build_word(cells, layout, first_bit):  # type: ignore[no-untyped-def]
    """Put the 64 key bits from ``first_bit`` on of a trajectory into a word.

    Ensures: the first bit is the highest of the word; a last, shorter word is padded
    with zeros below. O(64) time.
    """
    last_bit = min(first_bit + WORD_BITS, len(layout.column))
    word = np.uint64(0)
    for bit in range(first_bit, last_bit):
        one = (cells[layout.column[bit]] >> layout.shift[bit]) & np.uint32(1)
        word = (word << np.uint64(1)) | np.uint64(one)
    return word << np.uint64(first_bit + WORD_BITS - last_bit)


@njit(cache=True, nogil=True)
def _sort_tied(words, order, common, num_bits, first_bit, start, stop, spare_words, spare_order):  # type: ignore[no-untyped-def]
    """Sort each tied run of a slice by its words, and find how many bits neighbours share.

    Requires: no run crosses an edge of the slice.
    Ensures: ``common`` is final where two neighbouring words differ. Returns whether
    any tie is left.
    """
    any_tie = False
    place = start
    while place < stop:
        # The run of places that are tied so far: ``place`` up to ``end``.
        end = place + 1
        while end < stop and common[end] == num_bits:
            end += 1
        if end - place > 1:
            sort_words(words, order, place, end, spare_words, spare_order)
            for i in range(place + 1, end):
                difference = words[i - 1] ^ words[i]
                if difference == np.uint64(0):
                    any_tie = True
                else:
                    common[i] = first_bit + leading_zeros(difference)
        place = end
    return any_tie


@njit(cache=True, nogil=True)
def leading_zeros(word):  # type: ignore[no-untyped-def]
    """Count the zeros above the highest one bit of a non-zero uint64."""
    count = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(64 - step) == np.uint64(0):
            count += step
            word = word << np.uint64(step)
    return count
