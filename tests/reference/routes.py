"""Fastest routes by Dijkstra's algorithm, node by node."""

import heapq


def fastest_times(num_nodes, arcs, start):
    """Time from a node to each other node; None where there is no route.

    ``arcs`` are (tail, head, time).
    """
    leaving = [[] for _ in range(num_nodes)]
    for tail, head, time in arcs:
        leaving[tail].append((head, time))
    times = [None] * num_nodes
    waiting = [(0, start)]
    while waiting:
        reached, node = heapq.heappop(waiting)
        if times[node] is not None:
            continue
        times[node] = reached
        for head, time in leaving[node]:
            if times[head] is None:
                heapq.heappush(waiting, (reached + time, head))
    return times


def reachable(num_nodes, arcs, start):
    """The nodes that can be reached from a node."""
    return {n for n, time in enumerate(fastest_times(num_nodes, arcs, start)) if time is not None}
