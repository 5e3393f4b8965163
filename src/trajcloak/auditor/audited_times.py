"""Times as ticks: instants of a log with integer times, otherwise microseconds since 1970."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_columns import Ints

_MICROSECONDS = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "m": 6 * 10**7,
    "h": 36 * 10**8,
    "d": 864 * 10**8,
}
_DURATION = re.compile(r"([0-9]{1,19}) ?(us|ms|s|m|h|d)")
_DAY = _MICROSECONDS["d"]
MOST_TICKS = 2**62


@dataclass(frozen=True)
class TimeColumn:
    """A part of a time column, in ticks."""

    ticks: Ints
    stamped: bool  # whether they are timestamps, in microseconds
    zoned: bool  # whether these have a zone, and so are in UTC


def read_ticks(column: Any) -> TimeColumn | None:
    """Read a column without nulls as times; None if its values are no times."""
    kind = column.type
    if pa.types.is_integer(kind):
        return _cast_to_ticks(column, pa.int64())
    if pa.types.is_timestamp(kind):
        return _cast_to_ticks(column, pa.timestamp("us", kind.tz))
    if pa.types.is_date(kind):
        return _cast_to_ticks(column, pa.timestamp("us"))
    if not pa.types.is_string(kind):
        return None
    return _cast_to_ticks(column, pa.timestamp("us")) or _cast_to_ticks(
        column, pa.timestamp("us", "UTC")
    )


def _cast_to_ticks(column: Any, kind: Any) -> TimeColumn | None:
    stamped = pa.types.is_timestamp(kind)
    # What is finer than a microsecond is cut off, as the release cannot hold it.
    finer = pa.types.is_timestamp(column.type) and column.type.unit == "ns"
    try:
        ticks = pc.cast(pc.cast(column, kind, safe=not finer), pa.int64())
    except pa.ArrowInvalid:
        return None
    return TimeColumn(
        ticks.to_numpy(zero_copy_only=False), stamped, stamped and kind.tz is not None
    )


def duration_to_ticks(value: object, stamped: bool) -> int | None:
    """Read the manifest's ``every`` or ``max_gap``; None if it is not a duration."""
    ticks = 0
    if stamped and isinstance(value, str):
        match = _DURATION.fullmatch(value)
        ticks = int(match[1]) * _MICROSECONDS[match[2]] if match else 0
    elif not stamped and isinstance(value, int):
        ticks = value
    return ticks if 0 < ticks <= MOST_TICKS else None


def spell_moment(ticks: int, stamped: bool, zoned: bool) -> int | str:
    """Write a moment as a manifest does: an integer instant, or ISO 8601 text."""
    return str(np.datetime64(ticks, "us")) + ("Z" if zoned else "") if stamped else ticks


def spell_duration(ticks: int, stamped: bool) -> int | str:
    """Write a duration as a manifest does: in the largest unit up to seconds that is whole."""
    if not stamped:
        return ticks
    unit = next(unit for unit in ("s", "ms", "us") if ticks % _MICROSECONDS[unit] == 0)
    return f"{ticks // _MICROSECONDS[unit]}{unit}"


def local_to_utc(local: Ints, zone: str) -> tuple[Ints, int, int]:
    """Convert local times to UTC; also counts those that occur twice, and that are skipped.

    The offset of the day before is used where it fits, and for skipped times; otherwise that
    of the day after. So a time that occurs twice is the first of the two, and a skipped one
    is as much later as the clock was set forward.
    """
    before, after = _offset(local - _DAY, zone), _offset(local + _DAY, zone)
    fits_before = _offset(local - before, zone) == before
    fits_after = _offset(local - after, zone) == after
    twice = fits_before & fits_after & (before != after)
    skipped = ~fits_before & ~fits_after
    offset = np.where(fits_before | skipped, before, after)
    return local - offset, int(twice.sum()), int(skipped.sum())


def _offset(moments: Ints, zone: str) -> Ints:
    """Find how far the clock of a zone is ahead of UTC at moments."""
    zoned = pc.cast(pa.array(moments), pa.timestamp("us", zone))
    clock: Ints = pc.cast(pc.local_timestamp(zoned), pa.int64()).to_numpy()
    return clock - moments
