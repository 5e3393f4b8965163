"""Columns of a foreign table that could link rows to one sender, or that name users.

No name says what a column is, so every column is tried as a link: rows with one value may have one
sender, who was inside all their rectangles. A value that nobody fits links nothing. Where a
column has such values, the others fit by chance, unless many more of them do than after
shuffling the column.

User ids are looked for in the text of all columns, many words at once. The bytes of a text are
hashed with a polynomial in an odd base modulo 2^64. Prefix sums give the hash of every stretch of
some length, so one pass over the text serves all words of that length. Where a hash is that of a
word, the bytes are compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_values import Ints, Mask
from trajcloak.auditor.foreign_table import ForeignTable

Hashes = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

BASE = 0x9E3779B97F4A7C15
INVERSE = pow(BASE, -1, 2**64)
CHUNK = 1 << 22
FILTER_BITS = 22
LONG = 6
BY_CHANCE = 0.01
FEW = 3
ABOVE_CHANCE = 4
UUID = "^([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})$"

MIN_FITTING = 3
ABOVE_SHUFFLED = 2
"""Values that somebody fits, beyond what shuffling gives: these many, or so many times as many."""

ALL_COLUMNS = "all columns together"


def find_sorted(ascending: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> Ints:
    """Find the positions of values among ascending ones; -1 for those that are not there."""
    if not len(ascending):
        return np.full(len(wanted), -1, dtype=np.int64)
    position = np.searchsorted(ascending, wanted)
    position[position == len(ascending)] = 0
    return np.where(ascending[position] == wanted, position, -1)


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


def list_long_ids(ids: Any) -> tuple[Words, Words]:
    """List the long ids: names, in lower case, and numbers without their sign."""
    ids = pc.cast(ids, pa.string())
    is_number = pc.match_substring_regex(ids, "^-?[0-9]+$")
    names = pc.utf8_lower(ids.filter(pc.invert(is_number)))
    names = names.filter(pc.greater_equal(pc.utf8_length(names), LONG))
    tokens = names.filter(pc.match_substring_regex(names, UUID))
    spelled = [
        pc.replace_substring_regex(tokens, UUID, parts)
        for parts in (r"\1\2\3\4\5", r"\1-\2-\3-\4-\5")
    ]
    digits = pc.utf8_ltrim(ids.filter(is_number), characters="-")
    digits = digits.filter(pc.greater_equal(pc.utf8_length(digits), LONG))
    return Words(pa.concat_arrays([names, *spelled]).unique()), Words(digits.unique())


def count_numbers(numbers: Words, text: bytes) -> int:
    """Count the ids among the numbers of a text, or 0 if chance explains them."""
    found, by_chance = numbers.find_numbers_in(text)
    num_found = int(found.sum())
    if by_chance > BY_CHANCE and num_found <= max(FEW, ABOVE_CHANCE * by_chance):
        return 0
    return num_found


@dataclass(frozen=True)
class Link:
    """A way to link rows.

    Attributes
    ----------
    name : str
        What links them.
    group, shuffled : (rows,) int64
        The number of each row's group; the same after shuffling.
    is_certain : bool
        Whether the caller says that this is the link.
    """

    name: str
    group: Ints
    shuffled: Ints
    is_certain: bool

    def could_link(self, candidates: Ints, by_chance: Ints) -> bool:
        """Tell whether somebody fits the groups, more often than by chance.

        ``candidates`` are the users who fit each group, ``by_chance`` those after shuffling.
        """
        fits = candidates[self.has_several(self.group)] > 0
        fits_by_chance = by_chance[self.has_several(self.shuffled)] > 0
        is_likely = fits.sum() > MIN_FITTING + ABOVE_SHUFFLED * fits_by_chance.sum()
        return self.is_certain or bool(fits.all() or is_likely)

    def find_small(self, candidates: Ints, k: int) -> Ints:
        """List the groups of several rows that fewer than k users fit."""
        is_small = (self.least <= candidates) & (candidates < k)
        return np.flatnonzero(is_small & self.has_several(self.group))

    @property
    def least(self) -> int:
        """The fewest candidates of a group; one that nobody fits is none, unless it is certain."""
        return 0 if self.is_certain else 1

    @staticmethod
    def has_several(group: Ints) -> Mask:
        """Tell which groups have several rows."""
        return np.bincount(group) > 1


def list_links(foreign: ForeignTable, group: str | None) -> list[Link]:
    """List the ways to link rows, each once.

    Each column, and all together; and rows of one instant only, as a request that is
    published twice would be. ``group`` is the column that the caller names, if any.
    """
    rng = np.random.default_rng(0)
    links: list[Link] = []
    for name, number in _list_groupings(foreign):
        is_new = all((number != link.group).any() for link in links)
        if is_new and Link.has_several(number).any():
            links.append(Link(name, number, rng.permutation(number), name == group))
    return links


def _list_groupings(foreign: ForeignTable) -> Iterator[tuple[str, Ints]]:
    columns = {name: _number(column) for name, column in foreign.columns.items()}
    yield from columns.items()
    if not columns:
        return
    together = _combine(list(columns.values()))
    yield ALL_COLUMNS, together
    for name, number in {**columns, ALL_COLUMNS: together}.items():
        yield f"{name} within an instant", _combine([number, foreign.first])


def _number(column: pa.Array) -> Ints:
    """Number the values of a column as they come; null is never the same as another."""
    codes = column.dictionary_encode().indices
    number = codes.fill_null(-1).to_numpy().astype(np.int64)
    is_null = number < 0
    number[is_null] = number.max(initial=-1) + 1 + np.arange(is_null.sum())
    return _combine([number])


def _combine(numbers: list[Ints]) -> Ints:
    """Number the different combinations, in the order in which they come."""
    _, first, number = np.unique(
        np.column_stack(numbers), axis=0, return_index=True, return_inverse=True
    )
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    ordered: Ints = rank[number.ravel()]
    return ordered
