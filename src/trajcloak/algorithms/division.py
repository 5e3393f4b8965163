"""Divide the members of each bundle into parts of at least ``least``, as cheaply as possible.

The members of a bundle are cut in two, again and again (:mod:`.refined.cuts`), and then exchange
places while that lowers the cost (:mod:`.refined.improve`): the area of each part times its
members, summed over instants. Where members are divided anew at every instant, that is done for
each instant by itself (:mod:`.instant_division`). Who is with whom depends on the bundle's
trajectories alone; members are taken in order of their trajectories, so that user ids decide ties
between identical ones only (invariants 1 and 2 of ``docs/guarantee.md``).
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.instant_division import divide_places
from trajcloak.algorithms.refined.boxes import (
    NARROW,
    NARROW_SIDE,
    SEMI_QUADRANT,
    SHAPES,
    WIDE,
    empty_boxes,
)
from trajcloak.algorithms.refined.cuts import bundle_by_cuts
from trajcloak.algorithms.refined.improve import IMPROVE_GROUP, Group, copy_trajectory
from trajcloak.cloaks import group_members
from trajcloak.kernels.threads import build_slices, run_all
from trajcloak.options import QUAD

HEATS = np.linspace(0.2, 0.0, 4)
PASSES, NEAR, SAMPLES = 3, 2, 16
"""Of the exchanges, as in :class:`trajcloak.algorithms.refined.rounds.Effort`."""

_IMPROVE_WIDE = IMPROVE_GROUP[WIDE]
_IMPROVE_NARROW = IMPROVE_GROUP[NARROW]
_IMPROVE_SEMI_QUADRANT = IMPROVE_GROUP[SEMI_QUADRANT]


def divide_bundles(
    cells: npt.NDArray[np.uint32],
    bundle: npt.NDArray[np.int32],
    num_bundles: int,
    least: int,
    cloak: str,
    threads: int,
    *,
    per_instant: bool,
) -> npt.NDArray[np.int32]:
    """Divide every bundle.

    Parameters
    ----------
    cells : (n, instants, 2) uint32
    bundle : (n,) int32
        Bundle of each trajectory; negative: in no bundle.
    num_bundles : int
    least : int
        Least number of members of a part; every bundle has at least so many.
    cloak : {"quad", "mbr"}
        Which areas to lower.
    threads : int
        Changes the time, never the result.
    per_instant : bool
        Divide anew at every instant, instead of once for all of them.

    Returns
    -------
    (n, 1) or (n, instants) int32
        The part of each trajectory, from 0 in every bundle; -1: in no bundle.
    """
    length = cells.shape[1]
    part = np.full((len(cells), length if per_instant else 1), -1, np.int32)
    members, first = group_members(bundle, num_bundles)
    if cloak == QUAD:
        shape = SEMI_QUADRANT
    else:
        shape = NARROW if cells.max(initial=0) < NARROW_SIDE else WIDE

    def divide(start: int, stop: int) -> None:
        if per_instant:
            _divide_instants(cells, members, first, start, stop, least, shape, part)
        else:
            _DIVIDE[shape](cells, members, first, start, stop, least, HEATS, part)

    run_all(divide, build_slices(num_bundles, 8 * threads), threads)
    return part


def _build_divide(shape: int) -> Callable[..., None]:
    """Compile the kernel for one shape of cloaks."""

    @njit(cache=True, nogil=True)
    def divide(cells, members, first, start, stop, least, heats, part):  # type: ignore[no-untyped-def]
        """Fill ``part``, (n, 1), for the members of bundles ``start`` up to ``stop``."""
        length = cells.shape[1]
        for b in range(start, stop):
            rows = members[first[b] : first[b + 1]]
            count = len(rows)
            if count < 2 * least:
                for row in rows:
                    part[row] = 0
                continue
            rows = rows[_order_trajectories(cells, rows)]
            points = np.empty((count, 2, length), np.uint32)
            for j in range(count):
                for i in range(length):
                    points[j, 0, i] = cells[rows[j], i, 0]
                    points[j, 1, i] = cells[rows[j], i, 1]
            group = _gather_parts(points, bundle_by_cuts(points, least, shape), 2 * least)
            random = np.zeros(1, np.uint64)
            # Only the branch of this shape is compiled.
            if shape == SEMI_QUADRANT:
                _IMPROVE_SEMI_QUADRANT(group, least, heats, PASSES, NEAR, SAMPLES, random)
            elif shape == NARROW:
                _IMPROVE_NARROW(group, least, heats, PASSES, NEAR, SAMPLES, random)
            else:
                _IMPROVE_WIDE(group, least, heats, PASSES, NEAR, SAMPLES, random)
            for p in range(len(group.sizes)):
                for j in range(group.sizes[p]):
                    part[rows[group.members[p, j]], 0] = p

    kernel: Callable[..., None] = divide
    return kernel


@njit(cache=True, nogil=True)
def _divide_instants(cells, members, first, start, stop, least, shape, part):  # type: ignore[no-untyped-def]
    """Fill ``part``, (n, instants), for the members of bundles ``start`` up to ``stop``."""
    for b in range(start, stop):
        rows = members[first[b] : first[b + 1]]
        if len(rows) < 2 * least:
            for row in rows:
                part[row] = 0
            continue
        rows = rows[_order_trajectories(cells, rows)]
        points = np.empty((len(rows), 2, 1), np.uint32)
        for i in range(cells.shape[1]):
            for j in range(len(rows)):
                points[j, 0, 0] = cells[rows[j], i, 0]
                points[j, 1, 0] = cells[rows[j], i, 1]
            found = divide_places(points, least, shape)
            for j in range(len(rows)):
                part[rows[j], i] = found[j]


@njit(cache=True, nogil=True)
def _gather_parts(points, part, room):  # type: ignore[no-untyped-def]
    """Gather trajectories by part, as :func:`.refined.improve.build_group` does by bundle."""
    sizes = np.bincount(part)
    sizes[:] = 0
    members = np.zeros((len(sizes), room), np.int64)
    copies = np.empty((len(sizes) * room, 2, points.shape[2]), np.uint32)
    for j in range(len(part)):
        p = part[j]
        members[p, sizes[p]] = j
        copy_trajectory(points, j, copies, p * room + sizes[p])
        sizes[p] += 1
    all_shown = np.zeros(len(sizes), np.bool_)
    boxes = empty_boxes(len(sizes), points.shape[2])
    return Group(copies, members, sizes, all_shown, boxes, np.zeros(len(sizes)))


@njit(cache=True, nogil=True)
def _order_trajectories(cells, rows):  # type: ignore[no-untyped-def]
    """Sort trajectories by their cells, instant after instant; identical ones keep their order."""
    order = np.arange(len(rows))
    tied = [(0, len(rows), 0)]
    while len(tied) > 0:
        start, stop, instant = tied.pop()
        keys = np.empty(stop - start, np.uint64)
        for j in range(start, stop):
            x, y = cells[rows[order[j]], instant]
            keys[j - start] = (np.uint64(x) << np.uint64(32)) | np.uint64(y)
        placed = np.argsort(keys, kind="mergesort")
        order[start:stop] = order[start:stop][placed]
        if instant + 1 == cells.shape[1]:
            continue
        # Stretches of equal cells are sorted by the next instant.
        begin = 0
        for j in range(1, stop - start + 1):
            if j == stop - start or keys[placed[j]] != keys[placed[begin]]:
                if j - begin > 1:
                    tied.append((start + begin, start + j, instant + 1))
                begin = j
    return order


_DIVIDE = {shape: _build_divide(shape) for shape in SHAPES}
