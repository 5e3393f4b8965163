"""Cloak sequences of sets of trajectories, in cells of the grid, and their cost.

A cloak is four numbers: the first cell and the cell after the last one, on each
axis. Bundles are numbered in the order of their cloak sequences, so that a bundle's
number reveals nothing beyond its cloaks (invariant 2 of ``docs/guarantee.md``).
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.kernels.sort import group_by_number
from trajcloak.kernels.threads import run_sliced
from trajcloak.options import MBR

X_START, Y_START, X_STOP, Y_STOP = range(4)

Cloaks = npt.NDArray[np.uint32]
"""(bundles, instants, 4): X_START, Y_START, X_STOP, Y_STOP in cells, half open."""


def build_bounding_boxes(
    cells: npt.NDArray[np.uint32], bundle: npt.NDArray[np.int32], num_bundles: int, threads: int
) -> Cloaks:
    """Compute the smallest cell rectangles around the trajectories of each bundle.

    ``cells`` is (n, instants, 2); ``bundle``, (n,), is the bundle of each trajectory, negative: in
    no bundle. Each bundle has at least one trajectory.
    """
    members, first = group_by_number(bundle, num_bundles)
    boxes = np.empty((num_bundles, cells.shape[1], 4), np.uint32)
    run_sliced(
        lambda start, stop: _fill_boxes(cells, members, first, start, stop, boxes),
        num_bundles,
        threads,
    )
    return boxes


def build_covering_quads(boxes: Cloaks) -> Cloaks:
    """Find the smallest quadrant, or quadrant cut in x as in the US-tree, around each box."""
    cover = np.empty_like(boxes)
    # Free bits of an axis: the highest bit in which its first and last cell differ, and all below.
    free_x = _count_bits(boxes[..., X_START] ^ (boxes[..., X_STOP] - np.uint32(1)))
    free_y = _count_bits(boxes[..., Y_START] ^ (boxes[..., Y_STOP] - np.uint32(1)))
    quadrant = free_x >= free_y
    free_y = np.maximum(free_x, free_y)
    free_x = np.where(quadrant, free_x, free_y - np.uint32(1))
    for start, stop, free in ((X_START, X_STOP, free_x), (Y_START, Y_STOP, free_y)):
        cover[..., start] = boxes[..., start] >> free << free
        cover[..., stop] = cover[..., start] + (np.uint32(1) << free)
    return cover


def _count_bits(numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Count the bits of each number up to its highest one bit; 0 for 0."""
    exponent: npt.NDArray[np.uint32] = np.frexp(numbers.astype(np.float64))[1].astype(np.uint32)
    return exponent


def build_cloaks(
    cells: npt.NDArray[np.uint32], bundle: npt.NDArray[np.int32], cloak: str, threads: int
) -> Cloaks:
    """Cover the trajectories of each bundle: bounding boxes, or (semi-)quadrants."""
    boxes = build_bounding_boxes(cells, bundle, int(bundle.max()) + 1, threads)
    return boxes if cloak == MBR else build_covering_quads(boxes)


def compute_areas(cloaks: Cloaks) -> npt.NDArray[np.float64]:
    """Compute the area of every cloak in cells: (bundles, instants) float64."""
    width = (cloaks[..., X_STOP] - cloaks[..., X_START]).astype(np.float64)
    height = (cloaks[..., Y_STOP] - cloaks[..., Y_START]).astype(np.float64)
    return width * height


def compute_union_areas(
    rectangles: npt.NDArray[np.uint32], first: npt.NDArray[np.int64], threads: int
) -> npt.NDArray[np.float64]:
    """Compute the areas, in cells, that some sets of rectangles cover.

    ``rectangles`` is (rectangles, 4), as a cloak; ``first``, (sets + 1,), is where the rectangles
    of each set start.
    """
    areas = np.empty(len(first) - 1, np.float64)
    run_sliced(
        lambda start, stop: _fill_union_areas(rectangles, first, start, stop, areas),
        len(areas),
        threads,
    )
    return areas


def order_by_cloaks(cloaks: Cloaks, sizes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Sort bundles by cloak sequence, then by size; returns the bundles in that order."""
    digits = [cloaks.reshape(len(cloaks), 4 * cloaks.shape[1]), sizes.astype(np.uint32)[:, None]]
    return np.argsort(_to_bytes(np.concatenate(digits, axis=1)), kind="stable")


def encode_cloaks(cloaks: Cloaks) -> npt.NDArray[np.void]:
    """Encode cloak sequences as bytes that sort in the same order."""
    return _to_bytes(cloaks.reshape(len(cloaks), 4 * cloaks.shape[1]))


def _to_bytes(digits: npt.NDArray[np.uint32]) -> npt.NDArray[np.void]:
    # Big-endian numbers sort like their bytes.
    as_bytes: npt.NDArray[np.void] = (
        np.ascontiguousarray(digits.astype(">u4")).view(f"V{4 * digits.shape[1]}").ravel()
    )
    return as_bytes


@njit(cache=True, nogil=True)
def _fill_boxes(cells, members, first, start, stop, boxes):  # type: ignore[no-untyped-def]
    """Fill ``boxes[start:stop]`` with the bounding boxes; O(instants) per member."""
    length = cells.shape[1]
    for b in range(start, stop):
        box = boxes[b]
        for i in range(length):
            box[i, X_START] = box[i, Y_START] = np.uint32(0xFFFFFFFF)
            box[i, X_STOP] = box[i, Y_STOP] = np.uint32(0)
        for m in range(first[b], first[b + 1]):
            trajectory = cells[members[m]]
            for i in range(length):
                x = trajectory[i, 0]
                y = trajectory[i, 1]
                box[i, X_START] = min(box[i, X_START], x)
                box[i, Y_START] = min(box[i, Y_START], y)
                box[i, X_STOP] = max(box[i, X_STOP], x + np.uint32(1))
                box[i, Y_STOP] = max(box[i, Y_STOP], y + np.uint32(1))


@njit(cache=True, nogil=True)
def _fill_union_areas(rectangles, first, start, stop, areas):  # type: ignore[no-untyped-def]
    """Fill ``areas[start:stop]``; O(r^2) for r rectangles, sorting aside.

    The plane is cut into strips at all left and right edges. In a strip, rectangles are taken
    from the lowest up: each adds what is above all before it.
    """
    for s in range(start, stop):
        few = rectangles[first[s] : first[s + 1]].astype(np.int64)
        few = few[np.argsort(few[:, Y_START])]
        cuts = np.sort(np.concatenate((few[:, X_START], few[:, X_STOP])))
        area = 0.0
        for c in range(len(cuts) - 1):
            width = cuts[c + 1] - cuts[c]
            if width == 0:
                continue
            covered = top = np.int64(0)
            for r in range(len(few)):
                if few[r, X_START] <= cuts[c] and cuts[c + 1] <= few[r, X_STOP]:
                    covered += max(few[r, Y_STOP] - max(few[r, Y_START], top), 0)
                    top = max(top, few[r, Y_STOP])
            area += float(width * covered)
        areas[s] = area
