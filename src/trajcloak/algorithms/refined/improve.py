"""Lower the cost of neighbouring bundles by moving and exchanging trajectories."""

import numpy as np
from numba import njit

from trajcloak.algorithms.refined.boxes import (
    area,
    area_exchanged,
    area_with,
    area_without,
    empty_boxes,
    exchange_in_box,
    fill_box,
)
from trajcloak.kernels.splitmix import GAMMA, scramble

LEAST_GAIN = 1e-9
"""Smaller gains, relative to the mean cost of a bundle, are taken for rounding."""

NEIGHBOURS = 24
"""Bundles that a trajectory can go to: those nearest to its own."""


@njit(cache=True, nogil=True)
def improve_group(  # type: ignore[no-untyped-def]
    points, members, sizes, left_out, k, shape, heat, passes, near, samples, seed
):
    """Improve a group of bundles in place until a pass changes nothing, or ``passes`` are done.

    For each trajectory t that makes its bundle a larger: a move to another bundle, if a
    can spare it, or an exchange with one of ``samples`` trajectories of each of the
    ``near`` bundles that t makes dearer least. The best of these is made if it lowers
    the cost; or, as in annealing, if it raises it by less than ``heat`` times the mean cost
    of a bundle times a random number from 0 to 1.

    A bundle that is left out has no area, whoever is in it: others exchange their
    dearest members for its own, and it keeps its size.

    Parameters
    ----------
    points : (n, 2, instants) uint32
        The trajectories of the group.
    members : (bundles, room) int64
        Rows of ``points``; the first ``sizes[b]`` of row b count.
    sizes : (bundles,) int64
    left_out : (bundles,) bool
        Bundles that will not be published.
    k : int
    shape : int
        As in :mod:`.boxes`.
    heat : float
    passes, near, samples : int
    seed : uint64
        Of the random numbers.

    Returns how many changes were made.
    """
    num_bundles, room = members.shape
    boxes = empty_boxes(num_bundles, points.shape[2])
    areas = np.zeros(num_bundles)
    scale = 0.0
    for b in range(num_bundles):
        fill_box(points, members[b, : sizes[b]], boxes, b)
        if not left_out[b]:
            areas[b] = np.float64(area(boxes.low[b], boxes.high[b], shape))
        scale += sizes[b] * areas[b] / num_bundles
    neighbours = _find_neighbours(boxes)
    dearer = np.empty(neighbours.shape[1])
    random = seed
    changes = 0
    for _ in range(passes):
        changes_before = changes
        for a in range(num_bundles):
            j = -1
            while not left_out[a] and j + 1 < sizes[a]:
                j += 1
                t = members[a, j]
                saved = areas[a] - np.float64(area_without(boxes, a, points[t], shape))
                if saved == 0.0:
                    continue
                best = -LEAST_GAIN * scale
                if heat > 0.0:
                    random += GAMMA
                    best = heat * scale * _uniform(random)
                to = -1
                exchanged = np.int64(-1)
                for x in range(len(dearer)):
                    b = neighbours[a, x]
                    dearer[x] = 0.0
                    if not left_out[b]:
                        grown = np.float64(area_with(boxes.low[b], boxes.high[b], points[t], shape))
                        dearer[x] = sizes[b] * (grown - areas[b])
                        if k < sizes[a] and sizes[b] < room:
                            change = dearer[x] + grown - areas[a] - (sizes[a] - 1) * saved
                            if change < best:
                                best = change
                                to = b
                for _ in range(min(near, len(dearer))):
                    nearest = np.argmin(dearer)
                    dearer[nearest] = np.inf
                    b = neighbours[a, nearest]
                    random += GAMMA
                    q = np.int64(_uniform(random) * sizes[b])
                    for _ in range(min(samples, sizes[b])):
                        q = q + 1 if q + 1 < sizes[b] else np.int64(0)
                        u = members[b, q]
                        with_u = np.float64(area_exchanged(boxes, a, points[t], points[u], shape))
                        change = sizes[a] * (with_u - areas[a])
                        # At best, b would have no area any more.
                        if change - sizes[b] * areas[b] >= best:
                            continue
                        if not left_out[b]:
                            with_t = np.float64(
                                area_exchanged(boxes, b, points[u], points[t], shape)
                            )
                            change += sizes[b] * (with_t - areas[b])
                        if change < best:
                            best = change
                            to = b
                            exchanged = q
                if to < 0:
                    continue
                changes += 1
                if exchanged < 0:
                    members[to, sizes[to]] = t
                    sizes[to] += 1
                    sizes[a] -= 1
                    members[a, j] = members[a, sizes[a]]
                    fill_box(points, members[a, : sizes[a]], boxes, a)
                    fill_box(points, members[to, : sizes[to]], boxes, to)
                else:
                    u = members[to, exchanged]
                    members[a, j] = u
                    members[to, exchanged] = t
                    exchange_in_box(points, members[a, : sizes[a]], boxes, a, t, u)
                    exchange_in_box(points, members[to, : sizes[to]], boxes, to, u, t)
                areas[a] = np.float64(area(boxes.low[a], boxes.high[a], shape))
                if not left_out[to]:
                    areas[to] = np.float64(area(boxes.low[to], boxes.high[to], shape))
        if changes == changes_before:
            break
    return changes


@njit(cache=True, nogil=True)
def _find_neighbours(boxes):  # type: ignore[no-untyped-def]
    """Find the bundles whose boxes have the nearest middles: (bundles, NEIGHBOURS) int64."""
    num_bundles, _, length = boxes.low.shape
    middles = np.empty((num_bundles, 2, length))
    for b in range(num_bundles):
        for axis in range(2):
            for i in range(length):
                middles[b, axis, i] = np.float64(boxes.low[b, axis, i]) + np.float64(
                    boxes.high[b, axis, i]
                )
    neighbours = np.empty((num_bundles, min(NEIGHBOURS, num_bundles - 1)), np.int64)
    distance = np.empty(num_bundles)
    for a in range(num_bundles):
        for b in range(num_bundles):
            distance[b] = 0.0
            for axis in range(2):
                for i in range(length):
                    apart = middles[a, axis, i] - middles[b, axis, i]
                    distance[b] += apart * apart
        distance[a] = np.inf
        neighbours[a] = np.argsort(distance, kind="mergesort")[: neighbours.shape[1]]
    return neighbours


@njit(cache=True, nogil=True)
def _uniform(number):  # type: ignore[no-untyped-def]
    """Scramble a counter to a random number above 0 and below 1."""
    return (np.float64(scramble(number) >> np.uint64(12)) + 0.5) / 2.0**52
