"""From coordinates to cells and back: projection, and the region, a square that holds a log."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyproj
from numba import njit

from trajcloak.errors import InputError, OptionError
from trajcloak.kernels.threads import build_slices, run_sliced
from trajcloak.log import Bounds, Change, RequestLog, ShardedLog, SomeRows
from trajcloak.log.sharded_log import bound_places, merge_bounds
from trajcloak.options import MAX_COORDINATE, MAX_HEIGHT, MIN_CELL_ULPS

PLANAR_HEIGHT = 16
CELL_METRES = 10.0
GRANULES = 1024  # corner and side of the region are multiples of about this part of the extent
OUTLIER_BINS = 4096
OUTLIER_FACTOR = 64
OUTLIER_SHARE = 0.01
ROUNDING = 1e-9
Mask = npt.NDArray[np.bool_]
Stretches: TypeAlias = dict[int, tuple[float, float]]
"""By axis: a stretch of it that holds all but a few rows."""

HALF_TURN = 180.0
CENTRE_DECIMALS = 2
PROJECTION_BLOCK = 1 << 18


@dataclass(frozen=True)
class Region:
    """A square, cut into ``2**height`` by ``2**height`` cells.

    Attributes
    ----------
    x_min, y_min
        Lower left corner.
    side
        Length of a side.
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

    def holds(self, x: Any, y: Any) -> Any:
        """Whether places are strictly inside."""
        is_between = (self.x_min < x) & (x < self.x_min + self.side)
        return is_between & (self.y_min < y) & (y < self.y_min + self.side)

    def edges(self, axis: int, cells: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
        """Compute the lower edge of cells on an axis (0: x, 1: y)."""
        low = (self.x_min, self.y_min)[axis]
        edges: npt.NDArray[np.float64] = low + cells.astype(np.float64) * self.cell
        return edges


def list_edges(region: Region, boxes: npt.NDArray[np.uint32]) -> list[npt.NDArray[np.float64]]:
    """Compute the edges of boxes of cells, (..., 4): least x and y, greatest x and y."""
    return [region.edges(side % 2, boxes[..., side]) for side in range(4)]


def fit_region(
    bounds: tuple[float, float, float, float], height: int | None, *, in_metres: bool
) -> Region:
    """Fit a square around a box, with the box strictly inside.

    Its corner and side are multiples of a granule, which is a power of two. So they reveal
    no exact coordinate of the log, and cell edges are exact floating-point numbers.

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
    """Raise if cells are so small that their edges could be exact coordinates of users."""
    corners = region.x_min, region.y_min, region.x_min + region.side, region.y_min + region.side
    if region.cell < MIN_CELL_ULPS * math.ulp(max(map(abs, corners))):
        raise OptionError(
            f"height is {region.height}, which makes cells smaller than coordinates can be told "
            f"apart; expected larger cells; pass a smaller --height, or move the log's origin"
        )


def check_size(region: Region) -> None:
    """Raise if the region is so large that areas could not be summed in floating point."""
    reach = max(abs(region.x_min), abs(region.y_min)) + region.side
    if not reach <= MAX_COORDINATE:
        raise InputError(
            f"the log or its region reaches beyond {MAX_COORDINATE:g}; expected coordinates of a "
            f"place; are they damaged? correct them, or pass another --region"
        )


@njit(cache=True, nogil=True, inline="always")
def find_cell(value, low, cell, num_cells):  # type: ignore[no-untyped-def]
    """Find the cell of a coordinate, so that it is within the cell's published edges.

    The division may round across an edge. The comparison with the edges, computed as
    in :meth:`Region.edges`, corrects that.
    """
    i = min(max(np.int64((value - low) / cell), 0), num_cells - 1)
    if low + i * cell > value:
        i -= 1
    elif low + (i + 1) * cell < value:
        i += 1
    return np.uint32(i)


def choose_region(
    log: ShardedLog,
    bounds: Bounds,
    *,
    height: int | None,
    region: Region | None,
    in_metres: bool,
) -> Region:
    """Fit the region to all places, or check that they are inside the region asked for.

    ``bounds`` are those of the log on the plane. Default of ``height``: the smallest with cells of
    at most 10 m; 16 where the unit of the plane is not known.
    """
    # PROJ answers infinity for a place that cannot be projected.
    if not max(map(abs, bounds)) <= MAX_COORDINATE:
        raise InputError(
            f"{log.find_rows(_find_beyond)} beyond {MAX_COORDINATE:g}; expected coordinates of a "
            f"place; correct or remove the rows, or leave them out with --clip"
        )
    if region is None:
        check_outliers(log, bounds)
        region = fit_region(bounds, height, in_metres=in_metres)
    else:
        check_inside(log, bounds, region)
    check_cells(region)
    check_size(region)
    return region


def _find_beyond(log: RequestLog) -> Mask:
    x, y = log.plane
    far: Mask = np.maximum(np.abs(x), np.abs(y)) > MAX_COORDINATE
    return far


def check_inside(log: ShardedLog, bounds: Bounds, region: Region) -> None:
    """Raise unless every place is strictly inside a region that the caller chose."""
    if region.holds(*bounds[:2]) and region.holds(*bounds[2:]):
        return
    rows = log.find_rows(_find_outside, region)
    unit = ", which is in metres from the middle of the log" if log.facts.geographic else ""
    raise InputError(
        f"{rows} outside the region{unit}; expected every location strictly inside it; correct or "
        f"remove them, leave them out with --clip, or pass a larger region"
    )


def _find_outside(log: RequestLog, region: Region) -> Mask:
    outside: Mask = ~region.holds(*log.plane)
    return outside


def check_outliers(log: ShardedLog, bounds: Bounds) -> None:
    """Raise if a few far rows make the region much larger than the other rows need.

    That is the case if 99% of the rows are within 1/64 of the extent of an axis, and the
    region would be that much smaller without the others. The order of rows does not matter.
    """
    extents = bounds[2] - bounds[0], bounds[3] - bounds[1]
    extent = max(extents)
    if extent == 0:
        return
    long = {a: (bounds[a], extents[a]) for a in (0, 1) if extents[a] >= extent / 2}
    counts = np.sum(log.ask(count_places, long, log.engine.threads), axis=0)
    stretches: Stretches = {}
    for (axis, ends), of_axis in zip(long.items(), counts, strict=True):
        stretch = _find_stretch(of_axis, *ends)
        if stretch is not None:
            stretches[axis] = stretch
    if not stretches:
        return
    rows = SomeRows(files=log.facts.files)
    rest = []
    for far, near in log.ask(_find_far, stretches):
        rows.add(far)
        if near is not None:
            rest.append(near)
    lows, highs = np.min(rest, axis=0)[:2], np.max(rest, axis=0)[2:]
    # The bins' edges may be off by a rounding error.
    if float((highs - lows).max()) * (1 - ROUNDING) * OUTLIER_FACTOR > extent:
        return
    raise InputError(
        f"{rows} far from all others and would blow the region up more than {OUTLIER_FACTOR} "
        f"times; expected one connected area; correct or remove them, leave them out with --clip, "
        f"or pass --region to keep them"
    )


def count_places(
    log: RequestLog, axes: Mapping[int, tuple[float, float]], threads: int
) -> list[npt.NDArray[np.int64]]:
    """Count the places of a shard in equal bins of axes, given by their least value and extent."""

    def count(values: npt.NDArray[np.float64], low: float, extent: float) -> Any:
        parts = run_sliced(lambda a, b: _histogram(values[a:b], low, extent), len(values), threads)
        return np.sum(parts, axis=0)

    return [count(log.plane[axis], *ends) for axis, ends in axes.items()]


def _find_far(log: RequestLog, stretches: Stretches) -> tuple[npt.NDArray[np.int64], Bounds | None]:
    """Number the rows outside the stretches, and bound the others; None: there are no others."""
    far = np.zeros(log.num_rows, np.bool_)
    for axis, (low, high) in stretches.items():
        far |= (log.plane[axis] < low) | (log.plane[axis] > high)
    numbers = log.number_rows(np.flatnonzero(far))
    if far.all():
        return numbers, None
    return numbers, bound_places(*(values[~far] for values in log.plane))


def _find_stretch(
    counts: npt.NDArray[np.int64], low: float, extent: float
) -> tuple[float, float] | None:
    """Find a stretch of an axis with all but a few rows; None if no stretch has."""
    total = int(counts.sum())
    reach = OUTLIER_BINS // OUTLIER_FACTOR
    inside = np.cumsum(np.concatenate([[0], counts]))
    held = inside[reach:] - inside[:-reach]
    if held.max() < (1 - OUTLIER_SHARE) * total or held.max() == total:
        return None
    first = int(held.argmax())
    width = extent / OUTLIER_BINS
    return low + first * width, low + (first + reach) * width


@njit(cache=True, nogil=True)
def _histogram(values, low, extent):  # type: ignore[no-untyped-def]
    """Count values in OUTLIER_BINS equal bins of [low, low + extent]."""
    counts = np.zeros(OUTLIER_BINS, np.int64)
    scale = OUTLIER_BINS / extent
    for i in range(len(values)):
        place = np.int64((values[i] - low) * scale)
        counts[place if place < OUTLIER_BINS else OUTLIER_BINS - 1] += 1
    return counts


def place_log(log: ShardedLog) -> tuple[ShardedLog, str | None, Bounds]:
    """Give the rows of a log planar coordinates; a planar log is used as it is.

    Returns the log, the coordinate system of the plane (None if it is not known), and the
    bounds on the plane.
    """
    facts = log.facts
    if not facts.geographic:
        return log, facts.crs, facts.bounds
    bounds, joins = _join_hemispheres(log)
    crs = choose_projection(bounds)
    placed = log.change(log.derive(_place_shard, crs, joins, log.engine.threads))
    return placed, crs, merge_bounds(placed.ask(_bound_plane))


def _place_shard(log: RequestLog, crs: str, joins: bool, threads: int) -> Change:
    lon = _continue_east(log.x) if joins else log.x
    x, y = np.empty_like(log.x), np.empty_like(log.y)

    def project(start: int, stop: int) -> None:
        # A transformer may be used by one thread only.
        transformer = pyproj.Transformer.from_crs(log.crs, crs, always_xy=True)
        for a, b in build_slices(stop - start, (stop - start) // PROJECTION_BLOCK + 1):
            part = slice(start + a, start + b)
            x[part], y[part] = transformer.transform(lon[part], log.y[part])

    run_sliced(project, log.num_rows, threads)
    return {"plane_x": x, "plane_y": y}


def _bound_plane(log: RequestLog) -> Bounds:
    return bound_places(*log.plane)


def _join_hemispheres(log: ShardedLog) -> tuple[Bounds, bool]:
    """Decide whether a log crosses the 180th meridian, so that longitudes continue beyond 180.

    Returns the bounds of the log in degrees, and whether it does.
    """
    west, south, east, north = log.facts.bounds
    if east - west <= HALF_TURN:
        return log.facts.bounds, False
    lows, highs = zip(*log.ask(_bound_east), strict=True)
    if max(highs) - min(lows) > HALF_TURN:
        return log.facts.bounds, False
    return (min(lows), south, max(highs), north), True


def _bound_east(log: RequestLog) -> tuple[float, float]:
    """Find a shard's least and greatest longitude, if longitudes continue beyond 180 degrees."""
    lon = _continue_east(log.x)
    return float(lon.min()), float(lon.max())


def _continue_east(lon: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Number the longitudes of the western hemisphere from 180 to 360."""
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
