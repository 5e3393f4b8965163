"""Search for values among sorted ones, and for many words at once in a text.

The bytes of a text are hashed with a polynomial in an odd base modulo 2^64. Prefix
sums give the hash of every stretch of some length, so one pass over the text serves
all words of that length. Where a hash is that of a word, the bytes are compared.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

BASE = 0x9E3779B97F4A7C15
INVERSE = pow(BASE, -1, 2**64)
CHUNK = 1 << 22
FILTER_BITS = 22


def sort_by(major: npt.NDArray[Any], minor: Ints) -> Ints:
    """Find the stable order by two columns; ``major`` is not negative."""
    low = int(minor.min())
    span = int(minor.max()) - low + 1
    if span * (int(major.max()) + 1) < 2**63:
        return np.argsort(major.astype(np.int64) * span + (minor - low), kind="stable")
    return np.lexsort((minor, major))


def find_sorted(ascending: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> Ints:
    """Find the positions of values among ascending ones; -1 for those that are not there."""
    if not len(ascending):
        return np.full(len(wanted), -1, dtype=np.int64)
    position = np.searchsorted(ascending, wanted)
    position[position == len(ascending)] = 0
    return np.where(ascending[position] == wanted, position, -1)


def find_runs(ascending: Ints) -> tuple[Ints, Ints]:
    """List the distinct values of ascending ones, and how often each occurs."""
    if not len(ascending):
        return ascending, np.zeros(0, dtype=np.int64)
    start = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    return ascending[start], np.diff(np.append(start, len(ascending)))


def list_distinct(values: Ints) -> Ints:
    """List the distinct values, ascending; sorts, since hashing many is slower."""
    return find_runs(np.sort(values))[0]


def pick(values: Ints, position: Ints) -> Ints:
    """Take values by position; -1 where the position is -1."""
    return np.append(values, -1)[position]


class Words:
    """Distinct words, grouped by their length in bytes.

    Parameters
    ----------
    words
        Arrow array of distinct text without nulls.
    """

    def __init__(self, words: Any) -> None:
        self.num_words = len(words)
        self._groups: dict[int, tuple[Ints, Bytes, Hashes]] = {}
        _, offsets, data = words.buffers()
        if not len(words) or data is None:
            return
        ends = np.frombuffer(offsets, np.int32)[words.offset : words.offset + len(words) + 1]
        lengths = np.diff(ends)
        text = np.frombuffer(data, np.uint8)
        for length in np.unique(lengths[lengths > 0]).tolist():
            index = np.flatnonzero(lengths == length)
            spelled = text[ends[index].astype(np.int64)[:, None] + np.arange(length)]
            hashes = _hash(spelled)
            order = np.argsort(hashes, kind="stable")
            self._groups[length] = (index[order], spelled[order], hashes[order])

    def find_in(self, text: bytes) -> npt.NDArray[np.bool_]:
        """Return a mask of the words that occur in a text."""
        found = np.zeros(self.num_words, dtype=bool)
        longest = max(self._groups, default=0)
        for start in range(0, len(text), CHUNK):
            piece = np.frombuffer(text[start : start + CHUNK + longest], np.uint8)
            sums = np.zeros(len(piece) + 1, dtype=np.uint64)
            np.cumsum(piece * _powers(BASE, len(piece)), out=sums[1:])
            for length, (index, spelled, hashes) in self._groups.items():
                if length > len(piece):
                    continue
                stretch = sums[length:] - sums[:-length]
                stretch *= _powers(INVERSE, len(stretch))
                at = _nominate(stretch, hashes)
                candidates = piece[at[:, None] + np.arange(length)]
                found[index[_match(candidates, stretch[at], spelled, hashes)]] = True
        return found

    def find_numbers_in(self, text: bytes) -> tuple[npt.NDArray[np.bool_], float]:
        """Return a mask of the words that are whole numbers (runs of digits) in a text.

        Also returns how many chance alone would make: for each length, the distinct
        numbers of the text times the share of all numbers that are words.
        """
        found = np.zeros(self.num_words, dtype=bool)
        by_chance = 0.0
        digits = np.frombuffer(text, np.uint8)
        is_digit = ((digits >= ord("0")) & (digits <= ord("9"))).astype(np.int8)
        edges = np.diff(is_digit, prepend=0, append=0)
        starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        for length, (index, spelled, hashes) in self._groups.items():
            at = starts[stops - starts == length]
            if len(at):
                numbers = np.unique(digits[at[:, None] + np.arange(length)], axis=0)
                found[index[_match(numbers, _hash(numbers), spelled, hashes)]] = True
                by_chance += len(numbers) * len(hashes) / 10.0**length
        return found, by_chance


def _powers(base: int, count: int) -> Hashes:
    factors = np.full(count, base, dtype=np.uint64)
    factors[:1] = 1
    return np.multiply.accumulate(factors)


def _hash(spelled: Bytes) -> Hashes:
    hashes: Hashes = (spelled * _powers(BASE, spelled.shape[1])).sum(axis=1, dtype=np.uint64)
    return hashes


def _nominate(stretch: Hashes, hashes: Hashes) -> Ints:
    """Find where a stretch has the hash of a word."""
    # A few bits rule most stretches out, before the search among all hashes.
    shift = np.uint64(64 - FILTER_BITS)
    possible = np.zeros(1 << FILTER_BITS, dtype=bool)
    possible[hashes >> shift] = True
    at = np.flatnonzero(possible[stretch >> shift])
    return at[find_sorted(hashes, stretch[at]) >= 0]


def _match(candidates: Bytes, own: Hashes, spelled: Bytes, hashes: Hashes) -> Ints:
    """List the words that are spelled like a candidate of the same hash."""
    position = find_sorted(hashes, own)
    nominated = position >= 0
    position = position[nominated]
    same: npt.NDArray[np.bool_] = (candidates[nominated] == spelled[position]).all(axis=1)
    return position[same]
