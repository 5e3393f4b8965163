"""The embedded city as a network; nothing is downloaded.

Each district has a grid of streets; they are connected where districts meet, and by motorways.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trajcloak.generator.city_plan import (
    COASTS,
    DISTRICTS,
    HILLS,
    HUBS,
    MOTORWAYS,
    SIDE,
    District,
    build_coast,
    crosses_water,
    on_land,
)
from trajcloak.generator.network import Network, build_network
from trajcloak.kernels.splitmix import GAMMA, key_of, scramble

ARTERIAL, COLLECTOR, LOCAL = 2, 3, 4
"""The road classes of streets."""

BLOCK_SHAPE = 1.5
"""How much longer than wide a block is."""

_ARTERIAL_STEP = 10
_COLLECTOR_STEP = 5
_JITTER = 0.11
_GAP_SHARE = 0.13
_RASTER = 256
_CENTRES = np.array([(10 * district.x, 10 * district.y) for district in DISTRICTS], np.int64)

JUNCTIONS = 20_000
"""How many junctions the city has unless another number is asked for."""

FEWEST_JUNCTIONS = 2_000
MOST_JUNCTIONS = 100_000
_FIRST_UNIT = 6_000
MOTORWAY, RAMP = 0, 1
"""The road classes of motorways and their exits."""

_STEP = 4_500
_EXIT_STEP = 4
_EXIT_REACH = 12_000


class JunctionRaster(NamedTuple):
    """Junctions by cell, to find the nearest one."""

    x: NDArray[np.int64]  # (junctions,): decimetres.
    y: NDArray[np.int64]
    cell: int  # The side of a cell.
    cells: int  # The number of cells of a row.
    starts: NDArray[np.int64]  # (cells + 1,): where the junctions of each cell begin in ``order``.
    order: NDArray[np.int64]  # (junctions,): the junctions, cell by cell.


class _Grid(NamedTuple):
    """The junctions of a district: row, column and place."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    x: NDArray[np.int64]
    y: NDArray[np.int64]


def build_streets(coast: NDArray[np.int64], unit: float) -> tuple[JunctionRaster, Any, Any]:
    """Lay streets over the land, except hills.

    ``unit`` is the distance between streets in a district of spacing 1, in decimetres. Returns the
    junctions, those at the ends of each street, (streets, 2), and the streets' classes.
    """
    grids = _build_grids(coast, unit)
    sizes = [grid.x.size for grid in grids]
    firsts = np.cumsum([0, *sizes[:-1]])
    x, y = (np.concatenate([getattr(grid, name) for grid in grids]) for name in "xy")
    raster = build_raster(x, y, unit)
    pieces = [_connect(grid, number) for number, grid in enumerate(grids)]
    # Where districts meet, junctions are connected to the nearest one of another, if it is near.
    reach = np.array([district.spacing for district in DISTRICTS]) * unit * BLOCK_SHAPE
    district = np.repeat(np.arange(len(grids)), sizes)
    others = nearest_junction(raster, x, y, reach.astype(np.int64)[district], district)
    seams = np.stack([np.arange(others.size), others], axis=1)[others >= 0]
    seams = np.unique(np.sort(seams, axis=1), axis=0)
    inner = [ends + first for first, (ends, _) in zip(firsts, pieces, strict=True)]
    ends = np.concatenate([*inner, seams])
    seam_classes = np.full(len(seams), COLLECTOR, np.int8)
    classes = np.concatenate([*(classes for _, classes in pieces), seam_classes])
    is_dry = ~crosses_water(x, y, ends, coast)
    return raster, ends[is_dry], classes[is_dry]


def _build_grids(coast: NDArray[np.int64], unit: float) -> list[_Grid]:
    """Lay the grid of each district."""
    return [
        _build_grid(number, district, radius, unit, coast)
        for number, (district, radius) in enumerate(zip(DISTRICTS, _radii(), strict=True))
    ]


@njit(cache=True, nogil=True)
def _nearest_centre(x: Any, y: Any, centres: Any) -> Any:
    """Number, for each point, the district with the nearest centre."""
    nearest = np.zeros(x.size, np.int64)
    for point in range(x.size):
        best = np.int64(1) << 62
        for centre in range(centres.shape[0]):
            dx, dy = x[point] - centres[centre, 0], y[point] - centres[centre, 1]
            if dx * dx + dy * dy < best:
                best = dx * dx + dy * dy
                nearest[point] = centre
    return nearest


def _radii() -> list[float]:
    """Return how far each district reaches from its centre, from a coarse raster."""
    step = 10 * SIDE // _RASTER
    axis = np.arange(_RASTER) * step + step // 2
    x, y = (values.ravel() for values in np.meshgrid(axis, axis))
    district = _nearest_centre(x, y, _CENTRES)
    dx, dy = x - _CENTRES[district, 0], y - _CENTRES[district, 1]
    radii = np.zeros(len(DISTRICTS))
    np.maximum.at(radii, district, np.sqrt((dx * dx + dy * dy).astype(np.float64)) + step)
    return radii.tolist()


def _build_grid(
    number: int, district: District, radius: float, unit: float, coast: NDArray[np.int64]
) -> _Grid:
    """Lay the grid of a district, each junction a little beside its place."""
    across, along = unit * district.spacing, unit * district.spacing * BLOCK_SHAPE
    reach = (int(radius // across) + 1, int(radius // along) + 1)
    row, column = (
        axis.ravel() for axis in np.meshgrid(*(np.arange(-n, n + 1) for n in reach), indexing="ij")
    )
    key = key_of(number, "junctions")
    drawn = scramble(key + GAMMA * _counter(row, column))
    jitters = [
        (((drawn >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.float64) / (1 << 15) - 1)
        * _JITTER
        for shift in (0, 16)
    ]
    u, v = (row + jitters[0]) * across, (column + jitters[1]) * along
    sine, cosine, whole = (float(part) for part in district.turn)
    x = np.rint(10 * district.x + (u * cosine - v * sine) / whole).astype(np.int64)
    y = np.rint(10 * district.y + (u * sine + v * cosine) / whole).astype(np.int64)
    grid = _Grid(row, column, x, y)
    for is_inside in (
        _on_map,
        lambda x, y: _nearest_centre(x, y, _CENTRES) == number,
        _off_hills,
        lambda x, y: on_land(x, y, coast),
    ):
        kept = np.flatnonzero(is_inside(grid.x, grid.y))
        grid = _Grid._make(values[kept] for values in grid)
    return grid


def _counter(row: Any, column: Any) -> Any:
    """Return a number of its own for each place of a grid."""
    return ((row + (1 << 20)) << 21 | (column + (1 << 20))).astype(np.uint64)


def _on_map(x: Any, y: Any) -> Any:
    return (x > 0) & (y > 0) & (x < 10 * SIDE) & (y < 10 * SIDE)


def _off_hills(x: Any, y: Any) -> Any:
    is_off = np.ones(x.size, bool)
    for hill in HILLS:
        dx, dy = (x - 10 * hill.x) / (10 * hill.width), (y - 10 * hill.y) / (10 * hill.height)
        is_off &= dx * dx + dy * dy > 1
    return is_off


def _connect(grid: _Grid, number: int) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Connect neighbours in a grid; every few lines one is an arterial; some are missing."""
    places = _counter(grid.row, grid.column)
    order = np.argsort(places)
    ends, classes = [], []
    for axis, (row_step, column_step) in enumerate(((1, 0), (0, 1))):
        wanted = _counter(grid.row + row_step, grid.column + column_step)
        found = order[np.minimum(np.searchsorted(places, wanted, sorter=order), order.size - 1)]
        start = np.flatnonzero(places[found] == wanted)
        line = (grid.column, grid.row)[axis][start]
        road_class = np.where(line % _COLLECTOR_STEP == 0, COLLECTOR, LOCAL)
        road_class[line % _ARTERIAL_STEP == 0] = ARTERIAL
        drawn = scramble(key_of(number, f"gaps {axis}") + GAMMA * places[start])
        is_gap = (drawn >> np.uint64(40)).astype(np.float64) / (1 << 24) < _GAP_SHARE
        kept = (road_class != LOCAL) | ~is_gap
        ends.append(np.stack([start, found[start]], axis=1)[kept])
        classes.append(road_class[kept].astype(np.int8))
    return np.concatenate(ends), np.concatenate(classes)


def build_raster(x: NDArray[np.int64], y: NDArray[np.int64], unit: float) -> JunctionRaster:
    """Sort junctions into cells about two streets wide."""
    cell = max(1, int(2 * unit))
    cells = 10 * SIDE // cell + 1
    number = x // cell * cells + y // cell
    starts = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=cells * cells))])
    return JunctionRaster(x, y, cell, cells, starts, np.argsort(number, kind="stable"))


@njit(cache=True, nogil=True)
def nearest_junction(raster: Any, x: Any, y: Any, reach: Any, avoided: Any) -> Any:
    """Find for each point the nearest junction within ``reach``, or -1.

    Where ``avoided`` is not empty, points are junctions, too, and those with the same ``avoided``
    do not count.
    """
    found = np.full(x.size, -1, np.int64)
    for point in range(x.size):
        best = reach[point] * reach[point] + 1
        wide = reach[point] // raster.cell + 1
        column, row = x[point] // raster.cell, y[point] // raster.cell
        for c in range(max(0, column - wide), min(raster.cells, column + wide + 1)):
            for r in range(max(0, row - wide), min(raster.cells, row + wide + 1)):
                number = c * raster.cells + r
                for node in raster.order[raster.starts[number] : raster.starts[number + 1]]:
                    if avoided.size and avoided[node] == avoided[point]:
                        continue
                    dx, dy = raster.x[node] - x[point], raster.y[node] - y[point]
                    if dx * dx + dy * dy < best:
                        best = dx * dx + dy * dy
                        found[point] = node
    return found


@lru_cache(maxsize=2)
def build_city(junctions: int = JUNCTIONS) -> Network:
    """Build the city with about as many junctions as asked for; it is always the same one.

    Streets never cross water; motorways do, on bridges.
    """
    coast = build_coast(COASTS)
    chains = [build_chain(points) for points in MOTORWAYS.values()]
    wanted = junctions - sum(map(len, chains))
    # The number of junctions falls with the square of the distance between streets.
    first_size = sum(grid.x.size for grid in _build_grids(coast, _FIRST_UNIT))
    unit = _FIRST_UNIT * float(np.sqrt(first_size / wanted))
    x, y, ends, classes = _add_motorways(*build_streets(coast, unit), chains, coast)
    return build_network(x / 10, y / 10, ends, classes=classes, hubs=HUBS)


def _add_motorways(
    raster: JunctionRaster,
    street_ends: Any,
    street_classes: Any,
    chains: list[NDArray[np.int64]],
    coast: NDArray[np.int64],
) -> tuple[Any, Any, Any, Any]:
    """Add motorways, with exits that stay on land, and with junctions where two meet."""
    x, y = (
        np.concatenate([junctions, *(chain[:, axis] for chain in chains)])
        for axis, junctions in enumerate((raster.x, raster.y))
    )
    lanes, ramps = [], []
    first = raster.x.size
    for chain in chains:
        numbers = first + np.arange(len(chain))
        lanes.append(np.stack([numbers[:-1], numbers[1:]], axis=1))
        exits, found = _find_exits(chain, raster, coast)
        ramps.append(np.stack([first + exits, found], axis=1))
        first += len(chain)
    ramp_ends = np.concatenate(ramps)
    ramp_ends = ramp_ends[~crosses_water(x, y, ramp_ends, coast)]
    ends = np.concatenate([street_ends, *lanes, ramp_ends])
    counts = sum(map(len, lanes)), len(ramp_ends)
    classes = np.concatenate([street_classes, np.repeat([MOTORWAY, RAMP], counts)])
    # Where several junctions are at one place, the first stands for all: so motorways meet.
    places = np.stack([x, y], axis=1)
    _, earliest, group = np.unique(places, axis=0, return_index=True, return_inverse=True)
    return x, y, earliest[group][ends], classes


def build_chain(line: tuple[tuple[int, int], ...]) -> Any:
    """Draw a motorway: a Catmull-Rom spline with a junction about every 450 m, (junctions, 2)."""
    points = np.array(line, np.float64) * 10
    before, after = 2 * points[0] - points[1], 2 * points[-1] - points[-2]
    points = np.concatenate([before[None], points, after[None]])
    pieces = []
    for first in range(len(points) - 3):
        p0, p1, p2, p3 = points[first : first + 4]
        number = max(1, round(float(np.sqrt(((p2 - p1) ** 2).sum())) / _STEP))
        t = (np.arange(number) / number)[:, None]
        bends = (2 * p1, (p2 - p0) * t, (2 * p0 - 5 * p1 + 4 * p2 - p3) * t * t)
        pieces.append((sum(bends) + (3 * p1 - p0 - 3 * p2 + p3) * t * t * t) / 2)
    pieces.append(points[-2][None])
    return np.rint(np.concatenate(pieces)).astype(np.int64)


def _find_exits(
    chain: NDArray[np.int64], raster: JunctionRaster, coast: NDArray[np.int64]
) -> tuple[Any, Any]:
    """Find the junctions of a motorway that have an exit, and the junctions that it leads to."""
    x, y = np.ascontiguousarray(chain.T)
    is_exit = np.zeros(x.size, bool)
    is_exit[::_EXIT_STEP] = is_exit[-1] = True
    exits = np.flatnonzero(is_exit & on_land(x, y, coast))
    reach = np.full(exits.size, _EXIT_REACH)
    found = nearest_junction(raster, x[exits], y[exits], reach, np.empty(0, np.int64))
    return exits[found >= 0], found[found >= 0]
