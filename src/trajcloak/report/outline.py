"""Lines of a GeoJSON file: a coast, a border, districts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError
from trajcloak.query import PublishedRelease

DEPTHS = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}
"""How deep the lines of each kind of geometry are nested; points have none."""


def read_outline(path: Path, release: PublishedRelease) -> npt.NDArray[np.float64]:
    """Read the lines of a file: (lines, 4), x and y of both ends.

    Parameters
    ----------
    path
    release
        Places are degrees, which are projected as its own, or its own planar coordinates.

    Raises
    ------
    InputError
        If the file cannot be read, or holds no line.
    """
    try:
        lines = [
            np.array([point[:2] for point in line], np.float64).reshape(-1, 2)
            for line in _find_lines(json.loads(path.read_text(encoding="utf-8")))
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path}: cannot be read as GeoJSON ({type(error).__name__}); expected lines or "
            f"polygons; check --outline"
        ) from error
    lines = [line for line in lines if len(line) > 1 and np.isfinite(line).all()]
    if not lines:
        raise InputError(f"{path}: holds no line; expected lines or polygons; check --outline")
    if release.manifest["crs"] is not None:
        lines = [np.array(release.project_points([*map(tuple, line)])) for line in lines]
    ends = np.concatenate([np.concatenate([line[:-1], line[1:]], axis=1) for line in lines])
    finite: npt.NDArray[np.float64] = ends[np.isfinite(ends).all(axis=1)]
    return finite


def _find_lines(content: dict[str, Any]) -> Iterator[Any]:
    kind = content["type"]
    if kind == "FeatureCollection":
        for feature in content["features"]:
            yield from _find_lines(feature)
    elif kind == "Feature":
        if content["geometry"] is not None:
            yield from _find_lines(content["geometry"])
    elif kind == "GeometryCollection":
        for geometry in content["geometries"]:
            yield from _find_lines(geometry)
    elif kind in DEPTHS:
        lines = [content["coordinates"]]
        for _ in range(DEPTHS[kind]):
            lines = [line for part in lines for line in part]
        yield from lines
