"""A published table of another tool, and who could be in its rectangles."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_values import decode_array, read_times
from trajcloak.auditor.foreign_locations import (
    LocationLog,
    Locations,
    find_runs,
    list_blocks,
    locate,
)
from trajcloak.errors import InputError
from trajcloak.progress import Progress

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

PLANAR = (("x_min", "y_min", "x_max", "y_max"), ("xmin", "ymin", "xmax", "ymax"))
DEGREES = (("lon_min", "lat_min", "lon_max", "lat_max"),)
GROUPS = ("bundle_id", "bundle", "group_id", "group", "cluster_id", "cluster")
SIZES = ("users", "num_users", "size")
SUFFIXES = (".csv", ".parquet")
TIMES = ("instant", "t_start", "t_end", "window")

MAX_ENTRIES = 2**27
"""Rectangles times instants: far beyond any table, but not beyond a damaged one."""

STAGE = "following users"
SLACK = 1e-9
"""Of a coordinate's size: what interpolation may round away."""


@dataclass(frozen=True)
class ForeignTable:
    """A published table.

    Attributes
    ----------
    rectangle : (rows, 4) float64
    first, stop : (rows,) int64
        Half-open range of the instants that a row is about.
    group : (rows,) int64
        Number of the row's group; rows are groups of their own where none are named.
    keys : pyarrow.Array or None
        Name of each group, as text; None without groups.
    sizes : (rows,) int64 or None
        How many users a row says that it holds.
    others : dict
        The other columns, by their numbers in the table, from 1: Arrow arrays.
    text : dict
        The same with that of the groups: all columns that may hide ids.
    """

    rectangle: npt.NDArray[np.float64]
    first: Ints
    stop: Ints
    group: Ints
    keys: Any
    sizes: Ints | None
    others: dict[int, Any]
    text: dict[int, Any]

    @property
    def num_groups(self) -> int:
        """How many groups the table has."""
        return int(self.group.max()) + 1


def read_plain_columns(path: Path) -> dict[str, Any]:
    """Read all columns of a CSV or Parquet file, as plain arrays.

    Raises
    ------
    InputError
        If it cannot be read, or has no rows.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{path}: the name of a table ends in '{path.suffix}'; expected '.parquet' or '.csv'; "
            f"rename or convert it"
        )
    try:
        is_csv = path.suffix.lower() == ".csv"
        table = pa_csv.read_csv(path) if is_csv else pq.read_table(path)
    except (pa.ArrowException, OSError):
        raise InputError(
            f"{path}: cannot be read; expected a table as CSV or Parquet; check the path"
        ) from None
    if not table.num_rows:
        raise InputError(f"{path}: has no rows; expected at least one; check the path")
    table = table.combine_chunks()
    return {name: _flatten(decode_array(table[name].chunk(0))) for name in table.column_names}


def _flatten(column: Any) -> Any:
    """Take lists and records as text: the comparisons know plain values only."""
    if not pa.types.is_nested(column.type):
        return column
    return pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())


def read_foreign(
    path: Path, log: LocationLog, grid: InstantGrid, group: str | None
) -> ForeignTable:
    """Read a published table.

    Raises
    ------
    InputError
        If it lacks rectangles or times, or they do not fit the log.
    """
    columns = read_plain_columns(path)
    edges = _choose(columns, DEGREES if log.geographic else PLANAR)
    if edges is None:
        wanted = " or ".join(", ".join(names) for names in (DEGREES if log.geographic else PLANAR))
        raise InputError(
            f"{path}: has no rectangles like the places of the log; expected columns {wanted}; "
            f"rename or convert them"
        )
    rectangle = np.column_stack([_take_floats(path, name, columns[name]) for name in edges])
    first, stop = _read_instants(path, columns, log, grid)
    if int((stop - first).sum()) > MAX_ENTRIES:
        raise InputError(
            f"{path}: rows are about too many instants to be followed; expected fewer; pass a "
            f"longer --every"
        )
    name = _choose_group(path, columns, group)
    numbers, keys = np.arange(len(rectangle)), None
    if name is not None:
        encoded = columns[name].cast(pa.string()).dictionary_encode("encode")
        numbers, keys = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary
    size = next((column for column in SIZES if column in columns), None)
    known = {*edges, *TIMES, size}
    text = {i: c for i, c in enumerate(columns, start=1) if c not in known}
    return ForeignTable(
        rectangle=rectangle,
        first=first,
        stop=stop,
        group=numbers,
        keys=keys,
        sizes=None if size is None else _take_floats(path, size, columns[size]).astype(np.int64),
        others={number: columns[column] for number, column in text.items() if column != name},
        text={number: columns[column] for number, column in text.items()},
    )


def _choose(columns: dict[str, Any], named: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    return next((names for names in named if columns.keys() >= set(names)), None)


def _choose_group(path: Path, columns: dict[str, Any], group: str | None) -> str | None:
    if group is None:
        return next((name for name in GROUPS if name in columns), None)
    if group not in columns:
        raise InputError(
            f"{path}: there is no column '{group}'; expected the groups in it; pass another --group"
        )
    return group


def _take_floats(path: Path, name: str, column: Any) -> npt.NDArray[np.float64]:
    try:
        values: npt.NDArray[np.float64] = pc.cast(column, pa.float64(), safe=False).to_numpy(
            zero_copy_only=False
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = np.full(len(column), np.nan)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values))) + 1
        raise InputError(
            f"{path}, row {row}: column '{name}' is no finite number; expected one in every row; "
            f"correct or remove the row"
        )
    return values


def _read_instants(
    path: Path, columns: dict[str, Any], log: LocationLog, grid: InstantGrid
) -> tuple[Ints, Ints]:
    if "instant" in columns:
        first = _take_floats(path, "instant", columns["instant"]).astype(np.int64)
        return first, first + 1
    moments = []
    for name in ("t_start", "t_end"):
        if name not in columns:
            continue
        column = columns[name]
        times = None if column.null_count else read_times(column)
        if times is None or (times.stamped, times.zoned) != (log.stamped, log.zoned):
            raise InputError(
                f"{path}: column '{name}' holds no times like those of the log; expected integers, "
                f"or timestamps with or without a zone, as there; convert it"
            )
        moments.append(times.ticks - grid.origin)
    if not moments or "t_start" not in columns:
        raise InputError(
            f"{path}: has no times; expected a column 'instant', or 't_start' and 't_end'; rename "
            f"them"
        )
    first = moments[0] // grid.every
    if len(moments) == 1:
        return first, first + 1
    # The instants within [t_start, t_end); if there are none, the one before t_start.
    inside = -(-moments[0] // grid.every), -(-moments[1] // grid.every)
    has_any = inside[1] > inside[0]
    return np.where(has_any, inside[0], first), np.where(has_any, inside[1], first + 1)


@dataclass(frozen=True)
class GroupMembers:
    """Users and their groups: group numbers ascending, each pair once."""

    group: Ints
    user: Ints


@dataclass(frozen=True)
class CandidateCounts:
    """What following all users found.

    Attributes
    ----------
    candidates : (groups,) int64
        Users who are inside all rectangles of a group.
    inside : (groups,) int64
        Those of its members.
    edges, by_chance
        Edges that equal a coordinate of a user at their instant, and how many of them
        chance explains; of all ``num_edges``.
    """

    candidates: Ints
    inside: Ints
    edges: int
    by_chance: float
    num_edges: int


@dataclass(frozen=True)
class _Entries:
    """Rectangles at single instants, in order of their groups."""

    group: Ints
    instant: Ints
    rectangle: Floats
    first: Ints


def count_candidates(
    foreign: ForeignTable,
    log: LocationLog,
    grid: InstantGrid,
    members: GroupMembers,
    progress: Progress,
) -> CandidateCounts:
    """Follow every user, and count who could be in each group."""
    entries = _list_entries(foreign)
    counted, number = entries, np.arange(foreign.num_groups)
    if len(entries.group) == foreign.num_groups and not len(members.group):
        counted, number = _merge_alike(entries)
    candidates, inside = np.zeros((2, len(counted.first) - 1), np.int64)
    is_known = np.zeros((len(entries.group), 4), bool)
    num_values = np.zeros((2, grid.num_instants), np.int64)
    num_rows = len(log.user)
    for block in list_blocks(log, grid):
        progress(STAGE, block.start, num_rows)
        user = log.user[block].astype(np.int64)
        located = locate(user, log.time[block], log.x[block], log.y[block], grid)
        low, high = int(user[0]), int(user[-1]) + 1
        x, y = _lay_out(located, low, high, grid.num_instants)
        of_block = (members.user >= low) & (members.user < high)
        own = GroupMembers(members.group[of_block], members.user[of_block] - low)
        _count(counted, x, y, own, candidates, inside)
        _mark_known(entries, x, y, is_known, num_values)
    progress(STAGE, num_rows, num_rows)
    by_chance = _expect(entries, log, num_values)
    return CandidateCounts(
        candidates[number], inside[number], int(is_known.sum()), by_chance, is_known.size
    )


def _list_entries(foreign: ForeignTable) -> _Entries:
    length = foreign.stop - foreign.first
    row = np.repeat(np.arange(len(length)), length)
    instant = (
        foreign.first[row] + np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    )
    order = np.argsort(foreign.group[row], kind="stable")
    row, instant = row[order], instant[order]
    _, counts = find_runs(foreign.group[row])
    first = np.append(0, np.cumsum(counts))
    return _Entries(foreign.group[row], instant, foreign.rectangle[row], first)


def _merge_alike(entries: _Entries) -> tuple[_Entries, Ints]:
    """Keep one of the groups that are the same rectangle at the same instant.

    Returns the entries kept, and for each group the index of its entry. A table of snapshots
    has a row for every report, and few rectangles.
    """
    values = np.column_stack([entries.instant, entries.rectangle])
    _, kept, number = np.unique(values, axis=0, return_index=True, return_inverse=True)
    merged = _Entries(
        np.arange(len(kept)),
        entries.instant[kept],
        entries.rectangle[kept],
        np.arange(len(kept) + 1),
    )
    return merged, number.ravel()


def _lay_out(located: Locations, low: int, high: int, num_instants: int) -> tuple[Floats, Floats]:
    """Arrange locations by instant and user; NaN where there is none."""
    x, y = np.full((2, num_instants, high - low), np.nan)
    x[located.instant, located.user - low] = located.x
    y[located.instant, located.user - low] = located.y
    return x, y


def _count(
    entries: _Entries, x: Floats, y: Floats, own: GroupMembers, candidates: Ints, inside: Ints
) -> None:
    order, start, stop = _search(entries, x)
    slack = SLACK * (1 + np.abs(entries.rectangle).max())
    own_first = np.searchsorted(own.group, np.arange(len(candidates) + 1))
    for group, (first, last) in enumerate(zip(entries.first[:-1], entries.first[1:], strict=True)):
        # Begin where the fewest users are between the left and the right edge.
        pivot = first + int(np.argmin((stop - start)[first:last]))
        user = np.zeros(0, np.int64)
        if stop[pivot] > start[pivot]:
            user = order[int(entries.instant[pivot])][start[pivot] : stop[pivot]]
        for entry in range(first, last):
            if not len(user):
                break
            x_min, y_min, x_max, y_max = entries.rectangle[entry]
            here_x, here_y = x[entries.instant[entry], user], y[entries.instant[entry], user]
            is_in = (here_x >= x_min - slack) & (here_x <= x_max + slack)
            is_in &= (here_y >= y_min - slack) & (here_y <= y_max + slack)
            user = user[is_in]
        candidates[group] += len(user)
        members = own.user[own_first[group] : own_first[group + 1]]
        if len(members):
            inside[group] += int(np.isin(members, user).sum())


def _search(entries: _Entries, x: Floats) -> tuple[dict[int, Ints], Ints, Ints]:
    """Find, for each entry, the users between its left and right edge in the order of x."""
    order: dict[int, Ints] = {}
    start, stop = np.zeros((2, len(entries.instant)), np.int64)
    slack = SLACK * (1 + np.abs(entries.rectangle).max())
    for instant in np.unique(entries.instant).tolist():
        if not 0 <= instant < len(x):
            continue
        order[instant] = np.argsort(x[instant], kind="stable")
        ascending = x[instant][order[instant]]
        at = np.flatnonzero(entries.instant == instant)
        start[at] = np.searchsorted(ascending, entries.rectangle[at, 0] - slack)
        stop[at] = np.searchsorted(ascending, entries.rectangle[at, 2] + slack, "right")
    return order, start, np.maximum(start, stop)


def _mark_known(
    entries: _Entries, x: Floats, y: Floats, is_known: npt.NDArray[np.bool_], num_values: Ints
) -> None:
    """Mark the edges that equal a coordinate of a user; counts the distinct coordinates."""
    for instant in np.unique(entries.instant).tolist():
        if not 0 <= instant < len(x):
            continue
        at = np.flatnonzero(entries.instant == instant)
        for axis, place in enumerate((x[instant], y[instant])):
            known = np.unique(place[np.isfinite(place)])
            num_values[axis, instant] += len(known)
            for side in (axis, axis + 2):
                is_known[at, side] |= np.isin(entries.rectangle[at, side], known)


def _expect(entries: _Entries, log: LocationLog, num_values: Ints) -> float:
    """Expected number of edges that equal a coordinate, were edges drawn from their lattice."""
    expected = 0.0
    for axis, place in enumerate((log.x, log.y)):
        values = np.unique(place)
        step = float(np.diff(values).min()) if len(values) > 1 else 1.0
        num_points = (values[-1] - values[0]) / step + 1
        valid = (entries.instant >= 0) & (entries.instant < num_values.shape[1])
        share = num_values[axis][entries.instant[valid]] / num_points
        expected += 2 * float(np.minimum(share, 1).sum())
    return expected
