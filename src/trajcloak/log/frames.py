"""Accept tables and frames in memory from any library that supports Arrow."""

from collections import Counter
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa

from trajcloak.errors import InputError, RefusedLogError
from trajcloak.log.bad_rows import BadRows, Trouble
from trajcloak.log.file_columns import TIME

UNNAMED_INDEX = "__index_level_0__"
"""What pandas calls the column of an index without a name."""

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1
"""Larger ones cannot be in a column with others."""

NOT_ARROW = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Errors raised for a frame whose columns cannot be converted to Arrow."""


def to_table(source: Any) -> pa.Table | None:
    """Convert a table or frame to an Arrow table; None if it is something else.

    Tables and frames of Arrow, pandas, polars and DuckDB hand over their columns through the Arrow
    PyCapsule interface; none of these libraries is needed. The index of a pandas frame, if it holds
    times, becomes the column ``time``, unless there is one.
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
    has_times = getattr(getattr(index, "dtype", None), "kind", None) == "M"
    if not has_times or TIME.first in table.column_names:
        return table
    name = UNNAMED_INDEX if index.name is None else index.name
    return table.append_column(TIME.first, table[name])


def _explain(frame: Any) -> InputError:
    """Find the rows of a pandas frame whose values are of another type than most."""
    names = list(getattr(frame, "columns", ()))
    if len(set(names)) < len(names):
        return InputError(
            "the table has two columns of one name; expected each name once; rename one of them"
        )
    bad = BadRows()
    for name in names if hasattr(frame, "iloc") else ():
        if not _is_column(frame[name]):
            _note_odd_types(frame[name], bad)
    if reasons := bad.explain():
        return RefusedLogError(reasons) if len(reasons) > 1 else InputError(*reasons)
    return InputError(
        "the table cannot be read; expected columns of plain types; write it to a .parquet file"
    )


def _note_odd_types(column: Any, bad: BadRows) -> None:
    """Note the values of a column of pandas that are not of its usual type."""
    types = {
        row: _name_type(value)
        for row, (value, is_empty) in enumerate(zip(column, column.isna(), strict=True))
        if not is_empty
    }
    usual = Counter(types.values()).most_common(1)[0][0]
    odd = [row for row, name in types.items() if name != usual]
    trouble = Trouble(
        f"column '{column.name}' holds a value of another type than most, which are of type "
        f"{usual}",
        "values of one type",
        "correct the row, or convert the column",
    )
    bad.add(trouble, np.array(odd, np.int64), str(column.iloc[odd[0]]) if odd else None)


def _name_type(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, Real):
        return type(value).__name__
    is_large = isinstance(value, Integral) and not MIN_INTEGER <= int(value) <= MAX_INTEGER
    return "large number" if is_large else "number"


def _is_column(values: Any) -> bool:
    try:
        pa.array(values)
    except NOT_ARROW:
        return False
    return True
