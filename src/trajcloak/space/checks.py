"""Places that are too far out, or outside the region asked for.

Each check is made of parts of a log, which may be in memory, on disk or on several workers:
a ``find`` function for one part, and a ``judge`` that raises from what was found of all.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError
from trajcloak.log import RequestLog, SomeRows
from trajcloak.space.region import MAX_COORDINATE, Bounds, Region

FindRows: TypeAlias = Callable[[], Iterable[npt.NDArray[np.int64]]]
"""Lists the numbers of rows that are found in each part of a log."""

PlacedParts: TypeAlias = Callable[
    [], Iterator[tuple[RequestLog, npt.NDArray[np.float64], npt.NDArray[np.float64]]]
]
"""Yields the parts of a log, each with the planar coordinates of its rows."""


def check_reach(placed: PlacedParts, bounds: Bounds) -> None:
    """Raise if a place is so far out that areas could not be added up in floating point."""
    judge_reach(bounds, lambda: (find_beyond(*part) for part in placed()))


def judge_reach(bounds: Bounds, find_parts: FindRows) -> None:
    """Raise as :func:`check_reach` does, from what :func:`find_beyond` finds of each part."""
    if max(map(abs, bounds)) <= MAX_COORDINATE:
        return
    raise InputError(
        f"{SomeRows(find_parts())} beyond {MAX_COORDINATE:g}; expected coordinates of a place; "
        f"correct or remove the rows, or leave them out with --clip"
    )


def find_beyond(
    log: RequestLog, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Number the rows that are too far out."""
    far = np.maximum(np.abs(x), np.abs(y)) > MAX_COORDINATE
    return log.number_rows(np.flatnonzero(far))


def check_inside(placed: PlacedParts, bounds: Bounds, region: Region) -> None:
    """Raise unless every place is strictly inside a region that the caller chose."""
    judge_inside(bounds, region, lambda: (find_outside(*part, region) for part in placed()))


def judge_inside(bounds: Bounds, region: Region, find_parts: FindRows) -> None:
    """Raise as :func:`check_inside` does, from what :func:`find_outside` finds of each part."""
    right, top = region.x_min + region.side, region.y_min + region.side
    if (
        region.x_min < bounds[0]
        and region.y_min < bounds[1]
        and bounds[2] < right
        and bounds[3] < top
    ):
        return
    raise InputError(
        f"{SomeRows(find_parts())} outside the region; expected every location strictly inside "
        f"it; correct or remove them, leave them out with --clip, or pass a larger region"
    )


def find_outside(
    log: RequestLog, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], region: Region
) -> npt.NDArray[np.int64]:
    """Number the rows that are not strictly inside a region."""
    right, top = region.x_min + region.side, region.y_min + region.side
    outside = (x <= region.x_min) | (x >= right) | (y <= region.y_min) | (y >= top)
    return log.number_rows(np.flatnonzero(outside))
