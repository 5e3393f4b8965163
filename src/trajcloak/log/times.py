"""Times of a log: read from numbers and text, of one kind, in UTC, near to each other."""

from collections.abc import Iterable
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from trajcloak.errors import InputError
from trajcloak.log.bad_rows import BadRows, Trouble
from trajcloak.log.formats import WantedColumns
from trajcloak.options import TIME_UNITS

MAX_EPOCH = 2**62
"""Microseconds since 1970 that a time may be away."""

MAX_TIME_SPAN = 1 << 62
"""Differences of times that are farther from each other could overflow."""

ISO_FORMS = (
    "ISO 8601 without a zone, such as 2024-05-06T08:00:00",
    "ISO 8601 with a zone, such as 2024-05-06T08:00:00+02:00",
)

WHOLE_NUMBERS = "whole numbers"
WITHOUT_ZONE, WITH_ZONE = "timestamps without a zone", "timestamps with a zone"
"""Kinds of times."""

Moments = npt.NDArray[np.int64]
"""Microseconds since 1970."""


def find_timestamp_type(text: str) -> pa.DataType:
    """Find the type of times that are written like ``text``: with or without a zone."""
    has_zone = text.endswith("Z") or "+" in text or text[10:].count("-") > 0
    return pa.timestamp("us", "UTC" if has_zone else None)


def choose_time_type(column: pa.Array, name: str) -> pa.DataType:
    """Choose the type to convert times to: whole numbers, or timestamps in microseconds."""
    type_ = column.type
    if pa.types.is_integer(type_):
        return pa.int64()
    if pa.types.is_string(type_):
        return find_timestamp_type(column[0].as_py())
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        # Timestamps with a zone are stored in UTC already.
        return pa.timestamp("us", getattr(type_, "tz", None))
    hint = "; or pass --time-unit, if they are numbers since 1970"
    raise InputError(
        f"column '{name}' is of type {type_}; expected whole numbers (instants) or timestamps; "
        f"convert the times{hint if pa.types.is_floating(type_) else ''}"
    )


def decode_times(
    column: pa.Array, wanted: WantedColumns, rows_before: int, bad: BadRows
) -> pa.Array:
    """Turn numbers since 1970, or text of a given form, into timestamps.

    Times that cannot be read become empty, and are noted in ``bad``. ``rows_before``: rows of
    the log before the first.
    """
    if wanted.time_unit is not None:
        times, found = _read_epochs(column, wanted.time, wanted.time_unit), "is out of range"
        expected = f"a number since 1970 in {wanted.time_unit}, as --time-unit says"
    else:
        assert wanted.time_format is not None
        times, found = _read_texts(column, wanted.time, wanted.time_format), "cannot be read"
        expected = f"a time such as {wanted.time_format}, as --time-format says"
    lost = pc.and_(column.is_valid(), times.is_null()).to_numpy(zero_copy_only=False)
    if lost.any():
        rows = np.flatnonzero(lost)
        bad.add_unreadable(
            Trouble(f"column '{wanted.time}' {found}", expected, "correct or remove the row"),
            rows + rows_before,
            str(column[int(rows[0])].as_py()),
        )
    return times


def _read_epochs(column: pa.Array, name: str, unit: str) -> pa.Array:
    type_, scale = column.type, TIME_UNITS[unit]
    if not (pa.types.is_integer(type_) or pa.types.is_floating(type_)):
        raise InputError(
            f"column '{name}' is of type {type_}, and --time-unit is '{unit}'; expected numbers "
            f"since 1970; leave out --time-unit, or convert the times"
        )
    kind = pa.int64() if pa.types.is_integer(type_) else pa.float64()
    numbers = column.cast(kind, safe=False)
    filled = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    most = MAX_EPOCH // scale
    # Not by the absolute value: the least integer has none, and is what pandas has for no time.
    is_good = (filled >= -most) & (filled <= most)
    ticks = np.rint(np.where(is_good, filled, 0) * scale).astype(np.int64)
    mask = ~is_good | numbers.is_null().to_numpy(zero_copy_only=False)
    return pa.array(ticks, mask=mask).cast(pa.timestamp("us", "UTC"))


def _read_texts(column: pa.Array, name: str, form: str) -> pa.Array:
    if not pa.types.is_string(column.type):
        raise InputError(
            f"column '{name}' is of type {column.type}, and --time-format is given; expected text; "
            f"leave out --time-format"
        )
    texts = pc.utf8_trim_whitespace(column)
    if "%f" in form:
        # Arrow knows no fractions of a second here.
        times = [_read_text(text, form) for text in texts.to_pylist()]
        return pa.array(times, pa.timestamp("us", "UTC" if "%z" in form else None))
    return pc.strptime(texts, format=form, unit="us", error_is_null=True)


def _read_text(text: str | None, form: str) -> datetime | None:
    try:
        return None if text is None else datetime.strptime(text, form)
    except ValueError:
        return None


def name_kind(*, has_timestamps: bool, has_zone: bool) -> str:
    """Name the kind of times: the only three that a log may have."""
    if not has_timestamps:
        return WHOLE_NUMBERS
    return WITH_ZONE if has_zone else WITHOUT_ZONE


def mixed_times(name: str | None, kinds: Iterable[str]) -> InputError:
    """Build the error for times of several kinds."""
    return InputError(
        f"column '{name}' holds times of different kinds ({', '.join(sorted(kinds))}); expected "
        f"one kind; convert the times"
    )


def to_utc(local: Moments, zone: str) -> tuple[Moments, int, int]:
    """Convert local times to UTC.

    A time that occurs twice, where clocks are put back, means the first one. A time that is
    skipped, where they are put forward, is moved later by the gap: 02:30 becomes 03:30. Also
    returns how many times occur twice, and how many are skipped.
    """
    times = pa.array(local).cast(pa.timestamp("us"))

    def assume(choice: str) -> Moments:
        zoned = pc.assume_timezone(times, zone, ambiguous=choice, nonexistent=choice)
        moments: Moments = zoned.cast(pa.int64()).to_numpy()
        return moments

    earliest, latest = assume("earliest"), assume("latest")
    differing = np.flatnonzero(earliest != latest)
    if not len(differing):
        return earliest, 0, 0
    # The two results differ for times that occur twice and for skipped ones. A skipped time
    # does not come back when the result is converted to local time again.
    before = pa.array(earliest[differing]).cast(pa.timestamp("us", zone))
    there = pc.local_timestamp(before).cast(pa.int64()).to_numpy()
    skipped = there != local[differing]
    utc = earliest.copy()
    rows = differing[skipped]
    utc[rows] = local[rows] - (there[skipped] - earliest[rows])
    num_skipped = int(skipped.sum())
    return utc, len(differing) - num_skipped, num_skipped


@njit(cache=True, nogil=True)
def copy_times(values, origin, step, out):  # type: ignore[no-untyped-def]
    """Copy times; returns the least, the greatest, and the greatest common divisor so far.

    ``step`` is the divisor of all differences from ``origin`` in earlier batches; 0: none.
    """
    low = values[0]
    high = values[0]
    last = origin
    for i in range(len(values)):
        time = values[i]
        out[i] = time
        if time == last:
            continue
        last = time
        low = min(low, time)
        high = max(high, time)
        rest = abs(time - origin)
        if step == 0:
            step = rest
        elif rest % step != 0:
            # Euclid's algorithm.
            while rest != 0:
                step, rest = rest, step % rest
    return low, high, step
