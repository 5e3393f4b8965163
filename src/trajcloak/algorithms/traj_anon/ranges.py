"""Cut the key order into ranges of about equal size, found from a sample of the keys.

Equal keys are always in one range. The places of the cuts influence how equal the ranges
are, and how many subtrees are cut through, but never who is bundled with whom.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.traj_anon.keys import WORD_BITS, KeyLayout, build_word, leading_zeros
from trajcloak.kernels.splitmix import GAMMA, scramble

Words = npt.NDArray[np.uint64]
"""(keys, words) uint64: whole keys, from the most significant word to the least."""

SLACK = 0.25
"""A cut may move by this share of a range, to where neighbouring keys share the fewest bits."""


class Sample(NamedTuple):
    """A sample of the distinct keys."""

    words: Words
    weight: npt.NDArray[np.int64]  # (keys,): how many trajectories have each key.


def sample_keys(cells: npt.NDArray[np.uint32], layout: KeyLayout, rate: float) -> Sample:
    """Draw distinct keys; see :func:`draw_distinct`."""
    _, rows, weight = draw_distinct(cells, rate)
    return Sample(build_words(cells, rows, layout), weight)


def draw_distinct(
    cells: npt.NDArray[np.uint32], rate: float
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Draw distinct trajectories, each with probability ``rate``, by a hash of its cells.

    The draw depends on the trajectories alone, not on which shards hold them. Returns the hashes of
    the drawn trajectories, ascending, a row with each of them, and how many rows have it.
    """
    hashes = _hash_trajectories(cells)
    chosen = np.flatnonzero(hashes <= np.uint64(min(rate, 1.0) * (2.0**64 - 2.0**12)))
    found, first, weight = np.unique(hashes[chosen], return_index=True, return_counts=True)
    return found, chosen[first], weight.astype(np.int64)


def merge_samples(samples: list[Sample]) -> Sample:
    """Merge samples; each key is listed once, in key order."""
    words, number = np.unique(
        np.concatenate([sample.words for sample in samples]), axis=0, return_inverse=True
    )
    weight = np.concatenate([sample.weight for sample in samples])
    return Sample(words, np.bincount(number.ravel(), weight, len(words)).astype(np.int64))


def choose_splitters(sample: Sample, parts: int, layout: KeyLayout) -> Words:
    """Choose up to ``parts - 1`` keys, ascending, that cut a sorted sample evenly.

    Each splitter is the least key of a node, so that few subtrees are cut through.
    """
    common = count_common(sample.words[:-1], sample.words[1:])
    before = np.cumsum(sample.weight)[:-1]
    total = int(sample.weight.sum())
    places = []
    for part in range(1, parts):
        low, high = ((part + side * SLACK) * total / parts for side in (-1, 1))
        start, stop = np.searchsorted(before, (low, high))
        if stop > start:
            places.append(start + int(common[start:stop].argmin()))
        else:
            # A single frequent key spans the quantile: cut before and after it.
            places += [int(start) - 1, int(start)]
    chosen = np.unique([place for place in places if 0 <= place < len(before)]).astype(np.int64)
    return _truncate(sample.words[chosen + 1], common[chosen], layout.bits_per_level)


def _truncate(words: Words, common: npt.NDArray[np.int32], bits_per_level: int) -> Words:
    """Set to 0 all bits of each key after the tree level that follows its common prefix."""
    kept = (common // bits_per_level + 1) * bits_per_level
    starts = np.arange(words.shape[1]) * WORD_BITS
    inside = np.clip(kept[:, None] - starts, 0, WORD_BITS).astype(np.uint64)
    ones = ~np.uint64(0)
    mask = np.where(
        inside == 0, np.uint64(0), ones << (np.uint64(WORD_BITS) - np.maximum(inside, np.uint64(1)))
    )
    return words & mask


@njit(cache=True, nogil=True)
def build_words(cells, rows, layout):  # type: ignore[no-untyped-def]
    """Build the whole keys of some trajectories."""
    flat = cells.reshape(len(cells), 2 * cells.shape[1])
    num_words = (len(layout.column) + WORD_BITS - 1) // WORD_BITS
    words = np.empty((len(rows), num_words), np.uint64)
    for i in range(len(rows)):
        for w in range(num_words):
            words[i, w] = build_word(flat[rows[i]], layout, w * WORD_BITS)
    return words


@njit(cache=True, nogil=True)
def _hash_trajectories(cells):  # type: ignore[no-untyped-def]
    flat = cells.reshape(len(cells), 2 * cells.shape[1])
    hashes = np.empty(len(flat), np.uint64)
    for i in range(len(flat)):
        h = np.uint64(0)
        for cell in flat[i]:
            h = scramble((h ^ np.uint64(cell)) + GAMMA)
        hashes[i] = h
    return hashes


@njit(cache=True, nogil=True)
def count_common(one, other):  # type: ignore[no-untyped-def]
    """Count the leading bits that keys share, pair by pair."""
    common = np.empty(len(one), np.int32)
    for i in range(len(one)):
        common[i] = one.shape[1] * WORD_BITS
        for w in range(one.shape[1]):
            difference = one[i, w] ^ other[i, w]
            if difference != np.uint64(0):
                common[i] = w * WORD_BITS + leading_zeros(difference)
                break
    return common


@njit(cache=True, nogil=True)
def route(cells, layout, splitters):  # type: ignore[no-untyped-def]
    """Find the range of each trajectory: the number of splitters up to its key, by bisection.

    A word of a key is built when a comparison first needs it; ``num_known`` are built.
    """
    flat = cells.reshape(len(cells), 2 * cells.shape[1])
    ranges = np.empty(len(flat), np.int32)
    words = np.empty(splitters.shape[1], np.uint64)
    for i in range(len(flat)):
        num_known = 0
        low = 0
        high = len(splitters)
        while low < high:
            middle = (low + high) // 2
            is_below = False
            for w in range(len(words)):
                if w == num_known:
                    words[w] = build_word(flat[i], layout, w * WORD_BITS)
                    num_known += 1
                if words[w] != splitters[middle, w]:
                    is_below = words[w] < splitters[middle, w]
                    break
            if is_below:
                high = middle
            else:
                low = middle + 1
        ranges[i] = low
    return ranges
