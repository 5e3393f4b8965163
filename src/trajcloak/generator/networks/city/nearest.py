"""The junction nearest to a point, found in a raster of cells."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trajcloak.generator.networks.city.plan import SIDE


class Nodes(NamedTuple):
    """Junctions by cell.

    Parameters
    ----------
    x, y
        int64 (junctions,): decimetres.
    cell
        The side of a cell.
    cells
        The number of cells of a row.
    starts
        int64 (cells + 1,): where the junctions of each cell begin in ``order``.
    order
        int64 (junctions,): the junctions, cell by cell.
    """

    x: NDArray[np.int64]
    y: NDArray[np.int64]
    cell: int
    cells: int
    starts: NDArray[np.int64]
    order: NDArray[np.int64]


def build_nodes(x: NDArray[np.int64], y: NDArray[np.int64], unit: float) -> Nodes:
    """Sort junctions into cells about two streets wide."""
    cell = max(1, int(2 * unit))
    cells = 10 * SIDE // cell + 1
    number = x // cell * cells + y // cell
    starts = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=cells * cells))])
    return Nodes(x, y, cell, cells, starts, np.argsort(number, kind="stable"))


@njit(cache=True, nogil=True)
def nearest_node(nodes: Any, x: Any, y: Any, reach: Any, avoided: Any) -> Any:
    """Return for each point the nearest junction within reach, or -1.

    Parameters
    ----------
    nodes
        The junctions.
    x, y
        int64 (points,).
    reach
        int64 (points,): how far away it may be.
    avoided
        int64: what the junction must not have in common with the point, which is
        then a junction itself; of length 0 where any will do.
    """
    found = np.full(x.size, -1, np.int64)
    for point in range(x.size):
        best = reach[point] * reach[point] + 1
        wide = reach[point] // nodes.cell + 1
        column, row = x[point] // nodes.cell, y[point] // nodes.cell
        for c in range(max(0, column - wide), min(nodes.cells, column + wide + 1)):
            for r in range(max(0, row - wide), min(nodes.cells, row + wide + 1)):
                number = c * nodes.cells + r
                for node in nodes.order[nodes.starts[number] : nodes.starts[number + 1]]:
                    if avoided.size and avoided[node] == avoided[point]:
                        continue
                    dx, dy = nodes.x[node] - x[point], nodes.y[node] - y[point]
                    if dx * dx + dy * dy < best:
                        best = dx * dx + dy * dy
                        found[point] = node
    return found
