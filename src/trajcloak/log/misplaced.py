"""Degrees that are wrong though in range: longitude and latitude swapped, or both 0."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError
from trajcloak.kernels.select import count_digits, select_value
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


class Bounded(Protocol):
    """What is asked of a log whose rows may be elsewhere."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""

    @property
    def geographic(self) -> bool:
        """Whether coordinates are degrees."""

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Least x and y, greatest x and y."""


Measure: TypeAlias = int | tuple[float, float]
"""What is measured of a row: a coordinate (0: x, 1: y), or how far it is from a centre."""

Find: TypeAlias = Callable[[RequestLog, Bulk], Mask]

CountParts: TypeAlias = Callable[[Measure, np.uint64, int], Iterable[npt.NDArray[np.int64]]]
"""Lists what :func:`count_measures` counts in each part of a log."""

FindParts: TypeAlias = Callable[[Find, Bulk], Iterable[npt.NDArray[np.int64]]]
"""Lists what :func:`number_found` finds in each part of a log."""


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
    judge_misplaced(
        log,
        lambda *wanted: (count_measures(part, *wanted) for part in log.parts()),
        lambda find, bulk: (number_found(part, find, bulk) for part in log.parts()),
    )


def judge_misplaced(log: Bounded, count_parts: CountParts, find_parts: FindParts) -> None:
    """Raise as :func:`check_misplaced` does, from what is found of each part of a log."""

    def find_rows(find: Find) -> SomeRows:
        return SomeRows(find_parts(find, _find_bulk(log.num_rows, count_parts)))

    swapped = find_rows(find_swapped) if may_be_swapped(log) else SomeRows()
    if swapped.count:
        raise InputError(
            f"{swapped} far from most others, and would be among them with "
            f"longitude and latitude swapped; expected one connected area; correct the rows, drop "
            f"them with --drop {SWAPPED}, or pass --region to keep them"
        )
    at_zero = find_rows(find_null_island) if may_be_at_zero(log) else SomeRows()
    if at_zero.count:
        raise InputError(
            f"{at_zero} far from all others, at longitude and latitude 0; expected "
            f"one connected area; correct the rows, drop them with --drop {NULL_ISLAND}, or pass "
            f"--region to keep them"
        )


def number_found(log: RequestLog, find: Find, bulk: Bulk) -> npt.NDArray[np.int64]:
    """Number the rows that are found in a part of a log with that bulk."""
    return log.number_rows(np.flatnonzero(find(log, bulk)))


def may_be_swapped(log: Bounded) -> bool:
    """Whether a row could be in the bulk if it were swapped; else there is nothing to compute."""
    west, south, east, north = log.bounds
    extent = max(east - west, north - south, MIN_HALF)
    return log.geographic and max(west - north, south - east) <= REACH * extent


def may_be_at_zero(log: Bounded) -> bool:
    """Whether a row could be at 0, 0."""
    west, south, east, north = log.bounds
    return log.geographic and west <= 0 <= east and south <= 0 <= north


def find_bulk(log: RequestLog) -> Bulk:
    """Find where most rows of a log are."""
    return _find_bulk(
        log.num_rows, lambda *wanted: (count_measures(part, *wanted) for part in log.parts())
    )


def _find_bulk(num_rows: int, count_parts: CountParts) -> Bulk:
    def find_median(measure: Measure) -> float:
        """Find the median; of an even number of values the lower one in the middle."""
        return select_value(partial(count_parts, measure), (num_rows - 1) // 2)

    centre = find_median(0), find_median(1)
    return Bulk(centre, REACH * max(find_median(centre), MIN_HALF))


def count_measures(
    log: RequestLog, measure: Measure, found: np.uint64, shift: int
) -> npt.NDArray[np.int64]:
    """Count rows by digits of a measure; see :func:`trajcloak.kernels.select.count_digits`."""
    if isinstance(measure, tuple):
        return count_digits(_distance(log.x, log.y, measure), found, shift)
    return count_digits((log.x, log.y)[measure], found, shift)


def _distance(x: Floats, y: Floats, centre: tuple[float, float]) -> Floats:
    """Compute how many degrees, on the axis where it is more, places are from the centre."""
    distance: Floats = np.maximum(np.abs(x - centre[0]), np.abs(y - centre[1]))
    return distance
