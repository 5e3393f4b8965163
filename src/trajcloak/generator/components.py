"""The largest part of a graph in which every node can reach every other."""

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def largest_component(starts: Any, heads: Any) -> Any:
    """Mark the nodes of the largest strongly connected component.

    Tarjan's algorithm (SIAM J. Comput. 1(2), 1972) without recursion; linear time.
    Among components of one size, the one that is completed first is taken.

    Parameters
    ----------
    starts
        int64 (nodes + 1,): the arcs of node ``v`` are from ``starts[v]`` up to
        ``starts[v + 1]``.
    heads
        int32 (arcs,): the node that each arc leads to.

    Returns
    -------
    ndarray of bool
        Whether a node is part of it.
    """
    num_nodes = starts.size - 1
    order = np.full(num_nodes, -1, np.int64)
    lowest = np.zeros(num_nodes, np.int64)
    component = np.full(num_nodes, -1, np.int64)
    next_arc = starts[:-1].copy()
    open_nodes = np.empty(num_nodes, np.int64)
    path = np.empty(num_nodes, np.int64)
    num_open, found, num_components = 0, 0, 0
    best, best_size = -1, 0
    for root in range(num_nodes):
        depth = 0
        if order[root] < 0:
            path[0] = root
            depth = 1
        while depth > 0:
            node = path[depth - 1]
            if order[node] < 0:
                order[node] = lowest[node] = found
                found += 1
                open_nodes[num_open] = node
                num_open += 1
            if next_arc[node] < starts[node + 1]:
                head = heads[next_arc[node]]
                next_arc[node] += 1
                if order[head] < 0:
                    path[depth] = head
                    depth += 1
                elif component[head] < 0:
                    lowest[node] = min(lowest[node], order[head])
                continue
            depth -= 1
            if depth > 0:
                parent = path[depth - 1]
                lowest[parent] = min(lowest[parent], lowest[node])
            if lowest[node] == order[node]:
                size = 0
                while component[node] < 0:
                    num_open -= 1
                    component[open_nodes[num_open]] = num_components
                    size += 1
                if size > best_size:
                    best, best_size = num_components, size
                num_components += 1
    return component == best
