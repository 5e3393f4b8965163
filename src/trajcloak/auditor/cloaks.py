"""Cloaks: on the grid, of the announced shape, and the same as geometry and metadata."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyproj

from trajcloak.auditor.findings import first_rows
from trajcloak.auditor.grid import Grid
from trajcloak.auditor.manifest import Manifest, no_duplicates
from trajcloak.auditor.parts import Bundles

WKB_POLYGON = np.dtype(
    [("byte_order", "u1"), ("kind", "<u4"), ("rings", "<u4"), ("points", "<u4"), ("xy", "<f8", 10)]
)
CORNERS = (0, 1, 2, 1, 2, 3, 0, 3, 0, 1)
"""Columns of a rectangle in the order of its corners, counter-clockwise and closed."""

GEO_WORDS = ("version", "primary_column", "columns", "encoding", "geometry_types", "bbox")


def find_cloak_problems(bundles: Bundles, manifest: Manifest) -> list[str]:
    """Check that cloaks are made of cells of the region, and quad cloaks are quadrants."""
    region = manifest["region"]
    num_cells = 2 ** int(manifest["height"])
    cell = region["side"] / num_cells
    corner = np.array([region["x_min"], region["y_min"]] * 2, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.rint((bundles.rectangle - corner) / cell)
    usable = np.isfinite(steps) & (steps >= 0) & (steps <= num_cells)
    cells = np.where(usable, steps, 0).astype(np.int64)
    off_grid = ~usable | (corner + cells * cell != bundles.rectangle)
    problems = []
    wrong = np.flatnonzero(off_grid.any(axis=1))
    if len(wrong):
        problems.append(f"edges that are no cell edges of the region in {first_rows(wrong)}")
    width, depth = cells[:, 2] - cells[:, 0], cells[:, 3] - cells[:, 1]
    empty = np.flatnonzero((width <= 0) | (depth <= 0))
    if len(empty):
        problems.append(f"cloaks without an area in {first_rows(empty)}")
    if manifest["cloak"] == "quad" and not problems:
        quad = (depth & (depth - 1) == 0) & ((width == depth) | (2 * width == depth))
        quad &= (cells[:, 0] % width == 0) & (cells[:, 1] % depth == 0)
        if not quad.all():
            problems.append(
                f"cloaks that are no quadrants or semi-quadrants in "
                f"{first_rows(np.flatnonzero(~quad))}"
            )
    return problems


def find_moment_problems(bundles: Bundles, grid: Grid) -> list[str]:
    """Check the stretch of time of each row."""
    problems = []
    instant = bundles.instant.astype(np.int64)
    for name, values, offset in (("t_start", bundles.t_start, 0), ("t_end", bundles.t_end, 1)):
        if values is None:
            continue
        wrong = np.flatnonzero(values != grid.origin + (instant + offset) * grid.every)
        if len(wrong):
            problems.append(f"wrong '{name}' in {first_rows(wrong)}")
    return problems


def find_geometry_problems(bundles: Bundles, geo: bytes | None, crs: str | None) -> list[str]:
    """Check the WKB polygons against the columns, and the GeoParquet metadata."""
    problems = []
    start = 0
    wrong: list[npt.NDArray[Any]] = []
    for chunk in bundles.geometry.chunks:
        rectangle = bundles.rectangle[start : start + len(chunk)]
        wrong.append(np.flatnonzero(_differs(chunk, rectangle)) + start)
        start += len(chunk)
    rows = np.concatenate(wrong) if wrong else np.zeros(0, np.int64)
    if len(rows):
        problems.append(f"'geometry' is not the rectangle in {first_rows(rows)}")
    return problems + _find_geo_problems(bundles, geo, crs)


def _differs(chunk: Any, rectangle: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    if not len(chunk):
        return np.zeros(0, dtype=bool)
    expected = np.zeros(len(chunk), dtype=WKB_POLYGON)
    expected["byte_order"], expected["kind"] = 1, 3
    expected["rings"], expected["points"] = 1, 5
    expected["xy"] = rectangle[:, CORNERS]
    _, offsets, data = chunk.buffers()
    ends = np.frombuffer(offsets, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
    differs: npt.NDArray[np.bool_] = np.diff(ends) != WKB_POLYGON.itemsize
    if not differs.any():
        stored = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].reshape(len(chunk), -1)
        differs = (stored != expected.view(np.uint8).reshape(len(chunk), -1)).any(axis=1)
    return differs


def _find_geo_problems(bundles: Bundles, raw: bytes | None, crs: str | None) -> list[str]:
    try:
        geo = json.loads(raw or b"", object_pairs_hook=no_duplicates)
        bbox = geo["columns"]["geometry"].pop("bbox")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ["the 'geo' metadata of bundles.parquet is not that of GeoParquet"]
    problems = []
    if geo != _build_geo(crs):
        problems.append("the 'geo' metadata of bundles.parquet is not as documented")
    if not bundles.num_rows:
        return problems
    low, high = bundles.rectangle[:, :2].min(axis=0), bundles.rectangle[:, 2:].max(axis=0)
    if bbox != [*low.tolist(), *high.tolist()]:
        problems.append("the bounding box in the 'geo' metadata is not that of the cloaks")
    return problems


def _build_geo(crs: str | None) -> dict[str, Any]:
    """Build the GeoParquet metadata of a release, but for the bounding box."""
    column = {
        "encoding": "WKB",
        "geometry_types": ["Polygon"],
        "crs": None if crs is None else pyproj.CRS.from_user_input(crs).to_json_dict(),
    }
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}
