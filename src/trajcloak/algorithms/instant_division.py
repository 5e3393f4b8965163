"""Divide the places of a bundle's members at one instant into parts.

The places are cut in two, again and again (:mod:`.refined.cuts`). Then members move to other
parts, or two exchange their parts, while that lowers the cost: the area of each part times its
members. Only a member at an edge of its part is worth moving, unless its part has some to spare.
"""

import numpy as np
from numba import njit

from trajcloak.algorithms.refined.boxes import cover_area
from trajcloak.algorithms.refined.cuts import bundle_by_cuts

PASSES = 10
"""Most passes over all members; most divisions are done after three."""

NEAR = 3
"""With how many parts' members one is exchanged: of the parts that it raises least."""

LEAST_GAIN = 0.5
"""Costs are whole numbers of cells, so that a smaller gain is a rounding error."""


@njit(cache=True, nogil=True)
def divide_places(points, least, shape):  # type: ignore[no-untyped-def]
    """Divide places into parts of at least ``least``; returns the part of each, from 0.

    Parameters
    ----------
    points : (n, 2, 1) uint32
        At least ``least`` places.
    least : int
    shape : int
        Whose areas are lowered, as in :mod:`trajcloak.algorithms.refined.boxes`.

    O(parts) for each member and pass, and O(least) more for members at edges.
    """
    part = bundle_by_cuts(points, least, shape)
    sizes = np.bincount(part)
    # Row p: least, second least, greatest, second greatest x of part p; then the same of y.
    edges = np.empty((len(sizes), 8), np.uint32)
    areas = np.empty(len(sizes))
    for p in range(len(sizes)):
        _renew(points, part, edges, areas, p, shape)
    rises = np.empty(len(sizes))
    for _ in range(PASSES):
        changes = 0
        for j in range(len(part)):
            to, other = _find_change(points, part, sizes, edges, areas, rises, j, least, shape)
            if to < 0:
                continue
            changes += 1
            a = part[j]
            part[j] = to
            if other >= 0:
                part[other] = a
            else:
                sizes[a] -= 1
                sizes[to] += 1
            _renew(points, part, edges, areas, a, shape)
            _renew(points, part, edges, areas, to, shape)
        if changes == 0:
            break
    return part


@njit(cache=True, nogil=True)
def _find_change(points, part, sizes, edges, areas, rises, j, least, shape):  # type: ignore[no-untyped-def]
    """Find what to do with member ``j``: the part to move to, and whom to exchange it with.

    The part is -1 if nothing lowers the cost, the other member -1 for a move.
    """
    a = part[j]
    x, y = points[j, 0, 0], points[j, 1, 0]
    left, right, bottom, top = _leave(edges, a, x, y)
    saved = areas[a] - np.float64(cover_area(left, right, bottom, top, shape))
    to = other = np.int64(-1)
    if saved == 0.0 and sizes[a] <= least:
        return to, other
    best = -LEAST_GAIN
    for b in range(len(sizes)):
        if b == a:
            rises[b] = np.inf
            continue
        grown = np.float64(
            cover_area(
                min(edges[b, 0], x), max(edges[b, 2], x), min(edges[b, 4], y), max(edges[b, 6], y),
                shape,
            )
        )  # fmt: skip
        rises[b] = sizes[b] * (grown - areas[b])
        if sizes[a] > least:
            change = rises[b] + grown - areas[a] - (sizes[a] - 1) * saved
            if change < best:
                best = change
                to = np.int64(b)
    for _ in range(NEAR):
        b = int(np.argmin(rises))
        # Next to no exchange helps where the member costs more than it saves.
        if rises[b] >= sizes[a] * saved:
            break
        rises[b] = np.inf
        for q in range(len(part)):
            if part[q] != b:
                continue
            new_x, new_y = points[q, 0, 0], points[q, 1, 0]
            exchanged = np.float64(
                cover_area(
                    min(left, new_x), max(right, new_x), min(bottom, new_y), max(top, new_y), shape
                )
            )
            change = sizes[a] * (exchanged - areas[a])
            # Even if b's area fell to 0, this exchange would not be the best.
            if change - sizes[b] * areas[b] >= best:
                continue
            low_x, high_x, low_y, high_y = _leave(edges, b, new_x, new_y)
            exchanged = np.float64(
                cover_area(min(low_x, x), max(high_x, x), min(low_y, y), max(high_y, y), shape)
            )
            change += sizes[b] * (exchanged - areas[b])
            if change < best:
                best = change
                to = np.int64(b)
                other = np.int64(q)
    return to, other


@njit(cache=True, nogil=True, inline="always")
def _leave(edges, p, x, y):  # type: ignore[no-untyped-def]
    """Find the edges of part ``p`` without a member at x, y: left, right, bottom, top."""
    return (
        edges[p, 1] if x == edges[p, 0] else edges[p, 0],
        edges[p, 3] if x == edges[p, 2] else edges[p, 2],
        edges[p, 5] if y == edges[p, 4] else edges[p, 4],
        edges[p, 7] if y == edges[p, 6] else edges[p, 6],
    )


@njit(cache=True, nogil=True)
def _renew(points, part, edges, areas, p, shape):  # type: ignore[no-untyped-def]
    """Compute the edges and the area of part ``p`` again."""
    for axis in range(2):
        low = low2 = np.uint32(0xFFFFFFFF)
        high = high2 = np.uint32(0)
        for j in range(len(part)):
            if part[j] == p:
                cell = points[j, axis, 0]
                # The second least before the least: it needs the old one.
                low2 = min(low2, max(low, cell))
                low = min(low, cell)
                high2 = max(high2, min(high, cell))
                high = max(high, cell)
        edges[p, 4 * axis] = low
        edges[p, 4 * axis + 1] = low2
        edges[p, 4 * axis + 2] = high
        edges[p, 4 * axis + 3] = high2
    areas[p] = np.float64(cover_area(edges[p, 0], edges[p, 2], edges[p, 4], edges[p, 6], shape))
