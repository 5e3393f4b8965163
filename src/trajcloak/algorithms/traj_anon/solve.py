"""The cheapest k-summing configuration of a G-tree (Algorithm 1 of the paper).

For each node m and each number u of trajectories that it passes up, the row of m
holds the least cost of bundling the others inside its subtree. Rows end at
2k - 2, because no optimum passes up more (``docs/guarantee.md``, "At most
2k - 2 are passed up"), so a row's length depends neither on the number of users
nor on the height of the tree.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.traj_anon.gtree import GTree
from trajcloak.kernels.threads import run_all

SUBTREES_PER_THREAD = 8
"""Subtrees are cut small enough that threads finish at about the same time; one thread takes the
whole tree at once."""


class CostRows(NamedTuple):
    """Least cost by node and by number passed up."""

    # The rows one after the other; infinite where u cannot be passed up.
    cost: npt.NDArray[np.float64]
    first: npt.NDArray[np.int64]  # (nodes + 1,): where the row of each node starts in ``cost``.


def solve_rows(
    tree: GTree, k: int, threads: int, limit: npt.NDArray[np.int64] | None = None
) -> CostRows:
    """Fill the row of every node, children before parents.

    ``limit`` is the most that each node may pass up. Default: 2k - 2, the smallest limit that
    cannot miss the optimum; others serve for comparison.
    """
    rows = lay_out_rows(tree, k, limit)
    subtrees, top = _cut_subtrees(tree, threads * SUBTREES_PER_THREAD if threads > 1 else 1)
    run_all(lambda nodes: fill_rows(tree, k, rows, nodes), [(s,) for s in subtrees], threads)
    fill_rows(tree, k, rows, top)
    return rows


def lay_out_rows(tree: GTree, k: int, limit: npt.NDArray[np.int64] | None = None) -> CostRows:
    """Allocate the row of every node; parameters as in :func:`solve_rows`."""
    count = (tree.stop - tree.start).astype(np.int64)
    if limit is None:
        limit = np.full(len(count), 2 * k - 2, np.int64)
    first = np.zeros(len(count) + 1, np.int64)
    np.cumsum(np.minimum(limit, count) + 1, out=first[1:])
    return CostRows(np.empty(first[-1], np.float64), first)


def _cut_subtrees(
    tree: GTree, parts: int
) -> tuple[list[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    """Cut the tree into small subtrees and the nodes above them."""
    num_nodes = len(tree.below)
    small = tree.below <= max(1, num_nodes // parts)
    # In postorder a maximal small subtree ends where a small node is followed by its parent
    # that is not small, or by a node of another subtree; walk from the end.
    subtrees: list[npt.NDArray[np.int64]] = []
    top: list[int] = []
    node = num_nodes - 1
    while node >= 0:
        if small[node]:
            size = int(tree.below[node])
            subtrees.append(np.arange(node - size + 1, node + 1))
            node -= size
        else:
            top.append(node)
            node -= 1
    return subtrees, np.array(top[::-1], np.int64)


@njit(cache=True, nogil=True)
def fill_rows(tree, k, rows, nodes):  # type: ignore[no-untyped-def]
    """Fill the rows of ``nodes``, which are in postorder (Algorithm 1 of the paper).

    Requires: the rows of children that are not among ``nodes`` are filled.
    Ensures: ``row[u]`` is the least cost over all k-summing configurations of the
    subtree that pass up u. O(k^2) time for each child of a node that has several.
    """
    for node in nodes:
        row = rows.cost[rows.first[node] : rows.first[node + 1]]
        pool = _pool_children(tree, k, rows, node)[-1]
        area = tree.area[node]
        # Passing up u of a pool of D = u leaves nobody to bundle here; a pool of D >= u + k
        # leaves a bundle of D - u at this node's area. Between the two, D is not k-summing.
        best = np.inf
        most = len(pool) - 1
        # These u are so large that no pool reaches u + k.
        for u in range(min(most - k, len(row) - 1) + 1, len(row)):
            row[u] = pool[u] if u <= most else np.inf
        # ``best`` is the least of pool[D] + area * D over all D >= held; a bundle of D - u
        # costs area * u less.
        for held in range(most, k - 1, -1):
            best = min(best, pool[held] + area * held)
            u = held - k
            if u < len(row):
                row[u] = min(pool[u], best - area * u)


@njit(cache=True, nogil=True)
def _pool_children(tree, k, rows, node):  # type: ignore[no-untyped-def]
    """Compute the cost of every number of trajectories that a node can receive, child by child.

    Ensures: row j of the result holds, for each D, the least cost at which the
    loose trajectories and the last j children hand D trajectories to the node.
    D is capped at the row's limit + k: trajectories above the cap are bundled at this
    node in any case, so their area is charged at once (``docs/guarantee.md``, "Pools
    are capped").
    """
    area = tree.area[node]
    limit = rows.first[node + 1] - rows.first[node] - 1
    count = tree.stop[node] - tree.start[node]
    cap = min(limit + k, count)
    bottom = node - tree.below[node]
    num_children = 0
    # In postorder the last child is node - 1; the one before it ends where its subtree starts.
    child = node - 1
    while child > bottom:
        num_children += 1
        child -= tree.below[child]
    pools = np.full((num_children + 1, cap + 1), np.inf)
    loose = tree.loose[node]
    least = min(loose, cap)
    pools[0, least] = area * (loose - least)
    most = least
    child = node - 1
    for j in range(num_children):
        row = rows.cost[rows.first[child] : rows.first[child + 1]]
        pool = pools[j]
        new = pools[j + 1]
        for held in range(least, most + 1):
            base = pool[held]
            if base == np.inf:
                continue
            # The child passes up u: the sum held + u is within the cap, or counts as the cap.
            inside = min(len(row), cap - held + 1)
            for u in range(inside):
                new[held + u] = min(new[held + u], base + row[u])
            for u in range(inside, len(row)):
                new[cap] = min(new[cap], base + row[u] + area * (held + u - cap))
        most = min(most + len(row) - 1, cap)
        child -= tree.below[child]
    return pools


@njit(cache=True, nogil=True)
def solve_configuration(tree, rows, k, top_passed_up):  # type: ignore[no-untyped-def]
    """Read the cheapest configuration, C(m) of the paper, off the rows, parents before children.

    ``top_passed_up`` is how many trajectories each maximal node passes up, -1 for all other nodes.
    Where nobody is suppressed, the root alone is maximal and passes up 0. No bundle is formed above
    the maximal nodes, which keep -1.

    Ensures: the choices reach the costs of ``fill_rows``; among equals the smallest
    pool, then the fewest from the child that comes first in the loop.
    """
    passed_up = top_passed_up.copy()
    for node in range(len(tree.start) - 1, -1, -1):
        u = passed_up[node]
        if u < 0 or tree.below[node] == 1:
            continue
        area = tree.area[node]
        pools = _pool_children(tree, k, rows, node)
        num_children = len(pools) - 1
        pool = pools[num_children]
        # Find the pool size ``held`` behind row[u]: u itself (no bundle here), or u + k or more.
        held = -1
        cost = np.inf
        if u < len(pool):
            held = u
            cost = pool[u]
        for more in range(u + k, len(pool)):
            bundled = pool[more] + area * (more - u)
            if bundled < cost:
                held = more
                cost = bundled
        cap = len(pool) - 1
        # Pools were built from the last child to the first; take them apart the other way round.
        children = np.empty(num_children, np.int64)
        child = node - 1
        for j in range(num_children):
            children[j] = child
            child -= tree.below[child]
        for j in range(num_children - 1, -1, -1):
            child = children[j]
            row = rows.cost[rows.first[child] : rows.first[child + 1]]
            before = pools[j]
            best = np.inf
            best_u = -1
            best_held = -1
            # ``from_child`` of the ``held`` came from this child, the rest from the pool before.
            for from_child in range(len(row)):
                low = held - from_child
                if held == cap:
                    # Any sum of at least the cap counts as the cap, plus the area of its excess.
                    for earlier in range(max(low, 0), len(before)):
                        extra = earlier + from_child - cap
                        total = before[earlier] + row[from_child] + area * extra
                        if total < best:
                            best = total
                            best_u = from_child
                            best_held = earlier
                elif low >= 0:
                    total = before[low] + row[from_child]
                    if total < best:
                        best = total
                        best_u = from_child
                        best_held = low
            passed_up[child] = best_u
            held = best_held
    return passed_up
