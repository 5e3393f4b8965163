"""Find degrees that are in range but wrong: longitude and latitude swapped, or both 0."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from trajcloak.errors import Refusals
from trajcloak.log.sharded_log import LogFacts, RequestLog, ShardedLog
from trajcloak.options import NULL_ISLAND, SWAPPED

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


def find_swapped(log: RequestLog, bulk: Bulk) -> Mask:
    """Find rows that are far outside the bulk of a log, but inside it with their axes swapped.

    ``bulk`` is that of the whole log, around the medians of longitude and latitude (see
    ``docs/data-model.md``).
    """
    centre, reach = bulk
    swapped: Mask = _distance(log.x, log.y, centre) > FAR * reach
    swapped &= _distance(log.y, log.x, centre) <= reach
    return swapped


def find_null_island(log: RequestLog, bulk: Bulk) -> Mask:
    """Find rows at exactly 0, 0, if that is far outside the bulk of a log."""
    if max(map(abs, bulk.centre)) <= FAR * bulk.reach:
        return np.zeros(log.num_rows, np.bool_)
    at_zero: Mask = (log.x == 0) & (log.y == 0)
    return at_zero


def check_misplaced(log: ShardedLog) -> None:
    """Raise if longitude and latitude of some rows are swapped, or both 0."""
    swapped = may_be_swapped(log.facts)
    at_zero = may_be_at_zero(log.facts)
    if not (swapped or at_zero):
        return
    bulk = find_bulk(log)
    reasons = []
    if swapped and (found := log.find_rows(find_swapped, bulk)).count:
        reasons.append(
            f"{found} far from most others, and would be among them with "
            f"longitude and latitude swapped; expected one connected area; correct the rows, drop "
            f"them with --drop={SWAPPED}, or pass --region to keep them"
        )
    if at_zero and (found := log.find_rows(find_null_island, bulk)).count:
        reasons.append(
            f"{found} far from all others, at longitude and latitude 0; expected "
            f"one connected area; correct the rows, drop them with --drop={NULL_ISLAND}, or pass "
            f"--region to keep them"
        )
    Refusals(reasons).check()


def may_be_swapped(log: LogFacts) -> bool:
    """Whether any row could be in the bulk if it were swapped; a cheap check, from the bounds."""
    west, south, east, north = log.bounds
    extent = max(east - west, north - south, MIN_HALF)
    return log.geographic and max(west - north, south - east) <= REACH * extent


def may_be_at_zero(log: LogFacts) -> bool:
    """Whether a row could be at 0, 0."""
    west, south, east, north = log.bounds
    return log.geographic and west <= 0 <= east and south <= 0 <= north


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
    """Count rows by digits of a measure; see :func:`trajcloak.log.misplaced.count_digits`."""
    if isinstance(measure, tuple):
        return count_digits(_distance(log.x, log.y, measure), found, shift)
    return count_digits((log.x, log.y)[measure], found, shift)


def _distance(x: Floats, y: Floats, centre: tuple[float, float]) -> Floats:
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


def count_digits(
    values: npt.NDArray[np.float64], found: np.uint64, shift: int
) -> npt.NDArray[np.int64]:
    """Count the numbers whose word starts with the bits ``found``, by the digit at ``shift``.

    Requires: no NaN.
    """
    words = _to_words(values)
    if shift < 64 - DIGIT_BITS:
        above = np.uint64(shift + DIGIT_BITS)
        words = words[words >> above == found >> above]
    digits = (words >> np.uint64(shift)).astype(np.uint16)
    return np.bincount(digits, minlength=1 << DIGIT_BITS)


def _to_words(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Turn numbers into words that sort in the same order; 0 and -0 become the same word."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)
