"""A network made ready for objects to move on: speeds, travel times, routes, trip lengths.

As in Brinkhoff's generator (GeoInformatica 6(2), 2002), speeds are lengths per
time step, whatever the time between two instants, and follow from the extent of
the network. Travel times are whole numbers of ticks, so that the times of routes
compare exactly. Trips are meant to be as long as half a normal deviate times a fifth
of the diagonal.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trajcloak.errors import InputError
from trajcloak.generator.network import NUM_ROAD_CLASSES, Network
from trajcloak.generator.requests_by_place import assign_place_kinds
from trajcloak.generator.routes import Graph, Routes, build_routes, build_searches

SPEED_DIVISORS = {"slow": 250, "middle": 50, "fast": 10}
"""Width plus height of the network, divided by this, is the greatest speed."""

MOST_CLASSES = 8
"""Most classes of objects."""

TICKS_PER_STEP = 1 << 20
"""Ticks in a time step."""

LENGTH_BITS = 20
"""The longer side of a network measures 2 to this, in units of planning."""

TABLE_BITS = 12
"""2 to this is how many quantiles of the length of trips are tabulated."""

_SHARE_OF_DIAGONAL = 5


class RoadArrays(NamedTuple):
    """What the kernels take of a network and of the rules of movement."""

    x: NDArray[np.float64]  # (nodes,): where the nodes are.
    y: NDArray[np.float64]
    plan_x: NDArray[np.int64]  # (nodes,): the same, in units of planning.
    plan_y: NDArray[np.int64]
    places: NDArray[np.int8]  # (nodes,): the kind of place around each.
    # (arcs,): the node that each arc leads to, and the edge it belongs to.
    heads: NDArray[np.int32]
    edges: NDArray[np.int32]
    times: NDArray[np.int64]  # (classes, arcs): the ticks that each class of objects takes.
    # (classes,): for each class of objects the first one with the same routes.
    metrics: NDArray[np.int64]
    lengths: NDArray[np.int64]  # Quantiles of the wanted length of trips, in units of planning.


class Roads(NamedTuple):
    """A network, its arrays for kernels, and its routes by metric (see :func:`build_metrics`)."""

    network: Network
    arrays: RoadArrays
    routes: dict[int, Routes]


def build_roads(
    network: Network,
    *,
    speed: str,
    classes: int,
    threads: int,
    has_labels: bool = True,
    on_routes: Callable[[int, int], None] = lambda done, total: None,
) -> Roads:
    """Compute speeds, travel times and routes of a network.

    ``classes`` is how many classes of objects there are. With ``has_labels``, labels are prepared,
    for many routes; otherwise each route is searched for. ``on_routes`` is called with how many
    metrics are prepared, and how many there are.
    """
    top = top_speed(network, speed)
    speeds, limits = object_speeds(top, classes), road_speeds(top)
    times = np.stack([arc_times(network, object_speed, limits) for object_speed in speeds])
    metrics = build_metrics(network, speeds, limits)
    unit = max(network.extent) / (1 << LENGTH_BITS)
    plan_x, plan_y = (
        np.rint((values - values.min()) / unit).astype(np.int64)
        for values in (network.x, network.y)
    )
    arrays = RoadArrays(
        x=network.x,
        y=network.y,
        plan_x=plan_x,
        plan_y=plan_y,
        places=assign_place_kinds(network),
        heads=network.heads,
        edges=network.edges,
        times=times,
        metrics=metrics,
        lengths=build_lengths(*network.extent),
    )
    distinct = np.unique(metrics).tolist()
    graphs = {metric: Graph(network.starts, network.heads, times[metric]) for metric in distinct}
    if not has_labels:
        searches = {metric: build_searches(graph) for metric, graph in graphs.items()}
        return Roads(network, arrays, searches)
    with ThreadPoolExecutor(threads) as pool:
        jobs = {
            metric: pool.submit(_prepare_routes, network, (speed, metric), graph)
            for metric, graph in graphs.items()
        }
        on_routes(0, len(jobs))
        for done, _ in enumerate(as_completed(jobs.values()), start=1):
            on_routes(done, len(jobs))
    return Roads(network, arrays, {metric: job.result() for metric, job in jobs.items()})


def _prepare_routes(network: Network, known_as: tuple[str, int], graph: Graph) -> Routes:
    """Prepare routes, unless this was done before for the same network."""
    if known_as not in network.routes:
        network.routes[known_as] = build_routes(graph)
    return network.routes[known_as]


def top_speed(network: Network, speed: str) -> int:
    """Return the greatest speed of objects and roads, a whole number."""
    extent = sum(network.extent)
    if extent < SPEED_DIVISORS["slow"]:
        raise InputError(
            f"the network's width and height add up to {extent:.6g}; expected at least "
            f"{SPEED_DIVISORS['slow']}; give planar coordinates in metres, not in degrees"
        )
    return int(extent) // SPEED_DIVISORS[speed]


def object_speeds(top: int, classes: int) -> NDArray[np.float64]:
    """Return the greatest speed of each class of objects: each half that of the one before."""
    return top / 2.0 ** np.arange(classes)


def road_speeds(top: int) -> NDArray[np.float64]:
    """Return the greatest speed on each class of roads: two thirds of the one before, cut off."""
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
    """Find, for each class of objects, the first class with the same fastest routes.

    Two classes have the same if their speeds are in one proportion on all roads: so have all that
    are slower than every road allows.
    """
    present = np.unique(network.classes)
    patterns = []
    for speed in speeds:
        allowed = [Fraction(value) for value in np.minimum(speed, limits[present])]
        patterns.append([value / allowed[0] for value in allowed])
    return np.array([patterns.index(pattern) for pattern in patterns])


def build_lengths(width: float, height: float) -> NDArray[np.int64]:
    """Tabulate the quantiles of the wanted length of trips, in units of planning."""
    size = 1 << TABLE_BITS
    normal = NormalDist()
    deviates = [normal.inv_cdf(0.5 + (index + 0.5) / (2 * size)) for index in range(size)]
    longer = max(width, height)
    diagonal = np.sqrt((width / longer) ** 2 + (height / longer) ** 2) * (1 << LENGTH_BITS)
    lengths = np.array(deviates) * (diagonal / _SHARE_OF_DIAGONAL)
    whole: NDArray[np.int64] = np.rint(lengths).astype(np.int64)
    return whole
