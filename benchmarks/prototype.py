"""The plain version of ``refined``: what blocks, greedy bundles and exchanges reach alone.

Blocks of at most 2,000 trajectories by recursive bisection along the principal direction
of a sample. In each, greedy bundles: the trajectory farthest from the centre of those that
are left, then k - 1 more, each the one that least raises the summed area. Then a local
search over neighbouring bundles: a trajectory moves out of a bundle of more than k, or two
change places, as long as that lowers the cost. ``benchmarks/refined.py`` compares with it.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.refined.blocks import build_blocks
from trajcloak.algorithms.refined.boxes import (
    WIDE,
    area,
    area_exchanged,
    area_with,
    area_without,
    build_points,
    empty_boxes,
    fill_box,
)
from trajcloak.algorithms.refined.first_bundles import bundle_greedily
from trajcloak.cloaks import build_cloaks

BLOCK = 2000
NEIGHBOURS = 8
PASSES = 10


def solve_plainly(cells: npt.NDArray[np.uint32], k: int) -> Policy:
    """Bundle trajectories, on one core."""
    points = build_points(cells)
    bundle = np.empty(len(points), np.int32)
    first = 0
    for block in build_blocks(points, np.arange(len(points), dtype=np.int32), BLOCK, 0.5, 1):
        bundle[block] = first + bundle_greedily(points[block], k, WIDE)
        first = int(bundle[block].max()) + 1
    _exchange(points, bundle, first, k)
    return Policy(bundle, build_cloaks(cells, bundle, "mbr", 1))


@njit(cache=True)
def _exchange(points, bundle, num_bundles, k):  # type: ignore[no-untyped-def]
    """Make, for each trajectory, the best move or exchange, until a pass finds none."""
    sizes = np.bincount(bundle)
    room = 2 * sizes.max()
    members = np.empty((num_bundles, room), np.int64)
    sizes[:] = 0
    for t in range(len(points)):
        members[bundle[t], sizes[bundle[t]]] = t
        sizes[bundle[t]] += 1
    boxes = empty_boxes(num_bundles, points.shape[2])
    areas = np.empty(num_bundles)
    for b in range(num_bundles):
        fill_box(boxes, b, points[members[b, : sizes[b]]], 0, sizes[b])
        areas[b] = area(boxes.low, boxes.high, b, WIDE)
    for _ in range(PASSES):
        neighbours = _find_neighbours(boxes)
        changes = 0
        for a in range(num_bundles):
            j = 0
            while j < sizes[a]:
                if _exchange_one(points, members, sizes, boxes, areas, neighbours, a, j, k, bundle):
                    changes += 1
                j += 1
        if changes == 0:
            break


@njit(cache=True)
def _exchange_one(points, members, sizes, boxes, areas, neighbours, a, j, k, bundle):  # type: ignore[no-untyped-def]
    """Make the best move or exchange of one trajectory; returns whether there was one."""
    t = members[a, j]
    without = np.float64(area_without(boxes, a, points, t, WIDE))
    if without == areas[a]:
        return False
    # Less would be rounding.
    best = -1e-9 * sizes[a] * areas[a]
    to, place = -1, -1
    for b in neighbours[a]:
        if sizes[a] > k and sizes[b] < members.shape[1]:
            grown = np.float64(area_with(boxes.low, boxes.high, b, points, t, WIDE))
            change = (sizes[a] - 1) * without - sizes[a] * areas[a]
            change += (sizes[b] + 1) * grown - sizes[b] * areas[b]
            if change < best:
                best, to, place = change, b, -1
        for q in range(sizes[b]):
            u = members[b, q]
            with_u = np.float64(area_exchanged(boxes, a, points, t, u, WIDE))
            change = sizes[a] * (with_u - areas[a])
            if change - sizes[b] * areas[b] >= best:
                continue
            with_t = np.float64(area_exchanged(boxes, b, points, u, t, WIDE))
            change += sizes[b] * (with_t - areas[b])
            if change < best:
                best, to, place = change, b, q
    if to < 0:
        return False
    bundle[t] = to
    if place < 0:
        members[to, sizes[to]] = t
        sizes[to] += 1
        sizes[a] -= 1
        members[a, j] = members[a, sizes[a]]
    else:
        u = members[to, place]
        bundle[u] = a
        members[a, j] = u
        members[to, place] = t
    for b in (a, to):
        fill_box(boxes, b, points[members[b, : sizes[b]]], 0, sizes[b])
        areas[b] = area(boxes.low, boxes.high, b, WIDE)
    return True


@njit(cache=True)
def _find_neighbours(boxes):  # type: ignore[no-untyped-def]
    """Find, for each bundle, those whose boxes have the nearest middles."""
    num_bundles = len(boxes.low)
    count = min(NEIGHBOURS, num_bundles - 1)
    neighbours = np.empty((num_bundles, count), np.int64)
    middles = boxes.low.astype(np.float64) + boxes.high
    for a in range(num_bundles):
        distance = np.empty(num_bundles)
        for b in range(num_bundles):
            distance[b] = ((middles[a] - middles[b]) ** 2).sum()
        distance[a] = np.inf
        neighbours[a] = np.argsort(distance)[:count]
    return neighbours
