"""Regions and lines as callers in Python write them, in units of a release."""

from collections.abc import Sequence
from typing import Any

import pyproj

from trajcloak.errors import OptionError
from trajcloak.given_values import Box, to_box
from trajcloak.query import Rectangle
from trajcloak.query.questions import check_region


def place_region(region: Box, crs: Any, system: str | None) -> Rectangle:
    """Turn a region into the rectangle, in the system of a release, that holds it.

    Parameters
    ----------
    region
        Numbers, a box of shapely, or one geometry of GeoPandas, whose own system counts.
    crs
        System of the region, if it is not that of the release.
    system
        That of the release; None if it is not known.
    """
    shape: Any = region
    if hasattr(shape, "total_bounds"):
        shape, crs = _take_geometry(shape), crs or shape.crs
    edges = to_box(shape)
    if len(edges) != 4:
        raise OptionError(
            f"region has {len(edges)} numbers; expected X_MIN, Y_MIN, X_MAX, Y_MAX; pass another "
            f"--region"
        )
    rectangle = check_region(edges)
    if crs is None:
        return rectangle
    return check_region(_build_transformer(crs, system).transform_bounds(*rectangle))


def place_points(points: Any, crs: Any, system: str | None) -> list[tuple[float, float]]:
    """Turn points, or a line of shapely, into points in the system of a release."""
    listed = [(float(x), float(y)) for x, y, *_ in getattr(points, "coords", points)]
    if crs is None:
        return listed
    transformer = _build_transformer(crs, system)
    return [transformer.transform(x, y) for x, y in listed]


def _take_geometry(frame: Any) -> Any:
    geometries: Sequence[Any] = list(frame.geometry)
    if len(geometries) != 1:
        raise OptionError(
            f"the region has {len(geometries)} geometries; expected one; pass one row of it"
        )
    return geometries[0]


def _build_transformer(crs: Any, system: str | None) -> pyproj.Transformer:
    if system is None:
        raise OptionError(
            "a region has a coordinate system, and the release has none; expected a region in the "
            "units of the log; leave it out"
        )
    try:
        return pyproj.Transformer.from_crs(crs, system, always_xy=True)
    except pyproj.exceptions.CRSError:
        raise OptionError(
            f"crs is '{crs}'; expected a coordinate system, such as EPSG:4326; pass another --crs"
        ) from None
