"""Bundle the trajectories of a block greedily."""

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.refined.boxes import Points, area, area_with
from trajcloak.kernels.heap import build_heap, sift_down

SPARE = 0.02
"""Share of the possible bundles that are not made, so that others are larger than k: only a
larger bundle can give a trajectory away without taking another."""


def bundle_block(points: Points, k: int, shape: int) -> npt.NDArray[np.int32]:
    """Bundle the trajectories of a block; returns the bundle of each, from 0.

    A bundle starts with the trajectory farthest from the block's centre, and takes k - 1 more,
    one by one: each time the one that least raises its area. A box only grows, so an area
    computed earlier is a lower bound of the area now; with a heap of these bounds, few areas
    are computed again. Trajectories left at the end join the bundles whose cost they raise
    least.

    Requires: at least k points. Ensures: bundles of at least k; the same on every machine.
    """
    cells = points.reshape(len(points), -1)
    farthest_first = np.argsort(-_distances(cells), kind="stable")
    bundle: npt.NDArray[np.int32] = _bundle(points, farthest_first, k, shape)
    return bundle


@njit(cache=True, nogil=True)
def _bundle(points, left, k, shape):  # type: ignore[no-untyped-def]
    """Bundle trajectories; ``left`` lists them in the order in which they start bundles.

    On the way, ``left`` has the rows that are in no bundle yet.
    """
    length = points.shape[2]
    bundle = np.full(len(points), -1, np.int32)
    count = len(left)
    num_bundles = count // k - int(SPARE * (count // k))
    low = np.empty((num_bundles, 2, length), np.uint32)
    high = np.empty((num_bundles, 2, length), np.uint32)
    # By index in ``left``: the area with that trajectory added, and how many members the
    # bundle had when it was computed.
    bound = np.empty(count, np.uint64)
    known_at = np.empty(count, np.int64)
    heap = np.empty(count, np.int64)
    for b in range(num_bundles):
        for axis in range(2):
            for i in range(length):
                low[b, axis, i] = high[b, axis, i] = points[left[0], axis, i]
        bundle[left[0]] = b
        size = count - 1
        for j in range(1, count):
            bound[j] = area_with(low, high, b, points, left[j], shape)
            known_at[j] = 1
            heap[j - 1] = j
        build_heap(heap, size, bound)
        taken = 1
        while taken < k:
            j = heap[0]
            # The top's area is up to date, and the least bound: nothing can be cheaper.
            if known_at[j] == taken:
                _take(points, left[j], low, high, b)
                bundle[left[j]] = b
                taken += 1
                size -= 1
                heap[0] = heap[size]
            else:
                bound[j] = area_with(low, high, b, points, left[j], shape)
                known_at[j] = taken
            sift_down(heap, size, 0, bound)
        # Close the gaps in ``left``; its order stays.
        kept = 0
        for j in range(count):
            if bundle[left[j]] < 0:
                left[kept] = left[j]
                kept += 1
        count = kept
    # Those left over: the rise counts the area of all members, the new one included.
    sizes = np.full(num_bundles, k, np.int64)
    for j in range(count):
        best = 0
        least = np.inf
        for b in range(num_bundles):
            grown = np.float64(area_with(low, high, b, points, left[j], shape))
            rise = (sizes[b] + 1) * grown - sizes[b] * np.float64(area(low, high, b, shape))
            if rise < least:
                least = rise
                best = b
        _take(points, left[j], low, high, best)
        bundle[left[j]] = best
        sizes[best] += 1
    return bundle


@njit(cache=True, nogil=True)
def _take(points, row, low, high, b):  # type: ignore[no-untyped-def]
    """Grow box ``b`` by a trajectory."""
    for axis in range(2):
        for i in range(points.shape[2]):
            low[b, axis, i] = min(low[b, axis, i], points[row, axis, i])
            high[b, axis, i] = max(high[b, axis, i], points[row, axis, i])


@njit(cache=True, nogil=True)
def _distances(cells):  # type: ignore[no-untyped-def]
    """Compute the squared distance of each trajectory, a row of cells, from the centre of all."""
    centre = np.zeros(cells.shape[1])
    for row in range(len(cells)):
        for c in range(len(centre)):
            centre[c] += cells[row, c]
    for c in range(len(centre)):
        centre[c] /= len(cells)
    distance = np.zeros(len(cells))
    for row in range(len(cells)):
        for c in range(len(centre)):
            apart = cells[row, c] - centre[c]
            distance[row] += apart * apart
    return distance
