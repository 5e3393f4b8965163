"""Cut trajectories into large blocks by planes that are found on a sample.

Like :mod:`.blocks`, but for blocks that are bundled by different workers: the block of a
trajectory depends only on which side of each plane it is, so no worker needs the others' rows.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.refined.blocks import find_direction, project_rows
from trajcloak.algorithms.refined.boxes import Points


class Planes(NamedTuple):
    """A binary tree of planes, parents before children; node 0 is the root.

    Attributes
    ----------
    direction : (nodes, 2 * instants) float64
    edge : (nodes,) float64
        How far along its direction a node's plane is.
    below, above : (nodes,) int32
        Next step for trajectories before the plane, and for the others: a node, or block
        ``b``, written as ``-1 - b``.
    """

    direction: npt.NDArray[np.float64]
    edge: npt.NDArray[np.float64]
    below: npt.NDArray[np.int32]
    above: npt.NDArray[np.int32]

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.edge) + 1


def choose_planes(points: Points, weight: npt.NDArray[np.int64], parts: int) -> Planes:
    """Cut a sample into up to ``parts`` blocks of about equal weight, by recursive bisection.

    Parameters
    ----------
    points : Points
        The sample, in an order that does not depend on the order of users.
    weight
        How many trajectories of the log are equal to each of the sample.
    parts
    """
    nodes: list[list[object]] = []
    num_blocks = 0

    def cut(rows: npt.NDArray[np.int32], parts: int) -> int:
        nonlocal num_blocks
        found = None if parts == 1 or len(rows) < 2 else _halve(points, weight, rows, parts)
        if found is None:
            num_blocks += 1
            return -num_blocks
        direction, edge, is_below = found
        number = len(nodes)
        nodes.append([direction, edge, 0, 0])
        nodes[number][2] = cut(rows[is_below], parts // 2)
        nodes[number][3] = cut(rows[~is_below], parts - parts // 2)
        return number

    cut(np.arange(len(points), dtype=np.int32), parts)
    width = points.shape[1] * points.shape[2]
    direction, edge, below, above = zip(*nodes, strict=True) if nodes else ((), (), (), ())
    return Planes(
        np.array(direction, np.float64).reshape(-1, width),
        np.array(edge, np.float64),
        np.array(below, np.int32),
        np.array(above, np.int32),
    )


def _halve(
    points: Points, weight: npt.NDArray[np.int64], rows: npt.NDArray[np.int32], parts: int
) -> tuple[npt.NDArray[np.float64], float, npt.NDArray[np.bool_]] | None:
    """Find a plane that cuts rows into ``parts // 2`` and the other parts; None if all are equal.

    Returns the plane's direction, its edge, and which rows are before it.
    """
    direction = find_direction(points, rows)
    along = project_rows(points, rows, direction)
    order = np.argsort(along, kind="stable")
    before = np.cumsum(weight[rows[order]])
    wanted = before[-1] * (parts // 2) / parts
    places = np.flatnonzero(np.diff(along[order]) > 0)
    if not len(places):
        return None
    place = int(places[np.abs(before[places] - wanted).argmin()])
    edge = float(along[order[place + 1]])
    return direction, edge, along < edge


def find_blocks(points: Points, planes: Planes) -> npt.NDArray[np.int32]:
    """Find the block of each trajectory."""
    blocks: npt.NDArray[np.int32] = _find_blocks(points, planes)
    return blocks


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
def _find_blocks(points, planes):  # type: ignore[no-untyped-def]
    n, axes, length = points.shape
    blocks = np.zeros(n, np.int32)
    for i in range(n):
        node = np.int32(0) if len(planes.edge) else np.int32(-1)
        while node >= 0:
            along = 0.0
            for axis in range(axes):
                for instant in range(length):
                    along += (
                        points[i, axis, instant] * planes.direction[node, axis * length + instant]
                    )
            node = planes.below[node] if along < planes.edge[node] else planes.above[node]
        blocks[i] = -1 - node
    return blocks
