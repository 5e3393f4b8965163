"""The embedded city as a network: streets and motorways; nothing is downloaded."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trajcloak.generator.city_plan import (
    COASTS,
    HUBS,
    MOTORWAYS,
    Motorway,
    build_coast,
    crosses_water,
    on_land,
)
from trajcloak.generator.city_streets import (
    JunctionRaster,
    Streets,
    build_raster,
    build_streets,
    count_junctions,
    nearest_junction,
)
from trajcloak.generator.network import Network, build_network

JUNCTIONS = 20_000
"""How many junctions the city has unless told otherwise."""

FEWEST_JUNCTIONS = 2_000
MOST_JUNCTIONS = 100_000

_FIRST_UNIT = 6_000

MOTORWAY, RAMP = 0, 1
"""The road classes of motorways and their exits."""

_STEP = 4_500
_EXIT_STEP = 4
_EXIT_REACH = 12_000


class Chain(NamedTuple):
    """The junctions along a motorway, in decimetres."""

    x: NDArray[np.int64]
    y: NDArray[np.int64]


@lru_cache(maxsize=2)
def build_city(junctions: int = JUNCTIONS) -> Network:
    """Build the city with about as many junctions as asked for; it is always the same one.

    Streets never cross water; motorways do, on bridges.

    Examples
    --------
    >>> network = build_city(3_000)
    >>> abs(network.num_nodes - 3_000) < 300
    True
    """
    coast = build_coast(COASTS)
    chains = [build_chain(motorway) for motorway in MOTORWAYS]
    wanted = junctions - sum(chain.x.size for chain in chains)
    # The number of junctions falls with the square of the distance between streets.
    unit = _FIRST_UNIT * float(np.sqrt(count_junctions(coast, _FIRST_UNIT) / wanted))
    streets = build_streets(coast, unit)
    dry = ~crosses_water(streets.x, streets.y, streets.ends, coast)
    streets = streets._replace(ends=streets.ends[dry], classes=streets.classes[dry])
    x, y, ends, classes = _add_motorways(streets, chains, unit, coast)
    return build_network(x / 10, y / 10, ends, classes=classes, hubs=HUBS)


def _add_motorways(
    streets: Streets, chains: list[Chain], unit: float, coast: NDArray[np.int64]
) -> tuple[Any, Any, Any, Any]:
    """Add motorways, with exits that stay on land, and with junctions where two meet."""
    raster = build_raster(streets.x, streets.y, unit)
    x = np.concatenate([streets.x, *(chain.x for chain in chains)])
    y = np.concatenate([streets.y, *(chain.y for chain in chains)])
    lanes, ramps = [], []
    first = streets.x.size
    for chain in chains:
        numbers = first + np.arange(chain.x.size)
        lanes.append(np.stack([numbers[:-1], numbers[1:]], axis=1))
        exits, found = find_exits(chain, raster, coast)
        ramps.append(np.stack([first + exits, found], axis=1))
        first += chain.x.size
    ramp_ends = np.concatenate(ramps)
    ramp_ends = ramp_ends[~crosses_water(x, y, ramp_ends, coast)]
    lane_ends = np.concatenate(lanes)
    ends = np.concatenate([streets.ends, lane_ends, ramp_ends])
    classes = np.concatenate(
        [
            streets.classes,
            np.full(len(lane_ends), MOTORWAY, np.int8),
            np.full(len(ramp_ends), RAMP, np.int8),
        ]
    )
    return x, y, _merged(x, y, ends), classes


def _merged(x: Any, y: Any, ends: Any) -> Any:
    """Replace junctions at the same place by the first of them, so that motorways are connected."""
    places = np.stack([x, y], axis=1)
    _, earliest, group = np.unique(places, axis=0, return_index=True, return_inverse=True)
    return earliest[group][ends]


def build_chain(motorway: Motorway) -> Chain:
    """Draw a motorway: a Catmull-Rom spline with a junction about every 450 m."""
    points = np.array(motorway.points, np.float64) * 10
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
    x, y = np.rint(np.concatenate(pieces)).astype(np.int64).T
    return Chain(x, y)


def find_exits(chain: Chain, raster: JunctionRaster, coast: NDArray[np.int64]) -> Any:
    """Return which junctions of a motorway have an exit, and the junctions it leads to."""
    is_exit = np.zeros(chain.x.size, bool)
    is_exit[::_EXIT_STEP] = is_exit[-1] = True
    exits = np.flatnonzero(is_exit & on_land(chain.x, chain.y, coast))
    reach = np.full(exits.size, _EXIT_REACH)
    found = nearest_junction(raster, chain.x[exits], chain.y[exits], reach, np.empty(0, np.int64))
    return exits[found >= 0], found[found >= 0]
