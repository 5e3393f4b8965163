"""What a log is as a whole, without its rows; and how those of its parts add up."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from trajcloak.log.request_log import RequestLog
from trajcloak.log.rows import check_time_span, mixed_times
from trajcloak.log.user_ids import mixed_ids


@dataclass(frozen=True)
class LogSummary:
    """A log without its rows; fields are those of :class:`RequestLog`.

    Attributes
    ----------
    end_rows : (int, int)
        The numbers, from 1, of the rows with the earliest and the latest time.
    some_time : int
        Any time of the log: differences between parts count for its step, too.
    """

    num_rows: int
    num_users: int
    num_requests: int
    has_integer_ids: bool
    end_rows: tuple[int, int]
    some_time: int
    has_timestamps: bool
    zone: str | None
    geographic: bool
    step: int
    time_range: tuple[int, int]
    bounds: tuple[float, float, float, float]
    clock: str | None
    crs: str | None
    dropped: Mapping[str, int]
    shifted: Mapping[str, int]
    reading: Mapping[str, object]

    def find_ends(self) -> tuple[int, int]:
        """As :meth:`RequestLog.find_ends`."""
        return self.end_rows


AnyLog: TypeAlias = RequestLog | LogSummary


def summarise(log: RequestLog) -> LogSummary:
    """Leave the rows of a log out."""
    return LogSummary(
        log.num_rows, log.num_users, len(log.requests.row), pa.types.is_integer(log.users.type),
        log.find_ends(), int(log.time[0]), log.has_timestamps, log.zone,
        log.geographic, log.step, log.time_range, log.bounds, log.clock, log.crs, log.dropped,
        log.shifted, log.reading,
    )  # fmt: skip


def merge_summaries(parts: Sequence[LogSummary], user_column: str, time_column: str) -> LogSummary:
    """Put summaries of parts that share no user together.

    Raises
    ------
    InputError
        If their ids or times are of different kinds, or the times too far apart.
    """
    one = parts[0]
    if any(p.has_integer_ids != one.has_integer_ids for p in parts):
        raise mixed_ids(user_column)
    if any((p.has_timestamps, p.zone) != (one.has_timestamps, one.zone) for p in parts):
        raise mixed_times(time_column, [(p.has_timestamps, p.zone) for p in parts])
    time_range = min(p.time_range[0] for p in parts), max(p.time_range[1] for p in parts)
    end_rows = (
        min((p.time_range[0], p.end_rows[0]) for p in parts)[1],
        min((-p.time_range[1], p.end_rows[1]) for p in parts)[1],
    )
    check_time_span(time_range, time_column, end_rows)
    return LogSummary(
        num_rows=sum(p.num_rows for p in parts),
        num_users=sum(p.num_users for p in parts),
        num_requests=sum(p.num_requests for p in parts),
        has_integer_ids=one.has_integer_ids,
        end_rows=end_rows,
        some_time=one.some_time,
        has_timestamps=one.has_timestamps,
        zone=one.zone,
        geographic=one.geographic,
        step=math.gcd(*(p.step for p in parts), *(p.some_time - one.some_time for p in parts)),
        time_range=time_range,
        bounds=merge_bounds([p.bounds for p in parts]),
        clock=one.clock,
        crs=one.crs,
        dropped=add_counts([p.dropped for p in parts]),
        shifted=add_counts([p.shifted for p in parts]),
        reading=one.reading,
    )


def merge_bounds(
    bounds: Sequence[tuple[float, float, float, float]],
) -> tuple[float, float, float, float]:
    """Bound several boxes."""
    left, bottom, right, top = zip(*bounds, strict=True)
    return min(left), min(bottom), max(right), max(top)


def add_counts(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Add counts by name."""
    total: Counter[str] = Counter()
    for some in counts:
        total.update(some)
    return dict(total)
