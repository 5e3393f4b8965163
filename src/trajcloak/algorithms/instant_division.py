"""Divide the places of a bundle's members at one instant into parts.

The places are cut in two, again and again (:mod:`.refined.cuts`). Then members move to other
parts, or two exchange their parts, while that lowers the cost: the area of each part times its
members. Only a member at an edge of its part is worth moving, unless its part has some to spare.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.refined.boxes import cover_area
from trajcloak.algorithms.refined.cuts import bundle_by_cuts

PASSES = 10
"""Most passes over all members; most divisions are done after three."""

LEAST_GAIN = 0.5
"""Costs are whole numbers of cells, so that a smaller gain is a rounding error."""


class InstantParts(NamedTuple):
    """The parts of one bundle at one instant.

    Attributes
    ----------
    members : (parts, room) int64
        Row p has the members of part p, ``sizes[p]`` of them.
    sizes : (parts,) int64
    edges : (parts, 8) uint32
        Of row p: least, second least, greatest, second greatest x of part p; then the same of y.
    areas : (parts,) float64
    """

    members: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    edges: npt.NDArray[np.uint32]
    areas: npt.NDArray[np.float64]


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
    parts = _gather(part, least)
    for p in range(len(parts.sizes)):
        _renew(points, parts, p, shape)
    for _ in range(PASSES):
        changes = 0
        for a in range(len(parts.sizes)):
            # Member number m of part a; sizes[a] may change on the way.
            m = -1
            while m + 1 < parts.sizes[a]:
                m += 1
                to, place = _find_change(points, parts, a, m, least, shape)
                if to >= 0:
                    _make_change(parts, a, m, to, place)
                    _renew(points, parts, a, shape)
                    _renew(points, parts, to, shape)
                    changes += 1
        if changes == 0:
            break
    for p in range(len(parts.sizes)):
        part[parts.members[p, : parts.sizes[p]]] = p
    return part


@njit(cache=True, nogil=True)
def _gather(part, least):  # type: ignore[no-untyped-def]
    """List the members of each part, with room for twice the least number."""
    sizes = np.bincount(part)
    members = np.empty((len(sizes), 2 * least), np.int64)
    sizes[:] = 0
    for j in range(len(part)):
        p = part[j]
        members[p, sizes[p]] = j
        sizes[p] += 1
    edges = np.empty((len(sizes), 8), np.uint32)
    return InstantParts(members, sizes, edges, np.empty(len(sizes)))


@njit(cache=True, nogil=True)
def _find_change(points, parts, a, m, least, shape):  # type: ignore[no-untyped-def]
    """Find what to do with member number ``m`` of part ``a``.

    Returns the part to move it to, or -1 if nothing lowers the cost; and which member of that
    part to exchange it with, or -1 for a move.
    """
    members, sizes, edges, areas = parts
    x, y = points[members[a, m], 0, 0], points[members[a, m], 1, 0]
    left, right, bottom, top = _leave(edges, a, x, y)
    saved = areas[a] - np.float64(cover_area(left, right, bottom, top, shape))
    to = place = -1
    if saved == 0.0 and sizes[a] <= least:
        return to, place
    best = -LEAST_GAIN
    for b in range(len(sizes)):
        if b == a:
            continue
        grown = np.float64(
            cover_area(
                min(edges[b, 0], x), max(edges[b, 2], x), min(edges[b, 4], y), max(edges[b, 6], y),
                shape,
            )
        )  # fmt: skip
        rise = sizes[b] * (grown - areas[b])
        if sizes[a] > least and sizes[b] < members.shape[1]:
            change = rise + grown - areas[a] - (sizes[a] - 1) * saved
            if change < best:
                best = change
                to = b
                place = -1
        # Next to no exchange helps where the member costs more than it saves.
        if rise >= sizes[a] * saved:
            continue
        for n in range(sizes[b]):
            new_x, new_y = points[members[b, n], 0, 0], points[members[b, n], 1, 0]
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
                to = b
                place = n
    return to, place


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
def _make_change(parts, a, m, to, place):  # type: ignore[no-untyped-def]
    """Move member number ``m`` of part ``a``, or exchange it, as :func:`_find_change` says."""
    members, sizes = parts.members, parts.sizes
    if place >= 0:
        members[a, m], members[to, place] = members[to, place], members[a, m]
        return
    # The last member of a fills the gap.
    sizes[a] -= 1
    members[to, sizes[to]] = members[a, m]
    members[a, m] = members[a, sizes[a]]
    sizes[to] += 1


@njit(cache=True, nogil=True)
def _renew(points, parts, p, shape):  # type: ignore[no-untyped-def]
    """Compute the edges and the area of part ``p`` again."""
    edges = parts.edges[p]
    for axis in range(2):
        low = low2 = np.uint32(0xFFFFFFFF)
        high = high2 = np.uint32(0)
        for m in range(parts.sizes[p]):
            cell = points[parts.members[p, m], axis, 0]
            # The second least before the least: it needs the old one.
            low2 = min(low2, max(low, cell))
            low = min(low, cell)
            high2 = max(high2, min(high, cell))
            high = max(high, cell)
        edges[4 * axis : 4 * axis + 4] = low, low2, high, high2
    parts.areas[p] = np.float64(cover_area(edges[0], edges[2], edges[4], edges[6], shape))
