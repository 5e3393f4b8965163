"""A published table of another tool: a rectangle and a time per row, and what else it holds.

No name says what a column is, so every column is tried as a link: rows with one value may have one
sender, who was inside all their rectangles. A value that nobody fits links nothing. Where a
column has such values, the others fit by chance, unless many more of them do than after
shuffling the column.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from trajcloak.auditor.audited_columns import (
    UNREADABLE,
    Floats,
    Ints,
    Mask,
    read_parquet,
    to_floats,
    try_cast,
)
from trajcloak.auditor.audited_log import AuditedLog
from trajcloak.auditor.audited_times import read_ticks
from trajcloak.auditor.expected_instants import InstantGrid
from trajcloak.errors import InputError
from trajcloak.log.types import to_plain

PLANAR = (("x_min", "y_min", "x_max", "y_max"), ("xmin", "ymin", "xmax", "ymax"))
DEGREES = (("lon_min", "lat_min", "lon_max", "lat_max"),)
SIZES = ("users", "num_users", "size")
SUFFIXES = (".csv", ".parquet")

MAX_ENTRIES = 2**27
"""Rectangles times instants: far beyond any table, but not beyond a damaged one."""

MIN_FITTING = 3
ABOVE_SHUFFLED = 2
"""A column may be a link if somebody fits more of its values than the first number, and the second
number times those that somebody fits after shuffling."""

ALL_COLUMNS = "all columns together"


@dataclass(frozen=True)
class ForeignTable:
    """A published table."""

    rectangle: Floats  # (rows, 4)
    first: Ints  # the first of the instants that a row is about
    stop: Ints  # the one after the last
    sizes: Ints | None  # how many users a row says that it holds
    columns: dict[str, Any]  # all but the edges and the times, by name: any may link rows


def read_plain_columns(path: Path) -> dict[str, Any]:
    """Read all columns of a CSV or Parquet file that has rows, as plain arrays."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{path}: the name of a table ends in '{path.suffix}'; expected '.parquet' or '.csv'; "
            f"rename or convert it"
        )
    try:
        table = pa_csv.read_csv(path) if path.suffix.lower() == ".csv" else read_parquet(path)
    except UNREADABLE:
        table = None
    if table is None:
        raise InputError(
            f"{path}: cannot be read; expected a table as CSV or Parquet; check the path"
        )
    if not table.num_rows:
        raise InputError(f"{path}: has no rows; expected at least one; check the path")
    if len(set(table.column_names)) < table.num_columns:
        raise InputError(
            f"{path}: has two columns of one name; expected each name once; rename one of them"
        )
    table = table.combine_chunks()
    return {name: _flatten(to_plain(table[name].chunk(0))) for name in table.column_names}


def _flatten(column: Any) -> Any:
    """Take lists, records and bytes as text: the comparisons know plain values only."""
    if pa.types.is_primitive(column.type):
        return column
    text = try_cast(column, pa.string())
    if text is not None:
        return text
    return pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())


def read_foreign(path: Path, log: AuditedLog, grid: InstantGrid) -> ForeignTable:
    """Read a published table, whose rectangles and times must be like those of the log."""
    columns = read_plain_columns(path)
    named = DEGREES if log.geographic else PLANAR
    edges = next((names for names in named if columns.keys() >= set(names)), None)
    if edges is None:
        wanted = " or ".join(", ".join(names) for names in named)
        raise InputError(
            f"{path}: has no rectangles like the places of the log; expected columns {wanted}; "
            f"rename or convert them"
        )
    rectangle = np.column_stack([_take_floats(path, name, columns[name]) for name in edges])
    first, stop = _read_instants(path, columns, log, grid)
    # As floats, since so many instants may be more than an integer holds.
    if (stop - first).sum(dtype=np.float64) > MAX_ENTRIES:
        raise InputError(
            f"{path}: rows are about too many instants to be followed; expected fewer; pass a "
            f"longer --every"
        )
    times = ("instant",) if "instant" in columns else ("t_start", "t_end")
    sizes = next((try_cast(columns[name], pa.int64()) for name in SIZES if name in columns), None)
    if sizes is not None and sizes.null_count:
        # No counts of users, but something else of such a name.
        sizes = None
    return ForeignTable(
        rectangle=rectangle,
        first=first,
        stop=stop,
        sizes=None if sizes is None else sizes.to_numpy(),
        columns={n: column for n, column in columns.items() if n not in (*edges, *times)},
    )


def _take_floats(path: Path, name: str, column: Any) -> Floats:
    values = to_floats(column)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values))) + 1
        raise InputError(
            f"{path}, row {row}: column '{name}' is no finite number; expected one in every row; "
            f"correct or remove the row"
        )
    return values


def _read_instants(
    path: Path, columns: dict[str, Any], log: AuditedLog, grid: InstantGrid
) -> tuple[Ints, Ints]:
    if "instant" in columns:
        numbers = _take_floats(path, "instant", columns["instant"])
        if (numbers != np.rint(numbers)).any() or np.abs(numbers).max() > MAX_ENTRIES:
            raise InputError(
                f"{path}: column 'instant' holds no instants; expected whole numbers from 0 on; "
                f"rename or convert it"
            )
        first = numbers.astype(np.int64)
        return first, first + 1
    if not columns.keys() >= {"t_start", "t_end"}:
        raise InputError(
            f"{path}: has no times; expected a column 'instant', or 't_start' and 't_end'; rename "
            f"them"
        )
    moments = []
    for name in ("t_start", "t_end"):
        column = columns[name]
        times = None if column.null_count else read_ticks(column)
        if times is None or (times.stamped, times.zoned) != (log.stamped, log.zoned):
            raise InputError(
                f"{path}: column '{name}' holds no times like those of the log; expected integers, "
                f"or timestamps with or without a zone, as there; convert it"
            )
        moments.append(times.ticks - grid.origin)
    # The instants within [t_start, t_end); if there are none, the one before t_start.
    before = moments[0] // grid.every
    start, stop = (-(-moment // grid.every) for moment in moments)
    has_any = stop > start
    return np.where(has_any, start, before), np.where(has_any, stop, before + 1)


@dataclass(frozen=True)
class Link:
    """A way to link rows."""

    name: str  # what links them
    group: Ints  # the number of each row's group
    shuffled: Ints  # the same after shuffling
    is_certain: bool  # whether the caller says that this is the link

    def could_link(self, candidates: Ints, by_chance: Ints) -> bool:
        """Tell whether somebody fits the groups, more often than by chance.

        ``candidates`` are the users who fit each group, ``by_chance`` those after shuffling.
        """
        fits = candidates[_has_several(self.group)] > 0
        fits_by_chance = by_chance[_has_several(self.shuffled)] > 0
        is_likely = fits.sum() > MIN_FITTING + ABOVE_SHUFFLED * fits_by_chance.sum()
        return self.is_certain or bool(fits.all() or is_likely)

    def find_small(self, candidates: Ints, k: int) -> Ints:
        """List the groups of several rows that fewer than k users fit."""
        is_small = (self.least <= candidates) & (candidates < k)
        return np.flatnonzero(is_small & _has_several(self.group))

    @property
    def least(self) -> int:
        """The fewest candidates of a group; one that nobody fits is none, unless it is certain."""
        return 0 if self.is_certain else 1


def _has_several(group: Ints) -> Mask:
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
        if is_new and _has_several(number).any():
            links.append(Link(name, number, rng.permutation(number), name == group))
    return links


def _list_groupings(foreign: ForeignTable) -> Iterator[tuple[str, Ints]]:
    columns = {name: _number_values(column) for name, column in foreign.columns.items()}
    if columns:
        columns[ALL_COLUMNS] = _combine(list(columns.values()))
    yield from columns.items()
    for name, number in columns.items():
        yield f"{name} within an instant", _combine([number, foreign.first])


def _number_values(column: Any) -> Ints:
    """Number the values of a column as they come; null is never the same as another."""
    codes = column.dictionary_encode().indices
    number = codes.fill_null(-1).to_numpy().astype(np.int64)
    is_null = number < 0
    number[is_null] = number.max(initial=-1) + 1 + np.arange(is_null.sum())
    return _combine([number])


def _combine(numbers: Sequence[Ints]) -> Ints:
    """Number the different combinations, in the order in which they come."""
    _, first, number = np.unique(
        np.column_stack(numbers), axis=0, return_index=True, return_inverse=True
    )
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    ordered: Ints = rank[number.ravel()]
    return ordered
