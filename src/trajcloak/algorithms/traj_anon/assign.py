"""Turn a configuration into bundles, by one of the policies that have this configuration."""

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.traj_anon.gtree import GTree
from trajcloak.algorithms.traj_anon.keys import KeyLayout, SortedKeys
from trajcloak.cloaks import X_START, X_STOP, Y_START, Y_STOP, Cloaks


@njit(cache=True, nogil=True)
def assign_bundles(tree, order, passed_up):  # type: ignore[no-untyped-def]
    """Map each trajectory to a bundle, in key order; returns bundles by row, and their nodes.

    A node bundles the last of the trajectories that it receives and passes the first ones up.
    All policies of a configuration cost the same (Lemma 1 of the paper); this one uses nothing
    but the key order. The bundle of a suppressed trajectory is -1.

    Requires: nodes in postorder, so that the places a node receives are on top of the stack;
    ``order`` is the row at each place.
    Ensures: a node's bundle holds what it receives less what it passes up (C(m) of the
    paper). O(n) time and memory.
    """
    # Sweep the key order once, with a stack of the places that are not bundled yet.
    n = len(order)
    num_nodes = len(tree.start)
    bundle = np.full(n, -1, np.int32)
    bundle_node = np.empty(num_nodes, np.int32)
    num_bundles = 0
    # The stack, and how high it was just before each place was pushed.
    waiting = np.empty(n, np.int32)
    waiting_before = np.empty(n, np.int32)
    num_waiting = 0
    place = 0
    for node in range(num_nodes):
        while place < tree.stop[node]:
            waiting_before[place] = num_waiting
            waiting[num_waiting] = place
            num_waiting += 1
            place += 1
        # No bundle is formed above the maximal nodes.
        if passed_up[node] < 0:
            continue
        # Below ``keep`` are places outside the node, and the first ones inside, passed up.
        keep = waiting_before[tree.start[node]] + passed_up[node]
        if num_waiting > keep:
            for i in range(keep, num_waiting):
                bundle[order[waiting[i]]] = num_bundles
            bundle_node[num_bundles] = node
            num_bundles += 1
            num_waiting = keep
    return bundle, bundle_node[:num_bundles].copy()


def build_node_cloaks(
    cells: npt.NDArray[np.uint32],
    keys: SortedKeys,
    layout: KeyLayout,
    height: int,
    tree: GTree,
    node: npt.NDArray[np.int32],
) -> Cloaks:
    """Build the cloak sequences of the given nodes."""
    sample = keys.order[tree.start[node]]
    cloaks: Cloaks = build_prefix_cloaks(cells, sample, tree.depth[node], layout, height)
    return cloaks


@njit(cache=True, nogil=True)
def build_prefix_cloaks(cells, sample, depth, layout, height):  # type: ignore[no-untyped-def]
    """Build the cloak sequence of the first ``depth`` bits of the key of each row of a sample.

    Key bits below the depth become free: ``fixed[2 * instant + axis]`` counts the leading bits of a
    coordinate that are fixed, and a cloak's side is 2 to the number of the others. O(key bits) for
    each row.
    """
    length = cells.shape[1]
    cloaks = np.empty((len(sample), length, 4), np.uint32)
    fixed = np.empty(2 * length, np.uint32)
    for b in range(len(sample)):
        fixed[:] = 0
        for bit in range(depth[b]):
            fixed[layout.column[bit]] += np.uint32(1)
        for i in range(length):
            for axis, first, stop in ((0, X_START, X_STOP), (1, Y_START, Y_STOP)):
                free = np.uint32(height) - fixed[2 * i + axis]
                corner = (cells[sample[b], i, axis] >> free) << free
                cloaks[b, i, first] = corner
                cloaks[b, i, stop] = corner + (np.uint32(1) << free)
    return cloaks
