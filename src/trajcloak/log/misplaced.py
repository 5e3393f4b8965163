"""Degrees that are wrong though in range: longitude and latitude swapped, or both 0."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError
from trajcloak.kernels.select import select_value
from trajcloak.log.request_log import RequestLog, SomeRows
from trajcloak.options import NULL_ISLAND, SWAPPED

REACH = 4
"""The bulk of a log reaches so many times as far as its nearer half."""

FAR = 2
"""What is so many times as far as the bulk reaches is outside of it."""

MIN_HALF = 0.01
"""Degrees: least distance that the nearer half of a log is taken to have."""

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class Bulk(NamedTuple):
    """Where most rows of a log are: around a place, and how far from it, in degrees."""

    centre: tuple[float, float]
    reach: float


def find_swapped(log: RequestLog, bulk: Bulk | None = None) -> Mask:
    """Tell which rows are far outside the bulk of a log, and inside with their axes swapped.

    The bulk is around the medians of longitude and latitude, as ``docs/data-model.md``
    says. The order of rows does not matter. ``bulk`` is that of the log which this is a part of.
    """
    if not may_be_swapped(log):
        return np.zeros(log.num_rows, np.bool_)
    centre, reach = bulk or find_bulk(log)
    is_far = _distance(log.x, log.y, centre) > FAR * reach
    return is_far & (_distance(log.y, log.x, centre) <= reach)


def find_null_island(log: RequestLog, bulk: Bulk | None = None) -> Mask:
    """Tell which rows are at exactly 0, 0, far outside the bulk of a log."""
    at_zero = np.zeros(log.num_rows, np.bool_)
    if may_be_at_zero(log):
        at_zero = (log.x == 0) & (log.y == 0)
    if at_zero.any():
        centre, reach = bulk or find_bulk(log)
        at_zero &= max(map(abs, centre)) > FAR * reach
    return at_zero


def check_misplaced(log: RequestLog) -> None:
    """Raise if longitude and latitude of some rows are swapped, or both 0."""
    swapped = _find_rows(log, find_swapped) if may_be_swapped(log) else SomeRows()
    if swapped.count:
        raise InputError(
            f"{swapped} far from most others, and would be among them with "
            f"longitude and latitude swapped; expected one connected area; correct the rows, drop "
            f"them with --drop {SWAPPED}, or pass --region to keep them"
        )
    at_zero = _find_rows(log, find_null_island) if may_be_at_zero(log) else SomeRows()
    if at_zero.count:
        raise InputError(
            f"{at_zero} far from all others, at longitude and latitude 0; expected "
            f"one connected area; correct the rows, drop them with --drop {NULL_ISLAND}, or pass "
            f"--region to keep them"
        )


def _find_rows(log: RequestLog, find: Callable[[RequestLog, Bulk], Mask]) -> SomeRows:
    bulk = find_bulk(log)
    rows = SomeRows()
    for part in log.parts():
        rows.add(part.number_rows(np.flatnonzero(find(part, bulk))))
    return rows


def may_be_swapped(log: RequestLog) -> bool:
    """Whether a row could be in the bulk if it were swapped; else there is nothing to compute."""
    west, south, east, north = log.bounds
    extent = max(east - west, north - south, MIN_HALF)
    return log.geographic and max(west - north, south - east) <= REACH * extent


def may_be_at_zero(log: RequestLog) -> bool:
    """Whether a row could be at 0, 0."""
    west, south, east, north = log.bounds
    return log.geographic and west <= 0 <= east and south <= 0 <= north


def find_bulk(log: RequestLog) -> Bulk:
    """Find where most rows of a log are."""
    centre = _find_median(log, lambda part: part.x), _find_median(log, lambda part: part.y)
    half = _find_median(log, lambda part: _distance(part.x, part.y, centre))
    return Bulk(centre, REACH * max(half, MIN_HALF))


def _find_median(log: RequestLog, values: Callable[[RequestLog], Floats]) -> float:
    """Find the median; of an even number of values the lower one in the middle."""
    return select_value(lambda: map(values, log.parts()), (log.num_rows - 1) // 2)


def _distance(x: Floats, y: Floats, centre: tuple[float, float]) -> Floats:
    """Compute how many degrees, on the axis where it is more, places are from the centre."""
    distance: Floats = np.maximum(np.abs(x - centre[0]), np.abs(y - centre[1]))
    return distance
