"""``fast-clustering`` and ``slow-clustering``: clusters of k around random centres.

Fast clustering takes a random trajectory and the k - 1 nearest to it. Slow clustering adds k - 1
trajectories one by one, each time the one that least raises the cluster's cost. Cost and distance
(section 5.2 of the paper) are sums, over instants, of the logarithm of the area of a bounding
rectangle. Areas are counted in cells, as they are published, so the least area is one cell and its
logarithm is 0: two locations in one cell, or on a line, need no rule of their own.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.kernels.sort import build_heap, sift_down
from trajcloak.progress import Progress

CHUNK = 16
"""Instants whose areas are multiplied before a logarithm is taken: 16 areas of at
most 2^48 cells each stay below the largest float64."""

CLUSTERS_PER_CALL = 64
SAME = 1e-9
"""Sums of logarithms that are closer than this differ by rounding alone."""

Columns = npt.NDArray[np.float32]
"""(2 x instants, n): x of the first instant, y of the first, x of the second, ...
A cell number is below 2^24 and exact in float32."""


class _Pool(NamedTuple):
    """Trajectories that are in no cluster yet; they are kept at the front of the arrays."""

    columns: Columns  # (2 x instants, n)
    number: npt.NDArray[np.int64]  # (n,): which trajectory each column holds.
    rank: npt.NDArray[np.int64]  # (n,): place of each trajectory in the random order of centres.


def grow_clusters(
    cells: npt.NDArray[np.uint32],
    height: int,
    k: int,
    threads: int,
    progress: Progress,
    *,
    slow: bool,
    seed: int,
) -> npt.NDArray[np.int32]:
    """Cluster trajectories; the seed decides the order in which they become centres.

    Fewer than k that are left at the end join the clusters whose cost they raise least.
    """
    columns = build_columns(cells)
    n = len(cells)
    rank = np.argsort(np.random.default_rng(seed).permutation(n))
    pool = _Pool(columns, np.arange(n), rank)
    label = np.full(n, -1, np.int32)
    num_clusters = n // k
    boxes = np.empty((num_clusters, len(columns), 2), np.float32)
    count = n
    for first in range(0, num_clusters, CLUSTERS_PER_CALL):
        progress("clustering", first, num_clusters)
        stop = min(first + CLUSTERS_PER_CALL, num_clusters)
        count = _grow_range(pool, count, k, first, stop, slow, label, boxes)
    _place_leftovers(pool, count, label, boxes)
    progress("clustering", num_clusters, num_clusters)
    return label


def build_columns(cells: npt.NDArray[np.uint32]) -> Columns:
    """Lay trajectories out instant by instant, so that loops over them can be vectorised."""
    return np.ascontiguousarray(cells.reshape(len(cells), -1).T, dtype=np.float32)


@njit(cache=True, nogil=True)
def start_box(columns, member, box):  # type: ignore[no-untyped-def]
    """Set ``box`` (2 x instants, 2), the least and greatest cells, to one trajectory."""
    for c in range(len(columns)):
        box[c, 0] = columns[c, member]
        box[c, 1] = columns[c, member]


@njit(cache=True, nogil=True)
def grow_box(columns, member, box):  # type: ignore[no-untyped-def]
    """Grow a box to hold one more trajectory."""
    for c in range(len(columns)):
        box[c, 0] = min(box[c, 0], columns[c, member])
        box[c, 1] = max(box[c, 1], columns[c, member])


@njit(cache=True, nogil=True)
def cost_with(columns, member, box):  # type: ignore[no-untyped-def]
    """Sum the logarithms of the areas of a box grown by one trajectory."""
    total = 0.0
    product = 1.0
    for c in range(0, len(columns), 2):
        x = columns[c, member]
        y = columns[c + 1, member]
        width = max(box[c, 1], x) - min(box[c, 0], x) + np.float32(1)
        height = max(box[c + 1, 1], y) - min(box[c + 1, 0], y) + np.float32(1)
        product *= np.float64(width) * np.float64(height)
        if c % (2 * CHUNK) == 2 * (CHUNK - 1):
            total += np.log2(product)
            product = 1.0
    return total + np.log2(product)


@njit(cache=True, nogil=True, error_model="numpy")
def costs_with_each(columns, count, box, product, costs):  # type: ignore[no-untyped-def]
    """Fill ``costs[:count]`` with :func:`cost_with` of the first ``count`` trajectories.

    Does the same operations in the same order as :func:`cost_with`, so the numbers are
    equal, but the innermost loop runs over trajectories and is vectorised. ``product`` is
    scratch space.
    """
    for i in range(count):
        costs[i] = 0.0
        product[i] = 1.0
    for c in range(0, len(columns), 2):
        xs = columns[c]
        ys = columns[c + 1]
        low_x = box[c, 0]
        high_x = box[c, 1]
        low_y = box[c + 1, 0]
        high_y = box[c + 1, 1]
        for i in range(count):
            width = max(high_x, xs[i]) - min(low_x, xs[i]) + np.float32(1)
            height = max(high_y, ys[i]) - min(low_y, ys[i]) + np.float32(1)
            product[i] *= np.float64(width) * np.float64(height)
        if c % (2 * CHUNK) == 2 * (CHUNK - 1):
            for i in range(count):
                costs[i] += np.log2(product[i])
                product[i] = 1.0
    for i in range(count):
        costs[i] += np.log2(product[i])


@njit(cache=True, nogil=True)
def _grow_range(pool, count, k, first, stop, slow, label, boxes):  # type: ignore[no-untyped-def]
    """Grow the clusters ``first`` up to ``stop``; returns how many trajectories are left.

    O(trajectories left x instants) for each cluster.
    """
    n = len(pool.number)
    product = np.empty(n)
    costs = np.empty(n)
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
        label[pool.number[centre]] = number
        _add_members(pool, count, k - 1, slow, costs, box, label, number)
        count = _drop(pool, count, label)
    return count


@njit(cache=True, nogil=True)
def _add_members(pool, count, wanted, slow, costs, box, label, number):  # type: ignore[no-untyped-def]
    """Add ``wanted`` trajectories to the cluster around a centre, the only one of infinite cost.

    Fast clustering takes the least costs, slow clustering each time the trajectory that then
    raises the cost least. A cluster only grows, so the cost computed earlier for a trajectory is
    a lower bound of its cost now. The heap is ordered by these bounds: the top is computed again,
    and taken if it is still the least. The choices are those of a full scan at every step; ties
    go to the trajectory with the least number, since the pool is in order of numbers.
    """
    heap = np.flatnonzero(costs[:count] != np.inf)
    size = len(heap)
    build_heap(heap, size, costs)
    # How many members besides the centre the cluster had when a cost was computed.
    known_at = np.zeros(count, np.int64)
    taken = 0
    while taken < wanted:
        best = heap[0]
        if slow and known_at[best] < taken:
            costs[best] = cost_with(pool.columns, best, box)
            known_at[best] = taken
        else:
            taken += 1
            label[pool.number[best]] = number
            grow_box(pool.columns, best, box)
            size -= 1
            heap[0] = heap[size]
        sift_down(heap, size, 0, costs)


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
