"""The regular grid of instants of a log, and the windows that it is cut into.

Windows may follow the clock: start at midnight, or at certain hours of the day.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.errors import InputError, OptionError
from trajcloak.log import LogFacts, RequestLog, ShardedLog
from trajcloak.options import DAY
from trajcloak.trajectories.reports import compare_all_reports

UNITS = {"us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
SPELLINGS = {
    "sec": "s", "second": "s", "seconds": "s", "min": "m", "minute": "m", "minutes": "m",
    "hour": "h", "hours": "h", "day": "d", "days": "d",
}  # fmt: skip
MAX_INSTANTS = 2**31 - 1
FEW_INSTANTS = 1 << 20
INSTANTS_PER_ROW = 1000
"""A log with more than ``FEW_INSTANTS`` instants may have at most this many per row: more are a
sign of a wrong time."""

FIRST_MOMENT = (-62_135_596_800 + 3 * 86400) * 10**6
LAST_MOMENT = (253_402_300_800 - 3 * 86400) * 10**6
"""The years 1 to 9999, in microseconds since 1970, less the days around windows of a clock."""

MAX_DURATION = 2**62
MIN_FILLED = 0.5
"""A grid is filled if there are at least this many reports per instant between each user's first
and last report."""

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
MINUTES_OF_DAY = 24 * 60
EXPECTED_HOURS = "hours such as 07:00-10:00,16:00-19:00"
MAX_WINDOWS = 1 << 20
FEW_WINDOWS = 1 << 14
WINDOWS_PER_ROW = 100
"""A log with more than ``FEW_WINDOWS`` windows may have at most this many per row: more are a
sign of a wrong time."""

Ranges = npt.NDArray[np.int64]
"""(windows, 2): the first instant of each window and the one after its last, ascending."""


@dataclass(frozen=True)
class TimeGrid:
    """Instant i is the time from ``origin + i * every`` up to the next instant."""

    origin: int  # In the log's own unit: instants, or microseconds.
    every: int
    num_instants: int
    on_grid: bool  # Whether every report of the log is exactly at the start of an instant.

    def starting_at(self, instant: int) -> tuple[int, int]:
        """Return the moment of an instant, and the step, as kernels take them."""
        return self.origin + instant * self.every, self.every


def parse_duration(text: str, *, has_timestamps: bool, name: str, has_log: bool = True) -> int:
    """Parse ``60s``, ``1500ms``, ``5min``, ``1h``, ``1d``; or a whole number of instants.

    Returns microseconds, or instants where the log has no timestamps. ``has_log``: whether there is
    one to speak of.
    """
    match = re.fullmatch(r"([0-9]{1,19})\s*([a-z]*)", text.strip())
    expected = "a duration such as 60s, 1500ms, 5min or 1h" if has_timestamps else "a whole number"
    unit = SPELLINGS.get(match[2], match[2]) if match else ""
    value = int(match[1]) * UNITS.get(unit or "us", 0) if match else 0
    fits = bool(unit) == has_timestamps
    if not fits or not 0 < value <= MAX_DURATION:
        kind = "timestamps" if has_timestamps else "integer instants"
        reason = f"the log has {kind}, so " if has_log else ""
        raise OptionError(f"{name} is '{text}'; {reason}expected {expected}; pass another --{name}")
    return value


def format_duration(value: int, *, has_timestamps: bool) -> int | str:
    """Write a duration as the manifest does: a whole number, or text such as ``60s``."""
    if not has_timestamps:
        return value
    unit = next(unit for unit in ("s", "ms", "us") if value % UNITS[unit] == 0)
    return f"{value // UNITS[unit]}{unit}"


def build_time_grid(log: ShardedLog, every: int | None, *, hold: bool = False) -> TimeGrid:
    """Choose the grid of instants of a log.

    Default of ``every``: the step of the log's times, if its reports fill that grid. ``hold``:
    whether users are located before their first report.
    """
    low, high = log.facts.time_range
    if every is None:
        every = _own_step(log)
    on_grid = log.facts.step % every == 0
    origin = low if on_grid else low - low % every
    # Nobody is located before the first report, so the grid starts after it, if it can.
    if not on_grid and not hold and low % every and origin + every <= high:
        origin += every
    num_instants = (high - origin) // every + 1
    first, last = -MAX_DURATION, MAX_DURATION
    if log.facts.has_timestamps:
        first, last = FIRST_MOMENT, LAST_MOMENT
    if origin < first or origin + num_instants * every >= last:
        early, late = log.find_end_rows()
        limits = "the years 1 to 9999" if log.facts.has_timestamps else "-2^62 to 2^62"
        raise InputError(
            f"{log.facts.files.name_row(early if origin < first else late)}: an instant is out of "
            f"range; expected {limits}; correct the row, or pass a smaller --every"
        )
    if num_instants > most_instants(log.facts):
        raise InputError(
            f"{log.name_ends()}: there are {num_instants:,} instants from one to the other, and "
            f"{log.facts.num_rows:,} rows in all; expected times near to each other; correct the "
            f"rows, or pass a larger --every"
        )
    return TimeGrid(origin, every, num_instants, on_grid)


def most_instants(facts: LogFacts) -> int:
    """Compute how many instants a log with so many rows may have."""
    return min(MAX_INSTANTS, max(FEW_INSTANTS, INSTANTS_PER_ROW * facts.num_rows))


def find_own_step(log: ShardedLog) -> int | None:
    """Find the step of the log's times, if its reports fill that grid; otherwise None."""
    facts = log.facts
    step = facts.step or 1
    low, high = facts.time_range
    most = facts.num_users * ((high - low) // step + 1)
    if facts.num_rows < MIN_FILLED * most:
        most = sum(log.ask(sum_spans, step))
    return step if facts.num_rows >= MIN_FILLED * most else None


def _own_step(log: ShardedLog) -> int:
    step = find_own_step(log)
    if step is None:
        facts = log.facts
        share = facts.num_rows / sum(log.ask(sum_spans, facts.step))
        usual = compare_all_reports(log, 0).quantile(0.5)
        shown = format_duration(usual, has_timestamps=facts.has_timestamps)
        raise InputError(
            f"the log's {facts.num_rows:,} reports fill only {100 * share:.2g}% of its finest time "
            f"grid; expected reports at regular times, or to be told the grid; pass --every, such "
            f"as --every={shown}, the usual time from one report of a user to the next; trajcloak "
            f"inspect proposes all times"
        )
    return step


def sum_spans(log: RequestLog, step: int) -> int:
    """Sum, over the users of a shard, the instants from the first report to the last."""
    first, last = _find_ends(log.user, log.time, log.num_users)
    present = first <= last
    spans = int(((last[present] - first[present]) // step).sum(dtype=np.float64))
    return spans + log.num_users


@njit(cache=True, nogil=True)
def _find_ends(user, time, num_users):  # type: ignore[no-untyped-def]
    """Find each user's first and last time."""
    first = np.full(num_users, np.iinfo(np.int64).max, np.int64)
    last = np.full(num_users, np.iinfo(np.int64).min, np.int64)
    for row in range(len(user)):
        u = user[row]
        first[u] = min(first[u], time[row])
        last[u] = max(last[u], time[row])
    return first, last


def cut_windows(
    log: ShardedLog,
    grid: TimeGrid,
    *,
    length: int | None,
    align: str | None = None,
    hours: str | None = None,
) -> Ranges:
    """Cut the instants of a log into windows of at most ``length`` instants.

    With ``align="day"`` a new window starts at each midnight. With ``hours``, such as
    ``07:00-10:00,16:00-19:00``, one starts at the start of each stretch of the day, and instants
    outside are in no window.
    """
    if hours is None and align != DAY:
        return _cut(log, np.array([[0, grid.num_instants]]), length or grid.num_instants)
    if not log.facts.has_timestamps:
        raise OptionError(
            "windows are to follow the clock, and the log has integer instants; expected "
            "timestamps; leave out --align and --windows, or convert the times"
        )
    stretches = parse_hours(hours) if hours is not None else [(0, MINUTES_OF_DAY)]
    moments = np.array(list(_list_moments(log, grid, stretches)), np.int64).reshape(-1, 2)
    # The first instant at or after each moment.
    inside = np.clip(-(-(moments - grid.origin) // grid.every), 0, grid.num_instants)
    return _cut(log, inside[inside[:, 0] < inside[:, 1]], length or grid.num_instants)


def _cut(log: ShardedLog, ranges: Ranges, length: int) -> Ranges:
    """Cut ranges into windows of ``length`` instants; the last window of a range may be shorter."""
    parts = -(-(ranges[:, 1] - ranges[:, 0]) // length)
    num_windows, num_rows = int(parts.sum()), log.facts.num_rows
    if num_windows > min(MAX_WINDOWS, max(FEW_WINDOWS, WINDOWS_PER_ROW * num_rows)):
        raise InputError(
            f"{log.name_ends()}: there are {num_windows:,} windows from one to the other, and "
            f"{num_rows:,} rows in all; expected times near to each other; correct the rows, or "
            f"pass a larger --length or --every"
        )
    first = np.repeat(np.cumsum(parts) - parts, parts)
    starts = np.repeat(ranges[:, 0], parts) + (np.arange(num_windows) - first) * length
    stops = np.minimum(starts + length, np.repeat(ranges[:, 1], parts))
    return np.column_stack([starts, stops])


def parse_hours(text: str) -> list[tuple[int, int]]:
    """Parse hours of the day into minutes since midnight; a stretch may end on the next day.

    Examples
    --------
    >>> parse_hours("07:00-10:30,22:00-02:00")
    [(420, 630), (1320, 1560)]
    """
    stretches = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d\d):([0-5]\d)-(\d\d):([0-5]\d)\s*", part, re.ASCII)
        if match is None:
            raise _bad_hours(text, EXPECTED_HOURS)
        first_hour, first_minute, last_hour, last_minute = map(int, match.groups())
        start, end = 60 * first_hour + first_minute, 60 * last_hour + last_minute
        if start >= MINUTES_OF_DAY or end > MINUTES_OF_DAY or start == end:
            raise _bad_hours(text, EXPECTED_HOURS)
        stretches.append((start, end if end > start else end + MINUTES_OF_DAY))
    stretches.sort()
    following = [*stretches[1:], (stretches[0][0] + MINUTES_OF_DAY, 0)]
    if any(end > after for (_, end), (after, _) in zip(stretches, following, strict=True)):
        raise _bad_hours(text, "stretches that do not overlap")
    return stretches


def _bad_hours(text: str, expected: str) -> OptionError:
    return OptionError(f"windows is '{text}'; expected {expected}; pass other --windows")


def _list_moments(
    log: ShardedLog, grid: TimeGrid, stretches: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """List the first and the last moment of each stretch of each day of a log."""
    zone = ZoneInfo(log.facts.clock) if log.facts.clock else UTC
    low, high = grid.origin, grid.origin + grid.num_instants * grid.every
    day = (EPOCH + low * MICROSECOND).replace(hour=0, minute=0, second=0, microsecond=0)
    day -= timedelta(days=2)
    last = EPOCH + high * MICROSECOND + timedelta(days=2)

    def moment(minutes: int) -> int:
        # Where clocks are changed: a local time that occurs twice means the first one, and a
        # skipped one is moved later by the length of the gap.
        local = (day + timedelta(minutes=minutes)).replace(tzinfo=zone)
        return (local.astimezone(UTC).replace(tzinfo=None) - EPOCH) // MICROSECOND

    while day < last:
        for start, end in stretches:
            yield moment(start), moment(end)
        day += timedelta(days=1)
