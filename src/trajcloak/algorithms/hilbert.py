"""``hilbert-clustering``: nearest neighbours by Hilbert indexes, overlaps merged.

One of the clustering rivals of section 5.2 of the paper.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.kernels.threads import build_slices, run_all
from trajcloak.progress import Progress

SLICES = 64
CHUNK = 8
"""Instants whose distances are added before the sum is compared with the worst neighbour's."""


def cluster_along_curve(
    cells: npt.NDArray[np.uint32], height: int, k: int, threads: int, progress: Progress
) -> npt.NDArray[np.int32]:
    """Cluster each trajectory with its k - 1 nearest, and merge clusters that overlap.

    The distance of two trajectories is the sum, over instants, of the difference of
    the Hilbert indexes of their cells; the curve visits every cell of the grid.
    """
    n = len(cells)
    indexes = build_indexes(cells, height)
    # The difference of two trajectories' sums of indexes never exceeds their distance. So the
    # search goes outward from a trajectory's place in the order of sums, until the sums differ
    # by more than the distance of the worst neighbour found.
    sums = indexes.sum(axis=1)
    order = np.argsort(sums, kind="stable")
    indexes, sums = np.ascontiguousarray(indexes[order]), sums[order]
    neighbours = np.empty((n, k - 1), np.int32)
    done = 0

    def search(start: int, stop: int) -> None:
        nonlocal done
        _find_neighbours(indexes, sums, order, start, stop, neighbours)
        done += stop - start
        progress("finding neighbours", done, n)

    progress("finding neighbours", 0, n)
    run_all(search, build_slices(n, SLICES), threads)
    label = np.empty(n, np.int32)
    label[order] = _merge(neighbours)
    return label


@njit(cache=True, nogil=True)
def build_indexes(cells, height):  # type: ignore[no-untyped-def]
    """Compute the Hilbert index of every cell: (n, instants) int64, below 4**height.

    Walks down the quadrants of each cell, turning x and y as the curve turns in them.
    """
    n, length, _ = cells.shape
    out = np.empty((n, length), np.int64)
    for t in range(n):
        for i in range(length):
            x = np.int64(cells[t, i, 0])
            y = np.int64(cells[t, i, 1])
            index = np.int64(0)
            side = np.int64(1) << (height - 1)
            while side > 0:
                right = np.int64((x & side) > 0)
                upper = np.int64((y & side) > 0)
                # The curve visits lower left, upper left, upper right, lower right: 0 to 3.
                index += side * side * ((3 * right) ^ upper)
                # It is transposed in the lower quadrants, and also mirrored in the right one.
                if upper == 0:
                    if right == 1:
                        x = side - 1 - (x & (side - 1))
                        y = side - 1 - (y & (side - 1))
                    x, y = y, x
                side >>= 1
            out[t, i] = index
    return out


@njit(cache=True, nogil=True)
def _find_neighbours(indexes, sums, order, start, stop, neighbours):  # type: ignore[no-untyped-def]
    """Find the nearest neighbours of the trajectories ``start`` up to ``stop``; ties by row.

    Requires: ``sums`` ascending. ``order`` holds the row of each trajectory.
    """
    n, length = indexes.shape
    wanted = neighbours.shape[1]
    distance = np.empty(wanted, np.int64)
    for t in range(start, stop):
        found = neighbours[t]
        # ``held`` neighbours are found so far, nearest first; next candidates on both sides.
        held = 0
        low = t - 1
        high = t + 1
        while low >= 0 or high < n:
            gap_low = sums[t] - sums[low] if low >= 0 else np.iinfo(np.int64).max
            gap_high = sums[high] - sums[t] if high < n else np.iinfo(np.int64).max
            if held == wanted and min(gap_low, gap_high) > distance[wanted - 1]:
                break
            if gap_low <= gap_high:
                other = low
                low -= 1
            else:
                other = high
                high += 1
            most = distance[wanted - 1] if held == wanted else np.iinfo(np.int64).max
            total = np.int64(0)
            for first in range(0, length, CHUNK):
                for i in range(first, min(first + CHUNK, length)):
                    total += abs(indexes[t, i] - indexes[other, i])
                if total > most:
                    break
            if total > most:
                continue
            # Where the list is full, the last neighbour is dropped; at a tie, the greater row.
            if held == wanted:
                if total == most and order[other] > order[found[wanted - 1]]:
                    continue
            else:
                held += 1
            # Insert by distance, then by row.
            place = held - 1
            while place > 0 and (
                distance[place - 1] > total
                or (distance[place - 1] == total and order[found[place - 1]] > order[other])
            ):
                distance[place] = distance[place - 1]
                found[place] = found[place - 1]
                place -= 1
            distance[place] = total
            found[place] = other


@njit(cache=True, nogil=True)
def _merge(neighbours):  # type: ignore[no-untyped-def]
    """Number the connected groups of trajectories and their neighbours, by union-find.

    A group's root is its least trajectory, so groups are numbered by their least members.
    """
    n = len(neighbours)
    parent = np.arange(n)
    for t in range(n):
        for other in neighbours[t]:
            a = _find_root(parent, t)
            b = _find_root(parent, np.int64(other))
            parent[max(a, b)] = min(a, b)
    label = np.empty(n, np.int32)
    count = 0
    for t in range(n):
        root = _find_root(parent, t)
        if root == t:
            label[t] = count
            count += 1
        label[t] = label[root]
    return label


@njit(cache=True, nogil=True)
def _find_root(parent, t):  # type: ignore[no-untyped-def]
    """Find the root of a trajectory's group, and shorten the way to it."""
    while parent[t] != t:
        parent[t] = parent[parent[t]]
        t = parent[t]
    return t
