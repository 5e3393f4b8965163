"""Cut trajectories, or bundles, into blocks of near neighbours.

Recursive bisection along the principal direction, which is found by power iteration
on a sample. Sums are plain loops in a fixed order, so that the cuts are the same on
every machine and for any number of threads.
"""

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
    """Cut into blocks of at most ``size``.

    Parameters
    ----------
    points : Points
    order : (n,) int32
        The rows to cut, in an order that does not depend on row numbers.
    size : int
    share : float
        Share of the rows on the first side of the first cut; it shifts all blocks.
    threads : int

    Returns
    -------
    list of int32 arrays
        The rows of each block.
    """
    blocks: list[npt.NDArray[np.int32]] = []
    level = [(order, share)]
    while level:
        halves = run_all(lambda rows, part: _halve(points, rows, part, size), level, threads)
        level = []
        for rows, rest in halves:
            for half in (rows, rest):
                if len(half) > size:
                    level.append((half, 0.5))
                elif len(half):
                    blocks.append(half)
    return blocks


def _halve(
    points: Points, rows: npt.NDArray[np.int32], share: float, size: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Cut rows in two along their principal direction."""
    if len(rows) <= size:
        return rows, rows[:0]
    num_blocks = -(-len(rows) // size)
    cut = len(rows) * (num_blocks // 2) // num_blocks if share == 0.5 else int(len(rows) * share)
    along = project_rows(points, rows, find_direction(points, rows))
    # A stable sort splits ties the same way on every machine; a partition does not.
    placed = np.argsort(along, kind="stable")
    return rows[np.sort(placed[:cut])], rows[np.sort(placed[cut:])]


@njit(cache=True, nogil=True)
def find_direction(points, rows):  # type: ignore[no-untyped-def]
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
def project_rows(points, rows, direction):  # type: ignore[no-untyped-def]
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
