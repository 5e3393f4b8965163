"""The motorways of the embedded city: smooth lines with exits to the streets."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trajcloak.generator.networks.city.coast import on_land
from trajcloak.generator.networks.city.nearest import Nodes, nearest_node
from trajcloak.generator.networks.city.plan import Motorway

MOTORWAY, RAMP = 0, 1
"""The road classes of motorways and their exits."""

_STEP = 4_500
_EXIT_STEP = 4
_EXIT_REACH = 12_000


class Chain(NamedTuple):
    """The junctions along a motorway, in decimetres."""

    x: NDArray[np.int64]
    y: NDArray[np.int64]


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


def find_exits(chain: Chain, nodes: Nodes, coast: NDArray[np.int64]) -> Any:
    """Return which junctions of a motorway have an exit, and the junctions it leads to."""
    is_exit = np.zeros(chain.x.size, bool)
    is_exit[::_EXIT_STEP] = is_exit[-1] = True
    exits = np.flatnonzero(is_exit & on_land(chain.x, chain.y, coast))
    reach = np.full(exits.size, _EXIT_REACH)
    found = nearest_node(nodes, chain.x[exits], chain.y[exits], reach, np.empty(0, np.int64))
    return exits[found >= 0], found[found >= 0]
