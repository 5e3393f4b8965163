"""Round after round, divide the trajectories of neighbouring bundles again.

Exchanging single trajectories seldom helps where many would have to leave before a cloak
shrinks: with ``quad`` cloaks, which halve only when nobody is left in their other half, and
with short trajectories, whose bundles are side by side. So a few neighbouring bundles are
taken together and divided again, by a tree that follows their trajectories (:mod:`.adaptive`)
or by cuts (:mod:`.cuts`). The new bundles are kept if they cost less.
"""

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.refined.adaptive import bundle_by_adaptive_tree
from trajcloak.algorithms.refined.blocks import build_blocks
from trajcloak.algorithms.refined.boxes import Points, move_to_origin
from trajcloak.algorithms.refined.cuts import bundle_by_cuts
from trajcloak.algorithms.refined.rounds import SHARES
from trajcloak.cloaks import build_cloaks, compute_areas, group_members
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
    """Lower the cost of bundles; returns other bundles, from 0.

    Parameters
    ----------
    cells, points
        The trajectories, in both layouts.
    bundle : (n,) int32
        From 0, each with at least k trajectories.
    k : int
    cloak : {"quad", "mbr"}
    rounds : int
        How often bundles are grouped and divided.
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
    members, first = group_members(bundle, len(costs))
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
