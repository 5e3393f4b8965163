"""Roads that slow down when too many objects are on them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajcloak.generator.network import Network

CAPACITIES = (5, 5, 4, 4, 3, 3, 2, 2)
"""How many objects an edge of each road class holds without slowing down."""


def build_capacities(network: Network) -> NDArray[np.int64]:
    """Return the capacity of each edge."""
    capacities = np.empty(network.num_edges, np.int64)
    capacities[network.edges] = np.array(CAPACITIES)[network.classes]
    return capacities


def delays_of(counts: Any, capacities: Any) -> NDArray[np.int8]:
    """Return how often the time for each edge is doubled.

    Examples
    --------
    >>> delays_of(np.array([5, 6, 11]), np.array([5, 5, 5]))
    array([0, 1, 2], dtype=int8)
    """
    delays: NDArray[np.int8] = np.where(counts > capacities, 1, 0).astype(np.int8)
    delays += counts > 2 * capacities
    return delays
