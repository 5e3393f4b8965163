"""Coordinate systems of a log, by the auditor's own rules."""

import numpy as np
import numpy.typing as npt
import pyproj

from trajcloak.errors import OptionError

Floats = npt.NDArray[np.float64]


def choose_system(name: str | None, degrees: bool) -> tuple[str | None, bool]:
    """Tell the system of a log and whether it has degrees; ``degrees``: by its columns."""
    if name is None:
        return ("OGC:CRS84" if degrees else None), degrees
    try:
        crs = pyproj.CRS.from_user_input(name)
    except pyproj.exceptions.CRSError:
        raise OptionError(
            f"'{name}' is no coordinate system; expected one such as EPSG:27700; check --crs"
        ) from None
    return name, bool(crs.is_geographic)


def join_sides(longitude: Floats) -> Floats:
    """Continue longitudes beyond 180 degrees where that makes the log less than half round."""
    if longitude.max() - longitude.min() <= 180.0:
        return longitude
    turned = np.where(longitude < 0, longitude + 360.0, longitude)
    return turned if turned.max() - turned.min() <= 180.0 else longitude
