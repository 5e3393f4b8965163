"""``refined``: the lowest cost, in linear time.

For ``mbr`` cloaks: cut the trajectories into blocks of near neighbours (:mod:`.blocks`),
bundle each block greedily (:mod:`.greedy`), and then, round after round, gather
neighbouring bundles into groups, cut differently each time, and let them exchange
trajectories as long as that lowers the cost (:mod:`.improve`). For ``quad`` cloaks:
start from the best configuration of ``traj-anon``'s tree or of a tree that follows the
trajectories (:mod:`.adaptive`), and improve its bundles in the same way, at the price of
the smallest (semi-)quadrants around them.

The cheaper of this and of ``traj-anon``'s bundles is returned, so the cost is at most
``length`` times that of the best quad-cloak policy, as the paper's algorithm's is.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.canonical import sort_canonically
from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.refined.adaptive import WEIGHTS, bundle_by_adaptive_tree
from trajcloak.algorithms.refined.blocks import build_blocks
from trajcloak.algorithms.refined.boxes import Points, build_points
from trajcloak.algorithms.refined.greedy import bundle_block
from trajcloak.algorithms.refined.improve import improve_group
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.cloaks import build_bounding_boxes, build_cloaks, compute_areas, group_members
from trajcloak.kernels.threads import build_slices, run_all
from trajcloak.options import MBR, QUAD
from trajcloak.progress import Progress, silent

BLOCK = 1000
"""Trajectories in a block, or 20 k if that is more."""

SHARES = (0.5, 1 / 3, 2 / 3, 0.4, 0.6, 0.25, 0.75, 0.45)
"""Where the first cut between groups falls, round by round: other cuts, other neighbours."""


class Effort(NamedTuple):
    """How hard to try.

    Attributes
    ----------
    rounds : int
        How often bundles are grouped anew.
    group : int
        Bundles in a group.
    passes, near, tries : int
        As :func:`trajcloak.algorithms.refined.improve.improve_group` takes them.
    """

    rounds: int
    group: int
    passes: int
    near: int
    tries: int


LEVELS = {
    "low": Effort(rounds=1, group=40, passes=2, near=2, tries=3),
    "normal": Effort(rounds=6, group=40, passes=2, near=3, tries=2),
    "high": Effort(rounds=8, group=100, passes=4, near=4, tries=4),
}


@dataclass(frozen=True)
class Refined:
    """Settings of ``refined``, all public.

    Attributes
    ----------
    effort : {"low", "normal", "high"}
    suppress_above
        Leave out trajectories that cost at least this much (summed area of their
        cloaks, in cells).
    max_suppressed
        Leave out at most this share of the trajectories. Whom, the tree decides.
    """

    effort: str = "normal"
    suppress_above: float | None = None
    max_suppressed: float | None = None

    name = "refined"

    def solve(
        self,
        cells: npt.NDArray[np.uint32],
        height: int,
        k: int,
        cloak: str,
        *,
        threads: int = 1,
        progress: Progress = silent,
    ) -> Policy:
        """Bundle trajectories; see :class:`trajcloak.algorithms.Algorithm`."""
        tree = TrajAnon(
            suppress_above=self.suppress_above, max_suppressed=self.max_suppressed
        ).solve(cells, height, k, QUAD, threads=threads, progress=progress)
        # From here on in canonical order, so that the order of rows decides nothing.
        order = sort_canonically(cells, height, threads)
        kept = order[tree.bundle[order] >= 0]
        if not len(kept):
            return tree
        cells = cells[kept]
        bundle = np.full(len(tree.bundle), -1, np.int32)
        found = self._refine(cells, k, cloak, tree.bundle[kept], threads, progress)
        bundle[kept] = found
        return Policy(bundle, build_cloaks(cells, found, cloak, threads))

    def _refine(
        self,
        cells: npt.NDArray[np.uint32],
        k: int,
        cloak: str,
        of_tree: npt.NDArray[np.int32],
        threads: int,
        progress: Progress,
    ) -> npt.NDArray[np.int32]:
        """Find bundles that cost no more than those of the tree."""
        points = build_points(cells)
        tree_cost = _cost(cells, of_tree, cloak, threads)
        if cloak == MBR:
            bundle = _bundle_blocks(points, k, threads)
        else:
            bundle = _bundle_by_trees(cells, points, of_tree, k, threads)
        effort = LEVELS[self.effort]
        cost = _cost(cells, bundle, cloak, threads)
        for number in range(effort.rounds):
            stage = f"refining, {100 * cost / tree_cost:.1f}% of the tree's cost"
            progress(stage, 0, 1)
            share = SHARES[number % len(SHARES)]
            changes = _improve(cells, points, bundle, k, cloak == QUAD, effort, share, threads)
            cost = _cost(cells, bundle, cloak, threads)
            progress(stage, 1, 1)
            if not changes:
                break
        return bundle if cost <= tree_cost else of_tree


def _bundle_blocks(points: Points, k: int, threads: int) -> npt.NDArray[np.int32]:
    """Bundle trajectories greedily, block by block."""
    rows = np.arange(len(points), dtype=np.int32)
    blocks = build_blocks(points, rows, max(BLOCK, 20 * k), 0.5, threads)
    first = np.cumsum([0] + [len(block) // k for block in blocks])
    bundle = np.full(len(points), -1, np.int32)
    run_all(
        lambda block, start: bundle_block(points, block, k, start, bundle),
        list(zip(blocks, first[:-1].tolist(), strict=True)),
        threads,
    )
    return bundle


def _bundle_by_trees(
    cells: npt.NDArray[np.uint32],
    points: Points,
    of_tree: npt.NDArray[np.int32],
    k: int,
    threads: int,
) -> npt.NDArray[np.int32]:
    """Bundle trajectories by the cheapest of several trees."""
    adaptive = run_all(
        lambda weight: bundle_by_adaptive_tree(points, k, weight),
        [(weight,) for weight in WEIGHTS],
        threads,
    )
    return min([of_tree.copy(), *adaptive], key=lambda found: _cost(cells, found, QUAD, threads))


def _improve(
    cells: npt.NDArray[np.uint32],
    points: Points,
    bundle: npt.NDArray[np.int32],
    k: int,
    quad: bool,
    effort: Effort,
    share: float,
    threads: int,
) -> int:
    """Let the bundles of each group exchange trajectories; returns how many did."""
    num_bundles = int(bundle.max()) + 1
    members, first = group_members(bundle, num_bundles)
    boxes = build_bounding_boxes(cells, bundle, num_bundles, threads)
    # Twice the middle of a box is a whole number, and just as good to compare.
    middles = np.ascontiguousarray((boxes[..., :2] + boxes[..., 2:]).transpose(0, 2, 1))
    groups = build_blocks(
        middles, np.arange(num_bundles, dtype=np.int32), effort.group, share, threads
    )

    def improve(start: int, stop: int) -> int:
        return sum(
            _improve_one(points, bundle, members, first, group, k, quad, effort)
            for group in groups[start:stop]
        )

    return sum(run_all(improve, build_slices(len(groups), 8 * threads), threads))


def _improve_one(
    points: Points,
    bundle: npt.NDArray[np.int32],
    members: npt.NDArray[np.int32],
    first: npt.NDArray[np.int64],
    group: npt.NDArray[np.int32],
    k: int,
    quad: bool,
    effort: Effort,
) -> int:
    """Improve one group of bundles and write the result to ``bundle``."""
    sizes = first[group + 1] - first[group]
    rows = np.concatenate([members[first[b] : first[b + 1]] for b in group])
    room = max(2 * k - 1, int(sizes.max()))
    inside = np.arange(room) < sizes[:, None]
    places = np.zeros((len(group), room), np.int64)
    places[inside] = np.arange(len(rows))
    changes: int = improve_group(
        np.ascontiguousarray(points[rows]), places, sizes, k, quad,
        effort.passes, effort.near, effort.tries,
    )  # fmt: skip
    inside = np.arange(room) < sizes[:, None]
    bundle[rows[places[inside]]] = np.repeat(group, sizes)
    return changes


def _cost(
    cells: npt.NDArray[np.uint32], bundle: npt.NDArray[np.int32], cloak: str, threads: int
) -> float:
    areas = compute_areas(build_cloaks(cells, bundle, cloak, threads)).sum(axis=1)
    return float((areas * np.bincount(bundle)).sum())
