"""Coordinate systems of logs."""

import pyproj

from trajcloak.errors import OptionError
from trajcloak.options import WGS84


def choose_system(given: str | None, *, geographic: bool) -> tuple[str | None, bool]:
    """Choose the coordinate system of a log.

    ``geographic`` says what the names of its columns suggest. Returns the system, None
    where it is not known, and whether it has degrees.
    """
    if given is None:
        return (WGS84, True) if geographic else (None, False)
    try:
        crs = pyproj.CRS.from_user_input(given)
    except pyproj.exceptions.CRSError:
        crs = None
    if crs is not None and crs.is_geographic and len(crs.axis_info) == 2:
        return given, True
    in_metres = crs is not None and all(axis.unit_name == "metre" for axis in crs.axis_info)
    if crs is None or not (crs.is_projected and in_metres):
        raise OptionError(
            f"crs is '{given}'; expected a coordinate system of degrees, or a projected one in "
            f"metres, such as EPSG:4326 or EPSG:27700; pass another --crs, or convert the places"
        )
    return given, False
