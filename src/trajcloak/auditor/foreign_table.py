"""A published table of another tool: a rectangle and a time per row."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_log import AuditedLog
from trajcloak.auditor.audited_values import Floats, Ints, decode_array, read_ticks
from trajcloak.errors import InputError
from trajcloak.parquet.memory_check import check_parquet

PLANAR = (("x_min", "y_min", "x_max", "y_max"), ("xmin", "ymin", "xmax", "ymax"))
DEGREES = (("lon_min", "lat_min", "lon_max", "lat_max"),)
SIZES = ("users", "num_users", "size")
SUFFIXES = (".csv", ".parquet")

MAX_ENTRIES = 2**27
"""Rectangles times instants: far beyond any table, but not beyond a damaged one."""


@dataclass(frozen=True)
class ForeignTable:
    """A published table.

    Attributes
    ----------
    rectangle : (rows, 4) float64
    first, stop : (rows,) int64
        Half-open range of the instants that a row is about.
    sizes : (rows,) int64 or None
        How many users a row says that it holds.
    columns : dict
        All columns but the edges and the times, by name: any of them may link rows.
    """

    rectangle: Floats
    first: Ints
    stop: Ints
    sizes: Ints | None
    columns: dict[str, Any]


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
        if path.suffix.lower() == ".csv":
            table = pa_csv.read_csv(path)
        else:
            check_parquet(path)
            with pq.ParquetFile(path) as parquet:
                table = parquet.read()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
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


def read_foreign(path: Path, log: AuditedLog, grid: InstantGrid) -> ForeignTable:
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
    times = ("instant",) if "instant" in columns else ("t_start", "t_end")
    return ForeignTable(
        rectangle=rectangle,
        first=first,
        stop=stop,
        sizes=next((_take_sizes(columns[name]) for name in SIZES if name in columns), None),
        columns={n: column for n, column in columns.items() if n not in (*edges, *times)},
    )


def _take_sizes(column: Any) -> Ints | None:
    """Take a column as counts of users; None if it is something else."""
    try:
        sizes: Ints = pc.cast(column, pa.int64()).to_numpy().astype(np.int64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return sizes


def _choose(columns: dict[str, Any], named: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    return next((names for names in named if columns.keys() >= set(names)), None)


def _take_floats(path: Path, name: str, column: Any) -> Floats:
    try:
        values: Floats = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
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
    moments = []
    for name in ("t_start", "t_end"):
        if name not in columns:
            continue
        column = columns[name]
        times = None if column.null_count else read_ticks(column)
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
