"""The embedded city as a network."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajcloak.generator.network import Network, build_network
from trajcloak.generator.networks.city.coast import build_coast, crosses_water
from trajcloak.generator.networks.city.motorways import (
    MOTORWAY,
    RAMP,
    Chain,
    build_chain,
    find_exits,
)
from trajcloak.generator.networks.city.nearest import build_nodes
from trajcloak.generator.networks.city.plan import COASTS, HUBS, MOTORWAYS
from trajcloak.generator.networks.city.streets import Streets, build_streets, count_junctions

JUNCTIONS = 20_000
"""How many junctions the city has unless told otherwise."""

FEWEST_JUNCTIONS = 2_000
MOST_JUNCTIONS = 100_000

_FIRST_UNIT = 6_000


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
    nodes = build_nodes(streets.x, streets.y, unit)
    x = np.concatenate([streets.x, *(chain.x for chain in chains)])
    y = np.concatenate([streets.y, *(chain.y for chain in chains)])
    lanes, ramps = [], []
    first = streets.x.size
    for chain in chains:
        numbers = first + np.arange(chain.x.size)
        lanes.append(np.stack([numbers[:-1], numbers[1:]], axis=1))
        exits, found = find_exits(chain, nodes, coast)
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
    """Replace junctions at one place by the first of them: so motorways meet."""
    places = np.stack([x, y], axis=1)
    _, earliest, group = np.unique(places, axis=0, return_index=True, return_inverse=True)
    return earliest[group][ends]
