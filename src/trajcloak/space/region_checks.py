"""Refuse places that are outside the region asked for, or far from all others."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.errors import InputError
from trajcloak.kernels.threads import run_sliced
from trajcloak.log import Bounds, RequestLog, ShardedLog, SomeRows
from trajcloak.options import MAX_COORDINATE
from trajcloak.space.region import Region

OUTLIER_BINS = 4096
OUTLIER_FACTOR = 64
OUTLIER_SHARE = 0.01
ROUNDING = 1e-9
Stretches: TypeAlias = dict[int, tuple[float, float]]
"""By axis: a stretch of it that holds all but a few rows."""


def check_reach(log: ShardedLog, bounds: Bounds) -> None:
    """Raise if a place is so far out that areas could not be summed in floating point."""
    if max(map(abs, bounds)) <= MAX_COORDINATE:
        return
    rows = SomeRows(log.ask(_find_beyond), log.facts.files)
    raise InputError(
        f"{rows} beyond {MAX_COORDINATE:g}; expected coordinates of a place; correct or remove the "
        f"rows, or leave them out with --clip"
    )


def _find_beyond(log: RequestLog) -> npt.NDArray[np.int64]:
    x, y = log.plane
    far = np.maximum(np.abs(x), np.abs(y)) > MAX_COORDINATE
    return log.number_rows(np.flatnonzero(far))


def check_inside(log: ShardedLog, bounds: Bounds, region: Region) -> None:
    """Raise unless every place is strictly inside a region that the caller chose."""
    right, top = region.x_min + region.side, region.y_min + region.side
    if (
        region.x_min < bounds[0]
        and region.y_min < bounds[1]
        and bounds[2] < right
        and bounds[3] < top
    ):
        return
    rows = SomeRows(log.ask(_find_outside, region), log.facts.files)
    unit = ", which is in metres from the middle of the log" if log.facts.geographic else ""
    raise InputError(
        f"{rows} outside the region{unit}; expected every location strictly inside it; correct or "
        f"remove them, leave them out with --clip, or pass a larger region"
    )


def _find_outside(log: RequestLog, region: Region) -> npt.NDArray[np.int64]:
    x, y = log.plane
    right, top = region.x_min + region.side, region.y_min + region.side
    outside = (x <= region.x_min) | (x >= right) | (y <= region.y_min) | (y >= top)
    return log.number_rows(np.flatnonzero(outside))


def check_outliers(log: ShardedLog, bounds: Bounds) -> None:
    """Raise if a few far rows make the region much larger than the other rows need.

    That is the case if 99% of the rows are within 1/64 of the extent of an axis, and the
    region would be that much smaller without the others. The order of rows does not matter.
    """
    if _extent(bounds) == 0:
        return
    counts = log.ask(count_places, bounds, log.engine.threads)
    stretches = {
        axis: stretch
        for axis in _list_long_axes(bounds)
        if (
            stretch := _find_stretch(
                np.sum([part[axis] for part in counts], axis=0), bounds[axis], bounds[2 + axis]
            )
        )
        is not None
    }
    if not stretches:
        return
    rows = SomeRows(files=log.facts.files)
    rest = []
    for far, near in log.ask(_find_far, stretches):
        rows.add(far)
        if near is not None:
            rest.append(near)
    if not rows.count:
        return
    lows, highs = np.min(rest, axis=0)[:2], np.max(rest, axis=0)[2:]
    # The bins' edges may be off by a rounding error.
    if float((highs - lows).max()) * (1 - ROUNDING) * OUTLIER_FACTOR > _extent(bounds):
        return
    raise InputError(
        f"{rows} far from all others and would blow the region up more than {OUTLIER_FACTOR} "
        f"times; expected one connected area; correct or remove them, leave them out with --clip, "
        f"or pass --region to keep them"
    )


def _extent(bounds: Bounds) -> float:
    return max(bounds[2] - bounds[0], bounds[3] - bounds[1])


def _list_long_axes(bounds: Bounds) -> list[int]:
    return [axis for axis in (0, 1) if bounds[2 + axis] - bounds[axis] >= _extent(bounds) / 2]


def count_places(log: RequestLog, bounds: Bounds, threads: int) -> dict[int, npt.NDArray[np.int64]]:
    """Count the places of a shard in equal bins of each long axis."""
    return {
        axis: _count_bins(log.plane[axis], bounds[axis], bounds[2 + axis] - bounds[axis], threads)
        for axis in _list_long_axes(bounds)
    }


def _find_far(log: RequestLog, stretches: Stretches) -> tuple[npt.NDArray[np.int64], Bounds | None]:
    """Number the rows outside the stretches, and bound the others; None: there are no others."""
    far = np.zeros(log.num_rows, np.bool_)
    for axis, (low, high) in stretches.items():
        far |= (log.plane[axis] < low) | (log.plane[axis] > high)
    numbers = log.number_rows(np.flatnonzero(far))
    if far.all():
        return numbers, None
    x, y = log.plane[0][~far], log.plane[1][~far]
    return numbers, (float(x.min()), float(y.min()), float(x.max()), float(y.max()))


def _find_stretch(
    counts: npt.NDArray[np.int64], low: float, high: float
) -> tuple[float, float] | None:
    """Find a stretch of an axis with all but a few rows; None if no stretch has."""
    total = int(counts.sum())
    reach = OUTLIER_BINS // OUTLIER_FACTOR
    inside = np.cumsum(np.concatenate([[0], counts]))
    held = inside[reach:] - inside[:-reach]
    if held.max() < (1 - OUTLIER_SHARE) * total or held.max() == total:
        return None
    first = int(held.argmax())
    width = (high - low) / OUTLIER_BINS
    return low + first * width, low + (first + reach) * width


def _count_bins(
    values: npt.NDArray[np.float64], low: float, extent: float, threads: int
) -> npt.NDArray[np.int64]:
    parts = run_sliced(
        lambda start, stop: _histogram(values[start:stop], low, extent), len(values), threads
    )
    counts: npt.NDArray[np.int64] = np.sum(parts, axis=0)
    return counts


@njit(cache=True, nogil=True)
def _histogram(values, low, extent):  # type: ignore[no-untyped-def]
    """Count values in OUTLIER_BINS equal bins of [low, low + extent]."""
    counts = np.zeros(OUTLIER_BINS, np.int64)
    scale = OUTLIER_BINS / extent
    for i in range(len(values)):
        place = np.int64((values[i] - low) * scale)
        counts[place if place < OUTLIER_BINS else OUTLIER_BINS - 1] += 1
    return counts
