"""Fastest routes between nodes, read off their labels."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trajcloak.generator.routes.contract import NONE, Hierarchy, build_hierarchy
from trajcloak.generator.routes.labels import Labels, build_labels

NO_ROUTE = -1
"""The time of a route that does not exist."""


class Routes(NamedTuple):
    """What it takes to answer queries for fastest routes in a graph.

    Parameters
    ----------
    hierarchy
        The arcs of the graph and its shortcuts.
    leaving, arriving
        The labels of the nodes as starts and as ends of routes.
    """

    hierarchy: Hierarchy
    leaving: Labels
    arriving: Labels


class Scratch(NamedTuple):
    """Room for unpacking one route; not to be shared by threads.

    Parameters
    ----------
    climb
        int32 (nodes,): arcs of the hierarchy, between hub and end of the route.
    stack
        int32 (nodes,): arcs of the hierarchy that are yet to be unpacked.
    """

    climb: NDArray[np.int32]
    stack: NDArray[np.int32]


def build_routes(
    starts: NDArray[np.int64], heads: NDArray[np.int32], times: NDArray[np.int64]
) -> Routes:
    """Prepare a graph for queries.

    Parameters
    ----------
    starts
        (nodes + 1,): the arcs of node ``v`` are from ``starts[v]`` up to ``starts[v + 1]``.
    heads
        (arcs,): the node that each arc leads to.
    times
        (arcs,): how long each takes, at least 1.
    """
    hierarchy = build_hierarchy(starts, heads, times)
    return Routes(hierarchy, *build_labels(hierarchy))


def build_scratch(num_nodes: int) -> Scratch:
    """Make room for unpacking routes between ``num_nodes`` nodes."""
    return Scratch(np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32))


@njit(cache=True, nogil=True)
def find_hub(routes: Any, start: int, end: int) -> Any:
    """Return where the fastest route climbs to, and how long it takes or ``NO_ROUTE``.

    Nodes and hub go by their positions in the hierarchy. Linear in the labels.
    """
    leaving, arriving = routes.leaving, routes.arriving
    a, a_stop = leaving.starts[start], leaving.starts[start + 1]
    b, b_stop = arriving.starts[end], arriving.starts[end + 1]
    fastest, hub = np.int64(NO_ROUTE), np.int64(NONE)
    while a < a_stop and b < b_stop:
        if leaving.hubs[a] < arriving.hubs[b]:
            a += 1
        elif leaving.hubs[a] > arriving.hubs[b]:
            b += 1
        else:
            time = leaving.times[a] + arriving.times[b]
            if fastest == NO_ROUTE or time < fastest:
                fastest, hub = time, np.int64(leaving.hubs[a])
            a += 1
            b += 1
    return hub, fastest


@njit(cache=True, nogil=True)
def write_route(routes: Any, scratch: Any, start: int, end: int, route: Any) -> Any:
    """Write the arcs of the fastest route between two nodes of the graph.

    Parameters
    ----------
    routes
        As :func:`build_routes` made them.
    scratch
        Overwritten.
    start, end
        Nodes of the graph.
    route
        int32, of at least as many items as the graph has nodes; filled from its
        beginning.

    Returns
    -------
    int
        The number of arcs; 0 if the nodes are the same, ``NO_ROUTE`` if there is no route.
    """
    positions = routes.hierarchy.positions
    hub, time = find_hub(routes, positions[start], positions[end])
    if time == NO_ROUTE:
        return NO_ROUTE
    size = 0
    node: Any = np.int64(positions[start])
    while node != hub:
        arc = _arc_towards(routes.leaving, node, hub)
        size = _unpack(routes.hierarchy, scratch.stack, arc, route, size)
        node = np.int64(positions[routes.hierarchy.heads[arc]])
    node = np.int64(positions[end])
    climbed = 0
    while node != hub:
        arc = _arc_towards(routes.arriving, node, hub)
        scratch.climb[climbed] = arc
        climbed += 1
        node = np.int64(positions[routes.hierarchy.tails[arc]])
    for arc in scratch.climb[:climbed][::-1]:
        size = _unpack(routes.hierarchy, scratch.stack, arc, route, size)
    return size


@njit(cache=True, nogil=True)
def _arc_towards(labels: Any, node: int, hub: int) -> Any:
    """Look a hub up in the label of a node. Requires that it is there."""
    low, high = labels.starts[node], labels.starts[node + 1] - 1
    while low < high:
        middle = (low + high) >> 1
        if labels.hubs[middle] < hub:
            low = middle + 1
        else:
            high = middle
    return labels.arcs[low]


@njit(cache=True, nogil=True)
def _unpack(hierarchy: Any, stack: Any, arc: int, route: Any, size: int) -> Any:
    """Append the arcs of the graph that an arc of the hierarchy stands for."""
    stack[0] = arc
    depth = 1
    while depth > 0:
        depth -= 1
        top = stack[depth]
        if hierarchy.seconds[top] == NONE:
            route[size] = hierarchy.firsts[top]
            size += 1
        else:
            stack[depth] = hierarchy.seconds[top]
            stack[depth + 1] = hierarchy.firsts[top]
            depth += 2
    return size
