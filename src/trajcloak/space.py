"""Projection, region and grid: from coordinates to cells and back."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyproj
from numba import njit

from trajcloak.errors import InputError, OptionError
from trajcloak.kernels.threads import build_slices, run_sliced
from trajcloak.log import RequestLog
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


Bounds: TypeAlias = tuple[float, float, float, float]
"""Least x and y, greatest x and y."""

Stretch: TypeAlias = tuple[int, float, float]
"""An axis, and the least and the greatest coordinate of a stretch of it."""


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
class Projected:
    """The plane that a log is laid on.

    Attributes
    ----------
    region : Region
    crs : str or None
        PROJ string of the projection; None for coordinates used as they are.
    """

    region: Region
    crs: str | None


@dataclass(frozen=True)
class Places(Projected):
    """Where the rows of a log are, in planar coordinates.

    Attributes
    ----------
    x, y : (rows,) float64
    """

    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]


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
    x, y, bounds, crs = log.x, log.y, log.bounds, log.crs
    if region is None:
        check_misplaced(log)
    if log.geographic:
        turned, bounds = join_hemispheres(bounds, lambda: bound_turned(log))
        crs = choose_projection(bounds)
        x, y, bounds = project(log, turned, crs, threads)
    check_reach(log, x, y, bounds)
    if region is None:
        check_outliers(log, x, y, bounds, threads)
        region = fit_region(bounds, height, in_metres=crs is not None)
    else:
        check_inside(log, x, y, bounds, region)
    check_cells(region)
    check_size(region)
    return Places(region, crs, x, y)


def check_height(height: int | None) -> None:
    """Raise if a height that is asked for cannot be used."""
    if height is not None and not 1 <= height <= MAX_HEIGHT:
        raise OptionError(f"height is {height}; expected 1..{MAX_HEIGHT}; pass another --height")


def join_hemispheres(
    bounds: Bounds, bound_turned: Callable[[], tuple[float, float]]
) -> tuple[bool, Bounds]:
    """Let the longitudes of a log that crosses the 180th meridian go on beyond it.

    Parameters
    ----------
    bounds
        Of the log.
    bound_turned
        Finds the least and the greatest longitude after that; asked only if need be.

    Returns
    -------
    turned : bool
        Whether western longitudes are taken as those beyond the 180th meridian.
    bounds
        Of the log after that.
    """
    west, south, east, north = bounds
    if east - west <= HALF_TURN:
        return False, bounds
    low, high = bound_turned()
    if high - low > HALF_TURN:
        return False, bounds
    return True, (low, south, high, north)


def bound_turned(log: RequestLog) -> tuple[float, float]:
    """Find the least and the greatest longitude beyond the 180th meridian."""
    lon = _turn(log.x)
    return float(lon.min()), float(lon.max())


def _turn(lon: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(lon < 0, lon + 2 * HALF_TURN, lon)


def choose_projection(bounds: Bounds) -> str:
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


def project(
    log: RequestLog, turned: bool, crs: str, threads: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], Bounds]:
    """Project the places of a log; returns them and their bounds.

    ``turned`` is as :func:`join_hemispheres` returns it.
    """
    lon = _turn(log.x) if turned else log.x
    x = np.empty_like(log.x)
    y = np.empty_like(log.y)

    def project(start: int, stop: int) -> None:
        # A transformer belongs to one thread.
        transformer = pyproj.Transformer.from_crs(log.crs, crs, always_xy=True)
        for a, b in build_slices(stop - start, (stop - start) // PROJECTION_BLOCK + 1):
            part = slice(start + a, start + b)
            x[part], y[part] = transformer.transform(lon[part], log.y[part])

    run_sliced(project, log.num_rows, threads)
    bounds = float(x.min()), float(y.min()), float(x.max()), float(y.max())
    if not all(map(math.isfinite, bounds)):
        row = int(np.argmin(np.isfinite(x) & np.isfinite(y)))
        raise InputError(
            f"row {log.number_rows(np.array(row))}: the place cannot be projected; expected an "
            f"area on one half of the globe; correct or remove the row"
        )
    return x, y, bounds


def fit_region(bounds: Bounds, height: int | None, *, in_metres: bool) -> Region:
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


def check_reach(
    log: RequestLog,
    x: npt.NDArray[np.float64],
    y: npt.NDArray[np.float64],
    bounds: tuple[float, float, float, float],
) -> None:
    """Raise if a place is so far out that areas could not be added up in floating point."""
    if max(map(abs, bounds)) > MAX_COORDINATE:
        far = np.maximum(np.abs(x), np.abs(y)) > MAX_COORDINATE
        raise InputError(
            f"{log.name_rows(np.flatnonzero(far))} beyond {MAX_COORDINATE:g}; expected coordinates "
            f"of a place; correct or remove the rows, or leave them out with --clip"
        )


def check_size(region: Region) -> None:
    """Raise if areas of the region could not be added up in floating point."""
    reach = max(abs(region.x_min), abs(region.y_min)) + region.side
    if not reach <= MAX_COORDINATE:
        raise InputError(
            f"the log or its region reaches beyond {MAX_COORDINATE:g}; expected coordinates of a "
            f"place; are they damaged? correct them, or pass another --region"
        )


def check_inside(
    log: RequestLog,
    x: npt.NDArray[np.float64],
    y: npt.NDArray[np.float64],
    bounds: Bounds,
    region: Region,
) -> None:
    """Raise unless every place is strictly inside a region that the caller chose."""
    right, top = region.x_min + region.side, region.y_min + region.side
    if (
        region.x_min < bounds[0]
        and region.y_min < bounds[1]
        and bounds[2] < right
        and bounds[3] < top
    ):
        return
    outside = (x <= region.x_min) | (x >= right) | (y <= region.y_min) | (y >= top)
    raise InputError(
        f"{log.name_rows(np.flatnonzero(outside))} outside the region; expected every "
        f"location strictly inside it; correct or remove them, leave them out with --clip, or "
        f"pass a larger region"
    )


def check_outliers(
    log: RequestLog,
    x: npt.NDArray[np.float64],
    y: npt.NDArray[np.float64],
    bounds: Bounds,
    threads: int,
) -> None:
    """Raise if a few far rows blow the region up.

    That is, if all but 1% of the rows lie in a stretch of 1/64 of the extent of
    an axis, and the region of the others would be as much smaller. The order of
    rows does not matter.
    """
    stretches = find_crowded(
        bounds, len(x), lambda axis: count_bins((x, y)[axis], axis, bounds, threads)
    )
    far = find_far(x, y, stretches)
    if far.any():
        rest = max(float(np.ptp(values[~far])) for values in (x, y))
        check_far(log.name_rows(np.flatnonzero(far)), rest, bounds)


def find_crowded(
    bounds: Bounds, num_rows: int, count: Callable[[int], npt.NDArray[np.int64]]
) -> list[Stretch]:
    """Find, on each long axis, a short stretch that holds all but a few rows.

    ``count`` counts the rows in even bins of an axis, as :func:`count_bins`.
    """
    stretches = []
    extent = _extent(bounds)
    for axis in (0, 1):
        low, high = bounds[axis], bounds[2 + axis]
        if extent == 0 or high - low < extent / 2:
            continue
        reach = OUTLIER_BINS // OUTLIER_FACTOR
        inside = np.cumsum(np.concatenate([[0], count(axis)]))
        held = inside[reach:] - inside[:-reach]
        if held.max() < (1 - OUTLIER_SHARE) * num_rows or held.max() == num_rows:
            continue
        first = int(held.argmax())
        width = (high - low) / OUTLIER_BINS
        stretches.append((axis, low + first * width, low + (first + reach) * width))
    return stretches


def find_far(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], stretches: list[Stretch]
) -> npt.NDArray[np.bool_]:
    """Tell which places are outside a crowded stretch."""
    far = np.zeros(len(x), np.bool_)
    for axis, low, high in stretches:
        values = (x, y)[axis]
        far |= (values < low) | (values > high)
    return far


def check_far(rows: str, rest: float, bounds: Bounds) -> None:
    """Raise if far rows, named by ``rows``, blow up what would have the extent ``rest``."""
    # Bins and edges may differ by a rounding error.
    if rest * (1 - ROUNDING) * OUTLIER_FACTOR > _extent(bounds):
        return
    raise InputError(
        f"{rows} far from all others and would blow the region up more than {OUTLIER_FACTOR} "
        f"times; expected one connected area; correct or remove them, leave them out with --clip, "
        f"or pass --region to keep them"
    )


def _extent(bounds: Bounds) -> float:
    return max(bounds[2] - bounds[0], bounds[3] - bounds[1])


def count_bins(
    values: npt.NDArray[np.float64], axis: int, bounds: Bounds, threads: int
) -> npt.NDArray[np.int64]:
    """Count coordinates in even bins of an axis."""
    low, extent = bounds[axis], bounds[2 + axis] - bounds[axis]
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
