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
    # orders[axis * length + i]: trajectories by their cells on that axis at instant i. They are
    # sorted once; after a cut, each row has all of the first side before all of the second.
    orders = np.empty((2 * length, n), np.int64)
    for row in range(len(orders)):
        orders[row] = np.argsort(points[:, row // length, row % length], kind="mergesort")
    is_first = np.empty(n, np.bool_)
    rest = np.empty(n, np.int64)
    # before[m]: cost of the first m trajectories of an order; after[m]: of the last m.
    before, after = np.full((2, n + 1), np.inf)
    low, high = np.empty((2, 1, 2, length), np.uint32)
    waiting = [(0, n)]
    while len(waiting) > 0:
        start, stop = waiting.pop()
        count = stop - start
        if count < 2 * k:
            bundle[orders[0, start:stop]] = num_bundles
            num_bundles += 1
            continue
        least = max(k, count // LEAST_SHARE)
        least_cost = np.inf
        chosen = middle = 0
        for row in range(len(orders)):
            placed = orders[row, start:stop]
            _sum_up(points, placed[: count - least], k, shape, low, high, before)
            _sum_up(points, placed[: least - 1 : -1], k, shape, low, high, after)
            for cut in range(least, count - least + 1):
                cost = before[cut] + after[count - cut]
                if cost < least_cost:
                    least_cost = cost
                    chosen = row
                    middle = start + cut
        for m in range(start, stop):
            is_first[orders[chosen, m]] = m < middle
        for placed in orders:
            _separate(placed[start:stop], is_first, rest)
        waiting.append((middle, stop))
        waiting.append((start, middle))
    return bundle


@njit(cache=True, nogil=True)
def _sum_up(points, placed, k, shape, low, high, costs):  # type: ignore[no-untyped-def]
    """Estimate the cost of the first k, k + 1, ... trajectories of an order; fills ``costs``."""
    low[:] = np.uint32(0xFFFFFFFF)
    high[:] = np.uint32(0)
    for m in range(len(placed)):
        row = placed[m]
        for axis in range(2):
            for i in range(points.shape[2]):
                low[0, axis, i] = min(low[0, axis, i], points[row, axis, i])
                high[0, axis, i] = max(high[0, axis, i], points[row, axis, i])
        # Members of each of the count // k bundles, times its share of the area, summed.
        count = m + 1
        if count >= k:
            costs[count] = count / (count // k) * np.float64(area(low, high, 0, shape))


@njit(cache=True, nogil=True)
def _separate(placed, is_first, rest):  # type: ignore[no-untyped-def]
    """Put the trajectories of the first side before the others; both keep their order."""
    num_first = num_rest = 0
    for row in placed:
        if is_first[row]:
            placed[num_first] = row
            num_first += 1
        else:
            rest[num_rest] = row
            num_rest += 1
    placed[num_first:] = rest[:num_rest]
