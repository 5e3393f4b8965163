"""Bundle trajectories by cutting them in two, again and again."""

import numpy as np
from numba import njit

from trajcloak.algorithms.refined.boxes import area

LEAST_SHARE = 8
"""Each side of a cut gets at least 1 / LEAST_SHARE of the trajectories, which bounds the depth."""


@njit(cache=True, nogil=True)
def bundle_by_cuts(points, k, shape):  # type: ignore[no-untyped-def]
    """Bundle trajectories; returns the bundle of each, from 0.

    A cut divides trajectories in two, by their cells on one axis at one instant. Both sides
    are cut again until fewer than 2k trajectories are left, which become a bundle. The cut is
    chosen whose sides have the least estimated cost: a side of n trajectories is taken to
    consist of n // k bundles that share its area equally.

    Requires: at least k points. Ensures: bundles of k to 2k - 1. O(instants^2) per
    trajectory and cut, and there are O(log n) cuts above each.
    """
    n, _, length = points.shape
    bundle = np.empty(n, np.int32)
    num_bundles = 0
    order = np.arange(n)
    waiting = [(0, n)]
    while len(waiting) > 0:
        start, stop = waiting.pop()
        if stop - start < 2 * k:
            bundle[order[start:stop]] = num_bundles
            num_bundles += 1
            continue
        # Try every axis and instant; ``order`` keeps the best sorting so far.
        rows = order[start:stop].copy()
        least_cost = np.inf
        middle = start
        for axis in range(2):
            for i in range(length):
                placed = rows[np.argsort(points[rows, axis, i], kind="mergesort")]
                cut, cost = _cut(points, placed, k, shape)
                if cost < least_cost:
                    least_cost = cost
                    middle = start + cut
                    order[start:stop] = placed
        waiting.append((middle, stop))
        waiting.append((start, middle))
    return bundle


@njit(cache=True, nogil=True)
def _cut(points, placed, k, shape):  # type: ignore[no-untyped-def]
    """Find the cheapest cut of trajectories in a given order: how many precede it, and its cost."""
    count = len(placed)
    least = max(k, count // LEAST_SHARE)
    # before[n]: cost of the first n; after[n]: cost of the last n.
    before = _sum_up(points, placed, k, shape)
    after = _sum_up(points, placed[::-1], k, shape)
    best = least
    for cut in range(least, count - least + 1):
        if before[cut] + after[count - cut] < before[best] + after[count - best]:
            best = cut
    return best, before[best] + after[count - best]


@njit(cache=True, nogil=True)
def _sum_up(points, placed, k, shape):  # type: ignore[no-untyped-def]
    """Estimate the cost of the first 1, 2, ... trajectories of an order; infinite below k."""
    low = points[placed[:1]]
    high = low.copy()
    costs = np.full(len(placed) + 1, np.inf)
    for count in range(1, len(placed) + 1):
        row = placed[count - 1]
        for axis in range(2):
            for i in range(points.shape[2]):
                low[0, axis, i] = min(low[0, axis, i], points[row, axis, i])
                high[0, axis, i] = max(high[0, axis, i], points[row, axis, i])
        # Members of each of the count // k bundles, times its share of the area, summed.
        if count >= k:
            costs[count] = count / (count // k) * np.float64(area(low, high, 0, shape))
    return costs
