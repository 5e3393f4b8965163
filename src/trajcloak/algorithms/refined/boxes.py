"""Summed areas of the cloaks around trajectories, as whole numbers of cells.

For ``mbr``, the areas of bounding boxes; for ``quad``, of the smallest quadrants and
semi-quadrants around them.

Sums are of uint64 products of uint32 sides. They are exact, so their order does not matter
and the compiler may vectorise them. A bundle keeps, for every instant and axis, its two least
and its two greatest cells: they are enough to compute its area without one of its members, or
with one exchanged for another.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

ONE = np.uint32(1)
WIDE, NARROW, SEMI_QUADRANT = SHAPES = range(3)
"""Shapes of cloaks: boxes; boxes with sides below 2^16, whose areas are computed faster; and
the smallest quadrants and semi-quadrants around boxes."""

NARROW_SIDE = (1 << 16) - 1

LANES = 8
"""Instants that one instruction handles. With a number of instants that is not a multiple of
this, the loops took twice as long."""

Points = npt.NDArray[np.uint32]
"""(n, 2, instants): cells of trajectories, all x before all y."""


class Boxes(NamedTuple):
    """Boxes of several bundles, each array (bundles, 2, instants) uint32.

    Attributes
    ----------
    low, low2
        The least and the second least cell; equal where two members share the least.
    high, high2
        The greatest and the second greatest cell.
    """

    low: Points
    low2: Points
    high: Points
    high2: Points


def empty_cells(shape: tuple[int, ...]) -> Points:
    """Allocate cells at a multiple of 64 bytes.

    Then no instruction reads from two lines of the processor's cache. numpy promises 16 bytes only,
    with which kernels took a fifth longer.
    """
    size = math.prod(shape)
    room = np.empty(size + 16, np.uint32)
    start = -room.ctypes.data % 64 // 4
    return room[start : start + size].reshape(shape)


def build_points(cells: npt.NDArray[np.uint32]) -> Points:
    """Lay each trajectory out with all x before all y."""
    return np.ascontiguousarray(cells.transpose(0, 2, 1))


@njit(cache=True, nogil=True)
def empty_boxes(count, length):  # type: ignore[no-untyped-def]
    """Allocate the boxes of ``count`` bundles."""
    shape = (count, 2, length)
    return Boxes(
        np.empty(shape, np.uint32),
        np.empty(shape, np.uint32),
        np.empty(shape, np.uint32),
        np.empty(shape, np.uint32),
    )


@njit(cache=True, nogil=True)
def fill_box(points, count, boxes, b):  # type: ignore[no-untyped-def]
    """Compute the box of bundle ``b`` from its members, the first ``count`` rows of ``points``.

    O(instants) per member.
    """
    clear_box(boxes, b)
    for m in range(count):
        grow_box(boxes, b, points[m], points[m])


@njit(cache=True, nogil=True, inline="always")
def clear_box(boxes, b):  # type: ignore[no-untyped-def]
    """Start the box of bundle ``b``, with no members yet."""
    boxes.low[b] = np.uint32(0xFFFFFFFF)
    boxes.low2[b] = np.uint32(0xFFFFFFFF)
    boxes.high[b] = np.uint32(0)
    boxes.high2[b] = np.uint32(0)


@njit(cache=True, nogil=True, inline="always")
def grow_box(boxes, b, least, greatest):  # type: ignore[no-untyped-def]
    """Add a member to the box of bundle ``b``: its least and greatest cells.

    For a trajectory both are the trajectory itself; for a part, the edges of its box.
    """
    low, low2, high, high2 = boxes.low[b], boxes.low2[b], boxes.high[b], boxes.high2[b]
    for axis in range(2):
        for i in range(low.shape[1]):
            # The second least before the least: it needs the old one.
            low2[axis, i] = min(low2[axis, i], max(low[axis, i], least[axis, i]))
            low[axis, i] = min(low[axis, i], least[axis, i])
            high2[axis, i] = max(high2[axis, i], min(high[axis, i], greatest[axis, i]))
            high[axis, i] = max(high[axis, i], greatest[axis, i])


def move_to_origin(points: Points) -> int:
    """Shift trajectories in place so that the least cell is 0 on both axes; returns their shape.

    The areas of boxes stay the same, and small enough ones can be computed as NARROW.
    """
    points -= points.min(axis=(0, 2))[:, None]
    return NARROW if points.max() < NARROW_SIDE else WIDE


def pad_instants(points: Points) -> Points:
    """Add instants, with everybody in cell 0, until their number is a multiple of LANES.

    Instants beyond a multiple of LANES would be handled one by one. Each user's cost rises by
    the same number of cells, so no choice changes.
    """
    count, axes, length = points.shape
    padded = np.zeros((count, axes, -(-length // LANES) * LANES), np.uint32)
    padded[..., :length] = points
    return padded


@njit(cache=True, nogil=True, inline="always")
def cover_ends(left, right, bottom, top):  # type: ignore[no-untyped-def]
    """Set, on each axis, the highest bit in which the two ends differ, and all bits below it.

    The larger of the two results is the side of the smallest quadrant, less one.
    """
    x = left ^ right
    y = bottom ^ top
    # Copy the highest bit to the right, over 1, 2, 4, 8 and 16 places.
    x |= x >> np.uint32(1)
    y |= y >> np.uint32(1)
    x |= x >> np.uint32(2)
    y |= y >> np.uint32(2)
    x |= x >> np.uint32(4)
    y |= y >> np.uint32(4)
    x |= x >> np.uint32(8)
    y |= y >> np.uint32(8)
    x |= x >> np.uint32(16)
    y |= y >> np.uint32(16)
    return x, y


@njit(cache=True, nogil=True, inline="always")
def cover_area(left, right, bottom, top, shape):  # type: ignore[no-untyped-def]
    """Compute the area of the cloak around the cells left..right, bottom..top."""
    if shape == NARROW:
        # Both sides are below 2^16, so their product is below 2^32 and fits uint32.
        width = np.uint32(right - left + ONE)
        height = np.uint32(top - bottom + ONE)
        return np.uint64(np.uint32(width * height))
    if shape == WIDE:
        return np.uint64(right - left + ONE) * np.uint64(top - bottom + ONE)
    x, y = cover_ends(left, right, bottom, top)
    side = np.uint64(max(x, y)) + np.uint64(1)
    # If only y needs the last doubling, half the quadrant, cut in x, is enough.
    return side * side if x >= y else (side * side) >> np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def area(low, high, shape):  # type: ignore[no-untyped-def]
    """Sum the areas of the cloaks around a box."""
    total = np.uint64(0)
    for i in range(low.shape[1]):
        total += cover_area(low[0, i], high[0, i], low[1, i], high[1, i], shape)
    return total


@njit(cache=True, nogil=True, inline="always")
def area_with(low, high, least, greatest, shape):  # type: ignore[no-untyped-def]
    """Sum the areas around a box grown by one member, given as in :func:`grow_box`."""
    total = np.uint64(0)
    for i in range(low.shape[1]):
        left = min(low[0, i], least[0, i])
        right = max(high[0, i], greatest[0, i])
        bottom = min(low[1, i], least[1, i])
        top = max(high[1, i], greatest[1, i])
        total += cover_area(left, right, bottom, top, shape)
    return total


@njit(cache=True, nogil=True, inline="always")
def area_without(boxes, b, point, shape):  # type: ignore[no-untyped-def]
    """Sum the areas around bundle ``b`` without one of its members.

    Where the member alone has the least cell, the second least takes its place; where others
    share it, the two are equal.
    """
    low, low2, high, high2 = boxes.low[b], boxes.low2[b], boxes.high[b], boxes.high2[b]
    total = np.uint64(0)
    for i in range(low.shape[1]):
        x = point[0, i]
        y = point[1, i]
        left = low2[0, i] if x == low[0, i] else low[0, i]
        right = high2[0, i] if x == high[0, i] else high[0, i]
        bottom = low2[1, i] if y == low[1, i] else low[1, i]
        top = high2[1, i] if y == high[1, i] else high[1, i]
        total += cover_area(left, right, bottom, top, shape)
    return total


@njit(cache=True, nogil=True, inline="always")
def area_exchanged(boxes, b, gone_least, gone_greatest, least, greatest, shape):  # type: ignore[no-untyped-def]
    """Sum the areas around bundle ``b`` with one member gone and another in its place.

    Both are given as in :func:`grow_box`.
    """
    low, low2, high, high2 = boxes.low[b], boxes.low2[b], boxes.high[b], boxes.high2[b]
    total = np.uint64(0)
    for i in range(low.shape[1]):
        # First without the one who leaves, as in area_without, then with the one who comes.
        left = low2[0, i] if gone_least[0, i] == low[0, i] else low[0, i]
        right = high2[0, i] if gone_greatest[0, i] == high[0, i] else high[0, i]
        bottom = low2[1, i] if gone_least[1, i] == low[1, i] else low[1, i]
        top = high2[1, i] if gone_greatest[1, i] == high[1, i] else high[1, i]
        left = min(left, least[0, i])
        right = max(right, greatest[0, i])
        bottom = min(bottom, least[1, i])
        top = max(top, greatest[1, i])
        total += cover_area(left, right, bottom, top, shape)
    return total
