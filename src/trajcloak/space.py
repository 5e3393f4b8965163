"""Projection, region and grid: from coordinates to cells and back."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyproj
from numba import njit

from trajcloak.errors import InputError, OptionError
from trajcloak.kernels.threads import build_slices, run_sliced
from trajcloak.log import RequestLog, SomeRows
from trajcloak.log.misplaced import check_misplaced

MAX_HEIGHT = 24
PLANAR_HEIGHT = 16
CELL_METRES = 10.0
MIN_CELL_ULPS = 4
"""A cell is at least so many floating-point numbers wide, so that its edges differ."""

MAX_COORDINATE = 1e100
HALF_TURN = 180.0
CENTRE_DECIMALS = 2
GRANULES = 1024
"""The region's corner and side are multiples of about a thousandth of the log's extent."""

OUTLIER_BINS = 4096
OUTLIER_FACTOR = 64
OUTLIER_SHARE = 0.01
ROUNDING = 1e-9
PROJECTION_BLOCK = 1 << 18


@dataclass(frozen=True)
class Region:
    """A square, cut into ``2**height`` by ``2**height`` cells.

    Attributes
    ----------
    x_min, y_min
        Lower left corner.
    side
        Length of its sides.
    height
        The side has ``2**height`` cells.
    """

    x_min: float
    y_min: float
    side: float
    height: int

    @property
    def cell(self) -> float:
        """Side of a cell."""
        return math.ldexp(self.side, -self.height)

    def edges(self, axis: int, cells: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
        """Compute the lower edge of cells on an axis (0: x, 1: y)."""
        low = (self.x_min, self.y_min)[axis]
        edges: npt.NDArray[np.float64] = low + cells.astype(np.float64) * self.cell
        return edges


@dataclass(frozen=True)
class Places:
    """Where the rows of a log are, in planar coordinates.

    Attributes
    ----------
    x, y : (rows,) float64
    region : Region
    crs : str or None
        PROJ string of the projection; None for coordinates used as they are.
    """

    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    region: Region
    crs: str | None


def build_places(
    log: RequestLog, *, height: int | None, region: Region | None, threads: int
) -> Places:
    """Project a log if need be, and lay the grid over it.

    Parameters
    ----------
    log : RequestLog
    height : int, optional
        Default: the smallest with cells of at most 10 m; 16 for planar logs.
    region : Region, optional
        A square to use instead of one fitted to the log.
    threads : int
    """
    check_height(height)
    projection = find_projection(log, is_fitted=region is None)
    x, y = projection.place(log, threads)
    region = choose_region(lambda: iter([(log, x, y)]), projection, height, region, threads)
    return Places(x, y, region, projection.crs)


def check_height(height: int | None) -> None:
    """Raise if a height that is asked for cannot be used."""
    if height is not None and not 1 <= height <= MAX_HEIGHT:
        raise OptionError(f"height is {height}; expected 1..{MAX_HEIGHT}; pass another --height")


Bounds: TypeAlias = tuple[float, float, float, float]
"""Least x and y, greatest x and y."""

Stretches: TypeAlias = dict[int, tuple[float, float]]
"""Of some axes: a stretch that holds all but a few rows."""

FindRows: TypeAlias = Callable[[], Iterable[npt.NDArray[np.int64]]]
"""Lists the numbers of rows that are found in each part of a log."""

PlacedParts: TypeAlias = Callable[
    [], Iterator[tuple[RequestLog, npt.NDArray[np.float64], npt.NDArray[np.float64]]]
]
"""Yields the parts of a log, each with the planar coordinates of its rows."""


@dataclass(frozen=True)
class Projection:
    """How the coordinates of a log become planar ones.

    Attributes
    ----------
    crs : str or None
        Of the planar coordinates; None if it is not known.
    bounds : (float, float, float, float) or None
        Of the planar coordinates, if they are those of the log itself.
    joins : bool
        Whether longitudes go on beyond the 180th meridian.
    """

    crs: str | None
    bounds: tuple[float, float, float, float] | None
    joins: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether planar coordinates are others than those of the log."""
        return self.bounds is None

    def place(
        self, log: RequestLog, threads: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Compute the planar coordinates of all rows of a log, or of a part of it."""
        if not self.is_needed:
            return log.x, log.y
        lon = _continue_east(log.x) if self.joins else log.x
        return _project(log, lon, str(self.crs), threads)


def find_projection(log: RequestLog, *, is_fitted: bool) -> Projection:
    """Choose how to project a log, or to take its coordinates as they are.

    ``is_fitted``: whether the region is to be fitted to them, so that they had better be right.
    """
    if is_fitted:
        check_misplaced(log)
    if not log.geographic:
        return Projection(log.crs, log.bounds)
    bounds, joins = join_hemispheres(log)
    return Projection(choose_projection(bounds), None, joins)


def choose_region(
    placed: PlacedParts,
    projection: Projection,
    height: int | None,
    region: Region | None,
    threads: int,
) -> Region:
    """Fit the region to all places, or check that they are inside the one asked for."""
    bounds = projection.bounds
    if bounds is None:
        parts = [(x.min(), y.min(), x.max(), y.max()) for _, x, y in placed()]
        low, high = np.min(parts, axis=0), np.max(parts, axis=0)
        bounds = float(low[0]), float(low[1]), float(high[2]), float(high[3])
    check_reach(placed, bounds)
    if region is None:
        check_outliers(placed, bounds, threads)
        region = fit_region(bounds, height, in_metres=projection.crs is not None)
    else:
        check_inside(placed, bounds, region)
    check_cells(region)
    check_size(region)
    return region


def join_hemispheres(log: RequestLog) -> tuple[tuple[float, float, float, float], bool]:
    """Let the longitudes of a log that crosses the 180th meridian go on beyond it.

    Returns the bounds of the log, and whether it is so.
    """
    return join_bounds(log.bounds, lambda: [bound_east(part) for part in log.parts()])


def join_bounds(
    bounds: Bounds, bound_parts: Callable[[], Sequence[tuple[float, float]]]
) -> tuple[Bounds, bool]:
    """Join hemispheres by the bounds of a log, and those of its parts if need be.

    ``bound_parts`` lists what :func:`bound_east` finds of each part.
    """
    west, south, east, north = bounds
    if east - west <= HALF_TURN:
        return bounds, False
    lows, highs = zip(*bound_parts(), strict=True)
    if max(highs) - min(lows) > HALF_TURN:
        return bounds, False
    return (min(lows), south, max(highs), north), True


def bound_east(log: RequestLog) -> tuple[float, float]:
    """Find the least and the greatest longitude of a log if it goes on beyond 180 degrees."""
    lon = _continue_east(log.x)
    return float(lon.min()), float(lon.max())


def _continue_east(lon: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Number the longitudes of the western hemisphere from 180 to 360."""
    return np.where(lon < 0, lon + 2 * HALF_TURN, lon)


def choose_projection(bounds: tuple[float, float, float, float]) -> str:
    """Choose the equal-area projection centred on a longitude-latitude box."""
    west, south, east, north = bounds
    if east - west > HALF_TURN:
        raise InputError(
            "the log spans more than 180 degrees of longitude, also across the 180th meridian; "
            "expected an area on one half of the globe; leave rows out with --clip, or publish "
            "two logs"
        )
    lon = round((west + east) / 2, CENTRE_DECIMALS)
    lat = round((south + north) / 2, CENTRE_DECIMALS)
    return f"+proj=laea +lat_0={lat} +lon_0={lon} +datum=WGS84 +units=m +no_defs"


def _project(
    log: RequestLog, lon: npt.NDArray[np.float64], crs: str, threads: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    x = np.empty_like(log.x)
    y = np.empty_like(log.y)

    def project(start: int, stop: int) -> None:
        # A transformer belongs to one thread.
        transformer = pyproj.Transformer.from_crs(log.crs, crs, always_xy=True)
        for a, b in build_slices(stop - start, (stop - start) // PROJECTION_BLOCK + 1):
            part = slice(start + a, start + b)
            x[part], y[part] = transformer.transform(lon[part], log.y[part])

    run_sliced(project, log.num_rows, threads)
    if not all(map(math.isfinite, (x.min(), y.min(), x.max(), y.max()))):
        row = int(np.argmin(np.isfinite(x) & np.isfinite(y)))
        raise InputError(
            f"row {log.number_rows(np.array(row))}: the place cannot be projected; expected an "
            f"area on one half of the globe; correct or remove the row"
        )
    return x, y


def fit_region(
    bounds: tuple[float, float, float, float], height: int | None, *, in_metres: bool
) -> Region:
    """Fit a square around a box, with the box strictly inside.

    Its corner and side are whole numbers of granules, a power of two, so that no
    exact coordinate shows in them and cell edges are exact floating-point numbers.

    Examples
    --------
    >>> fit_region((3.0, 4.0, 9.0, 6.0), 4, in_metres=False)
    Region(x_min=2.99609375, y_min=3.99609375, side=6.0078125, height=4)
    """
    x_min, y_min, x_max, y_max = bounds
    magnitude = max(map(abs, bounds))
    check_size(Region(x_min, y_min, 2 * magnitude, 1))
    extent = max(x_max - x_min, y_max - y_min)
    smallest = max(CELL_METRES if in_metres else 1.0, magnitude * 2.0**-30)
    granule = 2.0 ** math.floor(math.log2(max(extent, smallest))) / GRANULES
    left = (math.ceil(x_min / granule) - 1) * granule
    bottom = (math.ceil(y_min / granule) - 1) * granule
    reach = max(x_max - left, y_max - bottom, smallest)
    side = (math.floor(reach / granule) + 1) * granule
    height = default_height(side, in_metres=in_metres) if height is None else height
    return Region(left, bottom, side, height)


def default_height(side: float, *, in_metres: bool) -> int:
    """Choose the smallest height with cells of at most 10 m; 16 where there is no unit."""
    if not in_metres:
        return PLANAR_HEIGHT
    return min(max(1, math.ceil(math.log2(side / CELL_METRES))), MAX_HEIGHT)


def check_cells(region: Region) -> None:
    """Raise if cells are so small that their edges could be exact coordinates."""
    corners = region.x_min, region.y_min, region.x_min + region.side, region.y_min + region.side
    if region.cell < MIN_CELL_ULPS * math.ulp(max(map(abs, corners))):
        raise OptionError(
            f"height is {region.height}, which makes cells smaller than coordinates can be told "
            f"apart; expected larger cells; pass a smaller --height, or move the log's origin"
        )


def check_reach(placed: PlacedParts, bounds: tuple[float, float, float, float]) -> None:
    """Raise if a place is so far out that areas could not be added up in floating point."""
    judge_reach(bounds, lambda: (find_beyond(*part) for part in placed()))


def judge_reach(bounds: Bounds, find_parts: FindRows) -> None:
    """Raise as :func:`check_reach` does, from what :func:`find_beyond` finds of each part."""
    if max(map(abs, bounds)) <= MAX_COORDINATE:
        return
    rows = SomeRows()
    for numbers in find_parts():
        rows.add(numbers)
    raise InputError(
        f"{rows} beyond {MAX_COORDINATE:g}; expected coordinates of a place; correct or remove "
        f"the rows, or leave them out with --clip"
    )


def find_beyond(
    log: RequestLog, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Number the rows that are too far out."""
    far = np.maximum(np.abs(x), np.abs(y)) > MAX_COORDINATE
    return log.number_rows(np.flatnonzero(far))


def check_size(region: Region) -> None:
    """Raise if areas of the region could not be added up in floating point."""
    reach = max(abs(region.x_min), abs(region.y_min)) + region.side
    if not reach <= MAX_COORDINATE:
        raise InputError(
            f"the log or its region reaches beyond {MAX_COORDINATE:g}; expected coordinates of a "
            f"place; are they damaged? correct them, or pass another --region"
        )


def check_inside(
    placed: PlacedParts, bounds: tuple[float, float, float, float], region: Region
) -> None:
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
    rows = SomeRows()
    for numbers in find_parts():
        rows.add(numbers)
    raise InputError(
        f"{rows} outside the region; expected every location strictly inside it; correct or "
        f"remove them, leave them out with --clip, or pass a larger region"
    )


def find_outside(
    log: RequestLog, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], region: Region
) -> npt.NDArray[np.int64]:
    """Number the rows that are not strictly inside a region."""
    right, top = region.x_min + region.side, region.y_min + region.side
    outside = (x <= region.x_min) | (x >= right) | (y <= region.y_min) | (y >= top)
    return log.number_rows(np.flatnonzero(outside))


def check_outliers(
    placed: PlacedParts, bounds: tuple[float, float, float, float], threads: int
) -> None:
    """Raise if a few far rows blow the region up.

    That is, if all but 1% of the rows lie in a stretch of 1/64 of the extent of
    an axis, and the region of the others would be as much smaller. The order of
    rows does not matter.
    """
    judge_outliers(
        bounds,
        lambda: [count_places(x, y, bounds, threads) for _, x, y in placed()],
        lambda stretches: [find_far(log, x, y, stretches) for log, x, y in placed()],
    )


def judge_outliers(
    bounds: Bounds,
    count_parts: Callable[[], Sequence[dict[int, npt.NDArray[np.int64]]]],
    find_parts: Callable[[Stretches], Sequence[tuple[npt.NDArray[np.int64], Bounds | None]]],
) -> None:
    """Raise as :func:`check_outliers` does, from what is found of each part of a log.

    ``count_parts`` lists what :func:`count_places` counts of the parts, ``find_parts`` what
    :func:`find_far` finds of them.
    """
    if _extent(bounds) == 0:
        return
    counts = count_parts()
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
    rows = SomeRows()
    rest = []
    for far, near in find_parts(stretches):
        rows.add(far)
        if near is not None:
            rest.append(near)
    if not rows.count:
        return
    lows, highs = np.min(rest, axis=0)[:2], np.max(rest, axis=0)[2:]
    # Bins and edges may differ by a rounding error.
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


def count_places(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], bounds: Bounds, threads: int
) -> dict[int, npt.NDArray[np.int64]]:
    """Count places in even bins of each long axis."""
    return {
        axis: _count_bins((x, y)[axis], bounds[axis], bounds[2 + axis] - bounds[axis], threads)
        for axis in _list_long_axes(bounds)
    }


def find_far(
    log: RequestLog,
    x: npt.NDArray[np.float64],
    y: npt.NDArray[np.float64],
    stretches: Stretches,
) -> tuple[npt.NDArray[np.int64], Bounds | None]:
    """Number the rows outside crowded stretches, and bound the others; None: there are none."""
    far = np.zeros(log.num_rows, np.bool_)
    for axis, (low, high) in stretches.items():
        far |= ((x, y)[axis] < low) | ((x, y)[axis] > high)
    numbers = log.number_rows(np.flatnonzero(far))
    if far.all():
        return numbers, None
    x, y = x[~far], y[~far]
    return numbers, (float(x.min()), float(y.min()), float(x.max()), float(y.max()))


def _find_stretch(
    counts: npt.NDArray[np.int64], low: float, high: float
) -> tuple[float, float] | None:
    """Find the stretch of an axis with all but a few rows; None if there is none."""
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
    """Count values in OUTLIER_BINS even bins of [low, low + extent]."""
    counts = np.zeros(OUTLIER_BINS, np.int64)
    scale = OUTLIER_BINS / extent
    for i in range(len(values)):
        place = np.int64((values[i] - low) * scale)
        counts[place if place < OUTLIER_BINS else OUTLIER_BINS - 1] += 1
    return counts


@njit(cache=True, nogil=True, inline="always")
def find_cell(value, low, cell, num_cells):  # type: ignore[no-untyped-def]
    """Find the cell of a coordinate, such that the cell's published edges hold it.

    The division may round across an edge; the comparison with the edges, computed
    as :meth:`Region.edges` does, undoes that.
    """
    i = min(max(np.int64((value - low) / cell), 0), num_cells - 1)
    if low + i * cell > value:
        i -= 1
    elif low + (i + 1) * cell < value:
        i += 1
    return np.uint32(i)
