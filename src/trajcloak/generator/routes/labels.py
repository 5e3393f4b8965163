"""Hub labels: with each node, the hubs that its fastest routes climb to.

Abraham, Delling, Goldberg, Werneck: *Hierarchical Hub Labelings for Shortest
Paths* (ESA 2012). The label of a node lists every node that a fastest route can
climb to in the contraction hierarchy. Two nodes' fastest route meets at a hub that
both labels name, so to find it is to merge two short lists.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trajcloak.generator.routes.contract import NONE

_NEVER = np.int64(1) << 62


class Labels(NamedTuple):
    """One label per node, for routes that leave it or for routes that reach it.

    Nodes and hubs go by their positions in the hierarchy, 0 the most important.

    Parameters
    ----------
    starts
        int64 (nodes + 1,): the label of node ``p`` is from ``starts[p]`` up to
        ``starts[p + 1]``.
    hubs
        int32 (entries,): the hubs of each label, ascending; the last is the node.
    times
        int64 (entries,): how long the fastest way between node and hub takes.
    arcs
        int32 (entries,): the arc of the hierarchy at the node's end of that way,
        ``NONE`` where the hub is the node.
    """

    starts: NDArray[np.int64]
    hubs: NDArray[np.int32]
    times: NDArray[np.int64]
    arcs: NDArray[np.int32]


class _Draft(NamedTuple):
    """The label in the making, by hub, and the hubs in it."""

    times: NDArray[np.int64]
    arcs: NDArray[np.int32]
    hubs: NDArray[np.int32]


@njit(cache=True, nogil=True)
def build_labels(hierarchy: Any) -> Any:
    """Build the labels for leaving, and those for arriving.

    Time and memory are linear in the entries, times the length of a label.
    """
    num_nodes = hierarchy.positions.size
    tails = hierarchy.positions[hierarchy.tails]
    heads = hierarchy.positions[hierarchy.heads]
    climbs = _arcs_by_low_end(tails, heads, num_nodes)
    descents = _arcs_by_low_end(heads, tails, num_nodes)
    draft = _Draft(
        np.full(num_nodes, _NEVER, np.int64),
        np.full(num_nodes, NONE, np.int32),
        np.empty(num_nodes, np.int32),
    )
    leaving, arriving = _empty_labels(num_nodes), _empty_labels(num_nodes)
    for node in range(num_nodes):
        size = _draft(draft, leaving, node, climbs, heads, hierarchy.times)
        leaving = _with_room(leaving, node, size)
        leaving.starts[node + 1] = _keep(draft, leaving, arriving, node, size)
        size = _draft(draft, arriving, node, descents, tails, hierarchy.times)
        arriving = _with_room(arriving, node, size)
        arriving.starts[node + 1] = _keep(draft, arriving, leaving, node, size)
    return _trimmed(leaving), _trimmed(arriving)


@njit(cache=True, nogil=True)
def _arcs_by_low_end(lows: Any, highs: Any, num_nodes: int) -> Any:
    """List the arcs that climb from each node ``low`` to ``high``: starts, arcs."""
    starts = np.zeros(num_nodes + 1, np.int64)
    for arc in range(lows.size):
        if highs[arc] < lows[arc]:
            starts[lows[arc] + 1] += 1
    starts = np.cumsum(starts)
    ends = starts.copy()
    arcs = np.empty(starts[num_nodes], np.int32)
    for arc in range(lows.size):
        if highs[arc] < lows[arc]:
            arcs[ends[lows[arc]]] = arc
            ends[lows[arc]] += 1
    return starts, arcs


@njit(cache=True, nogil=True)
def _empty_labels(num_nodes: int) -> Any:
    room = 16 * num_nodes
    return Labels(
        np.zeros(num_nodes + 1, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int64),
        np.empty(room, np.int32),
    )


@njit(cache=True, nogil=True)
def _with_room(labels: Any, node: int, size: int) -> Any:
    """Return the labels with room for one more of at most ``size`` entries."""
    used = labels.starts[node]
    if used + size <= labels.hubs.size:
        return labels
    more = labels.hubs.size // 2 + size
    return Labels(
        labels.starts,
        np.concatenate((labels.hubs, np.empty(more, np.int32))),
        np.concatenate((labels.times, np.empty(more, np.int64))),
        np.concatenate((labels.arcs, np.empty(more, np.int32))),
    )


@njit(cache=True, nogil=True)
def _trimmed(labels: Any) -> Any:
    used = labels.starts[-1]
    return Labels(
        labels.starts,
        labels.hubs[:used].copy(),
        labels.times[:used].copy(),
        labels.arcs[:used].copy(),
    )


@njit(cache=True, nogil=True)
def _draft(draft: Any, labels: Any, node: int, climbs: Any, highs: Any, times: Any) -> Any:
    """Gather the hubs of the nodes that one arc climbs to; returns how many."""
    starts, arcs = climbs
    size = 1
    draft.hubs[0] = node
    draft.times[node] = 0
    for arc in arcs[starts[node] : starts[node + 1]]:
        high = highs[arc]
        for entry in range(labels.starts[high], labels.starts[high + 1]):
            hub = labels.hubs[entry]
            time = times[arc] + labels.times[entry]
            if draft.times[hub] == _NEVER:
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
        draft.times[hub] = _NEVER
        draft.arcs[hub] = NONE
    return end
