"""Group parts into bundles of at least k users.

Where members are shown in parts, the parts are made first, as small as they can be, and bundles
are made of them. The cost of a bundle is here the area of the box around all its parts, times its
users, as if there were no parts: requests are known to come from somewhere in it.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.refined.blocks import build_blocks
from trajcloak.algorithms.refined.boxes import (
    WIDE,
    Points,
    area,
    cover_area,
    empty_boxes,
    pad_instants,
)
from trajcloak.algorithms.refined.first_bundles import order_farthest_first
from trajcloak.algorithms.refined.improve import LEAST_GAIN, draw_exponential, find_neighbours
from trajcloak.algorithms.refined.rounds import SHARES
from trajcloak.cloaks import build_bounding_boxes
from trajcloak.kernels.sort import group_by_number
from trajcloak.kernels.threads import run_all

BLOCK = 400
"""Parts that are grouped greedily at a time, or those of 20 bundles if they are more."""

GROUP = 100
"""Bundles that exchange parts at a time."""

HEAT = 0.1
NEAR = 8
"""Heat of the first round, and bundles that a part can go to."""


class PartBoxes(NamedTuple):
    """Boxes of parts, each array (parts, 2, instants) uint32, and how many users each part has.

    The last one is an empty part, with no users: to exchange a part for it is to give it away.
    """

    low: Points
    high: Points
    users: npt.NDArray[np.int64]

    def take(self, chosen: npt.NDArray[np.integer]) -> "PartBoxes":
        """Select some parts, and the empty one."""
        chosen = np.append(chosen, len(self.users) - 1)
        return PartBoxes(self.low[chosen], self.high[chosen], self.users[chosen])


def group_parts(
    cells: npt.NDArray[np.uint32], part: npt.NDArray[np.int32], k: int, threads: int
) -> npt.NDArray[np.int32]:
    """Group parts into bundles; returns the bundle of each part, from 0.

    ``cells`` are at least k trajectories, ``part`` the part of each, from 0. ``threads`` changes
    the time, never the result.
    """
    boxes = build_bounding_boxes(cells, part, int(part.max()) + 1, threads).transpose(0, 2, 1)
    nothing = np.zeros((1, *boxes.shape[1:]), np.uint32)
    parts = PartBoxes(
        pad_instants(np.concatenate([boxes[:, :2], ~nothing[:, :2]])),
        pad_instants(np.concatenate([boxes[:, 2:] - np.uint32(1), nothing[:, 2:]])),
        np.append(np.bincount(part), 0),
    )
    bundle = _group_blocks(parts, k, threads)
    for number, share in enumerate(SHARES):
        heat = HEAT * (1 - number / (len(SHARES) - 1))
        _exchange_parts(parts, bundle, k, heat, share, number, threads)
    return bundle


def _group_blocks(parts: PartBoxes, k: int, threads: int) -> npt.NDArray[np.int32]:
    """Group parts greedily, block by block of near ones."""
    rows = np.arange(len(parts.users) - 1, dtype=np.int32)
    users = int(parts.users[:-1].min())
    blocks = build_blocks(parts.low + parts.high, rows, max(BLOCK, 20 * k // users), 0.5, threads)

    def group(block: npt.NDArray[np.int32]) -> Any:
        few = parts.take(block)
        return _take_nearest_parts(few, order_farthest_first((few.low + few.high)[:-1]), k)

    bundle = np.empty(len(rows), np.int32)
    first = 0
    for block, found in zip(
        blocks, run_all(group, [(block,) for block in blocks], threads), strict=True
    ):
        bundle[block] = first + found
        first += int(found.max()) + 1
    return bundle


def _exchange_parts(
    parts: PartBoxes,
    bundle: npt.NDArray[np.int32],
    k: int,
    heat: float,
    share: float,
    number: int,
    threads: int,
) -> None:
    """Let neighbouring bundles exchange parts; changes ``bundle`` in place."""
    members, first = group_by_number(bundle, int(bundle.max()) + 1)
    starts = first[:-1]
    # Twice the centre of the box around a bundle.
    middles = np.minimum.reduceat(parts.low[members], starts)
    middles += np.maximum.reduceat(parts.high[members], starts)
    groups = build_blocks(middles, np.arange(len(starts), dtype=np.int32), GROUP, share, threads)

    def exchange(i: int, group: npt.NDArray[np.int32]) -> None:
        rows = np.concatenate([members[first[b] : first[b + 1]] for b in group])
        counts = first[group + 1] - first[group]
        room = 2 * int(counts.max())
        held = np.full((len(group), room), len(rows))
        held[np.arange(room) < counts[:, None]] = np.arange(len(rows))
        seed = np.uint64((number << 32) + i)
        _exchange_in_group(parts.take(rows), held, counts, k, heat, seed)
        inside = np.arange(room) < counts[:, None]
        bundle[rows[held[inside]]] = np.repeat(group, counts)

    run_all(exchange, list(enumerate(groups)), threads)


@njit(cache=True, nogil=True)
def _take_nearest_parts(parts, order, k):  # type: ignore[no-untyped-def]
    """Group the parts of a block; ``order`` lists them in the order in which they start bundles.

    A bundle takes other parts until it has k users: each time the part that least raises its area.
    Parts that are left at the end join the bundle whose cost they raise least.

    Requires: at least k users. O(instants) for each two parts.
    """
    users = parts.users
    count = len(order)
    bundle = np.full(count, -1, np.int32)
    boxes = empty_boxes(count, parts.low.shape[2])
    total = np.zeros(count, np.int64)
    areas = np.zeros(count)
    num_bundles = 0
    left = users.sum()
    for start in order:
        if bundle[start] >= 0:
            continue
        if left < k:
            break
        b = num_bundles
        num_bundles += 1
        _clear_box(boxes, b)
        added = start
        while True:
            bundle[added] = b
            total[b] += users[added]
            _add_part(boxes, b, parts, added)
            areas[b] = area(boxes.low, boxes.high, b, WIDE)
            if total[b] >= k:
                break
            least = np.inf
            for p in range(count):
                if bundle[p] < 0:
                    # ``count`` is the empty part: nobody leaves.
                    grown = _area_exchanged(boxes, b, parts, count, p)
                    if grown < least:
                        least = grown
                        added = p
        left -= total[b]
    for p in range(count):
        if bundle[p] < 0:
            least = np.inf
            for b in range(num_bundles):
                grown = _area_exchanged(boxes, b, parts, count, p)
                rise = grown * (total[b] + users[p]) - areas[b] * total[b]
                if rise < least:
                    least = rise
                    bundle[p] = b
            total[bundle[p]] += users[p]
    return bundle


@njit(cache=True, nogil=True)
def _exchange_in_group(parts, held, counts, k, heat, seed):  # type: ignore[no-untyped-def]
    """Let bundles exchange parts, or give them away; changes ``held`` and ``counts`` in place.

    Row b of ``held`` has the parts of bundle b, ``counts[b]`` of them, and then the empty part.
    The best change for a part is made if it lowers the cost, or raises it by less than a random
    limit, as in :data:`trajcloak.algorithms.refined.improve.IMPROVE_GROUP`.

    Ensures: bundles of at least k users, if they are before.
    """
    users = parts.users
    num_bundles, room = held.shape
    boxes = empty_boxes(num_bundles, parts.low.shape[2])
    total = np.zeros(num_bundles, np.int64)
    areas = np.empty(num_bundles)
    for b in range(num_bundles):
        _renew(parts, held, counts, boxes, total, areas, b)
    random = np.array([seed])
    scale = (total * areas).mean()
    neighbours = np.empty((num_bundles, min(NEAR, num_bundles - 1)), np.int64)
    find_neighbours(boxes, neighbours)
    for a in range(num_bundles):
        for j in range(room):
            if j >= counts[a]:
                break
            p = held[a, j]
            best = -LEAST_GAIN * scale
            if heat > 0.0:
                best = heat * scale * draw_exponential(random)
            to = place = -1
            for b in neighbours[a]:
                # The last place is that of the empty part, if there is room for one more.
                for q in range(min(counts[b] + 1, room)):
                    other = held[b, q]
                    users_a = total[a] - users[p] + users[other]
                    users_b = total[b] + users[p] - users[other]
                    if users_a < k or users_b < k:
                        continue
                    change = users_a * _area_exchanged(boxes, a, parts, p, other)
                    change -= total[a] * areas[a] + total[b] * areas[b]
                    # Even if b's area fell to 0, this change would not be the best.
                    if change >= best:
                        continue
                    change += users_b * _area_exchanged(boxes, b, parts, other, p)
                    if change < best:
                        best = change
                        to = b
                        place = q
            if to < 0:
                continue
            held[a, j], held[to, place] = held[to, place], p
            if place == counts[to]:
                # The part was given away: the last one of its bundle fills the gap.
                counts[to] += 1
                counts[a] -= 1
                held[a, j], held[a, counts[a]] = held[a, counts[a]], held[a, j]
            _renew(parts, held, counts, boxes, total, areas, a)
            _renew(parts, held, counts, boxes, total, areas, to)


@njit(cache=True, nogil=True)
def _renew(parts, held, counts, boxes, total, areas, b):  # type: ignore[no-untyped-def]
    """Compute box, users and area of bundle ``b`` again."""
    _clear_box(boxes, b)
    total[b] = 0
    for j in range(counts[b]):
        total[b] += parts.users[held[b, j]]
        _add_part(boxes, b, parts, held[b, j])
    areas[b] = area(boxes.low, boxes.high, b, WIDE)


@njit(cache=True, nogil=True, inline="always")
def _clear_box(boxes, b):  # type: ignore[no-untyped-def]
    """Make the box of bundle ``b`` empty."""
    boxes.low[b] = boxes.low2[b] = np.uint32(0xFFFFFFFF)
    boxes.high[b] = boxes.high2[b] = np.uint32(0)


@njit(cache=True, nogil=True, inline="always")
def _add_part(boxes, b, parts, p):  # type: ignore[no-untyped-def]
    """Grow the box of bundle ``b`` by part ``p``."""
    low, low2, high, high2 = boxes
    for axis in range(2):
        for i in range(low.shape[2]):
            # The second least before the least: it needs the old one.
            least = parts.low[p, axis, i]
            low2[b, axis, i] = min(low2[b, axis, i], max(low[b, axis, i], least))
            low[b, axis, i] = min(low[b, axis, i], least)
            greatest = parts.high[p, axis, i]
            high2[b, axis, i] = max(high2[b, axis, i], min(high[b, axis, i], greatest))
            high[b, axis, i] = max(high[b, axis, i], greatest)


@njit(cache=True, nogil=True)
def _area_exchanged(boxes, b, parts, leaving, coming):  # type: ignore[no-untyped-def]
    """Sum the areas around bundle ``b`` with part ``leaving`` replaced by ``coming``.

    Either may be the empty part, whose edges change nothing.
    """
    low, low2, high, high2 = boxes
    total = np.uint64(0)
    for i in range(low.shape[2]):
        # First without the part that leaves, then with the one that comes.
        left = low2[b, 0, i] if parts.low[leaving, 0, i] == low[b, 0, i] else low[b, 0, i]
        right = high2[b, 0, i] if parts.high[leaving, 0, i] == high[b, 0, i] else high[b, 0, i]
        bottom = low2[b, 1, i] if parts.low[leaving, 1, i] == low[b, 1, i] else low[b, 1, i]
        top = high2[b, 1, i] if parts.high[leaving, 1, i] == high[b, 1, i] else high[b, 1, i]
        total += cover_area(
            min(left, parts.low[coming, 0, i]),
            max(right, parts.high[coming, 0, i]),
            min(bottom, parts.low[coming, 1, i]),
            max(top, parts.high[coming, 1, i]),
            WIDE,
        )
    return np.float64(total)
