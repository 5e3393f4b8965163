"""Land and water: roughened coasts, and whether something is on land.

Coordinates are whole decimetres, so that every test is exact.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trajcloak.generator.networks.city.plan import Shape
from trajcloak.kernels.splitmix import GAMMA, key_of, scramble

_ROUNDS = 4
_ROUGHNESS = 0.14


def build_coast(shapes: tuple[Shape, ...]) -> NDArray[np.int64]:
    """Return the sides of all coasts, roughened: (sides, 4) as x, y, x, y."""
    return np.concatenate([_sides(shape, number) for number, shape in enumerate(shapes)])


def _sides(shape: Shape, number: int) -> NDArray[np.int64]:
    """Move the middle of each side by a random share of its length, several times over.

    The sides that are edges of the map stay as they are.
    """
    corners = np.array(shape.corners, np.float64) * 10
    rough, straight = np.split(corners, [len(corners) - max(0, shape.map_sides - 1)])
    if not shape.map_sides:
        rough = np.concatenate([rough, rough[:1]])
    key = key_of(number, "coast")
    for level in range(_ROUNDS):
        steps = np.diff(rough, axis=0)
        counters = np.arange(len(steps), dtype=np.uint64) + np.uint64(level << 16)
        drawn = (scramble(key + GAMMA * counters) >> np.uint64(43)).astype(np.float64)
        shift = (drawn / (1 << 20) - 1) * _ROUGHNESS
        middles = rough[:-1] + steps / 2 + shift[:, None] * (steps[:, ::-1] * (-1, 1))
        rough = np.insert(rough, np.arange(1, len(rough)), middles, axis=0)
    if shape.map_sides:
        rough = np.concatenate([rough, straight, rough[:1]])
    points = np.rint(rough).astype(np.int64)
    return np.concatenate([points[:-1], points[1:]], axis=1)


@njit(cache=True, nogil=True)
def on_land(x: Any, y: Any, coast: Any) -> Any:
    """Tell for each point whether it is on land: inside an odd number of coasts."""
    inside = np.zeros(x.size, np.bool_)
    for point in range(x.size):
        for side in range(coast.shape[0]):
            x1, y1, x2, y2 = coast[side]
            if (y1 > y[point]) != (y2 > y[point]):
                turn = (x2 - x1) * (y[point] - y1) - (x[point] - x1) * (y2 - y1)
                if (turn > 0) == (y2 > y1):
                    inside[point] = not inside[point]
    return inside


@njit(cache=True, nogil=True)
def crosses_water(x: Any, y: Any, ends: Any, coast: Any) -> Any:
    """Tell for each edge whether it meets a coast."""
    crosses = np.zeros(ends.shape[0], np.bool_)
    for edge in range(ends.shape[0]):
        ax, ay, bx, by = x[ends[edge, 0]], y[ends[edge, 0]], x[ends[edge, 1]], y[ends[edge, 1]]
        for side in range(coast.shape[0]):
            cx, cy, dx, dy = coast[side]
            if max(cx, dx) < min(ax, bx) or min(cx, dx) > max(ax, bx):
                continue
            if max(cy, dy) < min(ay, by) or min(cy, dy) > max(ay, by):
                continue
            turn_c = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
            turn_d = (bx - ax) * (dy - ay) - (by - ay) * (dx - ax)
            turn_a = (dx - cx) * (ay - cy) - (dy - cy) * (ax - cx)
            turn_b = (dx - cx) * (by - cy) - (dy - cy) * (bx - cx)
            if (turn_c >= 0) != (turn_d >= 0) and (turn_a >= 0) != (turn_b >= 0):
                crosses[edge] = True
                break
    return crosses
