"""Fast and slow clustering: grow clusters of k around random centres."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.clustering.cluster_boxes import (
    Columns,
    cost_with,
    costs_with_each,
    grow_box,
    start_box,
)
from trajcloak.kernels.heap import build_heap, sift_down
from trajcloak.progress import Progress

CLUSTERS_PER_CALL = 64
SAME = 1e-9
"""Sums of logarithms that are closer than this differ by rounding alone."""


class _Pool(NamedTuple):
    """Trajectories that are in no cluster yet; they are kept at the front of the arrays.

    Attributes
    ----------
    columns : (2 x instants, n) float32
    number : (n,) int64
        Which trajectory each column holds.
    rank : (n,) int64
        Place of each trajectory in the random order of centres.
    """

    columns: Columns
    number: npt.NDArray[np.int64]
    rank: npt.NDArray[np.int64]


def grow_clusters(
    columns: Columns, k: int, centres: npt.NDArray[np.int64], *, slow: bool, progress: Progress
) -> npt.NDArray[np.int32]:
    """Cluster trajectories.

    Parameters
    ----------
    columns : Columns
        Overwritten: also used as scratch space.
    k : int
    centres : (n,) int64
        The order in which trajectories are tried as centres.
    slow : bool
        Add the trajectory that least raises the cluster's cost, one by one;
        otherwise the k - 1 nearest to the centre at once.
    progress : Progress

    Returns
    -------
    cluster : (n,) int32
        By trajectory. Fewer than k that are left at the end join the clusters
        whose cost they raise least.
    """
    n = columns.shape[1]
    rank = np.empty(n, np.int64)
    rank[centres] = np.arange(n)
    pool = _Pool(columns, np.arange(n), rank)
    label = np.full(n, -1, np.int32)
    num_clusters = n // k
    boxes = np.empty((num_clusters, len(columns), 2), np.float32)
    count = n
    stage = "clustering"
    for first in range(0, num_clusters, CLUSTERS_PER_CALL):
        progress(stage, first, num_clusters)
        stop = min(first + CLUSTERS_PER_CALL, num_clusters)
        count = _grow_range(pool, count, k, first, stop, slow, label, boxes)
    _place_leftovers(pool, count, label, boxes)
    progress(stage, num_clusters, num_clusters)
    return label


@njit(cache=True, nogil=True)
def _grow_range(pool, count, k, first, stop, slow, label, boxes):  # type: ignore[no-untyped-def]
    """Grow the clusters ``first`` up to ``stop``; returns how many trajectories are left.

    O(trajectories left x instants) for each cluster.
    """
    n = len(pool.number)
    product = np.empty(n)
    costs = np.empty(n)
    chosen = np.empty(k, np.int64)
    for number in range(first, stop):
        box = boxes[number]
        # The centre is the first, in the random order, of those left.
        centre = 0
        for i in range(1, count):
            if pool.rank[pool.number[i]] < pool.rank[pool.number[centre]]:
                centre = i
        start_box(pool.columns, centre, box)
        costs_with_each(pool.columns, count, box, product, costs)
        costs[centre] = np.inf
        chosen[0] = centre
        if slow:
            _choose_one_by_one(pool, count, k, costs, box, chosen)
        else:
            _choose_nearest(count, k, costs, chosen)
            for j in range(1, k):
                grow_box(pool.columns, chosen[j], box)
        for j in range(k):
            label[pool.number[chosen[j]]] = number
        count = _drop(pool, count, label)
    return count


@njit(cache=True, nogil=True)
def _choose_one_by_one(pool, count, k, costs, box, chosen):  # type: ignore[no-untyped-def]
    """Add, k - 1 times, the trajectory that least raises the cost.

    A cluster only grows, so the cost computed earlier for a trajectory is a lower bound of
    its cost now. The heap is ordered by these bounds: the top is computed again, and taken
    if it is still the least. The choices are those of a full scan at every step; ties go to
    the trajectory with the least number.
    """
    heap = _heap_of_candidates(count, costs)
    size = len(heap)
    # How many members besides the centre the cluster had when a cost was computed.
    known_at = np.zeros(count, np.int64)
    taken = 1
    while taken < k:
        best = heap[0]
        if known_at[best] == taken - 1:
            chosen[taken] = best
            taken += 1
            grow_box(pool.columns, best, box)
            size -= 1
            heap[0] = heap[size]
        else:
            costs[best] = cost_with(pool.columns, best, box)
            known_at[best] = taken - 1
        sift_down(heap, size, 0, costs)


@njit(cache=True, nogil=True)
def _choose_nearest(count, k, costs, chosen):  # type: ignore[no-untyped-def]
    """Take the k - 1 least costs; ties go to the trajectory with the least number."""
    heap = _heap_of_candidates(count, costs)
    size = len(heap)
    for taken in range(1, k):
        chosen[taken] = heap[0]
        size -= 1
        heap[0] = heap[size]
        sift_down(heap, size, 0, costs)


@njit(cache=True, nogil=True)
def _heap_of_candidates(count, costs):  # type: ignore[no-untyped-def]
    """Build a heap of all with a finite cost; the pool is in order of numbers, so are ties."""
    heap = np.flatnonzero(costs[:count] != np.inf)
    build_heap(heap, len(heap), costs)
    return heap


@njit(cache=True, nogil=True)
def _drop(pool, count, label):  # type: ignore[no-untyped-def]
    """Move the trajectories without a cluster together at the front, in order."""
    kept = 0
    keep = np.empty(count, np.int64)
    for i in range(count):
        if label[pool.number[i]] < 0:
            keep[kept] = i
            kept += 1
    for c in range(len(pool.columns)):
        column = pool.columns[c]
        for j in range(kept):
            column[j] = column[keep[j]]
    for j in range(kept):
        pool.number[j] = pool.number[keep[j]]
    return kept


@njit(cache=True, nogil=True)
def _place_leftovers(pool, count, label, boxes):  # type: ignore[no-untyped-def]
    """Add each leftover to the cluster whose cost it raises least; ties to the one grown first."""
    for i in range(count):
        best = 0
        least = np.inf
        for number in range(len(boxes)):
            raised = cost_with(pool.columns, i, boxes[number]) - _cost(boxes[number])
            if raised < least - SAME:
                least = raised
                best = number
        label[pool.number[i]] = best
        grow_box(pool.columns, i, boxes[best])


@njit(cache=True, nogil=True)
def _cost(box):  # type: ignore[no-untyped-def]
    """Sum the logarithms of the areas of a box."""
    total = 0.0
    for c in range(0, len(box), 2):
        width = np.float64(box[c, 1] - box[c, 0]) + 1
        height = np.float64(box[c + 1, 1] - box[c + 1, 0]) + 1
        total += np.log2(width * height)
    return total
