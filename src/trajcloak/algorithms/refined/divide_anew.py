"""Round after round, divide the trajectories of neighbouring bundles again.

Exchanging single trajectories seldom helps where many would have to leave before a cloak
shrinks: with ``quad`` cloaks, which halve only when nobody is left in their other half, and
with short trajectories, whose bundles are side by side. So a few neighbouring bundles are
taken together and divided again, by cuts or by a tree. The new bundles are kept if they cost less.

The paper's trees split all instants in a fixed order. Those here follow the trajectories: every
node has, at each instant, the smallest (semi-)quadrant around its trajectories. It is split by
halving the cloak of one instant: the one whose halves are estimated to cost least. The result is a
G-tree like any other, so the solver of ``traj-anon`` finds its best configuration.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.refined.blocks import build_blocks
from trajcloak.algorithms.refined.boxes import Points, cover_ends, move_to_origin
from trajcloak.algorithms.refined.first_bundles import bundle_by_cuts, separate
from trajcloak.algorithms.refined.rounds import SHARES
from trajcloak.algorithms.traj_anon.assign import assign_bundles
from trajcloak.algorithms.traj_anon.gtree import GTree
from trajcloak.algorithms.traj_anon.solve import solve_configuration, solve_rows
from trajcloak.algorithms.traj_anon.suppression import suppress_nobody
from trajcloak.cloaks import build_cloaks, compute_areas
from trajcloak.kernels.sort import group_by_number
from trajcloak.kernels.threads import build_slices, run_all
from trajcloak.options import QUAD
from trajcloak.progress import Progress

GROUP = 6
"""Bundles that are taken together; more of them if they had fewer than 60 trajectories. With more
bundles there is more to choose from, but they are divided worse; measured from 3 to 80."""

LARGE_GROUP = 200
LARGE_GROUP_ROUND = 3
"""One round has large groups. They help with logs whose users are distributed evenly and hardly
move: there, dividing a few bundles finds nothing better."""


SAMPLE = 64
"""How many trajectories of a node are examined, at most, to estimate the cost of its halves."""

WORTH_HALVING = 0.25
"""Cloaks smaller than this share of a node's largest are not halved: that would save little."""

PASSED_UP = 1.5
"""Estimated cost of a trajectory in a half with fewer than k, as a multiple of the node's area."""


def divide_anew(
    cells: npt.NDArray[np.uint32],
    points: Points,
    bundle: npt.NDArray[np.int32],
    k: int,
    cloak: str,
    rounds: int,
    threads: int,
    progress: Progress,
) -> npt.NDArray[np.int32]:
    """Lower the cost of bundles of at least k, numbered from 0; returns other such bundles.

    ``cells`` and ``points`` are the trajectories in both layouts, in canonical order; ``rounds`` is
    how often bundles are grouped and divided.
    """
    first_cost = 0.0
    for number in range(rounds + 1):
        cloaks = build_cloaks(cells, bundle, cloak, threads)
        costs = compute_areas(cloaks).sum(axis=1) * np.bincount(bundle)
        cost = float(costs.sum())
        first_cost = first_cost or cost
        progress(f"dividing, at {100 * cost / first_cost:.1f}% of the first cost", number, rounds)
        if number < rounds:
            # Group by corners rather than by centres, so that bundles of one size come together.
            corners = np.ascontiguousarray(cloaks.transpose(0, 2, 1))
            share = SHARES[number % len(SHARES)]
            rows = np.arange(len(costs), dtype=np.int32)
            size = LARGE_GROUP if number == LARGE_GROUP_ROUND else max(GROUP, 60 // k)
            groups = build_blocks(corners, rows, size, share, threads)
            bundle = _divide_groups(cells, points, bundle, costs, groups, k, cloak, threads)
    return bundle


def _divide_groups(
    cells: npt.NDArray[np.uint32],
    points: Points,
    bundle: npt.NDArray[np.int32],
    costs: npt.NDArray[np.float64],
    groups: list[npt.NDArray[np.int32]],
    k: int,
    cloak: str,
    threads: int,
) -> npt.NDArray[np.int32]:
    """Divide every group of bundles again, if that lowers its cost."""
    members, first = group_by_number(bundle, len(costs))
    divided = bundle.copy()
    counts = np.empty(len(groups), np.int32)

    def divide(start: int, stop: int) -> None:
        for i in range(start, stop):
            group = groups[i]
            rows = np.sort(np.concatenate([members[first[b] : first[b + 1]] for b in group]))
            found = _bundle(points[rows], k, cloak)
            areas = compute_areas(build_cloaks(cells[rows], found, cloak, 1)).sum(axis=1)
            if float(areas @ np.bincount(found)) >= float(costs[group].sum()):
                found = np.searchsorted(np.sort(group), bundle[rows]).astype(np.int32)
            divided[rows] = found
            counts[i] = found.max() + 1

    run_all(divide, build_slices(len(groups), 8 * threads), threads)
    # So far, each group numbers its bundles from 0.
    start = np.zeros(len(costs), np.int32)
    for group, before in zip(groups, np.cumsum(counts) - counts, strict=True):
        start[group] = before
    return divided + start[bundle]


def _bundle(near_points: Points, k: int, cloak: str) -> npt.NDArray[np.int32]:
    """Bundle the trajectories of a group; may shift ``near_points`` in place."""
    if cloak == QUAD:
        return bundle_by_adaptive_tree(near_points, k)
    shape = move_to_origin(near_points)
    bundle: npt.NDArray[np.int32] = bundle_by_cuts(near_points, k, shape)
    return bundle


def bundle_by_adaptive_tree(points: Points, k: int) -> npt.NDArray[np.int32]:
    """Bundle at least k trajectories by the best configuration of an adaptive tree."""
    order = np.arange(len(points), dtype=np.int32)
    tree = GTree(*_build_tree(points, order, k))
    rows = solve_rows(tree, k, threads=1)
    passed_up = solve_configuration(tree, rows, k, suppress_nobody(tree))
    bundle: npt.NDArray[np.int32] = assign_bundles(tree, order, passed_up)[0]
    return bundle


@njit(cache=True, nogil=True)
def _build_tree(points, order, k):  # type: ignore[no-untyped-def]
    """Split from the root down; ``order`` is permuted so that each node is a range of it.

    Requires: at least k points. Ensures: returns the arrays of a GTree, children before
    parents; a child's area is below its parent's. O(instants) per trajectory and level.
    """
    n = len(order)
    length = points.shape[2]
    starts = np.empty(n, np.int32)
    stops = np.empty(n, np.int32)
    depths = np.empty(n, np.int32)
    looses = np.empty(n, np.int32)
    belows = np.empty(n, np.int32)
    areas = np.empty(n, np.float64)
    num_nodes = 0
    # A stack of nodes: start, stop, depth, number of nodes written before its subtree (-1: the
    # node is still to be split), loose trajectories. Every split halves a cloak, which bounds
    # the depth, and leaves the node itself and at most one child waiting per level.
    waiting = np.empty((4 * length * 32 + 4, 5), np.int64)
    waiting_area = np.empty(len(waiting))
    low = np.empty((2, length), np.uint32)
    high = np.empty((2, length), np.uint32)
    is_first = np.empty(n, np.bool_)
    spare = np.empty(n, np.int32)
    waiting[0] = 0, n, 0, -1, 0
    num_waiting = 1
    while num_waiting > 0:
        num_waiting -= 1
        start, stop, depth, before, loose = waiting[num_waiting]
        # Popped the second time: all children are written, so the node follows them.
        if before >= 0:
            starts[num_nodes] = start
            stops[num_nodes] = stop
            depths[num_nodes] = depth
            looses[num_nodes] = loose
            belows[num_nodes] = num_nodes + 1 - before
            areas[num_nodes] = waiting_area[num_waiting]
            num_nodes += 1
            continue
        _bound(points, order, start, stop, low, high)
        area, instant, axis, bit = _choose_split(points, order, start, stop, low, high, k)
        # Push the node again, with all its trajectories loose until children take them.
        node = num_waiting
        waiting[node] = start, stop, depth, num_nodes, stop - start
        waiting_area[node] = area
        num_waiting += 1
        if instant < 0:
            continue
        for row in order[start:stop]:
            is_first[row] = points[row, axis, instant] & bit == 0
        middle = start + separate(order[start:stop], is_first, spare)
        # The first half is pushed last, so that it is written first, as postorder asks.
        for first, last in ((middle, stop), (start, middle)):
            if last - first >= k:
                waiting[node, 4] -= last - first
                waiting[num_waiting] = first, last, depth + 1, -1, 0
                num_waiting += 1
    return (
        starts[:num_nodes].copy(),
        stops[:num_nodes].copy(),
        depths[:num_nodes].copy(),
        looses[:num_nodes].copy(),
        belows[:num_nodes].copy(),
        areas[:num_nodes].copy(),
    )


@njit(cache=True, nogil=True)
def _bound(points, order, start, stop, low, high):  # type: ignore[no-untyped-def]
    """Compute the box around a range of the order."""
    low[:] = points[order[start]]
    high[:] = points[order[start]]
    for place in range(start + 1, stop):
        point = points[order[place]]
        for axis in range(2):
            for i in range(point.shape[1]):
                low[axis, i] = min(low[axis, i], point[axis, i])
                high[axis, i] = max(high[axis, i], point[axis, i])


@njit(cache=True, nogil=True)
def _choose_split(points, order, start, stop, low, high, k):  # type: ignore[no-untyped-def]
    """Choose the instant to halve; returns the summed area, the instant, the axis and the bit.

    ``low`` and ``high`` are the node's box. The instant is -1 if all trajectories are in the
    same cells. O(instants^2) per trajectory of the sample.
    """
    length = low.shape[1]
    total = 0.0
    largest = 0.0
    for i in range(length):
        area = _cover(low, high, i)[0]
        total += area
        largest = max(largest, area)
    # Every ``step``-th trajectory is in the sample.
    step = (stop - start + SAMPLE - 1) // SAMPLE
    best = np.inf
    best_instant = -1
    best_axis = 0
    best_bit = np.uint32(0)
    # Box and size of each half, by half, axis and instant.
    lows = np.empty((2, 2, length), np.uint32)
    highs = np.empty((2, 2, length), np.uint32)
    held = np.empty(2, np.int64)
    for i in range(length):
        area, axis, bit = _cover(low, high, i)
        if area == 1 or area < WORTH_HALVING * largest:
            continue
        lows[:] = np.uint32(0xFFFFFFFF)
        highs[:] = np.uint32(0)
        held[:] = 0
        for place in range(start, stop, step):
            point = points[order[place]]
            half = 1 if point[axis, i] & bit else 0
            held[half] += 1
            for a in range(2):
                for j in range(length):
                    lows[half, a, j] = min(lows[half, a, j], point[a, j])
                    highs[half, a, j] = max(highs[half, a, j], point[a, j])
        cost = 0.0
        for half in range(2):
            # A half with fewer than k forms no bundle: its trajectories are passed up.
            if held[half] * step < k:
                cost += held[half] * PASSED_UP * total
            else:
                cost += held[half] * _sum_areas(lows[half], highs[half])
        if cost < best:
            best = cost
            best_instant = i
            best_axis = axis
            best_bit = bit
    return total, best_instant, best_axis, best_bit


@njit(cache=True, nogil=True)
def _cover(low, high, i):  # type: ignore[no-untyped-def]
    """Compute the area of an instant's cloak, and the axis and bit that halve it.

    A quadrant is halved in x, and the semi-quadrant that results in y, as in the binary US-tree.
    """
    x, y = cover_ends(low[0, i], high[0, i], low[1, i], high[1, i])
    side = np.float64(max(x, y)) + 1
    bit = np.uint32(1) + (max(x, y) >> np.uint32(1))
    if x >= y:
        return side * side, 0, bit
    return side * side / 2, 1, bit


@njit(cache=True, nogil=True)
def _sum_areas(low, high):  # type: ignore[no-untyped-def]
    """Sum the areas of the cloaks around a box."""
    total = 0.0
    for i in range(low.shape[1]):
        total += _cover(low, high, i)[0]
    return total
