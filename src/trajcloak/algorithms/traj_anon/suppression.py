"""Which trajectories to leave out, at a price or within a budget.

With a price p for each trajectory left out, a node whose area is at least p
forms no bundle, and each maximal node below that price decides alone how many
it leaves out (``docs/guarantee.md``, "Suppression has a closed form").
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.traj_anon.gtree import GTree
from trajcloak.algorithms.traj_anon.solve import Rows


def suppress_nobody(tree: GTree) -> npt.NDArray[np.int64]:
    """Let the root pass up none."""
    top = np.full(len(tree.start), -1, np.int64)
    top[-1] = 0
    return top


def suppress_above(tree: GTree, rows: Rows, price: float) -> npt.NDArray[np.int64]:
    """Leave out whoever costs at least ``price`` (summed cloak area, in cells).

    Returns
    -------
    top_passed_up : (nodes,) int64
        As :func:`trajcloak.algorithms.traj_anon.solve.solve_configuration` takes it.
    """
    top = np.full(len(tree.start), -1, np.int64)
    _choose_maximal(tree, rows, price, top)
    return top


def suppress_at_most(tree: GTree, rows: Rows, budget: int) -> npt.NDArray[np.int64]:
    """Find the lowest price that leaves out at most ``budget`` trajectories.

    The number left out never grows with the price, so the price is bisected,
    down to neighbouring floating-point numbers.
    """
    n = int(tree.stop[-1])
    low, high = 0.0, float(np.nextafter(2 * tree.area[-1] * n, np.inf))
    best = suppress_nobody(tree)
    while low < (middle := low + (high - low) / 2) < high:
        top = suppress_above(tree, rows, middle)
        if _count_left_out(tree, top) <= budget:
            best, high = top, middle
        else:
            low = middle
    return best


def _count_left_out(tree: GTree, top: npt.NDArray[np.int64]) -> int:
    chosen = top >= 0
    held = (tree.stop - tree.start)[chosen].astype(np.int64)
    return int(tree.stop[-1]) - int(held.sum()) + int(top[chosen].sum())


@njit(cache=True, nogil=True)
def _choose_maximal(tree, rows, price, top):  # type: ignore[no-untyped-def]
    """Set ``top`` at each maximal node with an area below ``price``.

    Ensures: the number passed up there minimises cost + price * number; among
    equals the fewest.
    """
    node = len(tree.start) - 1
    while node >= 0:
        if tree.area[node] < price:
            row = rows.cost[rows.first[node] : rows.first[node + 1]]
            best = row[0]
            top[node] = 0
            for u in range(1, len(row)):
                total = row[u] + price * u
                if total < best:
                    best = total
                    top[node] = u
            node -= tree.below[node]
        else:
            node -= 1
