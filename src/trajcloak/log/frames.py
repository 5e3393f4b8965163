"""Accept tables and frames in memory from any library that supports Arrow."""

from typing import Any

import pyarrow as pa

from trajcloak.errors import InputError

NOT_ARROW = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Errors raised for a frame whose columns cannot be converted to Arrow."""


def to_table(source: Any) -> pa.Table | None:
    """Convert a table or frame to an Arrow table; None if it is something else.

    Frames of pandas, polars and geopandas and tables of Arrow hand over their columns
    through the Arrow PyCapsule interface; none of these libraries is needed.

    Raises
    ------
    InputError
        If a column holds values of several types; names the row.
    """
    if isinstance(source, pa.Table):
        return source
    try:
        if hasattr(source, "geometry") and hasattr(source, "to_arrow"):
            # A frame of geopandas: its own export writes points as WKB.
            return pa.table(source.to_arrow(index=False))
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
    except NOT_ARROW:
        raise _explain(source) from None
    return None


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
