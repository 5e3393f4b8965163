"""Tables and frames in memory, of any library that speaks Arrow."""

from typing import Any

import pyarrow as pa


def to_table(source: Any) -> pa.Table | None:
    """Take a table or frame as an Arrow table; None if it is something else.

    Frames of pandas, polars and geopandas and tables of Arrow hand over their columns
    through the Arrow PyCapsule interface; none of these libraries is needed.
    """
    if isinstance(source, pa.Table):
        return source
    if hasattr(source, "geometry") and hasattr(source, "to_arrow"):
        # A frame of geopandas: its own export writes points as WKB.
        return pa.table(source.to_arrow(index=False))
    if hasattr(source, "__arrow_c_stream__"):
        return pa.table(source)
    return None
