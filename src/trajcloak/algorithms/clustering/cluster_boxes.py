"""Bounding boxes of clusters, and the logarithms of their areas.

Cost and distance of the clustering rivals (section 5.2 of the paper) are sums,
over instants, of the logarithm of the area of a bounding rectangle. Areas are
counted in cells, as they are published, so the least area is one cell and its
logarithm is 0: two locations in one cell, or on a line, need no rule of their own.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

CHUNK = 16
"""Instants whose areas are multiplied before a logarithm is taken: 16 areas of at
most 2^48 cells each stay below the largest float64."""

Columns = npt.NDArray[np.float32]
"""(2 x instants, n): x of the first instant, y of the first, x of the second, ...
A cell number is below 2^24 and exact in float32."""


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
