"""Lower the cost of neighbouring bundles by moving and exchanging trajectories."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.refined.boxes import (
    SHAPES,
    Boxes,
    Points,
    area,
    area_exchanged,
    area_with,
    area_without,
    compile_shape,
    empty_cells,
    fill_box,
)
from trajcloak.kernels.splitmix import GAMMA, scramble

LEAST_GAIN = 1e-9
"""Smaller gains, relative to the mean cost of a bundle, are taken for rounding errors."""

NEIGHBOURS = 24
"""How many of the nearest bundles a trajectory can go to."""


class Group(NamedTuple):
    """Bundles that exchange trajectories; only the first ``sizes[b]`` entries of row b are used."""

    # (bundles * room, 2, instants): copies of the trajectories, so that a bundle's members are side
    # by side in memory: member j of bundle b is row ``b * room + j``.
    points: Points
    members: npt.NDArray[np.int64]  # (bundles, room): numbers of the trajectories.
    sizes: npt.NDArray[np.int64]  # (bundles,)
    left_out: npt.NDArray[np.bool_]  # (bundles,): whether it will not be published.
    boxes: Boxes
    areas: npt.NDArray[np.float64]  # (bundles,): summed; 0 for bundles that are left out.


def build_group(
    points: Points,
    members: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    left_out: npt.NDArray[np.bool_],
) -> Group:
    """Gather the trajectories of some bundles; boxes and areas are still to be computed.

    ``members`` are rows of ``points``; see :class:`Group`.
    """
    shape = (len(members), *points.shape[1:])
    boxes = Boxes(*(empty_cells(shape) for _ in Boxes._fields))
    copies = empty_cells((*members.shape, *points.shape[1:]))
    # With this mode, numpy writes to ``copies`` without a buffer.
    np.take(points, members, axis=0, out=copies, mode="clip")
    copies = copies.reshape(-1, *points.shape[1:])
    return Group(copies, members, sizes, left_out, boxes, np.zeros(len(members)))


def _build_improve_group(shape: int) -> Callable[..., int]:
    """Compile :data:`IMPROVE_GROUP` for one shape.

    With the shape as an argument, choosing it in the innermost loops took half the time. The steps
    are functions inside the kernel because numba counts references to every array that it passes
    to another function; it did so 50 times for each member.
    """

    def improve_group(group, k, heats, passes, near, samples, random):  # type: ignore[no-untyped-def]
        points, members, sizes, left_out, boxes, areas = group
        room = members.shape[1]
        rises = np.empty(min(NEIGHBOURS, len(sizes) - 1))
        neighbours = np.empty((len(sizes), len(rises)), np.int64)

        def renew(b: int | np.int64) -> None:
            """Compute the box and the area of bundle ``b`` again."""
            fill_box(boxes, b, points, b * room, sizes[b])
            if not left_out[b]:
                areas[b] = np.float64(area(boxes.low, boxes.high, b, shape))

        def find_change(a: int, j: int, saved: float, limit: float) -> tuple[np.int64, np.int64]:
            """Find the best move or exchange of member ``j`` of bundle ``a``.

            A change is the rise in cost; it is accepted below ``limit``. ``saved`` is how much
            smaller a's area is without the member.

            Returns the other bundle, or -1 if no change is accepted; and the place there of the
            trajectory to exchange it with, or -1 for a move.
            """
            row = a * room + j
            to = place = np.int64(-1)
            best = limit
            # Moves: only if a has more than k members, and b has room for one more.
            for x in range(len(rises)):
                b = neighbours[a, x]
                rises[x] = 0.0
                if not left_out[b]:
                    grown = np.float64(area_with(boxes.low, boxes.high, b, points, row, shape))
                    rises[x] = sizes[b] * (grown - areas[b])
                    if k < sizes[a] and sizes[b] < room:
                        change = rises[x] + grown - areas[a] - (sizes[a] - 1) * saved
                        if change < best:
                            best = change
                            to = b
            # Exchanges: with the bundles whose cost the member raises least.
            for _ in range(min(near, len(rises))):
                # numpy's argmin is slower for so few.
                nearest = 0
                for x in range(1, len(rises)):
                    if rises[x] < rises[nearest]:
                        nearest = x
                rises[nearest] = np.inf
                b = neighbours[a, nearest]
                # ``samples`` members of b in a row, from a random one on.
                q = np.int64(_draw(random) * sizes[b])
                for _ in range(min(samples, sizes[b])):
                    q = q + 1 if q + 1 < sizes[b] else np.int64(0)
                    other = b * room + q
                    exchanged = np.float64(area_exchanged(boxes, a, points, row, other, shape))
                    change = sizes[a] * (exchanged - areas[a])
                    # Even if b's area fell to 0, this exchange would not be the best.
                    if change - sizes[b] * areas[b] >= best:
                        continue
                    if not left_out[b]:
                        exchanged = np.float64(area_exchanged(boxes, b, points, other, row, shape))
                        change += sizes[b] * (exchanged - areas[b])
                    if change < best:
                        best = change
                        to = b
                        place = q
            return to, place

        def make_change(a: int, j: int, to: np.int64, place: np.int64) -> None:
            """Move member ``j`` of bundle ``a`` to bundle ``to``, or exchange it with ``place``."""
            row = a * room + j
            # A move appends to the other bundle; a's last member fills the gap.
            if place < 0:
                place = sizes[to]
                sizes[to] += 1
                sizes[a] -= 1
                copy_trajectory(points, row, points, to * room + place)
                members[to, place] = members[a, j]
                copy_trajectory(points, a * room + sizes[a], points, row)
                members[a, j] = members[a, sizes[a]]
            else:
                other = to * room + place
                for axis in range(2):
                    for i in range(points.shape[2]):
                        cell = points[row, axis, i]
                        points[row, axis, i] = points[other, axis, i]
                        points[other, axis, i] = cell
                members[a, j], members[to, place] = members[to, place], members[a, j]

        for b in range(len(sizes)):
            renew(b)
        changes = 0
        for heat in heats:
            scale = 0.0
            for b in range(len(sizes)):
                scale += sizes[b] * areas[b]
            scale /= len(sizes)
            find_neighbours(boxes, neighbours)
            changes_in_pass = 0
            for _ in range(passes):
                changes_in_pass = 0
                for a in range(len(sizes)):
                    # Member j of bundle a; sizes[a] may change on the way.
                    j = -1
                    while j + 1 < sizes[a] and not left_out[a]:
                        j += 1
                        saved = areas[a] - area_without(boxes, a, points, a * room + j, shape)
                        # Without it a would not be smaller, and a has no member to spare.
                        if saved == 0.0 and sizes[a] <= k:
                            continue
                        limit = -LEAST_GAIN * scale
                        if heat > 0.0:
                            limit = heat * scale * draw_exponential(random)
                        to, place = find_change(a, j, saved, limit)
                        if to >= 0:
                            make_change(a, j, to, place)
                            for changed in (a, to):
                                renew(changed)
                            changes_in_pass += 1
                changes += changes_in_pass
                if changes_in_pass == 0:
                    break
            if changes_in_pass == 0:
                # Nothing changed at this heat, so nothing will at lower ones.
                break
        return changes

    return compile_shape(improve_group, shape)


@njit(cache=True, nogil=True)
def copy_trajectory(points, row, to, to_row):  # type: ignore[no-untyped-def]
    """Copy a row of ``points`` to a row of ``to``."""
    for axis in range(2):
        for i in range(points.shape[2]):
            to[to_row, axis, i] = points[row, axis, i]


@njit(cache=True, nogil=True)
def find_neighbours(boxes, neighbours):  # type: ignore[no-untyped-def]
    """Find the bundles whose boxes have the nearest centres, as many as ``neighbours`` has columns.

    ``neighbours`` is filled; it has a row for each bundle.
    """
    num_bundles, _, length = boxes.low.shape
    # Twice the centres, which are whole numbers and just as good to compare.
    middles = np.empty((2 * length, num_bundles))
    for b in range(num_bundles):
        for axis in range(2):
            for i in range(length):
                middles[axis * length + i, b] = np.float64(boxes.low[b, axis, i]) + np.float64(
                    boxes.high[b, axis, i]
                )
    count = neighbours.shape[1]
    distance = np.empty(num_bundles)
    kept = np.empty(count)
    for a in range(num_bundles):
        distance[:] = 0.0
        for along in middles:
            for b in range(num_bundles):
                apart = along[b] - along[a]
                distance[b] += apart * apart
        distance[a] = np.inf
        # Insert into the nearest so far, which are far fewer than all; of equals the first is kept.
        kept[:] = np.inf
        for b in range(num_bundles):
            if count == 0 or distance[b] >= kept[count - 1]:
                continue
            place = count - 1
            while place > 0 and kept[place - 1] > distance[b]:
                kept[place] = kept[place - 1]
                neighbours[a, place] = neighbours[a, place - 1]
                place -= 1
            kept[place] = distance[b]
            neighbours[a, place] = b


@njit(cache=True, nogil=True)
def _draw(random):  # type: ignore[no-untyped-def]
    """Draw a number above 0 and below 1."""
    random[0] += GAMMA
    return (np.float64(scramble(random[0]) >> np.uint64(12)) + 0.5) / 2.0**52


@njit(cache=True, nogil=True)
def draw_exponential(random):  # type: ignore[no-untyped-def]
    """Draw from the exponential distribution with mean 1, by comparisons alone (von Neumann).

    A logarithm may differ in its last bit between machines, and then bundles would, too.
    """
    whole = 0.0
    while True:
        # The length of the first falling run is odd with the probability exp(-first).
        first = last = _draw(random)
        falling = 1
        while True:
            following = _draw(random)
            if following >= last:
                break
            last = following
            falling += 1
        if falling % 2 == 1:
            return whole + first
        whole += 1.0


IMPROVE_GROUP = {shape: _build_improve_group(shape) for shape in SHAPES}
"""For every shape of cloaks, a kernel that improves a group of bundles in place until a pass
changes nothing, or ``passes`` are done for each of ``heats``.

A pass takes each trajectory t whose bundle a would be smaller without it, or has more than k
members. It considers moving t to another bundle, if a has more than k members, and exchanging
t with one of ``samples`` trajectories of each of the ``near`` bundles whose cost t raises
least. The best of these changes is made if it lowers the cost. As in simulated annealing, it
is also made if it raises the cost by less than a random limit: the heat, times the mean cost
of a bundle, times a number drawn from the exponential distribution.

A bundle that is left out has no area, whoever is in it. So the others exchange their most
expensive members for members of such bundles, which keep their sizes.

Parameters
----------
group : Group
    As :func:`build_group` made it; its members and sizes are changed.
k : int
heats : (rounds,) float64
    Falling. Neighbours and the mean cost are computed again for each.
passes, near, samples : int
random : (1,) uint64
    State of the random numbers; the seed at first.

Returns the number of changes.
"""
