"""What kind of place each part of a network is.

Where junctions are densest is downtown, around it the old town, the rest is
suburb; a hub makes its surroundings a place of its own kind. A network that names
no hubs gets some at nodes drawn at random, the same at every run.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajcloak.generator.network import Hub, Network
from trajcloak.kernels.splitmix import GAMMA, below, key_of, scramble

KINDS = (
    "suburb",
    "downtown",
    "old town",
    "station",
    "government",
    "campus",
    "hospital",
    "airport",
    "industry",
    "mall",
    "leisure",
)
"""The kinds of places; a kind is kept as a number of this list."""

HUBS_PER_KIND = {
    "station": 2,
    "government": 1,
    "campus": 2,
    "hospital": 4,
    "airport": 1,
    "industry": 3,
    "mall": 4,
    "leisure": 3,
}
"""How many hubs a network gets that names none."""

_DOWNTOWN_SHARE = 0.1
_OLD_TOWN_SHARE = 0.25
_CELLS = 48
_HUB_REACH = 40


def assign_places(network: Network) -> NDArray[np.int8]:
    """Return the kind of place around each node, as a number of ``KINDS``."""
    density = _local_density(network)
    ascending = np.sort(density)[::-1]
    downtown, old_town = (
        ascending[int(share * density.size)] for share in (_DOWNTOWN_SHARE, _OLD_TOWN_SHARE)
    )
    kinds = np.where(density >= old_town, KINDS.index("old town"), KINDS.index("suburb"))
    kinds[density >= downtown] = KINDS.index("downtown")
    nearest = np.ones(network.num_nodes)
    for hub in network.hubs or _draw_hubs(network):
        dx, dy = (network.x - hub.x) / hub.radius, (network.y - hub.y) / hub.radius
        distance = dx * dx + dy * dy
        kinds[distance < nearest] = KINDS.index(hub.kind)
        nearest = np.minimum(nearest, distance)
    return kinds.astype(np.int8)


def _local_density(network: Network) -> Any:
    """Count the nodes in the cell of each node and the eight around it."""
    unit = max(network.extent) / _CELLS
    column, row = (
        np.minimum((values - values.min()) // unit, _CELLS - 1).astype(np.int64) + 1
        for values in (network.x, network.y)
    )
    counts = np.zeros((_CELLS + 2, _CELLS + 2), np.int64)
    np.add.at(counts, (column, row), 1)
    shifts = (-1, 0, 1)
    return sum(counts[column + dx, row + dy] for dx in shifts for dy in shifts)


def _draw_hubs(network: Network) -> list[Hub]:
    """Put hubs at nodes drawn at random, so that most are where most nodes are."""
    kinds = [kind for kind, number in HUBS_PER_KIND.items() for _ in range(number)]
    numbers = np.arange(len(kinds), dtype=np.uint64)
    drawn = scramble(key_of(0, "hubs") + GAMMA * numbers)
    nodes = [below(number, network.num_nodes) for number in drawn]
    radius = max(network.extent) / _HUB_REACH
    return [
        Hub(f"{kind} {index}", kind, float(network.x[node]), float(network.y[node]), radius)
        for index, (kind, node) in enumerate(zip(kinds, nodes, strict=True))
    ]
