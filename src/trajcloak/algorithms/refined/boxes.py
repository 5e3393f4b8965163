"""Summed areas of the cloaks around trajectories, as whole numbers of cells.

For ``mbr``, the areas of bounding boxes; for ``quad``, of the smallest quadrants and
semi-quadrants around them.

Sums are of uint64 products of uint32 sides. They are exact, so their order does not matter
and the compiler may vectorise them. A bundle keeps, for every instant and axis, its two least
and its two greatest cells: they are enough to compute its area without one of its members, or
with one exchanged for another.

Functions take whole arrays and the number of a row. numba counts the references to a row that is
taken out of an array (``points[row]``), which was a third of the time of the kernels here.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

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
    """Boxes of several bundles, each array (bundles, 2, instants) uint32."""

    low: Points  # The least cell, and the second least; equal where two members share the least.
    low2: Points
    high: Points  # The greatest and the second greatest cell.
    high2: Points


def compile_shape(kernel: Callable[..., Any], shape: int) -> Callable[..., Any]:
    """Compile a function that is defined inside another one, for one shape.

    Kernels that numba loads from its cache share a name space within a process. Those of one name
    that were compiled in different processes are taken for the same.
    """
    kernel.__qualname__ += f"_{shape}"
    compiled: Callable[..., Any] = njit(cache=True, nogil=True)(kernel)
    return compiled


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


@njit(cache=True, nogil=True, inline="always")
def _find_two_least(a, a2, b, b2):  # type: ignore[no-untyped-def]
    """Find the two least of four numbers, where a <= a2 and b <= b2."""
    return min(a, b), min(max(a, b), min(a2, b2))


@njit(cache=True, nogil=True, inline="always")
def _find_two_greatest(a, a2, b, b2):  # type: ignore[no-untyped-def]
    """Find the two greatest of four numbers, where a >= a2 and b >= b2."""
    return max(a, b), max(min(a, b), max(a2, b2))


@njit(cache=True, nogil=True, inline="always")
def fill_box(boxes, b, points, first, count):  # type: ignore[no-untyped-def]
    """Compute the box of bundle ``b``: its members are ``count`` rows of ``points`` from ``first``.

    O(instants) per member.
    """
    low, low2, high, high2 = boxes
    length = low.shape[2]
    most = np.uint32(0xFFFFFFFF)
    least = np.uint32(0)
    for axis in range(2):
        for i in range(length):
            low[b, axis, i] = low2[b, axis, i] = most
            high[b, axis, i] = high2[b, axis, i] = least
    # Four members at a time, in half the time, after those that make no four.
    fours = first + count % 4
    for m in range(first, fours):
        for axis in range(2):
            for i in range(length):
                cell = points[m, axis, i]
                low[b, axis, i], low2[b, axis, i] = _find_two_least(
                    low[b, axis, i], low2[b, axis, i], cell, most
                )
                high[b, axis, i], high2[b, axis, i] = _find_two_greatest(
                    high[b, axis, i], high2[b, axis, i], cell, least
                )
    for m in range(fours, first + count, 4):
        for axis in range(2):
            for i in range(length):
                p, q = points[m, axis, i], points[m + 1, axis, i]
                r, s = points[m + 2, axis, i], points[m + 3, axis, i]
                first_low, second_low = _find_two_least(min(p, q), max(p, q), min(r, s), max(r, s))
                low[b, axis, i], low2[b, axis, i] = _find_two_least(
                    low[b, axis, i], low2[b, axis, i], first_low, second_low
                )
                first_high, second_high = _find_two_greatest(
                    max(p, q), min(p, q), max(r, s), min(r, s)
                )
                high[b, axis, i], high2[b, axis, i] = _find_two_greatest(
                    high[b, axis, i], high2[b, axis, i], first_high, second_high
                )


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
def area(low, high, b, shape):  # type: ignore[no-untyped-def]
    """Sum the areas of the cloaks around box ``b``."""
    total = np.uint64(0)
    for i in range(low.shape[2]):
        total += cover_area(low[b, 0, i], high[b, 0, i], low[b, 1, i], high[b, 1, i], shape)
    return total


@njit(cache=True, nogil=True, inline="always")
def area_with(low, high, b, points, coming, shape):  # type: ignore[no-untyped-def]
    """Sum the areas around box ``b`` grown by one trajectory, a row of ``points``."""
    total = np.uint64(0)
    for i in range(low.shape[2]):
        x = points[coming, 0, i]
        y = points[coming, 1, i]
        left = min(low[b, 0, i], x)
        right = max(high[b, 0, i], x)
        bottom = min(low[b, 1, i], y)
        top = max(high[b, 1, i], y)
        total += cover_area(left, right, bottom, top, shape)
    return total


@njit(cache=True, nogil=True, inline="always")
def area_without(boxes, b, points, leaving, shape):  # type: ignore[no-untyped-def]
    """Sum the areas around bundle ``b`` without one of its members, a row of ``points``.

    Where the member alone has the least cell, the second least takes its place; where others
    share it, the two are equal.
    """
    low, low2, high, high2 = boxes
    total = np.uint64(0)
    for i in range(low.shape[2]):
        x = points[leaving, 0, i]
        y = points[leaving, 1, i]
        left = low2[b, 0, i] if x == low[b, 0, i] else low[b, 0, i]
        right = high2[b, 0, i] if x == high[b, 0, i] else high[b, 0, i]
        bottom = low2[b, 1, i] if y == low[b, 1, i] else low[b, 1, i]
        top = high2[b, 1, i] if y == high[b, 1, i] else high[b, 1, i]
        total += cover_area(left, right, bottom, top, shape)
    return total


@njit(cache=True, nogil=True, inline="always")
def area_exchanged(boxes, b, points, leaving, coming, shape):  # type: ignore[no-untyped-def]
    """Sum the areas around bundle ``b`` with a member exchanged; both are rows of ``points``."""
    low, low2, high, high2 = boxes
    total = np.uint64(0)
    for i in range(low.shape[2]):
        # First without the one who leaves, as in area_without, then with the one who comes.
        x = points[leaving, 0, i]
        y = points[leaving, 1, i]
        left = min(low2[b, 0, i] if x == low[b, 0, i] else low[b, 0, i], points[coming, 0, i])
        right = max(high2[b, 0, i] if x == high[b, 0, i] else high[b, 0, i], points[coming, 0, i])
        bottom = min(low2[b, 1, i] if y == low[b, 1, i] else low[b, 1, i], points[coming, 1, i])
        top = max(high2[b, 1, i] if y == high[b, 1, i] else high[b, 1, i], points[coming, 1, i])
        total += cover_area(left, right, bottom, top, shape)
    return total
