"""The fastest route between two nodes, searched for on its own: milliseconds, and no preparation.

Dijkstra's algorithm. Where several routes are the fastest, it may find another one than hub labels
do; it counts such routes, so that the caller can turn to labels.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trajcloak.kernels.heap import sift_down, sift_up

NO_ROUTE = -1
"""The time, or the number of arcs, of a route that does not exist."""

NEVER = np.int64(1) << 62
"""Later than any route arrives."""


class Graph(NamedTuple):
    """A graph whose arcs take time.

    Parameters
    ----------
    starts
        int64 (nodes + 1,): the arcs of node ``v`` are from ``starts[v]`` up to ``starts[v + 1]``.
    heads
        int32 (arcs,): the node that each arc leads to.
    times
        int64 (arcs,): how long each takes, at least 1.
    """

    starts: NDArray[np.int64]
    heads: NDArray[np.int32]
    times: NDArray[np.int64]


class SearchBuffers(NamedTuple):
    """Working memory of a search, and how many routes were not the only fastest ones.

    Parameters
    ----------
    best
        int64 (nodes,): the least time from the start so far.
    last_arc, before
        int32 (nodes,): the last arc of that way, and the node that it comes from.
    is_tied
        bool (nodes,): whether another way takes as long.
    times, nodes
        int64, int32 (arcs + 1,): ways that were found, when and where they arrive.
    heap
        int32 (arcs + 1,): ways that are still to be continued, the shortest on top.
    ties
        int64 (1,): routes with another one as fast.
    """

    best: NDArray[np.int64]
    last_arc: NDArray[np.int32]
    before: NDArray[np.int32]
    is_tied: NDArray[np.bool_]
    times: NDArray[np.int64]
    nodes: NDArray[np.int32]
    heap: NDArray[np.int32]
    ties: NDArray[np.int64]


def build_search_buffers(num_nodes: int, num_arcs: int) -> SearchBuffers:
    """Make room for searches."""
    return SearchBuffers(
        best=np.empty(num_nodes, np.int64),
        last_arc=np.empty(num_nodes, np.int32),
        before=np.empty(num_nodes, np.int32),
        is_tied=np.empty(num_nodes, np.bool_),
        times=np.empty(num_arcs + 1, np.int64),
        nodes=np.empty(num_arcs + 1, np.int32),
        heap=np.empty(num_arcs + 1, np.int32),
        ties=np.zeros(1, np.int64),
    )


@njit(cache=True, nogil=True)
def search_route(graph: Any, buffers: Any, start: int, end: int, route: Any) -> Any:
    """Write the arcs of the fastest route between two nodes; returns how many, or ``NO_ROUTE``.

    Ensures: ``buffers.ties`` grows by 1 if there is another route as fast. All arcs take time, so
    the ways to a node all come from nodes that were reached before it.
    """
    best, is_tied, times, nodes, heap = (
        buffers.best,
        buffers.is_tied,
        buffers.times,
        buffers.nodes,
        buffers.heap,
    )
    for node in range(best.size):
        best[node] = NEVER
    best[start] = times[0] = 0
    is_tied[start] = False
    nodes[0] = start
    heap[0] = 0
    waiting = found = 1
    while waiting > 0:
        way = heap[0]
        waiting -= 1
        heap[0] = heap[waiting]
        sift_down(heap, waiting, 0, times)
        node = nodes[way]
        if node == end:
            break
        if times[way] > best[node]:
            continue  # A faster way to the node was found after this one.
        for arc in range(graph.starts[node], graph.starts[node + 1]):
            head = graph.heads[arc]
            time = times[way] + graph.times[arc]
            if time == best[head]:
                is_tied[head] = True
            elif time < best[head]:
                best[head] = times[found] = time
                is_tied[head] = False
                buffers.last_arc[head] = arc
                buffers.before[head] = node
                nodes[found] = head
                heap[waiting] = found
                sift_up(heap, waiting, times)
                waiting += 1
                found += 1
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
