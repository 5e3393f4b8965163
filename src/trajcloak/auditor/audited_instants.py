"""Instants and windows of a log as the manifest says, and where each user is at each instant.

Follows "From rows to trajectories" in ``docs/data-model.md`` word by word. Locations are
computed for blocks of whole users, so that memory does not grow with the log.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyproj

from trajcloak.auditor.audited_log import Log, continue_longitudes
from trajcloak.auditor.audited_manifest import Manifest
from trajcloak.auditor.audited_rows import find_too_fast
from trajcloak.auditor.audited_values import duration_to_ticks, moment_to_ticks

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

PROJECTION = re.compile(
    r"\+proj=laea \+lat_0=(?P<lat>-?[0-9]+\.[0-9]{1,2}) \+lon_0=(?P<lon>-?[0-9]+\.[0-9]{1,2}) "
    r"\+datum=WGS84 \+units=m \+no_defs"
)
"""The only notation of a projection, so that nothing can be hidden in it."""

CENTRE_TOLERANCE = 0.01
"""Degrees; the centre of the projection is rounded to this."""

MAX_INSTANTS = 2**31 - 1

DAY = 24 * 60
MAX_EDGES = 2**27
"""Windows that can be followed; far beyond any log, but not beyond a damaged manifest."""

_STRETCH = re.compile(r"([0-2][0-9]):([0-5][0-9])-([0-2][0-9]):([0-5][0-9])")

BLOCK = 1 << 22
"""Rows, or locations, of a block; a user with more has a block of their own."""

MAX_WINDOWS = 2**27
MAX_OF_USER = 2**27
MAX_IN_ALL = 2**34
"""Bounds on windows and locations: far beyond any log, but not beyond a damaged manifest."""


@dataclass(frozen=True)
class InstantGrid:
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


def build_instant_grid(manifest: Manifest, log: Log) -> tuple[InstantGrid | None, list[str]]:
    """Read the grid of instants from the manifest, and compare it with the log.

    Returns the grid, if one can be built, and what is wrong.
    """
    parameters = manifest.parameters
    origin = moment_to_ticks(parameters["origin"], log.stamped, log.zoned)
    every = duration_to_ticks(parameters["every"], log.stamped)
    max_gap = duration_to_ticks(parameters["max_gap"], log.stamped)
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
    edges = _find_edges(parameters, log, origin, every, num_instants)
    if edges is None:
        return None, ["parameters 'align' and 'windows' do not cut such a log into windows"]
    starts, stops = edges
    return InstantGrid(origin, every, max_gap, num_instants, hold, starts, stops), []


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
    for coordinates, value in zip((continue_longitudes(log.x), log.y), centre, strict=True):
        middle = (float(coordinates.min()) + float(coordinates.max())) / 2
        if abs(middle - value) > CENTRE_TOLERANCE:
            return ["'crs' is not centred on the log"]
    return []


def project_log(log: Log, crs: str | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Compute the planar coordinates of all rows; not finite where the projection has none."""
    if crs is None or not log.geographic:
        return log.x, log.y
    transformer = pyproj.Transformer.from_crs(log.crs, crs, always_xy=True)
    x, y = transformer.transform(continue_longitudes(log.x), log.y)
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


def _find_edges(
    parameters: dict[str, Any], log: Log, origin: int, every: int, num_instants: int
) -> tuple[Ints, Ints] | None:
    """Find the first instant of each window, and the one after its last.

    Returns None if the parameters cannot be followed.
    """
    starts, stops = np.array([0]), np.array([num_instants])
    hours = parameters["windows"]
    if hours is not None or parameters["align"] == "day":
        stretches = _read_hours("00:00-24:00" if hours is None else hours)
        if stretches is None or not log.stamped:
            return None
        moments = _list_moments(log, stretches)
        if moments is None:
            return None
        # An instant is inside if its moment is.
        at = np.minimum(np.maximum(-(-(moments - origin) // every), 0), num_instants)
        at = at[at[:, 1] > at[:, 0]]
        starts, stops = at.T
    length = parameters["length"]
    if length is None:
        return starts, stops
    if (-(-(stops - starts) // length)).sum() > MAX_EDGES:
        return None
    cut = [np.arange(start, stop, length) for start, stop in zip(starts, stops, strict=True)]
    ends = [np.append(part[1:], stop) for part, stop in zip(cut, stops, strict=True)]
    none = np.zeros(0, dtype=np.int64)
    return np.concatenate([none, *cut]), np.concatenate([none, *ends])


def _read_hours(text: str) -> list[tuple[int, int]] | None:
    """Read hours of the day as minutes from midnight; None if they are malformed or overlap."""
    stretches = []
    for part in text.split(","):
        match = _STRETCH.fullmatch(part.strip())
        if match is None:
            return None
        hour, minute, end_hour, end_minute = map(int, match.groups())
        start, end = 60 * hour + minute, 60 * end_hour + end_minute
        if start >= DAY or end > DAY or start == end:
            return None
        stretches.append((start, end if end > start else end + DAY))
    stretches.sort()
    following = [start for start, _ in stretches[1:]] + [stretches[0][0] + DAY]
    if any(end > start for (_, end), start in zip(stretches, following, strict=True)):
        return None
    return stretches


def _list_moments(log: Log, stretches: list[tuple[int, int]]) -> Ints | None:
    """List start and end of each stretch on each day that the log may touch."""
    zone = UTC if log.clock is None else ZoneInfo(log.clock)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        first = epoch + timedelta(microseconds=int(log.time.min()), days=-2)
        last = epoch + timedelta(microseconds=int(log.time.max()), days=2)
    except OverflowError:
        return None
    moments = []
    for number in range((last - first).days + 1):
        date = (first + timedelta(days=number)).date()
        midnight = datetime(date.year, date.month, date.day)
        for stretch in stretches:
            clock = [(midnight + timedelta(minutes=m)).replace(tzinfo=zone) for m in stretch]
            moments.append([(time - epoch) // timedelta(microseconds=1) for time in clock])
    return np.array(moments, dtype=np.int64)


@dataclass(frozen=True)
class Locations:
    """Known locations, in order of user and instant.

    Attributes
    ----------
    user, instant
        Whose, and when.
    x, y
        Where.
    reported
        Whether it is that of a report, not interpolated.
    held
        Whether it is that of a report made at another moment.
    """

    user: Ints
    instant: Ints
    x: Floats
    y: Floats
    reported: npt.NDArray[np.bool_]
    held: npt.NDArray[np.bool_]

    def choose(self, mask: npt.NDArray[np.bool_]) -> "Locations":
        """Keep some of the locations."""
        if mask.all():
            return self
        return Locations(*(values[mask] for values in vars(self).values()))

    def count_kinds(self) -> Ints:
        """Count the locations that are reported at their moment, interpolated, held."""
        held = int(self.held.sum())
        reported = int(self.reported.sum())
        return np.array([reported - held, len(self.reported) - reported, held])


def _weigh_users(log: Log, grid: InstantGrid) -> tuple[Ints, Ints, Ints]:
    """Find where the rows of each user start and stop, and a bound on the user's locations."""
    stop = np.flatnonzero(np.diff(log.user, append=-1)) + 1
    start = np.concatenate([[0], stop[:-1]])
    rows = stop - start
    if grid.hold:
        return start, stop, np.maximum(rows, grid.num_instants)
    spanned = (log.time[stop - 1] - log.time[start]) // grid.every + 1
    bridged = rows * (grid.max_gap // grid.every + 1.0)
    return start, stop, np.maximum(rows, np.minimum(spanned, bridged)).astype(np.int64)


def find_size_problems(log: Log, grid: InstantGrid) -> list[str]:
    """Refuse parameters that make too much of a log to be followed."""
    _, _, weight = _weigh_users(log, grid)
    if (
        grid.num_windows > MAX_WINDOWS
        or int(weight.max()) > MAX_OF_USER
        or float(weight.sum(dtype=np.float64)) > MAX_IN_ALL
    ):
        return ["the parameters make more locations of the log than can be followed"]
    return []


def list_blocks(log: Log, grid: InstantGrid) -> Iterator[slice]:
    """Cut the rows of a log into blocks of whole users."""
    start, stop, weight = _weigh_users(log, grid)
    block = np.cumsum(weight) // BLOCK
    first = np.flatnonzero(np.diff(block, prepend=-1))
    for one, other in zip(first, [*first[1:], len(start)], strict=True):
        yield slice(int(start[one]), int(stop[other - 1]))


def locate(user: Ints, time: Ints, x: Floats, y: Floats, grid: InstantGrid) -> Locations:
    """Find the known locations of users at the instants.

    The arguments are rows in order of user and time; users are whole. Each instant
    is looked up from the last report at or before it: a report is good for the
    instants from its own moment up to, not including, that of the next report.
    """
    again = (user[1:] == user[:-1]) & (time[1:] == time[:-1])
    kept = np.flatnonzero(np.append(True, ~again))
    user, time, x, y = user[kept], time[kept], x[kept], y[kept]

    offset = time - grid.origin
    begin = -(-offset // grid.every)
    exact = offset % grid.every == 0
    is_last = np.append(user[1:] != user[:-1], True)
    next_begin = np.where(is_last, grid.num_instants, np.append(begin[1:], 0))
    gap = np.where(is_last, 0, np.append(time[1:], 0) - time)
    bridged = ~is_last & (gap <= grid.max_gap)
    if grid.hold:
        is_first = np.append(True, user[1:] != user[:-1])
        begin = np.where(is_first, 0, begin)
        count = next_begin - begin
    else:
        count = np.where(bridged, next_begin - begin, exact)

    report = np.repeat(np.arange(len(user)), count)
    within = np.arange(len(report)) - np.repeat(np.cumsum(count) - count, count)
    instant = begin[report] + within
    since = grid.origin + instant * grid.every - time[report]
    between = bridged[report] & (since > 0)
    following = np.minimum(report + 1, len(user) - 1)
    share = np.where(between, since / np.maximum(gap[report], 1), 0.0)
    return Locations(
        user=user[report],
        instant=instant,
        x=x[report] + share * (x[following] - x[report]),
        y=y[report] + share * (y[following] - y[report]),
        reported=~between,
        held=~between & (since != 0),
    )
