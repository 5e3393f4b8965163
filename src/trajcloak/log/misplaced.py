"""Degrees that are wrong though in range: longitude and latitude swapped, or both 0."""

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError
from trajcloak.log.request_log import RequestLog
from trajcloak.options import NULL_ISLAND, SWAPPED

REACH = 4
"""The bulk of a log reaches so many times as far as its nearer half."""

FAR = 2
"""What is so many times as far as the bulk reaches is outside of it."""

MIN_HALF = 0.01
"""Degrees: least distance that the nearer half of a log is taken to have."""

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def find_swapped(log: RequestLog) -> Mask:
    """Tell which rows are far outside the bulk of a log, and inside with their axes swapped.

    The bulk is around the medians of longitude and latitude, as ``docs/data-model.md``
    says. The order of rows does not matter.
    """
    if not log.geographic or not _may_be_swapped(log.bounds):
        return np.zeros(log.num_rows, np.bool_)
    centre, reach = _find_bulk(log)
    is_far = _distance(log.x, log.y, centre) > FAR * reach
    return is_far & (_distance(log.y, log.x, centre) <= reach)


def find_null_island(log: RequestLog) -> Mask:
    """Tell which rows are at exactly 0, 0, far outside the bulk of a log."""
    west, south, east, north = log.bounds
    at_zero = np.zeros(log.num_rows, np.bool_)
    if log.geographic and west <= 0 <= east and south <= 0 <= north:
        at_zero = (log.x == 0) & (log.y == 0)
    if at_zero.any():
        centre, reach = _find_bulk(log)
        at_zero &= max(map(abs, centre)) > FAR * reach
    return at_zero


def check_misplaced(log: RequestLog) -> None:
    """Raise if longitude and latitude of some rows are swapped, or both 0."""
    swapped = np.flatnonzero(find_swapped(log))
    if len(swapped):
        raise InputError(
            f"{log.name_rows(swapped)} far from most others, and would be among them with "
            f"longitude and latitude swapped; expected one connected area; correct the rows, drop "
            f"them with --drop {SWAPPED}, or pass --region to keep them"
        )
    at_zero = np.flatnonzero(find_null_island(log))
    if len(at_zero):
        raise InputError(
            f"{log.name_rows(at_zero)} far from all others, at longitude and latitude 0; expected "
            f"one connected area; correct the rows, drop them with --drop {NULL_ISLAND}, or pass "
            f"--region to keep them"
        )


def _may_be_swapped(bounds: tuple[float, float, float, float]) -> bool:
    """Whether a row could be in the bulk if it were swapped; else there is nothing to compute."""
    west, south, east, north = bounds
    extent = max(east - west, north - south, MIN_HALF)
    return max(west - north, south - east) <= REACH * extent


def _find_bulk(log: RequestLog) -> tuple[tuple[float, float], float]:
    centre = _find_median(log.x), _find_median(log.y)
    half = _find_median(_distance(log.x, log.y, centre))
    return centre, REACH * max(half, MIN_HALF)


def _find_median(values: Floats) -> float:
    """Find the median; of an even number of values the lower one in the middle."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])


def _distance(x: Floats, y: Floats, centre: tuple[float, float]) -> Floats:
    """Compute how many degrees, on the axis where it is more, places are from the centre."""
    distance: Floats = np.maximum(np.abs(x - centre[0]), np.abs(y - centre[1]))
    return distance
