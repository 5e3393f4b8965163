"""Times of a log, and the moments and durations of a manifest, as whole ticks.

A tick is one instant of a log with integer times, otherwise a microsecond.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_MICROSECONDS = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "m": 60 * 10**6,
    "min": 60 * 10**6,
    "h": 3600 * 10**6,
    "d": 86400 * 10**6,
}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(us|ms|s|min|m|h|d)")
_WHOLE_NUMBER = "^-?[0-9]+$"


@dataclass(frozen=True)
class Times:
    """A stretch of a time column.

    Attributes
    ----------
    ticks
        Instants, or microseconds since 1970.
    stamped
        Whether they are timestamps.
    zoned
        Whether the timestamps have a zone, and so are in UTC.
    """

    ticks: npt.NDArray[np.int64]
    stamped: bool
    zoned: bool


def read_times(column: Any) -> Times | None:
    """Take a column without nulls as times, or return None if it does not hold any."""
    kind = column.type
    if pa.types.is_integer(kind):
        return _take(column, pa.int64())
    if pa.types.is_timestamp(kind):
        return _take(column, pa.timestamp("us", kind.tz))
    if pa.types.is_date(kind):
        return _take(column, pa.timestamp("us"))
    if not pa.types.is_string(kind):
        return None
    if pc.all(pc.match_substring_regex(column, _WHOLE_NUMBER)).as_py():
        return _take(column, pa.int64())
    return _take(column, pa.timestamp("us")) or _take(column, pa.timestamp("us", "UTC"))


def _take(column: Any, kind: Any) -> Times | None:
    stamped = pa.types.is_timestamp(kind)
    # What is finer than a microsecond is cut off, as the release cannot hold it.
    finer = pa.types.is_timestamp(column.type) and column.type.unit == "ns"
    try:
        ticks = pc.cast(pc.cast(column, kind, safe=not finer), pa.int64())
    except pa.ArrowInvalid:
        return None
    return Times(ticks.to_numpy(zero_copy_only=False), stamped, stamped and kind.tz is not None)


def parse_moment(value: object, stamped: bool, zoned: bool) -> int | None:
    """Read the manifest's ``origin``; None if it is not a moment of such a log."""
    if not stamped:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if (moment.tzinfo is not None) != zoned:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def parse_duration(value: object, stamped: bool) -> int | None:
    """Read the manifest's ``every`` or ``max_gap``; None if it is not a duration."""
    if not stamped:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    ticks = Fraction(match[1]) * _MICROSECONDS[match[2]]
    return int(ticks) if ticks.denominator == 1 and ticks < 2**62 else None


def to_universal(local: npt.NDArray[np.int64], zone: str) -> tuple[npt.NDArray[np.int64], int, int]:
    """Convert local times to UTC; also counts those that come twice, and that are skipped.

    The offset of the day before holds wherever it can: so the first is taken of two,
    and what is skipped is as much later. Only otherwise that of the day after holds.
    """
    day = _MICROSECONDS["d"]
    before, after = _offset(local - day, zone), _offset(local + day, zone)
    fits_before = _offset(local - before, zone) == before
    fits_after = _offset(local - after, zone) == after
    twice = fits_before & fits_after & (before != after)
    skipped = ~fits_before & ~fits_after
    offset = np.where(fits_before | skipped, before, after)
    return local - offset, int(twice.sum()), int(skipped.sum())


def _offset(moments: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    """Find how far the clock of a zone is ahead of UTC at moments."""
    zoned = pc.cast(pa.array(moments), pa.timestamp("us", zone))
    clock: npt.NDArray[np.int64] = pc.cast(pc.local_timestamp(zoned), pa.int64()).to_numpy()
    return clock - moments
