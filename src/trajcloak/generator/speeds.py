"""How fast objects of each class travel on roads of each class.

As in Brinkhoff's generator (GeoInformatica 6(2), 2002), speeds are lengths per
time step, whatever the time between two instants, and follow from the extent of
the network. Travel times are whole numbers of ticks, so that the times of routes
compare exactly.
"""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajcloak.errors import InputError
from trajcloak.generator.network import NUM_ROAD_CLASSES, Network

SPEED_DIVISORS = {"slow": 250, "middle": 50, "fast": 10}
"""Width plus height of the network, divided by this, is the greatest speed."""

MOST_CLASSES = 8
"""The greatest number of classes of objects."""

TICKS_PER_STEP = 1 << 20
"""Ticks in a time step."""


def top_speed(network: Network, speed: str) -> int:
    """Return the greatest speed of objects and roads, a whole number.

    Raises
    ------
    InputError
        If the network is too small for its unit.
    """
    extent = sum(network.extent)
    if extent < SPEED_DIVISORS["slow"]:
        raise InputError(
            f"the network's width and height add up to {extent:.6g}; expected at least "
            f"{SPEED_DIVISORS['slow']}; give planar coordinates in metres, not in degrees"
        )
    return int(extent) // SPEED_DIVISORS[speed]


def object_speeds(top: int, classes: int) -> NDArray[np.float64]:
    """Return the greatest speed of each class of objects: each half that of the one before.

    Examples
    --------
    >>> object_speeds(1009, 3)
    array([1009.  ,  504.5 ,  252.25])
    """
    return top / 2.0 ** np.arange(classes)


def road_speeds(top: int) -> NDArray[np.float64]:
    """Return the greatest speed on each class of roads: two thirds of the one before, cut off.

    Examples
    --------
    >>> road_speeds(1009).tolist()
    [1009.0, 672.0, 448.0, 298.0, 198.0, 132.0, 88.0, 58.0]
    """
    speeds = [top]
    while len(speeds) < NUM_ROAD_CLASSES:
        speeds.append(max(1, speeds[-1] * 2 // 3))
    return np.array(speeds, np.float64)


def arc_times(network: Network, object_speed: float, limits: Any) -> NDArray[np.int64]:
    """Return the ticks that an object of some speed takes for each arc, at least 1.

    They are rounded up, so that nobody is ever faster than the limit.
    """
    speeds = np.minimum(object_speed, limits[network.classes])
    ticks = np.ceil(network.lengths / speeds * TICKS_PER_STEP)
    times: NDArray[np.int64] = np.maximum(1, ticks).astype(np.int64)
    return times


def build_metrics(network: Network, speeds: Any, limits: Any) -> NDArray[np.int64]:
    """Number the classes of objects by which routes are fastest for them.

    Two classes whose speeds are in one proportion on all roads have the same
    fastest routes: so do all classes that are slower than every road allows.

    Returns
    -------
    ndarray of int64
        For each class of objects the first class with the same routes.
    """
    present = np.unique(network.classes)
    patterns = []
    for speed in speeds:
        allowed = [Fraction(value) for value in np.minimum(speed, limits[present])]
        patterns.append([value / allowed[0] for value in allowed])
    return np.array([patterns.index(pattern) for pattern in patterns])
