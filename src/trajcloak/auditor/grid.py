"""Instants and windows of a log, and the plane they are in, as the manifest says."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyproj

from trajcloak.auditor.cleaning import find_too_fast
from trajcloak.auditor.logs import Log
from trajcloak.auditor.manifest import Manifest
from trajcloak.auditor.systems import join_sides
from trajcloak.auditor.times import parse_duration, parse_moment
from trajcloak.auditor.windows import find_edges

PROJECTION = re.compile(
    r"\+proj=laea \+lat_0=(?P<lat>-?[0-9]+\.[0-9]{1,2}) \+lon_0=(?P<lon>-?[0-9]+\.[0-9]{1,2}) "
    r"\+datum=WGS84 \+units=m \+no_defs"
)
"""How a projection is spelled: nothing else has a place in it."""

CENTRE_TOLERANCE = 0.01
"""Degrees; the centre of the projection is rounded to as much."""

MAX_INSTANTS = 2**31 - 1

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """When the instants are, and which belong to which window; all in ticks."""

    origin: int
    every: int
    max_gap: int
    num_instants: int
    hold: bool
    starts: Ints
    stops: Ints

    @property
    def num_windows(self) -> int:
        """How many windows the log has, published or not."""
        return len(self.starts)

    def window_starts(self, windows: npt.NDArray[Any]) -> Ints:
        """Find the first instants of windows; 0 for windows that the log does not have."""
        return self._pick(self.starts, windows)

    def window_sizes(self, windows: npt.NDArray[Any]) -> Ints:
        """Count the instants of windows; 0 for windows that the log does not have."""
        return self._pick(self.stops - self.starts, windows)

    def find_windows(self, instants: Ints) -> Ints:
        """Find the windows of instants; -1 for instants that are in none."""
        window = np.searchsorted(self.starts, instants, side="right") - 1
        return np.where(instants < np.append(self.stops, -1)[window], window, -1)

    def _pick(self, values: Ints, windows: npt.NDArray[Any]) -> Ints:
        there = (windows >= 0) & (windows < self.num_windows)
        return np.append(values, 0)[np.where(there, windows, self.num_windows)]


def build_grid(manifest: Manifest, log: Log) -> tuple[Grid | None, list[str]]:
    """Read the grid of instants from the manifest, and hold it against the log.

    Returns the grid, if one can be built, and what is wrong.
    """
    parameters = manifest.parameters
    origin = parse_moment(parameters["origin"], log.stamped, log.zoned)
    every = parse_duration(parameters["every"], log.stamped)
    max_gap = parse_duration(parameters["max_gap"], log.stamped)
    kind = "timestamps" if log.stamped else "integer times"
    problems = [
        f"parameter '{name}' does not fit a log with {kind}"
        for name, value in (("origin", origin), ("every", every), ("max_gap", max_gap))
        if value is None
    ]
    if every is not None and every <= 0:
        problems.append("parameter 'every' is not positive")
    if max_gap is not None and max_gap < 0:
        problems.append("parameter 'max_gap' is negative")
    if problems or origin is None or every is None or max_gap is None:
        return None, problems

    earliest, latest = int(log.time.min()), int(log.time.max())
    on_grid = bool(((log.time - earliest) % every == 0).all())
    hold = parameters["missing"] == "hold"
    start = earliest if on_grid else earliest // every * every
    if not on_grid and not hold and start < earliest and start + every <= latest:
        # Nobody is located before the first report.
        start += every
    if origin != start:
        return None, ["parameter 'origin' is not the start of the log's grid of instants"]
    num_instants = (latest - origin) // every + 1
    if num_instants > MAX_INSTANTS:
        return None, ["parameter 'every' makes more instants than a release can number"]
    edges = find_edges(parameters, log, origin, every, num_instants)
    if edges is None:
        return None, ["parameters 'align' and 'windows' do not cut such a log into windows"]
    starts, stops = edges
    return Grid(origin, every, max_gap, num_instants, hold, starts, stops), []


def find_speed_problems(manifest: Manifest, log: Log) -> list[str]:
    """Check that nobody is faster than allowed where such rows are refused, not dropped."""
    parameters = manifest.parameters
    speed, drop = parameters["max_speed"], parameters["drop"]
    if speed is None or "teleport" in (drop or ""):
        return []
    per_tick = speed / (1e6 if log.stamped else 1.0)
    fast = find_too_fast(log.user, log.time, log.x, log.y, per_tick, log.geographic)
    if not len(fast):
        return []
    first = int(log.row[fast].min()) + 1
    return [f"{len(fast):,} rows of the log are faster than 'max_speed'; the first is row {first}"]


def find_crs_problems(manifest: Manifest, log: Log) -> list[str]:
    """Check that the projection is the one that the data model prescribes for the log."""
    crs = manifest["crs"]
    if not log.geographic:
        return [] if crs == log.crs else ["'crs' is not that of the planar log"]
    if crs is None:
        return ["the log has longitude and latitude, but 'crs' is null"]
    spelled = PROJECTION.fullmatch(crs)
    if spelled is None:
        return ["'crs' is not a Lambert azimuthal equal-area projection in metres"]
    centre = float(spelled["lon"]), float(spelled["lat"])
    for coordinates, value in zip((join_sides(log.x), log.y), centre, strict=True):
        middle = (float(coordinates.min()) + float(coordinates.max())) / 2
        if abs(middle - value) > CENTRE_TOLERANCE:
            return ["'crs' is not centred on the log"]
    return []


def project(log: Log, crs: str | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Compute the planar coordinates of all rows; not finite where there are none."""
    if crs is None or not log.geographic:
        return log.x, log.y
    transformer = pyproj.Transformer.from_crs(log.crs, crs, always_xy=True)
    x, y = transformer.transform(join_sides(log.x), log.y)
    return x, y


def find_region_problems(
    manifest: Manifest, x: npt.NDArray[Any], y: npt.NDArray[Any], row: Ints
) -> list[str]:
    """Check that the region holds every location of the log strictly inside."""
    region = manifest["region"]
    inside = np.ones(len(x), dtype=bool)
    for values, low in ((x, region["x_min"]), (y, region["y_min"])):
        inside &= (values > low) & (values < low + region["side"])
    outside = np.sort(row[~inside])
    if not len(outside):
        return []
    return [
        f"{len(outside):,} rows of the log are not inside the region; "
        f"the first is row {outside[0] + 1}"
    ]
