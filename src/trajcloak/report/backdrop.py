"""What is drawn under the cloaks: streets, or the lines of a GeoJSON file."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError
from trajcloak.generator.city import JUNCTIONS
from trajcloak.generator.network_files import CITY, load_network
from trajcloak.options import WGS84
from trajcloak.query import PublishedRelease
from trajcloak.report.html_elements import pack

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STEPS = 1 << 16  # coordinates are rounded to the region's side divided by this
MOST_LINES = 150_000
MAIN_CLASSES = 3  # so many of the fastest classes of roads are drawn in a stronger colour
DEPTHS = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}
"""How deep the lines of each kind of geometry are nested; points have none."""


@dataclass(frozen=True)
class Backdrop:
    """Straight lines, ready to be drawn."""

    ends: Ints  # (lines, 4): x and y of both ends, in steps of the region
    is_main: npt.NDArray[np.bool_]  # drawn stronger: main roads, and all of an outline
    words: str  # what is drawn, for the reader
    in_metres: bool = False  # whether its coordinates, and so the release's, are known to be

    def to_dict(self) -> dict[str, Any]:
        """Pack it for the page."""
        return {
            "main": pack(self.ends[self.is_main].ravel()),
            "minor": pack(self.ends[~self.is_main].ravel()),
        }


def build_backdrop(
    release: PublishedRelease,
    network: str | os.PathLike[str] | None,
    outline: str | os.PathLike[str] | None,
) -> Backdrop | None:
    """Read a road network and a GeoJSON outline, and clip them to the release's region.

    ``network`` is what ``trajcloak generate`` takes: ``city`` or a path. Degrees are projected as
    the release was; other coordinates are taken as its own.
    """
    parts: list[Backdrop] = []
    if network is not None:
        parts.append(_build_roads(release, network))
    if outline is not None:
        ends = read_outline(Path(outline), release)
        drawn, _ = _fit(release, outline, ends[:MOST_LINES])
        words = f"Outline: {len(drawn):,} lines."
        parts.append(Backdrop(drawn, np.ones(len(drawn), np.bool_), words))
    if not parts:
        return None
    return Backdrop(
        ends=np.concatenate([part.ends for part in parts]),
        is_main=np.concatenate([part.is_main for part in parts]),
        words=" ".join(part.words for part in parts),
        in_metres=network == CITY,
    )


def _build_roads(release: PublishedRelease, source: str | os.PathLike[str]) -> Backdrop:
    network = load_network(source, JUNCTIONS, release.manifest["crs"])
    first = np.unique(network.edges, return_index=True)[1]
    order = first[np.argsort(network.classes[first], kind="stable")]
    tails, heads = network.tails[order], network.heads[order]
    ends = np.stack([network.x[tails], network.y[tails], network.x[heads], network.y[heads]], 1)
    drawn, kept = _fit(release, source, ends)
    drawn, kept = drawn[:MOST_LINES], kept[:MOST_LINES]
    of_all = "" if len(drawn) == network.num_edges else f" of {network.num_edges:,}"
    is_main = network.classes[order][kept] < MAIN_CLASSES
    return Backdrop(drawn, is_main, f"Streets: {len(drawn):,}{of_all} roads.")


def _fit(
    release: PublishedRelease, source: str | os.PathLike[str], ends: Floats
) -> tuple[Ints, Ints]:
    """Convert lines to steps of the region; returns those inside, and their row numbers."""
    region = release.manifest["region"]
    corner = np.tile([region["x_min"], region["y_min"]], 2)
    inside, kept = clip_lines((ends - corner) * (STEPS / float(region["side"])), STEPS - 1)
    if not len(kept):
        raise InputError(
            f"{source}: nothing of it lies inside the release's region; expected the place that "
            f"the log is about, in the same coordinates; pass another file"
        )
    return np.rint(inside).astype(np.int64), kept


def clip_lines(ends: Floats, side: float) -> tuple[Floats, Ints]:
    """Clip lines to a square, by the method of Liang and Barsky.

    Returns the parts inside the square, and the row numbers of their lines.

    Examples
    --------
    >>> clip_lines(np.array([[-1.0, 2, 1, 2], [9, 9, 9, 8], [1, 1, 2, 2]]), 3)
    (array([[0., 2., 1., 2.],
           [1., 1., 2., 2.]]), array([0, 2]))
    """
    start, way = ends[:, :2], ends[:, 2:] - ends[:, :2]
    enter, leave = np.zeros(len(ends)), np.ones(len(ends))
    for toward, room in ((-way, start), (way, side - start)):
        for axis in (0, 1):
            p, q = toward[:, axis], room[:, axis]
            share = np.divide(q, p, out=np.where(q < 0, -np.inf, np.inf), where=p != 0)
            enter = np.where(p < 0, np.maximum(enter, share), enter)
            leave = np.where(p >= 0, np.minimum(leave, share), leave)
    kept = np.flatnonzero(enter <= leave)
    cut = [start[kept] + way[kept] * t[kept, None] for t in (enter, leave)]
    return np.clip(np.concatenate(cut, axis=1), 0, side), kept


def read_outline(path: Path, release: PublishedRelease) -> npt.NDArray[np.float64]:
    """Read the lines of a GeoJSON file, projected as a release: x and y of both ends."""
    try:
        lines = [
            np.array([point[:2] for point in line], np.float64).reshape(-1, 2)
            for line in _find_lines(json.loads(path.read_text(encoding="utf-8")))
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path}: cannot be read as GeoJSON ({type(error).__name__}); expected lines or "
            f"polygons; check --outline"
        ) from error
    lines = [line for line in lines if len(line) > 1 and np.isfinite(line).all()]
    if not lines:
        raise InputError(f"{path}: holds no line; expected lines or polygons; check --outline")
    if release.manifest["crs"] is not None:
        lines = [np.array(release.place_points(line, WGS84)) for line in lines]
    ends = np.concatenate([np.concatenate([line[:-1], line[1:]], axis=1) for line in lines])
    return np.asarray(ends[np.isfinite(ends).all(axis=1)])


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
