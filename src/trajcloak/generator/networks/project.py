"""From degrees to metres."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyproj

from trajcloak.errors import InputError
from trajcloak.space import choose_projection

# Millimetres: the projection's last bits may differ between machines.
_DECIMALS = 3
_WIDEST = 10


def project(
    lon: Any, lat: Any, crs: str | None = None, *, place: Callable[[int], str]
) -> tuple[Any, Any]:
    """Project nodes to metres, whole millimetres.

    Parameters
    ----------
    lon, lat
        (nodes,): degrees.
    crs
        Coordinate system of the result; default: around the middle of the network.
    place
        Tells where in which file a node, by its number, stands.

    Raises
    ------
    InputError
        If they are no degrees, or too far apart for one plane.
    """
    bad = np.flatnonzero((np.abs(lon) > 180) | (np.abs(lat) > 90))
    if bad.size:
        raise InputError(
            f"{place(int(bad[0]))}: longitude {lon[bad[0]]:g} and latitude {lat[bad[0]]:g}; "
            f"expected -180..180 and -90..90; are they swapped, or planar coordinates?"
        )
    if max(np.ptp(lon), np.ptp(lat)) > _WIDEST:
        raise InputError(
            f"the network spans {np.ptp(lon):.0f} degrees of longitude and {np.ptp(lat):.0f} of "
            f"latitude; expected at most {_WIDEST}; cut out a region, or give planar coordinates"
        )
    crs = crs or choose_projection((lon.min(), lat.min(), lon.max(), lat.max()))
    transformer = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True)
    x, y = transformer.transform(lon, lat)
    return np.round(x, _DECIMALS), np.round(y, _DECIMALS)
