"""Sorting: 64-bit words with a payload, by radix; positions by number, by counting; heaps."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

INSERTION_SIZE = 40
"""Runs up to this length are sorted by insertion; measured, not critical."""


@njit(cache=True, nogil=True)
def sort_words(words, payload, start, stop, spare_words, spare_payload):  # type: ignore[no-untyped-def]
    """Sort ``words[start:stop]`` ascending and carry ``payload`` along.

    Requires: ``words`` uint64; ``payload`` any dtype; the spare arrays of the
    same lengths and dtypes.
    Ensures: equal words keep their order. Digits are bytes, the least significant first;
    digits that are the same in all words are skipped. O(8 (stop - start)) time.
    """
    size = stop - start
    # Short runs: counting 8 x 256 values would take longer than inserting.
    if size <= INSERTION_SIZE:
        for i in range(start + 1, stop):
            word = words[i]
            item = payload[i]
            j = i - 1
            while j >= start and words[j] > word:
                words[j + 1] = words[j]
                payload[j + 1] = payload[j]
                j -= 1
            words[j + 1] = word
            payload[j + 1] = item
        return
    # One pass counts the values of all eight digits.
    counts = np.zeros((8, 256), np.int64)
    for i in range(start, stop):
        word = words[i]
        for digit in range(8):
            counts[digit, (word >> np.uint64(8 * digit)) & np.uint64(255)] += 1
    in_spare = False
    for digit in range(8):
        shift = np.uint64(8 * digit)
        if counts[digit, (words[start] >> shift) & np.uint64(255)] == size:
            continue
        # Turn the counts into the position where each value's words start.
        total = start
        for value in range(256):
            count = counts[digit, value]
            counts[digit, value] = total
            total += count
        if in_spare:
            _scatter(spare_words, spare_payload, words, payload, start, stop, shift, counts[digit])
        else:
            _scatter(words, payload, spare_words, spare_payload, start, stop, shift, counts[digit])
        in_spare = not in_spare
    # After an odd number of passes the result is in the spare arrays.
    if in_spare:
        for i in range(start, stop):
            words[i] = spare_words[i]
            payload[i] = spare_payload[i]


@njit(cache=True, nogil=True)
def _scatter(words, payload, to_words, to_payload, start, stop, shift, position):  # type: ignore[no-untyped-def]
    """Copy words and payload, sorted by one digit; ``position`` is the next place per value."""
    for i in range(start, stop):
        word = words[i]
        digit = (word >> shift) & np.uint64(255)
        to = position[digit]
        position[digit] = to + 1
        to_words[to] = word
        to_payload[to] = payload[i]


@njit(cache=True, nogil=True)
def group_by_number(
    number: npt.NDArray[Any], count: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """List the positions of each number below ``count``, ascending; negative ones are left out.

    Also returns where the positions of each number start: (count + 1,). Sorts by counting;
    O(positions + count).
    """
    # first[n + 1] counts number n; summed up, first[n] is where number n starts.
    first = np.zeros(count + 1, np.int64)
    for i in range(len(number)):
        if number[i] >= 0:
            first[number[i] + 1] += 1
    for n in range(count):
        first[n + 1] += first[n]
    members = np.empty(first[count], np.int32)
    position = first[:-1].copy()
    for i in range(len(number)):
        n = number[i]
        if n >= 0:
            members[position[n]] = i
            position[n] += 1
    return members, first


@njit(cache=True, nogil=True)
def build_heap(heap, size, keys):  # type: ignore[no-untyped-def]
    """Order the indexes ``heap[:size]`` so that the one with the least key is on top; O(size).

    Twice as fast as ``heapq`` over tuples (4,000 indexes, 50 taken): the keys stay in their array.
    """
    for top in range(size // 2 - 1, -1, -1):
        sift_down(heap, size, top, keys)


@njit(cache=True, nogil=True)
def sift_down(heap, size, top, keys):  # type: ignore[no-untyped-def]
    """Restore the order below position ``top``, after its key has grown or it was replaced.

    Ensures: among equal keys the least index comes first; O(log size).
    """
    while True:
        least = top
        for child in (2 * top + 1, 2 * top + 2):
            if child < size:
                a = heap[child]
                b = heap[least]
                if keys[a] < keys[b] or (keys[a] == keys[b] and a < b):
                    least = child
        if least == top:
            return
        heap[top], heap[least] = heap[least], heap[top]
        top = least
