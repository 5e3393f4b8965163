"""Cut trajectories, or bundles, into blocks of near neighbours.

Recursive bisection along the principal direction, which is found by power iteration
on a sample. Sums are plain loops in a fixed order, so that the cuts are the same on
every machine and for any number of threads.

:func:`build_blocks` cuts rows that are all in memory. For blocks that different workers bundle,
:func:`choose_planes` finds the cuts on a sample: the block of a trajectory then depends only on
which side of each plane it is, so no worker needs the others' rows.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.refined.boxes import Points
from trajcloak.kernels.threads import run_all

SAMPLE = 256
ITERATIONS = 6


def build_blocks(
    points: Points, order: npt.NDArray[np.int32], size: int, share: float, threads: int
) -> list[npt.NDArray[np.int32]]:
    """Cut rows into blocks of at most ``size``; returns the rows of each.

    ``order`` lists the rows to cut, in an order that does not depend on row numbers. ``share`` of
    them are on the first side of the first cut, which shifts all blocks.
    """
    blocks: list[npt.NDArray[np.int32]] = []
    level = [(order, share)]
    while level:
        blocks += [rows for rows, _ in level if 0 < len(rows) <= size]
        large = [(rows, part) for rows, part in level if len(rows) > size]
        halves = run_all(lambda rows, part: _cut_by_rank(points, rows, part, size), large, threads)
        level = [(half, 0.5) for both in halves for half in both]
    return blocks


def _cut_by_rank(
    points: Points, rows: npt.NDArray[np.int32], share: float, size: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Cut rows in two along their principal direction, a share of them on the first side."""
    num_blocks = -(-len(rows) // size)
    cut = len(rows) * (num_blocks // 2) // num_blocks if share == 0.5 else int(len(rows) * share)
    along = _project_rows(points, rows, _find_direction(points, rows))
    # A stable sort splits ties the same way on every machine; a partition does not.
    placed = np.argsort(along, kind="stable")
    return rows[np.sort(placed[:cut])], rows[np.sort(placed[cut:])]


class Planes(NamedTuple):
    """A binary tree of planes, parents before children; node 0 is the root."""

    direction: npt.NDArray[np.float64]  # (nodes, 2 * instants)
    edge: npt.NDArray[np.float64]  # (nodes,): how far along its direction a node's plane is.
    # (nodes,): next step for trajectories before the plane, and for the others: a node, or block
    # ``b``, written as ``-1 - b``.
    below: npt.NDArray[np.int32]
    above: npt.NDArray[np.int32]

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.edge) + 1


def choose_planes(points: Points, weight: npt.NDArray[np.int64], most: int) -> Planes:
    """Cut a sample into up to ``most`` blocks of about equal weight, by recursive bisection.

    The order of the sample must not depend on the order of users; ``weight`` is how many
    trajectories of the log are equal to each of the sample.
    """
    num_nodes = num_blocks = 0
    direction = np.empty((most - 1, points.shape[1] * points.shape[2]))
    edge = np.empty(most - 1)
    below, above = np.empty((2, most - 1), np.int32)

    def cut(rows: npt.NDArray[np.int32], most: int) -> int:
        nonlocal num_nodes, num_blocks
        found = None if most == 1 else _cut_by_plane(points, weight, rows, most)
        if found is None:
            num_blocks += 1
            return -num_blocks
        node = num_nodes
        num_nodes += 1
        direction[node], edge[node], is_below = found
        below[node] = cut(rows[is_below], most // 2)
        above[node] = cut(rows[~is_below], most - most // 2)
        return node

    cut(np.arange(len(points), dtype=np.int32), most)
    return Planes(direction[:num_nodes], edge[:num_nodes], below[:num_nodes], above[:num_nodes])


def _cut_by_plane(
    points: Points, weight: npt.NDArray[np.int64], rows: npt.NDArray[np.int32], most: int
) -> tuple[npt.NDArray[np.float64], float, npt.NDArray[np.bool_]] | None:
    """Find a plane with ``most // 2`` of ``most`` blocks before it; None if all rows are equal.

    Returns the plane's direction, its edge, and which rows are before it.
    """
    direction = _find_direction(points, rows)
    along = _project_rows(points, rows, direction)
    order = np.argsort(along, kind="stable")
    places = np.flatnonzero(np.diff(along[order]) > 0)
    if not len(places):
        return None
    before = np.cumsum(weight[rows[order]])
    wanted = before[-1] * (most // 2) / most
    place = int(places[np.abs(before[places] - wanted).argmin()])
    edge = float(along[order[place + 1]])
    return direction, edge, along < edge


def join_small(planes: Planes, counts: npt.NDArray[np.int64], k: int) -> npt.NDArray[np.int32]:
    """Join blocks of fewer than k trajectories with their siblings in the tree of planes.

    Returns the new number of each block.
    """
    number = np.zeros(len(counts), np.int32)

    def join(node: int) -> list[list[int]]:
        """List the joined blocks below a node."""
        if node < 0:
            return [[-1 - node]]
        sides = [join(int(planes.below[node])), join(int(planes.above[node]))]
        if all(counts[block].sum() >= k for side in sides for block in side):
            return sides[0] + sides[1]
        return [[b for side in sides for block in side for b in block]]

    for joined, blocks in enumerate(join(0 if len(planes.edge) else -1)):
        number[blocks] = joined
    return number


@njit(cache=True, nogil=True)
def _find_direction(points, rows):  # type: ignore[no-untyped-def]
    """Find the direction in which a sample of the rows varies most, by power iteration.

    Index ``c`` is ``axis * instants + instant``. O(instants) per row of the sample.
    """
    _, axes, length = points.shape
    width = axes * length
    step = max(1, len(rows) // SAMPLE)
    count = (len(rows) + step - 1) // step
    sample = np.empty((count, width))
    mean = np.zeros(width)
    for s in range(count):
        for axis in range(axes):
            for i in range(length):
                cell = np.float64(points[rows[s * step], axis, i])
                sample[s, axis * length + i] = cell
                mean[axis * length + i] += cell / count
    direction = np.zeros(width)
    spread = np.zeros(width)
    for s in range(count):
        for c in range(width):
            sample[s, c] -= mean[c]
            spread[c] += sample[s, c] * sample[s, c]
    # Start along the coordinate that varies most; multiply by the covariance again and again.
    direction[np.argmax(spread)] = 1.0
    for _ in range(ITERATIONS):
        turned = np.zeros(width)
        for s in range(count):
            along = 0.0
            for c in range(width):
                along += sample[s, c] * direction[c]
            for c in range(width):
                turned[c] += along * sample[s, c]
        norm = 0.0
        for c in range(width):
            norm += turned[c] * turned[c]
        # All rows are the same: any direction will do.
        if norm == 0.0:
            break
        for c in range(width):
            direction[c] = turned[c] / np.sqrt(norm)
    return direction


@njit(cache=True, nogil=True)
def _project_rows(points, rows, direction):  # type: ignore[no-untyped-def]
    """Compute how far along a direction each row lies."""
    _, axes, length = points.shape
    along = np.empty(len(rows))
    for r in range(len(rows)):
        total = 0.0
        for axis in range(axes):
            point = points[rows[r], axis]
            for i in range(length):
                total += point[i] * direction[axis * length + i]
        along[r] = total
    return along


@njit(cache=True, nogil=True)
def find_blocks(points, planes):  # type: ignore[no-untyped-def]
    """Find the block of each trajectory."""
    n, axes, length = points.shape
    blocks = np.zeros(n, np.int32)
    for row in range(n):
        # Down from the root; with a single block there is none.
        node = np.int32(0) if len(planes.edge) else np.int32(-1)
        while node >= 0:
            along = 0.0
            for axis in range(axes):
                for i in range(length):
                    along += points[row, axis, i] * planes.direction[node, axis * length + i]
            node = planes.below[node] if along < planes.edge[node] else planes.above[node]
        blocks[row] = -1 - node
    return blocks
