"""The tree of cloak sequences, compressed to the nodes that can matter.

Only branching nodes are kept: a node with a single non-empty child masks the
same trajectories as the child, at a higher cost. And only nodes with at least k
trajectories are kept: smaller nodes can form no bundle and pass up all they hold.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.traj_anon.keys import KeyLayout, SortedKeys


class GTree(NamedTuple):
    """Nodes with at least k trajectories, children before parents (postorder).

    The trajectories of a node are the places ``start`` up to ``stop`` of the key
    order. The subtree of node m is the nodes ``m - below[m] + 1`` up to m, so
    the last child of m, if it has one, is m - 1, and the child before child c is
    c - below[c].
    """

    # (nodes,): half-open range of places; ``stop - start`` is d(m) of the paper.
    start: npt.NDArray[np.int32]
    stop: npt.NDArray[np.int32]
    depth: npt.NDArray[np.int32]  # (nodes,): number of key bits that the node's trajectories share.
    loose: npt.NDArray[np.int32]  # (nodes,): how many of them are in no child of the node.
    # (nodes,): how many nodes the subtree has, the node itself among them.
    below: npt.NDArray[np.int32]
    area: npt.NDArray[np.float64]  # (nodes,): summed area of the node's cloak sequence, in cells.


class TreeItems(NamedTuple):
    """The items that a tree is built over, in key order: trajectories, or solved subtrees."""

    # (items,): number of leading key bits that an item shares with the item before; -1 at item 0.
    common: npt.NDArray[np.int32]
    # (items + 1,): place of the first trajectory of each item; at last, the number of all
    # trajectories.
    first: npt.NDArray[np.integer[Any]]
    # (items,): for a subtree, the number of key bits that its trajectories share; -1: the item is
    # loose trajectories, which are in no node below the item's parent.
    depth: npt.NDArray[np.int32]


def build_areas(layout: KeyLayout) -> npt.NDArray[np.float64]:
    """Compute the summed area, in cells, of a node's cloaks for each depth.

    Every key bit halves the cloak of one instant, so the depth alone decides the area.

    Examples
    --------
    >>> from trajcloak.algorithms.traj_anon.keys import build_layout
    >>> build_areas(build_layout(length=2, height=1)).tolist()
    [8.0, 6.0, 4.0, 3.0, 2.0]
    """
    instant = layout.column // 2
    length = int(instant.max()) + 1
    # Each halving takes away half of what is left of an instant's area; all instants are
    # halved equally often.
    cut = np.empty(layout.num_bits)
    count = layout.num_bits // length
    cut[np.argsort(instant, kind="stable")] = np.tile(
        np.ldexp(1.0, count - 1 - np.arange(count)), length
    )
    # Summing from the finest depth up adds small numbers first, which keeps the sums exact.
    return np.cumsum(np.append(float(length), cut[::-1]))[::-1]


def build_gtree(keys: SortedKeys, layout: KeyLayout, k: int) -> GTree:
    """Build the tree over sorted keys, at least k; its last node is the root."""
    n = len(keys.common)
    items = TreeItems(
        round_to_levels(keys.common, layout),
        np.arange(n + 1, dtype=np.int32),
        np.full(n, -1, np.int32),
    )
    return build_gtree_of_items(items, layout, k)


def round_to_levels(common: npt.NDArray[np.int32], layout: KeyLayout) -> npt.NDArray[np.int32]:
    """Round lengths of common prefixes down to prefix lengths that are nodes of the tree."""
    if layout.bits_per_level == 1:
        return common
    return common // layout.bits_per_level * layout.bits_per_level


def build_gtree_of_items(items: TreeItems, layout: KeyLayout, k: int) -> GTree:
    """Build the tree over loose trajectories and subtrees that are solved elsewhere."""
    start, stop, depth, loose, below = _find_nodes(items, k)
    return GTree(start, stop, depth, loose, below, build_areas(layout)[depth])


@njit(cache=True, nogil=True)
def _find_nodes(items, k):  # type: ignore[no-untyped-def]
    """Find the nodes in one sweep over the key order, with a stack of open nodes.

    A node is open while later items may still belong to it.
    Ensures: returns the arrays of a GTree except its areas. O(items) time and memory.
    """
    common = items.common
    first = items.first
    n = len(common)
    # At most n - 1 branches, and n items that are nodes.
    starts = np.empty(2 * n, first.dtype)
    stops = np.empty(2 * n, first.dtype)
    depths = np.empty(2 * n, np.int32)
    looses = np.empty(2 * n, first.dtype)
    belows = np.empty(2 * n, np.int32)
    num_nodes = 0
    # The stack: at most one branch opens per item, and each is deeper than the one under it.
    # ``open_first`` is the number of the first node in the branch's subtree.
    open_start = np.empty(n + 1, first.dtype)
    open_depth = np.empty(n + 1, np.int32)
    open_loose = np.empty(n + 1, first.dtype)
    open_first = np.empty(n + 1, np.int32)
    num_open = 0
    for item in range(n):
        # ``split`` is the depth of the node that separates this item from the next one.
        split = common[item + 1] if item + 1 < n else -1
        # The subtree that ends with this item; it grows as open nodes are closed below.
        start = first[item]
        stop = first[item + 1]
        first_node = num_nodes
        loose = stop - start
        if items.depth[item] >= 0:
            starts[num_nodes] = start
            stops[num_nodes] = stop
            depths[num_nodes] = items.depth[item]
            looses[num_nodes] = 0
            belows[num_nodes] = 1
            num_nodes += 1
            loose = 0
        while num_open > 0 and open_depth[num_open - 1] > split:
            num_open -= 1
            start = open_start[num_open]
            loose += open_loose[num_open]
            first_node = open_first[num_open]
            # A node of fewer than k forms no bundle: its trajectories stay loose in the next.
            if stop - start >= k:
                starts[num_nodes] = start
                stops[num_nodes] = stop
                depths[num_nodes] = open_depth[num_open]
                looses[num_nodes] = loose
                belows[num_nodes] = num_nodes + 1 - first_node
                num_nodes += 1
                loose = 0
        if split < 0:
            break
        # The subtree is a child of the node at ``split``: open already, or opened now.
        if num_open > 0 and open_depth[num_open - 1] == split:
            open_loose[num_open - 1] += loose
        else:
            open_start[num_open] = start
            open_depth[num_open] = split
            open_loose[num_open] = loose
            open_first[num_open] = first_node
            num_open += 1
    return (
        starts[:num_nodes].copy(),
        stops[:num_nodes].copy(),
        depths[:num_nodes].copy(),
        looses[:num_nodes].copy(),
        belows[:num_nodes].copy(),
    )
