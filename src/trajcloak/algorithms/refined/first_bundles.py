"""First bundles, made of the trajectories of a block of near ones: greedily, or by cuts."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.refined.blocks import build_blocks
from trajcloak.algorithms.refined.boxes import Points, area, area_with, move_to_origin, pad_instants
from trajcloak.kernels.sort import build_heap, sift_down
from trajcloak.kernels.threads import run_all

SPARE = 0.02
"""Share of the possible bundles that are not made, so that others are larger than k: only a
larger bundle can give a trajectory away without taking another."""

LEAST_SHARE = 8
"""Each side of a cut gets at least 1 / LEAST_SHARE of the trajectories, which bounds the depth."""


def bundle_blocks(
    points: Points, k: int, size: int, short: bool, threads: int
) -> npt.NDArray[np.int32]:
    """Bundle trajectories block by block of ``size``; returns the bundle of each, from 0.

    ``short`` ones are bundled by cuts, others greedily. ``threads`` changes the time alone.
    """
    rows = np.arange(len(points), dtype=np.int32)
    blocks = build_blocks(points, rows, size, 0.5, threads)

    def bundle_near(block: npt.NDArray[np.int32]) -> Any:
        near_points = points[block]
        shape = move_to_origin(near_points)
        if short:
            return bundle_by_cuts(near_points, k, shape)
        return bundle_greedily(pad_instants(near_points), k, shape)

    bundle = np.empty(len(points), np.int32)
    first = 0
    for block, found in zip(
        blocks, run_all(bundle_near, [(block,) for block in blocks], threads), strict=True
    ):
        bundle[block] = first + found
        first += int(found.max()) + 1
    return bundle


def bundle_greedily(points: Points, k: int, shape: int) -> npt.NDArray[np.int32]:
    """Bundle the trajectories of a block; returns the bundle of each, from 0.

    A bundle starts with the trajectory farthest from the block's centre, and takes k - 1 more,
    one by one: each time the one that least raises its area. A box only grows, so an area
    computed earlier is a lower bound of the area now; with a heap of these bounds, few areas
    are computed again. Trajectories left at the end join the bundles whose cost they raise
    least.

    Requires: at least k points. Ensures: bundles of at least k; the same on every machine.
    """
    bundle: npt.NDArray[np.int32] = _take_nearest(points, order_farthest_first(points), k, shape)
    return bundle


def order_farthest_first(points: Points) -> npt.NDArray[np.int64]:
    """List rows, the one farthest from the centre of all first."""
    return np.argsort(-_distances(points.reshape(len(points), -1)), kind="stable")


@njit(cache=True, nogil=True)
def _take_nearest(points, left, k, shape):  # type: ignore[no-untyped-def]
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
            separate(placed[start:stop], is_first, rest)
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
def separate(placed, is_first, rest):  # type: ignore[no-untyped-def]
    """Put the trajectories of the first side before the others; returns how many are there.

    Both sides keep their order, so that the result is the same on every machine.
    """
    num_first = num_rest = 0
    for row in placed:
        if is_first[row]:
            placed[num_first] = row
            num_first += 1
        else:
            rest[num_rest] = row
            num_rest += 1
    placed[num_first:] = rest[:num_rest]
    return num_first
