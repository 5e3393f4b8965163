"""Accept tables and frames in memory from any library that supports Arrow."""

from typing import Any

import pyarrow as pa

from trajcloak.errors import InputError

TIME = "time"
UNNAMED_INDEX = "__index_level_0__"
"""What pandas calls the column of an index without a name."""

NOT_ARROW = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Errors raised for a frame whose columns cannot be converted to Arrow."""


def to_table(source: Any) -> pa.Table | None:
    """Convert a table or frame to an Arrow table; None if it is something else.

    Tables and frames of Arrow, pandas, polars and DuckDB hand over their columns through the
    Arrow PyCapsule interface; none of these libraries is needed. The index of a pandas frame,
    if it holds times, becomes the column ``time``, unless there is one.

    Raises
    ------
    InputError
        If a column holds values of several types; names the row.
    """
    if isinstance(source, pa.Table):
        return source
    if hasattr(source, "to_point_gdf"):
        # Trajectories of MovingPandas: a frame of GeoPandas with all their points.
        source = source.to_point_gdf()
    elif hasattr(source, "collect_schema") and hasattr(source, "collect"):
        # A lazy frame of polars.
        source = source.collect()
    try:
        if hasattr(source, "geometry") and hasattr(source, "to_arrow"):
            # A frame of GeoPandas: its own export writes points as WKB, with their system.
            return _name_times(source, pa.table(source.to_arrow()))
        if hasattr(source, "__arrow_c_stream__"):
            return _name_times(source, pa.table(source))
    except NOT_ARROW:
        raise _explain(source) from None
    return None


def _name_times(frame: Any, table: pa.Table) -> pa.Table:
    """Let the times that are the index of a pandas frame be found as column ``time``."""
    index: Any = getattr(frame, "index", None)
    if getattr(getattr(index, "dtype", None), "kind", None) != "M" or TIME in table.column_names:
        return table
    return table.append_column(TIME, table[UNNAMED_INDEX if index.name is None else index.name])


def _explain(frame: Any) -> InputError:
    """Find the first row of a pandas frame whose value has another type than those before."""
    names = list(getattr(frame, "columns", ()))
    if len(set(names)) < len(names):
        return InputError(
            "the table has two columns of one name; expected each name once; rename one of them"
        )
    for name in names if hasattr(frame, "iloc") else ():
        values = frame[name]
        good, bad = 0, len(values)
        if _is_column(values):
            continue
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if _is_column(values.iloc[:middle]) else (good, middle)
        return InputError(
            f"row {bad}: column '{name}' holds a value that does not fit those before it; expected "
            f"values of one type; correct the row, or convert the column"
        )
    return InputError(
        "the table cannot be read; expected columns of plain types; write it to a .parquet file"
    )


def _is_column(values: Any) -> bool:
    try:
        pa.array(values)
    except NOT_ARROW:
        return False
    return True
