"""What a place must be, whatever the format."""

from typing import Any

import pyarrow.compute as pc

LIMITS = {"lon": 180, "lat": 90}
"""Degrees on WGS 84."""


def name_axes(geographic: bool) -> tuple[str, str]:
    """Name the two coordinate columns of a log."""
    return ("lon", "lat") if geographic else ("x", "y")


def find_bad_place(table: Any, geographic: bool) -> tuple[int, str] | None:
    """Find the first row of a table or batch whose place cannot be used, and say why."""
    found = []
    for name in name_axes(geographic):
        column = table.column(name)
        if geographic:
            # False also where the number is not finite.
            is_good = pc.less_equal(pc.abs(column), LIMITS[name])
            why = (
                f"'{name}' is out of range; expected -{LIMITS[name]}..{LIMITS[name]} degrees (are "
                f"longitude and latitude swapped?)"
            )
        else:
            is_good = pc.is_finite(column)
            why = f"'{name}' is not finite; expected a coordinate"
        row = pc.index(is_good, False).as_py()
        if row >= 0:
            found.append((row, why))
    return min(found, default=None)
