"""Columns of a foreign table that could link rows to one sender.

No name says what a column is, so every column is tried: rows with one value may have one
sender, who was inside all their rectangles. A value that nobody fits links nothing. Where a
column has such values, the others fit by chance, unless many more of them do than after
shuffling the column.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trajcloak.auditor.audited_values import Ints, Mask
from trajcloak.auditor.foreign_table import ForeignTable

FEW = 3
ABOVE_CHANCE = 2
"""Values that somebody fits, beyond what shuffling gives: these many, or so many times as many."""

ALL_COLUMNS = "all columns together"


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
        is_likely = fits.sum() > FEW + ABOVE_CHANCE * fits_by_chance.sum()
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
