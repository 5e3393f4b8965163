"""Fastest routes: read off hub labels, which takes microseconds each, or searched for.

Labels have to be prepared, which takes seconds, so few routes are found sooner by searching for
each. Where several routes are the fastest, a search may find another one than labels do; it counts
such routes, so that the caller can turn to labels.

Abraham, Delling, Goldberg, Werneck: *Hierarchical Hub Labelings for Shortest
Paths* (ESA 2012). The label of a node lists every node that a fastest route can
climb to in the contraction hierarchy. Two nodes' fastest route meets at a hub that
both labels name, so finding it means merging two short lists.
"""

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trajcloak.generator.contraction import NONE, Hierarchy, build_hierarchy

NO_ROUTE = -1
"""The time, or the number of arcs, of a route that does not exist."""

NEVER = np.int64(1) << 62
"""Later than any route arrives."""


class Graph(NamedTuple):
    """A graph whose arcs take time."""

    # (nodes + 1,): the arcs of node ``v`` are from ``starts[v]`` up to ``starts[v + 1]``.
    starts: NDArray[np.int64]
    heads: NDArray[np.int32]  # (arcs,): the node that each arc leads to.
    times: NDArray[np.int64]  # (arcs,): how long each takes, at least 1.


class Labels(NamedTuple):
    """One label per node, for routes that leave it or for routes that reach it.

    Nodes and hubs go by their positions in the hierarchy, 0 the most important.
    """

    # (nodes + 1,): the label of node ``p`` is from ``starts[p]`` up to ``starts[p + 1]``.
    starts: NDArray[np.int64]
    hubs: NDArray[np.int32]  # (entries,): the hubs of each label, ascending; the last is the node.
    times: NDArray[np.int64]  # (entries,): how long the fastest way between node and hub takes.
    # (entries,): the arc of the hierarchy at the node's end of that way, ``NONE`` where the hub
    # is the node.
    arcs: NDArray[np.int32]


class _Draft(NamedTuple):
    """The label that is being built: time and arc by hub, and the hubs in it."""

    times: NDArray[np.int64]
    arcs: NDArray[np.int32]
    hubs: NDArray[np.int32]


def build_labels(hierarchy: Hierarchy) -> tuple[Labels, Labels]:
    """Build the labels for leaving, and those for arriving."""
    tails = hierarchy.positions[hierarchy.tails]
    heads = hierarchy.positions[hierarchy.heads]
    num_nodes = hierarchy.positions.size
    climbs = _list_arcs_upwards(tails, heads, num_nodes)
    descents = _list_arcs_upwards(heads, tails, num_nodes)
    labels: tuple[Labels, Labels] = _build_labels(climbs, descents, hierarchy.times)
    return labels


def _list_arcs_upwards(lows: Any, highs: Any, num_nodes: int) -> tuple[Any, Any, Any]:
    """List the arcs that climb from each node ``low`` to ``high``: starts, arcs, and ``highs``."""
    climbing = np.flatnonzero(highs < lows)
    arcs = climbing[np.argsort(lows[climbing], kind="stable")]
    return np.searchsorted(lows[arcs], np.arange(num_nodes + 1)), arcs, highs


@njit(cache=True, nogil=True)
def _build_labels(climbs: Any, descents: Any, times: Any) -> Any:
    """Build the labels of one node after another.

    Time and memory are linear in the entries, times the length of a label.
    """
    num_nodes = climbs[0].size - 1
    draft = _Draft(
        np.full(num_nodes, NEVER, np.int64),
        np.full(num_nodes, NONE, np.int32),
        np.empty(num_nodes, np.int32),
    )
    ints, longs = np.empty(0, np.int32), np.empty(0, np.int64)
    leaving = Labels(np.zeros(num_nodes + 1, np.int64), ints, longs, ints)
    arriving = Labels(np.zeros(num_nodes + 1, np.int64), ints, longs, ints)
    for node in range(num_nodes):
        size = _draft(draft, leaving, node, climbs, times)
        leaving = _with_room(leaving, node, size)
        leaving.starts[node + 1] = _keep(draft, leaving, arriving, node, size)
        size = _draft(draft, arriving, node, descents, times)
        arriving = _with_room(arriving, node, size)
        arriving.starts[node + 1] = _keep(draft, arriving, leaving, node, size)
    return (
        _resized(leaving, num_nodes, leaving.starts[-1]),
        _resized(arriving, num_nodes, arriving.starts[-1]),
    )


@njit(cache=True, nogil=True)
def _resized(labels: Any, node: int, room: int) -> Any:
    """Copy the labels of the nodes before a node to arrays of ``room`` entries."""
    used = labels.starts[node]
    hubs = np.empty(room, np.int32)
    times = np.empty(room, np.int64)
    arcs = np.empty(room, np.int32)
    hubs[:used] = labels.hubs[:used]
    times[:used] = labels.times[:used]
    arcs[:used] = labels.arcs[:used]
    return Labels(labels.starts, hubs, times, arcs)


@njit(cache=True, nogil=True)
def _with_room(labels: Any, node: int, size: int) -> Any:
    """Return the labels with room for one more of at most ``size`` entries."""
    if labels.starts[node] + size <= labels.hubs.size:
        return labels
    return _resized(labels, node, labels.hubs.size + labels.hubs.size // 2 + size)


@njit(cache=True, nogil=True)
def _draft(draft: Any, labels: Any, node: int, climbs: Any, times: Any) -> Any:
    """Gather the hubs of the nodes that one arc climbs to; returns how many."""
    starts, arcs, highs = climbs
    size = 1
    draft.hubs[0] = node
    draft.times[node] = 0
    for arc in arcs[starts[node] : starts[node + 1]]:
        high = highs[arc]
        for entry in range(labels.starts[high], labels.starts[high + 1]):
            hub = labels.hubs[entry]
            time = times[arc] + labels.times[entry]
            if draft.times[hub] == NEVER:
                draft.hubs[size] = hub
                size += 1
            if time < draft.times[hub]:
                draft.times[hub] = time
                draft.arcs[hub] = arc
    draft.hubs[:size].sort()
    return size


@njit(cache=True, nogil=True)
def _keep(draft: Any, labels: Any, opposite: Any, node: int, size: int) -> Any:
    """Write the label of a node without the hubs that another hub leads to faster.

    Ensures that the draft is empty again. Returns where the label ends.
    """
    end = labels.starts[node]
    for hub in draft.hubs[:size]:
        time = draft.times[hub]
        is_fastest = True
        if hub != node:
            for entry in range(opposite.starts[hub], opposite.starts[hub + 1]):
                if draft.times[opposite.hubs[entry]] + opposite.times[entry] < time:
                    is_fastest = False
                    break
        if is_fastest:
            labels.hubs[end] = hub
            labels.times[end] = time
            labels.arcs[end] = draft.arcs[hub]
            end += 1
    for hub in draft.hubs[:size]:
        draft.times[hub] = NEVER
        draft.arcs[hub] = NONE
    return end


class RouteBuffers(NamedTuple):
    """Working memory for finding one route; each thread needs its own."""

    # For routes from labels, (nodes,): arcs of the hierarchy between hub and end of the route, and
    # those that are yet to be unpacked.
    climb: NDArray[np.int32]
    stack: NDArray[np.int32]
    # For routes that are searched for.
    best: NDArray[np.int64]  # (nodes,): the least time from the start so far.
    last_arc: NDArray[np.int32]  # (nodes,): the last arc of that way,
    before: NDArray[np.int32]  # (nodes,): and the node that it comes from.
    is_tied: NDArray[np.bool_]  # (nodes,): whether another way takes as long.
    ties: NDArray[np.int64]  # (1,): how many routes were not the only fastest ones.


def build_route_buffers(num_nodes: int) -> RouteBuffers:
    """Make room for finding routes."""
    return RouteBuffers(
        climb=np.empty(num_nodes, np.int32),
        stack=np.empty(num_nodes, np.int32),
        best=np.empty(num_nodes, np.int64),
        last_arc=np.empty(num_nodes, np.int32),
        before=np.empty(num_nodes, np.int32),
        is_tied=np.empty(num_nodes, np.bool_),
        ties=np.zeros(1, np.int64),
    )


@njit(cache=True, nogil=True)
def search_route(graph: Any, buffers: Any, start: int, end: int, route: Any) -> Any:
    """Search as :func:`write_route` says, with Dijkstra's algorithm.

    Ensures: ``buffers.ties`` grows by 1 if there is another route as fast. All arcs take time, so
    the ways to a node all come from nodes that were reached before it.
    """
    best, is_tied = buffers.best, buffers.is_tied
    best[:] = NEVER
    best[start] = 0
    is_tied[start] = False
    waiting = [(np.int64(0), np.int64(start))]
    while len(waiting) > 0:
        reached, node = heappop(waiting)
        if node == end:
            break
        if reached > best[node]:
            continue  # A faster way to the node was found after this one.
        for arc in range(graph.starts[node], graph.starts[node + 1]):
            head = graph.heads[arc]
            time = reached + graph.times[arc]
            if time == best[head]:
                is_tied[head] = True
            elif time < best[head]:
                best[head] = time
                is_tied[head] = False
                buffers.last_arc[head] = arc
                buffers.before[head] = node
                heappush(waiting, (time, np.int64(head)))
    if best[end] == NEVER:
        return NO_ROUTE
    return _follow_back(buffers, start, end, route)


@njit(cache=True, nogil=True)
def _follow_back(buffers: Any, start: int, end: int, route: Any) -> Any:
    """Write the arcs of the way that was found, and count it if it has a tie."""
    size = 0
    is_tied = False
    node = np.int64(end)
    while node != start:
        is_tied |= buffers.is_tied[node]
        route[size] = buffers.last_arc[node]
        size += 1
        node = np.int64(buffers.before[node])
    for place in range(size // 2):
        route[place], route[size - 1 - place] = route[size - 1 - place], route[place]
    buffers.ties[0] += is_tied
    return size


class Routes(NamedTuple):
    """What is needed to find fastest routes in a graph."""

    graph: Graph  # The graph itself.
    hierarchy: Hierarchy  # The arcs of the graph and its shortcuts.
    # The labels of the nodes as starts and as ends of routes; empty if routes are searched for.
    leaving: Labels
    arriving: Labels


def build_routes(graph: Graph) -> Routes:
    """Prepare a graph for many queries."""
    hierarchy: Hierarchy = build_hierarchy(graph.starts, graph.heads, graph.times)
    return Routes(graph, hierarchy, *build_labels(hierarchy))


def build_searches(graph: Graph) -> Routes:
    """Leave a graph as it is, for few queries."""
    ints, times = np.empty(0, np.int32), np.empty(0, np.int64)
    labels = Labels(np.empty(0, np.int64), ints, times, ints)
    return Routes(graph, Hierarchy(ints, ints, ints, times, ints, ints), labels, labels)


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
def write_route(routes: Any, buffers: Any, start: int, end: int, route: Any) -> Any:
    """Write the arcs of the fastest route between two nodes of the graph to ``route``.

    Requires: ``route`` has at least as many items as the graph has nodes. Returns the number of
    arcs; 0 if the nodes are the same, ``NO_ROUTE`` if there is no route.
    """
    if routes.leaving.starts.size == 0:
        return search_route(routes.graph, buffers, start, end, route)
    positions = routes.hierarchy.positions
    hub, time = find_hub(routes, positions[start], positions[end])
    if time == NO_ROUTE:
        return NO_ROUTE
    size = 0
    node: Any = np.int64(positions[start])
    while node != hub:
        arc = _arc_towards(routes.leaving, node, hub)
        size = _unpack(routes.hierarchy, buffers.stack, arc, route, size)
        node = np.int64(positions[routes.hierarchy.heads[arc]])
    node = np.int64(positions[end])
    climbed = 0
    while node != hub:
        arc = _arc_towards(routes.arriving, node, hub)
        buffers.climb[climbed] = arc
        climbed += 1
        node = np.int64(positions[routes.hierarchy.tails[arc]])
    for arc in buffers.climb[:climbed][::-1]:
        size = _unpack(routes.hierarchy, buffers.stack, arc, route, size)
    return size


@njit(cache=True, nogil=True)
def _arc_towards(labels: Any, node: int, hub: int) -> Any:
    """Look a hub up in the label of a node. Requires that it is there."""
    start, stop = labels.starts[node], labels.starts[node + 1]
    return labels.arcs[start + np.searchsorted(labels.hubs[start:stop], hub)]


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
