"""Windows that follow the clock: from midnight on, or at certain hours of the day."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError, OptionError
from trajcloak.log import ShardedLog
from trajcloak.options import DAY
from trajcloak.trajectories.grid import TimeGrid

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)
MINUTES_OF_DAY = 24 * 60
FEW_WINDOWS = 1 << 14
WINDOWS_PER_ROW = 100
"""A log with more than ``FEW_WINDOWS`` windows may have at most this many per row."""

MAX_WINDOWS = 1 << 20
"""More windows come from a single wrong time rather than from years of reports."""

Ranges = npt.NDArray[np.int64]
"""(windows, 2): the first instant of each window and the one after its last, ascending."""


def cut_windows(
    log: ShardedLog,
    grid: TimeGrid,
    *,
    length: int | None,
    align: str | None = None,
    hours: str | None = None,
) -> Ranges:
    """Cut the instants of a log into windows.

    Parameters
    ----------
    length
        Most instants in a window; default: no limit.
    align
        ``day``: a new window starts at each midnight.
    hours
        Hours of the day, such as ``07:00-10:00,16:00-19:00``: a new window starts at the
        start of each stretch, and instants outside are in no window.
    """
    if hours is None and align != DAY:
        return _check_number(log, _cut(np.array([[0, grid.num_instants]]), length))
    if not log.facts.has_timestamps:
        raise OptionError(
            "windows are to follow the clock, and the log has integer instants; expected "
            "timestamps; leave out --align and --windows, or convert the times"
        )
    stretches = parse_hours(hours) if hours is not None else [(0, MINUTES_OF_DAY)]
    moments = np.array(list(_list_moments(log, grid, stretches)), np.int64).reshape(-1, 2)
    # The first instant at or after each moment.
    inside = np.clip(-(-(moments - grid.origin) // grid.every), 0, grid.num_instants)
    return _check_number(log, _cut(inside[inside[:, 0] < inside[:, 1]], length))


def _check_number(log: ShardedLog, ranges: Ranges) -> Ranges:
    """Raise if there are far more windows than rows, which is a sign of a wrong time."""
    if len(ranges) > max(FEW_WINDOWS, WINDOWS_PER_ROW * log.facts.num_rows):
        raise InputError(
            f"{log.facts.files.name_two(*log.find_ends())}: there are {len(ranges):,} windows from "
            f"one to the other, and {log.facts.num_rows:,} rows in all; expected times near to "
            f"each other; correct the rows, or pass a larger --length or --every"
        )
    return ranges


def parse_hours(text: str) -> list[tuple[int, int]]:
    """Parse hours of the day into minutes since midnight; a stretch may end on the next day.

    Examples
    --------
    >>> parse_hours("07:00-10:30,22:00-02:00")
    [(420, 630), (1320, 1560)]
    """
    stretches = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d\d):(\d\d)-(\d\d):(\d\d)\s*", part, re.ASCII)
        numbers = list(map(int, match.groups())) if match else []
        start, end = (60 * h + m for h, m in (numbers[:2], numbers[2:])) if match else (0, 0)
        is_time = match is not None and max(numbers[1], numbers[3]) < 60
        if not is_time or start >= MINUTES_OF_DAY or end > MINUTES_OF_DAY or start == end:
            raise _bad_hours(text, "hours such as 07:00-10:00,16:00-19:00")
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
    try:
        day = (EPOCH + low * MICROSECOND).replace(hour=0, minute=0, second=0, microsecond=0)
        last = EPOCH + high * MICROSECOND + timedelta(days=2)
        day -= timedelta(days=2)
    except OverflowError:
        raise OptionError(
            "windows are to follow the clock, and the log has times beyond the years 1 to 9999; "
            "expected times of a calendar; correct them, or leave out --align and --windows"
        ) from None

    def moment(minutes: int) -> int:
        # Where clocks are changed: a local time that occurs twice means the first one, and a
        # skipped one is moved later by the length of the gap.
        local = (day + timedelta(minutes=minutes)).replace(tzinfo=zone)
        return (local.astimezone(UTC).replace(tzinfo=None) - EPOCH) // MICROSECOND

    while day < last:
        for start, end in stretches:
            yield moment(start), moment(end)
        day += timedelta(days=1)


def _cut(ranges: Ranges, length: int | None) -> Ranges:
    """Cut ranges into windows of ``length`` instants; the last window of a range may be shorter."""
    if length is None:
        return ranges
    sizes = ranges[:, 1] - ranges[:, 0]
    parts = -(-sizes // length)
    if parts.sum() > MAX_WINDOWS:
        raise OptionError(
            f"the log is cut into {parts.sum():,} windows; expected at most {MAX_WINDOWS:,}; is a "
            f"time far from all others? trajcloak inspect shows the first and the last: correct "
            f"it, or pass a larger --length"
        )
    first = np.repeat(np.cumsum(parts) - parts, parts)
    starts = np.repeat(ranges[:, 0], parts) + (np.arange(parts.sum()) - first) * length
    stops = np.minimum(starts + length, np.repeat(ranges[:, 1], parts))
    return np.column_stack([starts, stops])
