"""Find rows that contradict others, and drop or refuse them.

Those are degrees that are in range but wrong (longitude and latitude swapped, or both 0), a user's
places at one time, and speeds that are impossible.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.errors import InputError, OptionError, Refusals
from trajcloak.kernels.sort import sort_words
from trajcloak.log.bad_rows import SomeRows
from trajcloak.log.exchange import keep_rows
from trajcloak.log.sharded_log import (
    CommonFacts,
    LogFacts,
    RequestLog,
    ShardedLog,
    add_counts,
    call_on_shard,
)
from trajcloak.options import CONFLICT, NULL_ISLAND, SWAPPED, TELEPORT, LogColumns

EARTH_RADIUS = 6_371_008.8
"""Metres."""

DEFAULT_SPEED = 340.0
"""Metres per second: nothing that sends requests is faster."""

SECOND = 1e6

REACH = 4
"""The bulk of a log reaches this many times as far from its centre as the nearer half of its
rows."""

FAR = 2
"""Rows more than this many times as far away as the bulk reaches are far outside it."""

MIN_HALF = 0.01
"""Degrees: the nearer half of the rows is taken to reach at least this far."""

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

Measure: TypeAlias = int | tuple[float, float]
"""What to measure: a coordinate of each row (0: x, 1: y), or its distance from this centre."""

DIGIT_BITS = 16
SIGN = np.uint64(1 << 63)


class Bulk(NamedTuple):
    """Where most rows of a log are: the centre, and how far they reach from it, in degrees."""

    centre: tuple[float, float]
    reach: float


def clean_shards(log: ShardedLog, columns: LogColumns) -> tuple[ShardedLog, dict[str, int]]:
    """Drop rows that contradict others, or refuse the log, as asked for.

    Also returns how many rows were dropped, by reason. The facts of the log are not updated.
    """
    dropped: dict[str, int] = {}
    if SWAPPED in columns.drop:
        dropped[SWAPPED] = 0
        if may_be_misplaced(log.facts):
            log, dropped = _keep_shards(log, columns, drop_swapped, find_bulk(log))
    if columns.max_speed is not None or {CONFLICT, TELEPORT} & set(columns.drop):
        log, more = _keep_shards(log, columns, drop_contradictions, columns)
        dropped |= more
    return log, dropped


class Cleaned(NamedTuple):
    """What was dropped of a shard."""

    is_left: bool  # Whether a row is left.
    dropped: dict[str, int]  # How many rows were dropped, by reason.
    far: npt.NDArray[np.int64]  # Numbers of teleports that are not to be dropped.


def _keep_shards(
    log: ShardedLog, columns: LogColumns, drop: Callable[..., Any], *args: Any
) -> tuple[ShardedLog, dict[str, int]]:
    """Drop rows of all shards; shards without any row left are removed."""
    engine = log.engine
    shards, cleaned = engine.shuffle(call_on_shard, log.jobs(drop, *args), 2)
    found: list[Cleaned] = engine.collect(cleaned)
    check_reachable(SomeRows((shard.far for shard in found), log.facts.files), log, columns)
    left = [[shard] for shard, note in zip(shards, found, strict=True) if note.is_left]
    if not left:
        raise InputError(
            "all rows of the log are dropped; expected some to be left; check --drop, --clip and "
            "--max-speed"
        )
    return replace(log, shards=left), add_counts([shard.dropped for shard in found])


def drop_swapped(log: RequestLog, bulk: Bulk) -> Iterator[list[Any]]:
    """Drop the rows of a shard whose axes are swapped; ``bulk`` is the whole log's."""
    keep = ~find_swapped(log, bulk)
    yield _keep_shard(log, keep, {SWAPPED: int((~keep).sum())}, np.empty(0, np.int64))


def drop_contradictions(log: RequestLog, columns: LogColumns) -> Iterator[list[Any]]:
    """Drop the rows of a shard that contradict others of the same user."""
    keep = np.ones(log.num_rows, np.bool_)
    far = np.empty(0, np.int64)
    dropped = {}
    if CONFLICT in columns.drop:
        order, first = group_by_user(log)
        _drop_conflicts(log.time, log.x, log.y, order, first, keep)
        dropped[CONFLICT] = int((~keep).sum())
    if columns.max_speed is not None or TELEPORT in columns.drop:
        far = np.flatnonzero(find_teleports(log, _choose_speed(log, columns), keep))
        dropped[TELEPORT] = len(far)
        keep[far] = False
    refused = far[:0] if TELEPORT in columns.drop else log.number_rows(far)
    yield _keep_shard(log, keep, dropped, refused)


def _keep_shard(
    log: RequestLog,
    keep: Mask,
    dropped: dict[str, int],
    far: npt.NDArray[np.int64],
) -> list[Any]:
    is_left = bool(keep.any())
    return [keep_rows(log, keep) if is_left else None, Cleaned(is_left, dropped, far)]


def check_reachable(far: SomeRows, log: ShardedLog, columns: LogColumns) -> None:
    """Raise if there are teleports that are not to be dropped."""
    if far.count:
        raise InputError(
            f"{far} farther from the same user's report before than a speed of "
            f"{_choose_speed(log.facts, columns):g} allows; expected places that can be reached; "
            f"correct the rows, drop them with --drop={TELEPORT}, or pass a higher --max-speed"
        )


def find_teleports(log: RequestLog, speed: float, among: Mask) -> Mask:
    """Find rows that cannot be reached in time from the same user's report before.

    Only rows in ``among`` are considered. ``speed`` is in metres per second, or in the log's
    own units of length and time.
    """
    order, first = group_by_user(log)
    keep = among.copy()
    unit = SECOND if log.has_timestamps else 1.0
    radius = EARTH_RADIUS if log.geographic else 0.0
    _drop_teleports(log.time, log.x, log.y, order, first, speed / unit, radius, keep)
    return among & ~keep


def group_by_user(log: RequestLog) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Order the rows by user and time; returns also where each user's rows start."""
    order = sort_rows(log)
    return order, np.searchsorted(log.user[order], np.arange(log.num_users + 1))


def _choose_speed(log: CommonFacts, columns: LogColumns) -> float:
    if columns.max_speed is not None:
        return columns.max_speed
    if log.has_timestamps and log.crs is not None:
        return DEFAULT_SPEED
    raise OptionError(
        "teleports are to be dropped, and the log has no metres or no seconds; expected a speed in "
        "its own units; pass --max-speed"
    )


def sort_rows(log: RequestLog) -> npt.NDArray[np.int64]:
    """Order the rows by user and time; equal ones stay in the order of the log."""
    order = np.arange(log.num_rows)
    spare = np.empty(log.num_rows, np.uint64), np.empty_like(order)
    is_in_order = _is_in_order(log.user, log.time, log.num_users)
    keys = () if is_in_order else (log.time - log.time_range[0],)
    for key in (*keys, log.user):
        words = key[order].astype(np.uint64)
        sort_words(words, order, 0, len(order), *spare)
    return order


def find_swapped(log: RequestLog, bulk: Bulk) -> Mask:
    """Find rows far outside the bulk of the whole log, but inside it with their axes swapped."""
    centre, reach = bulk
    swapped: Mask = _measure_reach(log.x, log.y, centre) > FAR * reach
    swapped &= _measure_reach(log.y, log.x, centre) <= reach
    return swapped


def find_null_island(log: RequestLog, bulk: Bulk) -> Mask:
    """Find rows at exactly 0, 0, if that is far outside the bulk of a log."""
    is_far = max(map(abs, bulk.centre)) > FAR * bulk.reach
    at_zero: Mask = (log.x == 0) & (log.y == 0) & is_far
    return at_zero


def check_misplaced(log: ShardedLog) -> None:
    """Raise if longitude and latitude of some rows are swapped, or both 0."""
    if not may_be_misplaced(log.facts):
        return
    bulk = find_bulk(log)
    reasons = []
    if (found := log.find_rows(find_swapped, bulk)).count:
        reasons.append(
            f"{found} far from most others, and would be among them with "
            f"longitude and latitude swapped; expected one connected area; correct the rows, drop "
            f"them with --drop={SWAPPED}, or pass --region to keep them"
        )
    if (found := log.find_rows(find_null_island, bulk)).count:
        reasons.append(
            f"{found} far from all others, at longitude and latitude 0; expected "
            f"one connected area; correct the rows, drop them with --drop={NULL_ISLAND}, or pass "
            f"--region to keep them"
        )
    Refusals(reasons).check()


def may_be_misplaced(log: LogFacts) -> bool:
    """Whether any row could be at 0, 0, or in the bulk if it were swapped; from the bounds."""
    west, south, east, north = log.bounds
    extent = max(east - west, north - south, MIN_HALF)
    may_be_swapped = max(west - north, south - east) <= REACH * extent
    may_be_at_zero = west <= 0 <= east and south <= 0 <= north
    return log.geographic and (may_be_swapped or may_be_at_zero)


def find_bulk(log: ShardedLog) -> Bulk:
    """Find where most rows of a log are."""

    def find_median(measure: Measure) -> float:
        """Find the median; for an even number of values, the lower of the two in the middle."""
        return select_value(
            lambda found, shift: log.ask(count_measures, measure, found, shift),
            (log.facts.num_rows - 1) // 2,
        )

    centre = find_median(0), find_median(1)
    return Bulk(centre, REACH * max(find_median(centre), MIN_HALF))


def count_measures(
    log: RequestLog, measure: Measure, found: np.uint64, shift: int
) -> npt.NDArray[np.int64]:
    """Count rows by digits of a measure; see :func:`count_digits`."""
    if isinstance(measure, tuple):
        return count_digits(_measure_reach(log.x, log.y, measure), found, shift)
    return count_digits((log.x, log.y)[measure], found, shift)


def _measure_reach(x: Floats, y: Floats, centre: tuple[float, float]) -> Floats:
    """Compute the distance of places from the centre in degrees, on the axis where it is more."""
    distance: Floats = np.maximum(np.abs(x - centre[0]), np.abs(y - centre[1]))
    return distance


def select_value(
    count_parts: Callable[[np.uint64, int], Iterable[npt.NDArray[np.int64]]], place: int
) -> float:
    """Find the number at ``place``, from 0, in the ascending order of all numbers.

    ``count_parts`` yields the result of :func:`count_digits` for each part. The numbers are
    counted by the first 16 bits of their word; then those with the right first bits are counted
    by the next 16; and so on. That takes four passes, and never more than one part in memory.

    Examples
    --------
    >>> parts = [np.array([3.0, -1.0]), np.array([2.0])]
    >>> select_value(lambda *digit: [count_digits(part, *digit) for part in parts], 1)
    2.0
    """
    found = np.uint64(0)
    for shift in range(64 - DIGIT_BITS, -1, -DIGIT_BITS):
        counts = np.zeros(1 << DIGIT_BITS, np.int64)
        for counted in count_parts(found, shift):
            counts += counted
        until = np.cumsum(counts)
        digit = int(np.searchsorted(until, place, side="right"))
        place -= int(until[digit] - counts[digit])
        found |= np.uint64(digit << shift)
    word = found ^ SIGN if found & SIGN else ~found
    return float(np.array([word]).view(np.float64)[0])


def count_digits(values: Floats, found: np.uint64, shift: int) -> npt.NDArray[np.int64]:
    """Count the numbers whose word starts with the bits ``found``, by the digit at ``shift``.

    Requires: no NaN.
    """
    words = _to_words(values)
    if shift < 64 - DIGIT_BITS:
        above = np.uint64(shift + DIGIT_BITS)
        words = words[words >> above == found >> above]
    digits = (words >> np.uint64(shift)).astype(np.uint16)
    return np.bincount(digits, minlength=1 << DIGIT_BITS)


def _to_words(values: Floats) -> npt.NDArray[np.uint64]:
    """Turn numbers into words that sort in the same order; 0 and -0 become the same word."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


@njit(cache=True, nogil=True)
def _is_in_order(user, time, num_users):  # type: ignore[no-untyped-def]
    """Whether the rows of each user are in order of time."""
    last = np.full(num_users, np.iinfo(np.int64).min, np.int64)
    for row in range(len(user)):
        if time[row] < last[user[row]]:
            return False
        last[user[row]] = time[row]
    return True


@njit(cache=True, nogil=True)
def _find_group(time, x, y, order, start, stop):  # type: ignore[no-untyped-def]
    """Find the rows with the same time as row ``start``: where they end, and if places differ."""
    one = order[start]
    end = start
    differ = False
    while end < stop and time[order[end]] == time[one]:
        differ |= x[order[end]] != x[one] or y[order[end]] != y[one]
        end += 1
    return end, differ


@njit(cache=True, nogil=True)
def _drop(order, start, stop, keep):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        keep[order[i]] = False


@njit(cache=True, nogil=True)
def _drop_conflicts(time, x, y, order, first, keep):  # type: ignore[no-untyped-def]
    """Drop all rows of a user at a time for which there are several places."""
    for u in range(len(first) - 1):
        start = first[u]
        while start < first[u + 1]:
            stop, differ = _find_group(time, x, y, order, start, first[u + 1])
            if differ:
                _drop(order, start, stop, keep)
            start = stop


@njit(cache=True, nogil=True)
def _drop_teleports(time, x, y, order, first, speed, radius, keep):  # type: ignore[no-untyped-def]
    """Drop rows that cannot be reached from the same user's last report that was kept.

    A user's first report is kept only if the next one can be reached from it. Rows in
    conflict are ignored. ``first`` is where each user's rows start in ``order``.
    """
    for u in range(len(first) - 1):
        # The last rows that were kept: ``last`` up to ``last_stop``, all of one time.
        last = np.int64(-1)
        last_stop = np.int64(-1)
        is_first = True
        start = first[u]
        while start < first[u + 1]:
            stop, differ = _find_group(time, x, y, order, start, first[u + 1])
            if not differ and keep[order[start]]:
                one, other = order[max(last, 0)], order[start]
                reach = speed * (time[other] - time[one])
                if last < 0:
                    last, last_stop = start, stop
                elif _distance(x[one], y[one], x[other], y[other], radius) <= reach:
                    last, last_stop = start, stop
                    is_first = False
                elif is_first:
                    # Nothing confirms the user's first report: drop it and start over.
                    _drop(order, last, last_stop, keep)
                    last, last_stop = start, stop
                else:
                    _drop(order, start, stop, keep)
            start = stop


@njit(cache=True, nogil=True)
def _distance(x1, y1, x2, y2, radius):  # type: ignore[no-untyped-def]
    """Compute a distance in the plane, or on a sphere if ``radius`` is not 0."""
    if radius == 0.0:
        return math.hypot(x2 - x1, y2 - y1)
    lat1, lat2 = math.radians(y1), math.radians(y2)
    half = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin(math.radians(x2 - x1) / 2) ** 2
    )
    return 2 * radius * math.asin(min(1.0, math.sqrt(half)))
