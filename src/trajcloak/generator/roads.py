"""A network made ready for objects to move on: times, routes, places."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trajcloak.generator.lengths import LENGTH_BITS, build_lengths
from trajcloak.generator.network import Network
from trajcloak.generator.places import assign_places
from trajcloak.generator.routes import Routes, build_routes
from trajcloak.generator.speeds import (
    arc_times,
    build_metrics,
    object_speeds,
    road_speeds,
    top_speed,
)


class RoadArrays(NamedTuple):
    """What the kernels take of a network and of the rules of movement.

    Parameters
    ----------
    x, y
        float64 (nodes,): where the nodes are.
    plan_x, plan_y
        int64 (nodes,): the same, in units of planning.
    places
        int8 (nodes,): the kind of place around each.
    heads, edges
        int32 (arcs,): the node that each arc leads to, and the edge it belongs to.
    times
        int64 (classes, arcs): the ticks that each class of objects takes.
    metrics
        int64 (classes,): the metric of each class of objects.
    lengths
        int64: quantiles of the wanted length of trips, in units of planning.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    plan_x: NDArray[np.int64]
    plan_y: NDArray[np.int64]
    places: NDArray[np.int8]
    heads: NDArray[np.int32]
    edges: NDArray[np.int32]
    times: NDArray[np.int64]
    metrics: NDArray[np.int64]
    lengths: NDArray[np.int64]


@dataclass(frozen=True)
class Roads:
    """A network, the form that kernels take of it, and its routes by metric."""

    network: Network
    arrays: RoadArrays
    routes: dict[int, Routes]


def build_roads(
    network: Network,
    *,
    speed: str,
    classes: int,
    threads: int,
    on_routes: Callable[[int, int], None] = lambda done, total: None,
) -> Roads:
    """Make a network ready.

    Parameters
    ----------
    network
        The network.
    speed
        A key of ``speeds.SPEED_DIVISORS``.
    classes
        How many classes of objects there are.
    threads
        How many metrics to prepare at a time.
    on_routes
        Told how many metrics are prepared, and of how many.
    """
    top = top_speed(network, speed)
    speeds, limits = object_speeds(top, classes), road_speeds(top)
    times = np.stack([arc_times(network, object_speed, limits) for object_speed in speeds])
    metrics = build_metrics(network, speeds, limits)
    arrays = RoadArrays(
        x=network.x,
        y=network.y,
        **_planning_coordinates(network),
        places=assign_places(network),
        heads=network.heads,
        edges=network.edges,
        times=times,
        metrics=metrics,
        lengths=build_lengths(*network.extent),
    )
    distinct = np.unique(metrics).tolist()
    with ThreadPoolExecutor(threads) as pool:
        jobs = {
            metric: pool.submit(_prepare_routes, network, (speed, metric), times[metric])
            for metric in distinct
        }
        on_routes(0, len(jobs))
        for done, _ in enumerate(as_completed(jobs.values()), start=1):
            on_routes(done, len(jobs))
    return Roads(network, arrays, {metric: job.result() for metric, job in jobs.items()})


def _prepare_routes(network: Network, known_as: tuple[str, int], times: Any) -> Routes:
    """Prepare routes, unless the network knows them from before."""
    if known_as not in network.routes:
        network.routes[known_as] = build_routes(network.starts, network.heads, times)
    return network.routes[known_as]


def _planning_coordinates(network: Network) -> dict[str, Any]:
    """Measure coordinates in whole units of which the longer side has 2^LENGTH_BITS."""
    unit = max(network.extent) / (1 << LENGTH_BITS)
    return {
        f"plan_{name}": np.rint((values - values.min()) / unit).astype(np.int64)
        for name, values in (("x", network.x), ("y", network.y))
    }
