"""A published table of another tool: rectangles with their times and groups."""

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

from trajcloak.auditor.files import plain
from trajcloak.auditor.grid import Grid
from trajcloak.auditor.logs import Log
from trajcloak.auditor.times import read_times
from trajcloak.errors import InputError

PLANAR = (("x_min", "y_min", "x_max", "y_max"), ("xmin", "ymin", "xmax", "ymax"))
DEGREES = (("lon_min", "lat_min", "lon_max", "lat_max"),)
GROUPS = ("bundle_id", "bundle", "group_id", "group", "cluster_id", "cluster")
SIZES = ("users", "num_users", "size")
SUFFIXES = (".csv", ".parquet")
TIMES = ("instant", "t_start", "t_end", "window")

MAX_ENTRIES = 2**27
"""Rectangles times instants: far beyond any table, but not beyond a damaged one."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Foreign:
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


def read_columns(path: Path) -> dict[str, Any]:
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
    return {name: _flatten(plain(table[name].chunk(0))) for name in table.column_names}


def _flatten(column: Any) -> Any:
    """Take lists and records as text: the comparisons know plain values only."""
    if not pa.types.is_nested(column.type):
        return column
    return pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())


def read_foreign(path: Path, log: Log, grid: Grid, group: str | None) -> Foreign:
    """Read a published table.

    Raises
    ------
    InputError
        If it lacks rectangles or times, or they do not fit the log.
    """
    columns = read_columns(path)
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
    return Foreign(
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


def _read_instants(path: Path, columns: dict[str, Any], log: Log, grid: Grid) -> tuple[Ints, Ints]:
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
    # Instants within the half-open stretch of time or, if there is none, that it falls into.
    inside = -(-moments[0] // grid.every), -(-moments[1] // grid.every)
    has_any = inside[1] > inside[0]
    return np.where(has_any, inside[0], first), np.where(has_any, inside[1], first + 1)
