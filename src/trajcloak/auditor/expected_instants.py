"""The instants and windows of a log, as the manifest says.

Follows "From rows to trajectories" in ``docs/data-model.md`` word by word.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from trajcloak.auditor.audited_columns import Ints, list_ranges
from trajcloak.auditor.audited_log import AuditedLog
from trajcloak.auditor.audited_times import duration_to_ticks, spell_duration, spell_moment

MAX_INSTANTS = 2**31 - 1
MAX_WINDOWS = 2**20
FEW_LOCATIONS = 2**28
MOST_PER_ROW = 2**14
"""A manifest is damaged if it makes more locations than ``FEW_LOCATIONS``, and than this many for
each row of the log."""

DAY = 24 * 60
_STRETCH = re.compile(r"([0-2][0-9]):([0-5][0-9])-([0-2][0-9]):([0-5][0-9])")


@dataclass(frozen=True)
class InstantGrid:
    """When the instants are, and which belong to which window; all in ticks.

    ``needed`` is None if users take part in a window whose location is known at all its instants.
    In the release of a stream it is how many instants, from the window's first one on, must be
    known; members are then counted until they are absent for the first time.
    """

    origin: int
    every: int
    max_gap: int
    num_instants: int
    hold: bool
    starts: Ints
    stops: Ints
    needed: int | None = None

    @property
    def num_windows(self) -> int:
        """How many windows the log has, published or not."""
        return len(self.starts)

    @property
    def lengths(self) -> Ints:
        """How many instants each window has."""
        return self.stops - self.starts

    def find_moments(self, window: int) -> tuple[int, int, int]:
        """Find a window's first moment, the step of its instants, and how many there are."""
        first = self.origin + int(self.starts[window]) * self.every
        return first, self.every, int(self.lengths[window])

    @property
    def gaps(self) -> tuple[int, bool]:
        """The longest gap that is bridged, and whether the last place is held beyond."""
        return self.max_gap, self.hold

    def find_windows(self, instants: npt.NDArray[Any]) -> Ints:
        """Find the windows of instants; -1 for instants that are in none."""
        window = np.searchsorted(self.starts, instants, side="right") - 1
        return np.where(instants < np.append(self.stops, -1)[window], window, -1)


def build_instant_grid(
    parameters: dict[str, Any], log: AuditedLog
) -> tuple[InstantGrid | None, list[str]]:
    """Build the grid of instants, if there can be one, and list what is wrong with parameters."""
    every = duration_to_ticks(parameters["every"], log.stamped)
    max_gap = duration_to_ticks(parameters["max_gap"], log.stamped)
    kind = "timestamps" if log.stamped else "integer times"
    problems = [
        f"parameter '{name}' is no duration, spelled as usual, of a log with {kind}"
        for name, ticks in (("every", every), ("max_gap", max_gap))
        if ticks is None or parameters[name] != spell_duration(ticks, log.stamped)
    ]
    if problems or every is None or max_gap is None:
        return None, problems
    hold = parameters["missing"] == "hold"
    on_grid = log.step % every == 0
    start = log.earliest if on_grid else log.earliest // every * every
    if not on_grid and not hold and start < log.earliest and start + every <= log.latest:
        # Nobody is located before the first report.
        start += every
    stream, length = parameters.get("stream"), parameters["length"]
    if stream is not None:
        if not on_grid or log.one_log or not log.zoned:
            return None, ["the log is not that of a stream: locations at instants, requests apart"]
        start = _read_origin(parameters["origin"], log, every, start)
    if parameters["origin"] != spell_moment(start, log.stamped, log.zoned):
        return None, ["parameter 'origin' is not the start of the log's grid of instants"]
    num_instants = (log.latest - start) // every + 1
    if stream is not None:
        num_instants = -(-num_instants // length) * length
    if num_instants > MAX_INSTANTS:
        return None, ["parameter 'every' makes more instants than a release can number"]
    edges = _find_edges(parameters, log, start, every, num_instants)
    if edges is None:
        return None, [
            "parameters 'align', 'windows' and 'length' do not cut such a log into windows"
        ]
    needed = None if stream is None else stream["lag"] + 1
    grid = InstantGrid(start, every, max_gap, num_instants, hold, *edges, needed)
    if log.num_users * int(grid.lengths.sum()) > max(FEW_LOCATIONS, MOST_PER_ROW * log.num_rows):
        return None, ["the parameters make far more locations of the log than it has rows"]
    return grid, []


def _read_origin(text: Any, log: AuditedLog, every: int, start: int) -> int:
    """Read when the first instant of a stream begins, which may be before any location.

    Returns ``start`` unless the locations of the log are at instants from there on.
    """
    try:
        moment = datetime.fromisoformat(str(text)).replace(tzinfo=UTC)
    except ValueError:
        return start
    origin = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return origin if origin <= log.earliest and (log.earliest - origin) % every == 0 else start


def _find_edges(
    parameters: dict[str, Any], log: AuditedLog, origin: int, every: int, num_instants: int
) -> tuple[Ints, Ints] | None:
    """Find the first instant of each window, and the one after its last, if they can be cut."""
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
    count = -(-(stops - starts) // length)
    if count.sum() > MAX_WINDOWS:
        return None
    within = list_ranges(np.zeros_like(count), count)
    cut = np.repeat(starts, count) + length * within
    return cut, np.minimum(cut + length, np.repeat(stops, count))


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


def _list_moments(log: AuditedLog, stretches: list[tuple[int, int]]) -> Ints | None:
    """List start and end of each stretch on each day that the log may touch."""
    zone = UTC if log.clock is None else ZoneInfo(log.clock)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        first = epoch + timedelta(microseconds=log.earliest, days=-2)
        last = epoch + timedelta(microseconds=log.latest, days=2)
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
