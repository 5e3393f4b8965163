"""Values of columns: plain types, and times, moments and durations as whole ticks.

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
class TimeColumn:
    """A part of a time column.

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


def read_times(column: Any) -> TimeColumn | None:
    """Read a column without nulls as times; None if its values are no times."""
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


def _take(column: Any, kind: Any) -> TimeColumn | None:
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


def moment_to_ticks(value: object, stamped: bool, zoned: bool) -> int | None:
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


def duration_to_ticks(value: object, stamped: bool) -> int | None:
    """Read the manifest's ``every`` or ``max_gap``; None if it is not a duration."""
    if not stamped:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    ticks = Fraction(match[1]) * _MICROSECONDS[match[2]]
    return int(ticks) if ticks.denominator == 1 and ticks < 2**62 else None


def local_to_utc(local: npt.NDArray[np.int64], zone: str) -> tuple[npt.NDArray[np.int64], int, int]:
    """Convert local times to UTC; also counts those that occur twice, and that are skipped.

    The offset of the day before is used where it fits, and for skipped times; otherwise that
    of the day after. So a time that occurs twice is the first of the two, and a skipped one
    is as much later as the clock was set forward.
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


def decode_column(column: Any) -> Any:
    """Apply :func:`decode_array` to each chunk of a chunked array."""
    chunks = [decode_array(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, decoded_type(column.type))


def decode_array(array: Any) -> Any:
    """Decode dictionaries and repeated values, and cast all kinds of text to one type."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        array = pc.cast(array, array.type.value_type)
    kind = decoded_type(array.type)
    return array if array.type == kind else pc.cast(array, kind)


def decoded_type(kind: Any) -> Any:
    """Find the type that :func:`decode_array` gives to an array of a type."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    if str(kind).startswith(("decimal32", "decimal64")):
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if pa.types.is_large_binary(kind) or str(kind) == "binary_view":
        return pa.binary()
    return kind


def may_be_text(kind: Any) -> bool:
    """Whether values of a plain type are text, or bytes."""
    is_bytes = pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(is_bytes or pa.types.is_string(kind))


def decode_text(values: Any) -> Any:
    """Decode bytes to text, replacing bad bytes; text stays as it is. Requires no nulls."""
    if pa.types.is_string(values.type):
        return values
    texts = (value.decode(errors="replace").rstrip("\0") for value in values.to_pylist())
    return pa.array(texts, pa.string())


def unify_zeros_and_nans(values: Any) -> Any:
    """Make all zeros of floats one value, and all NaNs; other types are left as they are."""
    kind = values.type
    if not pa.types.is_floating(kind):
        return values
    zero, nan = pa.scalar(0.0, kind), pa.scalar(float("nan"), kind)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))
