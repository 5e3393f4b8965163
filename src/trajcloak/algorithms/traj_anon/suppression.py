"""Which trajectories to leave out, at a price or within a budget.

Leaving out a trajectory costs a price p. Then a node whose area is at least p forms
no bundle. The maximal nodes are the topmost nodes with a smaller area; each of them
decides for itself how many of its trajectories to leave out (``docs/guarantee.md``,
"Suppression has a closed form").
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.traj_anon.gtree import GTree
from trajcloak.algorithms.traj_anon.solve import CostRows


def suppress_nobody(tree: GTree) -> npt.NDArray[np.int64]:
    """Choose the root as the only maximal node, with nobody passed up."""
    top = np.full(len(tree.start), -1, np.int64)
    top[-1] = 0
    return top


@njit(cache=True, nogil=True)
def suppress_above(tree, rows, price):  # type: ignore[no-untyped-def]
    """Choose the maximal nodes if whoever costs at least ``price`` (in cells) is left out.

    Ensures: the number passed up at each maximal node minimises cost + price * number; among
    equals the fewest. It is -1 for all other nodes. O(k) per maximal node.
    """
    top = np.full(len(tree.start), -1, np.int64)
    # In postorder, from the root down: a subtree ends at its root, so a chosen node's whole
    # subtree is skipped.
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
    return top


def suppress_at_most(tree: GTree, rows: CostRows, budget: int) -> npt.NDArray[np.int64]:
    """Find the lowest price that leaves out at most ``budget`` trajectories.

    The number left out never grows with the price, so the price is bisected,
    down to neighbouring floating-point numbers.
    """
    n = int(tree.stop[-1])
    price = find_price(
        highest_price(tree),
        budget,
        lambda prices: [n - count_held(tree, suppress_above(tree, rows, p)) for p in prices],
    )
    return suppress_nobody(tree) if price is None else suppress_above(tree, rows, price)


def highest_price(tree: GTree) -> float:
    """Compute a price so high that nobody is left out.

    It is above twice the cost of one bundle of everybody at the root, the tree's last node.
    """
    return float(np.nextafter(2 * tree.area[-1] * int(tree.stop[-1]), np.inf))


def find_price(
    high: float,
    budget: int,
    count: Callable[[list[float]], Sequence[int]],
    rounds_ahead: int = 1,
) -> float | None:
    """Find the lowest price at which at most ``budget`` trajectories are left out.

    ``count`` counts who is left out at each of some prices, nobody at ``high``; the number never
    grows with the price. Where a call of it takes long, it is asked for all prices that the next
    ``rounds_ahead`` steps of the bisection may need. Returns None if no price below ``high`` was
    found, so that nobody is to be left out.
    """
    low = 0.0
    best = None
    while low < _middle(low, high) < high:
        prices = _list_middles(low, high, rounds_ahead)
        counts = dict(zip(prices, count(prices), strict=True))
        for _ in range(rounds_ahead):
            middle = _middle(low, high)
            if not low < middle < high:
                break
            if counts[middle] <= budget:
                best = high = middle
            else:
                low = middle
    return best


def _middle(low: float, high: float) -> float:
    return low + (high - low) / 2


def _list_middles(low: float, high: float, rounds: int) -> list[float]:
    """List all prices that the next ``rounds`` steps of a bisection may need, ascending."""
    middle = _middle(low, high)
    if rounds == 0 or not low < middle < high:
        return []
    below, above = (_list_middles(*ends, rounds - 1) for ends in ((low, middle), (middle, high)))
    return [*below, middle, *above]


def count_held(tree: GTree, top: npt.NDArray[np.int64]) -> int:
    """Count the trajectories in bundles: inside chosen nodes and not passed up.

    ``top`` is what each maximal node passes up; -1: the node is not chosen.
    """
    chosen = top >= 0
    held = (tree.stop - tree.start)[chosen].astype(np.int64)
    return int(held.sum()) - int(top[chosen].sum())
