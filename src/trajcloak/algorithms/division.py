"""Divide the members of each bundle into parts of at least ``least``, as cheaply as possible.

The members of a bundle are cut in two, again and again (:mod:`.refined.first_bundles`). Then they
exchange places while that lowers the cost: the area of each part times its members, summed over
instants (:mod:`.refined.improve`). Where members are divided anew at every instant, that is done
for each instant by itself, with simpler exchanges (:func:`divide_places`). Who is with whom depends
on the bundle's trajectories alone; members are taken in order of their trajectories, so that user
ids decide ties between identical ones only (invariants 1 and 2 of ``docs/guarantee.md``).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.refined.boxes import (
    NARROW,
    NARROW_SIDE,
    SEMI_QUADRANT,
    SHAPES,
    WIDE,
    compile_shape,
    cover_area,
    empty_boxes,
)
from trajcloak.algorithms.refined.first_bundles import bundle_by_cuts
from trajcloak.algorithms.refined.improve import IMPROVE_GROUP, Group, copy_trajectory
from trajcloak.algorithms.traj_anon.keys import KeyLayout, sort_keys
from trajcloak.kernels.sort import group_by_number
from trajcloak.kernels.threads import build_slices, run_all
from trajcloak.options import QUAD

HEATS = np.linspace(0.2, 0.0, 4)
PASSES, NEAR, SAMPLES = 3, 2, 16
"""Of the exchanges, as in :class:`trajcloak.algorithms.refined.rounds.Effort`."""

INSTANT_PASSES = 10
"""Most passes over all members at one instant; most divisions are done after three."""

INSTANT_LEAST_GAIN = 0.5
"""Costs are whole numbers of cells, so that a smaller gain is a rounding error."""

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
    """Divide every bundle, once or, if ``per_instant``, anew at every instant.

    ``bundle`` is that of each trajectory, negative: in no bundle; every bundle has at least
    ``least`` members. Returns the part of each trajectory, from 0 in every bundle, or -1: (n, 1)
    or (n, instants) int32. ``threads`` changes the time, never the result.
    """
    length = cells.shape[1]
    part = np.full((len(cells), length if per_instant else 1), -1, np.int32)
    # Members are listed in order of their cells, instant after instant.
    bits = int(cells.max(initial=0)).bit_length()
    column = np.repeat(np.arange(2 * length, dtype=np.int32), bits)
    shift = np.tile(np.arange(bits, dtype=np.uint32)[::-1], 2 * length)
    order = sort_keys(cells, KeyLayout(column, shift), threads).order
    members, first = group_by_number(bundle[order], num_bundles)
    members = order[members]
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

    return compile_shape(divide, shape)


@njit(cache=True, nogil=True)
def _divide_instants(cells, members, first, start, stop, least, shape, part):  # type: ignore[no-untyped-def]
    """Fill ``part``, (n, instants), for the members of bundles ``start`` up to ``stop``."""
    for b in range(start, stop):
        rows = members[first[b] : first[b + 1]]
        if len(rows) < 2 * least:
            for row in rows:
                part[row] = 0
            continue
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
    members, sizes = _list_members(part, room)
    copies = np.empty((len(sizes) * room, 2, points.shape[2]), np.uint32)
    for p in range(len(sizes)):
        for j in range(sizes[p]):
            copy_trajectory(points, members[p, j], copies, p * room + j)
    all_shown = np.zeros(len(sizes), np.bool_)
    boxes = empty_boxes(len(sizes), points.shape[2])
    return Group(copies, members, sizes, all_shown, boxes, np.zeros(len(sizes)))


@njit(cache=True, nogil=True)
def _list_members(part, room):  # type: ignore[no-untyped-def]
    """List the members of each part: (parts, room); returns also how many each part has."""
    sizes = np.bincount(part)
    members = np.zeros((len(sizes), room), np.int64)
    sizes[:] = 0
    for j in range(len(part)):
        p = part[j]
        members[p, sizes[p]] = j
        sizes[p] += 1
    return members, sizes


_DIVIDE = {shape: _build_divide(shape) for shape in SHAPES}


class InstantParts(NamedTuple):
    """The parts of one bundle at one instant."""

    members: npt.NDArray[np.int64]  # (parts, room): row p has the ``sizes[p]`` members of part p.
    sizes: npt.NDArray[np.int64]  # (parts,)
    # (parts, 8): least, second least, greatest, second greatest x; then the same of y.
    edges: npt.NDArray[np.uint32]
    areas: npt.NDArray[np.float64]  # (parts,)


@njit(cache=True, nogil=True)
def divide_places(points, least, shape):  # type: ignore[no-untyped-def]
    """Divide places into parts of at least ``least``; returns the part of each, from 0.

    After the cuts, members move to other parts, or two exchange their parts, while that lowers the
    cost. Only a member at an edge of its part is worth moving, unless its part has some to spare.

    Requires: ``points`` of shape (n, 2, 1), at least ``least``; ``shape`` as in
    :mod:`trajcloak.algorithms.refined.boxes`.

    O(parts) for each member and pass, and O(least) more for members at edges.
    """
    part = bundle_by_cuts(points, least, shape)
    members, sizes = _list_members(part, 2 * least)
    edges = np.empty((len(sizes), 8), np.uint32)
    parts = InstantParts(members, sizes, edges, np.empty(len(sizes)))
    for p in range(len(parts.sizes)):
        _renew_edges(points, parts, p, shape)
    for _ in range(INSTANT_PASSES):
        changes = 0
        for a in range(len(parts.sizes)):
            # Member number m of part a; sizes[a] may change on the way.
            m = -1
            while m + 1 < parts.sizes[a]:
                m += 1
                to, place = _find_change(points, parts, a, m, least, shape)
                if to >= 0:
                    _make_change(parts, a, m, to, place)
                    _renew_edges(points, parts, a, shape)
                    _renew_edges(points, parts, to, shape)
                    changes += 1
        if changes == 0:
            break
    for p in range(len(parts.sizes)):
        part[parts.members[p, : parts.sizes[p]]] = p
    return part


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
    best = -INSTANT_LEAST_GAIN
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
def _renew_edges(points, parts, p, shape):  # type: ignore[no-untyped-def]
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
