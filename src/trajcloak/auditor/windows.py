"""Which instants belong to which window."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from trajcloak.auditor.logs import Log

Ints = npt.NDArray[np.int64]

DAY = 24 * 60
MAX_EDGES = 2**27
"""Windows that can be followed; far beyond any log, but not beyond a damaged manifest."""

_STRETCH = re.compile(r"([0-2][0-9]):([0-5][0-9])-([0-2][0-9]):([0-5][0-9])")


def find_edges(
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
    """Read stretches of the day, in minutes from midnight; None if they are none, or overlap."""
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
