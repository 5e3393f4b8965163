"""A release in memory, and the questions that it can answer."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyproj

from trajcloak.errors import OptionError, warn_caller
from trajcloak.given_values import Box, parse_crs, to_box
from trajcloak.options import MBR, WGS84
from trajcloak.query.bounds import (
    Answer,
    CountBounds,
    Presence,
    RequestAnswer,
    bound_followers,
    count_by_value,
    intersect_bounds,
)
from trajcloak.query.questions import PublishedTimes, Rectangle, RouteStep, check_region
from trajcloak.query.release_arrays import (
    PublishedWindow,
    RequestRows,
    build_cell_grid,
    list_request_attributes,
    read_request_rows,
    read_times,
    read_windows,
)
from trajcloak.release.manifest_schema import Manifest
from trajcloak.release.reading import (
    BUNDLES_FILE,
    REQUESTS_FILE,
    PublishedTable,
    open_table,
    read_manifest,
)

Steps = Sequence[tuple[Sequence[float], int | str]]
"""Regions, each with a time."""


@dataclass(frozen=True)
class PublishedRelease:
    """A release as a consumer sees it; made by :func:`open_published`."""

    path: Path  # its folder; in memory, what messages call it
    manifest: Manifest
    windows: list[PublishedWindow]
    times: PublishedTimes
    attributes: list[str]  # of requests
    requests: PublishedTable
    _rows: dict[str, RequestRows] = field(default_factory=dict, repr=False)

    def count(
        self, region: Sequence[float], first: int | str | None = None, last: int | str | None = None
    ) -> dict[int, Answer]:
        """Count the users inside a region, in units of the release's CRS, instant by instant."""
        return {
            instant: bounds.sum()
            for inside in self._bound_inside(region, first, last)
            for instant, bounds in zip(inside.instants, inside.bounds, strict=True)
        }

    def follow(self, steps: Steps) -> Answer:
        """Count the users inside all of several regions, each at its own time, as on a route."""
        totals = [bounds.total() for _, _, bounds in self._follow(steps)]
        return intersect_bounds(totals, np.array([self.manifest["users"]])).sum()

    def count_requests(
        self,
        region: Sequence[float],
        attribute: str,
        first: int | str | None = None,
        last: int | str | None = None,
    ) -> dict[Any, RequestAnswer]:
        """Count the requests sent inside a region, by value; the most frequent come first."""
        rows = self._read_rows(attribute)
        windows = list(self._bound_inside(region, first, last))
        return count_by_value(rows, windows, self.manifest["users"])

    def follow_requests(self, steps: Steps, attribute: str) -> dict[Any, RequestAnswer]:
        """Count the requests that the users of :meth:`follow` sent at the times of the steps."""
        rows = self._read_rows(attribute)
        parts, num_users = self._follow(steps), np.array([self.manifest["users"]])
        totals = [bounds.total() for _, _, bounds in parts]
        windows = []
        for i, (window, instants, bounds) in enumerate(parts):
            others = [*totals[:i], *totals[i + 1 :]]
            if others:
                # Bundles of different windows are not linked.
                share = math.prod(other.estimate / num_users for other in others)
                upper = bounds.upper * all(other.upper > 0 for other in others)
                about = np.minimum(bounds.estimate * share, upper)
                bounds = CountBounds(bounds.lower * 0, about, upper)
            windows.append(Presence(window, instants, [bounds] * len(instants), bounds.upper))
        most_users = intersect_bounds(totals, num_users).sum().upper
        return count_by_value(rows, windows, most_users)

    def crosses_windows(self, steps: Steps) -> bool:
        """Tell whether the steps of a question lie in different windows."""
        instants = [self.times.find_instant(time) for _, time in steps]
        homes = {w.start for w in self.windows for i in instants if w.start <= i < w.stop}
        return len(homes) > 1

    def place_region(self, region: Box, crs: Any = None) -> Rectangle:
        """Turn a region into the rectangle, in the system of the release, that holds it.

        A region is numbers, a box of shapely, or one geometry of GeoPandas, whose own system
        counts. ``crs`` is its system, if it is not that of the release.
        """
        shape: Any = region
        if hasattr(shape, "total_bounds"):
            if len(shape) != 1:
                raise OptionError(
                    f"the region has {len(shape)} geometries; expected one; pass one row of it"
                )
            shape, crs = shape.geometry.iloc[0], crs or shape.crs
        edges = to_box(shape)
        if len(edges) != 4:
            raise OptionError(
                f"region has {len(edges)} numbers; expected X_MIN, Y_MIN, X_MAX, Y_MAX; pass "
                f"another --region"
            )
        rectangle = check_region(edges)
        if crs is None:
            return rectangle
        rectangle = check_region(self._build_projection(crs).transform_bounds(*rectangle))
        if not self._holds_some(rectangle):
            warn_caller(
                "the region is outside that of the release, so nobody is in it; is it in the order "
                "X_MIN, Y_MIN, X_MAX, Y_MAX, longitude first?"
            )
        return rectangle

    def place_points(self, points: Any, crs: Any = None) -> list[tuple[float, float]]:
        """Turn points, or a line of shapely, into points in the system of the release."""
        listed = [(float(x), float(y)) for x, y, *_ in getattr(points, "coords", points)]
        if crs is None:
            return listed
        projection = self._build_projection(crs)
        return [projection.transform(x, y) for x, y in listed]

    def _check_region(self, region: Sequence[float]) -> Rectangle:
        """Check a region; warn if it is probably in degrees, and the release is not."""
        rectangle = x_min, y_min, x_max, y_max = check_region(region)
        may_be_degrees = max(-x_min, x_max) <= 180 and max(-y_min, y_max) <= 90
        if (
            may_be_degrees
            and self.manifest["crs"] is not None
            and self._holds_some(self._build_projection(WGS84).transform_bounds(*rectangle))
        ):
            warn_caller(
                "the region looks like longitude and latitude in degrees, and is taken in metres, "
                "as the release is; if it is in degrees, pass --lonlat"
            )
        return rectangle

    def _holds_some(self, rectangle: Sequence[float]) -> bool:
        """Whether a rectangle and the region of the release have an area in common."""
        square = self.manifest["region"]
        x_min, y_min, x_max, y_max = rectangle
        is_beside = x_max <= square["x_min"] or x_min >= square["x_min"] + square["side"]
        is_above = y_max <= square["y_min"] or y_min >= square["y_min"] + square["side"]
        return not (is_beside or is_above)

    def _build_projection(self, crs: Any) -> pyproj.Transformer:
        """Build the projection from another coordinate system to that of the release."""
        if self.manifest["crs"] is None:
            raise OptionError(
                f"{self.path}: places have a coordinate system and the release is in planar "
                f"coordinates; expected these; leave --lonlat out"
            )
        system = parse_crs(crs)
        if system is None:
            raise OptionError(
                f"crs is '{crs}'; expected a coordinate system, such as EPSG:4326; pass another "
                f"--crs"
            )
        return pyproj.Transformer.from_crs(system, self.manifest["crs"], always_xy=True)

    def _read_rows(self, attribute: str) -> RequestRows:
        """Read the requests with an attribute, once."""
        if attribute not in self.attributes:
            raise OptionError(
                f"{self.path}: the requests have no attribute '{attribute}'; expected one of "
                f"{', '.join(self.attributes) or '(none is published)'}; pass another --by"
            )
        if attribute not in self._rows:
            self._rows[attribute] = read_request_rows(self.requests, attribute, self.windows)
        return self._rows[attribute]

    def _bound_inside(
        self, region: Sequence[float], first: int | str | None, last: int | str | None
    ) -> Iterator[Presence]:
        """Bound, window by window and instant by instant, the users inside a region."""
        rectangle = self._check_region(region)
        instants = self.times.between(first, last)
        for window in self.windows:
            inside = [i for i in instants if window.start <= i < window.stop]
            if inside:
                bounds = [self._bound(window, [RouteStep(rectangle, i)]) for i in inside]
                yield Presence(window, inside, bounds, window.users)

    def _follow(self, steps: Steps) -> list[tuple[PublishedWindow, list[int], CountBounds]]:
        """Bound, window by window, the users of each bundle who are at all its steps."""
        checked = [RouteStep(self._check_region(r), self.times.find_instant(t)) for r, t in steps]
        instants = [step.instant for step in checked]
        if not checked or len(set(instants)) < len(instants):
            raise OptionError(
                f"{len(instants)} steps have {len(set(instants))} different instants; expected "
                f"one or more steps, each at an instant of its own; pass other times"
            )
        parts = []
        for window in self.windows:
            inside = [step for step in checked if window.start <= step.instant < window.stop]
            if inside:
                bounds = self._bound(window, inside)
                parts.append((window, [step.instant for step in inside], bounds))
        return parts

    def _bound(self, window: PublishedWindow, steps: list[RouteStep]) -> CountBounds:
        """Bound how many users of each bundle of a window are at all steps."""
        has_boxes = self.manifest["cloak"] == MBR
        return bound_followers(window, steps, build_cell_grid(self.manifest) if has_boxes else None)


def open_published(path: str | Path) -> PublishedRelease:
    """Open a release to ask about it.

    Requests are read when they are first asked for. Damaged files raise an error now.

    Examples
    --------
    >>> release = open_published("release")
    >>> release.follow([((0, 0, 20_000, 20_000), 3), ((20_000, 0, 40_000, 20_000), 7)])
    Answer(lower=..., estimate=..., upper=...)
    """
    path = Path(path)
    manifest = read_manifest(path)
    bundles, requests = (open_table(path / name) for name in (BUNDLES_FILE, REQUESTS_FILE))
    return build_published(path, manifest, bundles, requests)


def build_published(
    path: Path, manifest: Manifest, bundles: PublishedTable, requests: PublishedTable
) -> PublishedRelease:
    """Read the bundles of a release, from files or from memory."""
    windows = read_windows(bundles, manifest)
    return PublishedRelease(
        path=path,
        manifest=manifest,
        windows=windows,
        times=read_times(bundles, windows),
        attributes=list_request_attributes(requests, manifest),
        requests=requests,
    )
