"""``refined``: the lowest cost, in linear time.

For ``mbr`` cloaks:

1. Cut the trajectories into blocks of near neighbours (:mod:`.blocks`).
2. Bundle each block greedily (:mod:`.first_bundles`). Short trajectories are bundled by cuts
   instead; then, round after round, a few neighbouring bundles are taken together and divided
   again by cuts (:mod:`.divide_anew`).
3. Round after round, gather neighbouring bundles into groups, different ones each time
   (:mod:`.rounds`), and let them exchange trajectories while that lowers the cost
   (:mod:`.improve`).

For ``quad`` cloaks: start from the bundles of ``traj-anon``; round after round, divide a few
neighbouring bundles again (:mod:`.divide_anew`), by a tree that follows their trajectories; then
step 3, with the areas of the smallest (semi-)quadrants as cost.

If users are to be left out, these are the most expensive bundles at the
end. The other bundles then exchange their most expensive members for members of those.

The result is compared with the bundles of ``traj-anon``, and the cheaper ones are returned. So
the cost is at most ``length`` times the cost of the best quad-cloak policy, as in the paper.

If members are shown in parts of at least m, the parts are found in this way, with m instead of k.
Then bundles are made of parts (:mod:`.grouping`). If users are to be left out as well, bundles are
found first, as without parts, and are divided later (:mod:`trajcloak.algorithms.division`).

If members are divided anew at every instant, that is done later, too. The more members a bundle
has, the smaller are its parts: bundles are then made of half as many again as asked for.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.refined.boxes import build_points
from trajcloak.algorithms.refined.divide_anew import divide_anew
from trajcloak.algorithms.refined.first_bundles import bundle_blocks
from trajcloak.algorithms.refined.grouping import group_parts
from trajcloak.algorithms.refined.rounds import (
    LEVELS,
    Effort,
    aim_at_parts,
    fit_effort,
    improve_bundles,
)
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.algorithms.traj_anon.keys import build_layout, sort_keys
from trajcloak.cloaks import build_cloaks, compute_areas
from trajcloak.kernels.sort import group_by_number
from trajcloak.options import PER_INSTANT, PER_WINDOW, QUAD
from trajcloak.progress import Progress, silent

SHORT = 4
"""Instants up to which trajectories are cut rather than bundled greedily; measured."""


@dataclass(frozen=True)
class Refined:
    """Settings of ``refined``, all public.

    Attributes
    ----------
    effort : {"low", "normal", "high"}
        How hard to try. All else is set by :func:`trajcloak.anonymize`.
    suppress_above
        Leave out bundles that cost at least this much per member (summed area of
        the cloaks, in cells).
    max_suppressed
        Leave out the most expensive bundles, at most this share of the trajectories.
    parts
        Least number of trajectories in a part, if members are shown in parts.
    parts_per : {"window", "instant"}
        Whether parts stay together for all instants, and are made here; or members are divided
        anew at every instant.
    """

    effort: str = "normal"
    suppress_above: float | None = None
    max_suppressed: float | None = None
    parts: int | None = None
    parts_per: str = PER_WINDOW

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
        effort = LEVELS[self.effort]
        if self.parts is not None and self.parts_per == PER_INSTANT:
            k = enlarge_bundles(k, self.parts, len(cells))
            # Dividing them takes time as well; small blocks save as much where logs are large.
            effort = effort._replace(block=effort.block // 2)
        elif self.parts is not None and self.suppress_above is None and self.max_suppressed is None:
            least, effort = self.parts, aim_at_parts(effort)
            parts = self._find_bundles(cells, height, least, cloak, effort, threads, progress)
            return _bundle_parts(cells, parts.bundle, k, cloak, threads)
        return self._find_bundles(cells, height, k, cloak, effort, threads, progress)

    def _find_bundles(
        self,
        cells: npt.NDArray[np.uint32],
        height: int,
        k: int,
        cloak: str,
        effort: Effort,
        threads: int,
        progress: Progress,
    ) -> Policy:
        """Find bundles of at least k, the cheaper ones of refined's and the tree's."""
        layout = build_layout(cells.shape[1], height)
        progress("sorting trajectories", 0, 1)
        keys = sort_keys(cells, layout, threads)
        progress("sorting trajectories", 1, 1)
        # From here on, rows are in canonical order, so that the log's row order has no effect.
        order = keys.order
        cells = cells[order]
        keys = keys._replace(order=np.arange(len(cells), dtype=np.int32))
        suppressing = TrajAnon(
            suppress_above=self.suppress_above, max_suppressed=self.max_suppressed
        )
        by_tree = suppressing.bundle_keys(keys, layout, k, threads, progress)[0]
        start = by_tree
        if cloak == QUAD and (by_tree < 0).any():
            start = TrajAnon().bundle_keys(keys, layout, k, threads)[0]
        found = self._refine(cells, k, cloak, effort, start, threads, progress)
        best = min(
            (
                Policy(bundle, build_cloaks(cells, bundle, cloak, threads))
                for bundle in (found, by_tree)
            ),
            key=self._total,
        )
        bundle = np.empty_like(best.bundle)
        bundle[order] = best.bundle
        return Policy(bundle, best.cloaks)

    def _refine(
        self,
        cells: npt.NDArray[np.uint32],
        k: int,
        cloak: str,
        effort: Effort,
        of_tree: npt.NDArray[np.int32],
        threads: int,
        progress: Progress,
    ) -> npt.NDArray[np.int32]:
        """Find bundles, starting from blocks (``mbr``) or from the tree's bundles (``quad``)."""
        points = build_points(cells)
        count, _, length = points.shape
        effort = fit_effort(effort, count, length, k)
        short = length <= SHORT
        bundle = of_tree
        if cloak != QUAD:
            bundle = bundle_blocks(points, k, max(effort.block, 20 * k), short, threads)
        if cloak == QUAD or short:
            bundle = divide_anew(
                cells, points, bundle, k, cloak, effort.divisions, threads, progress
            )
        if cloak == QUAD:
            # Quadrants come in few sizes, so later changes seldom make up for one that raised
            # the cost: accept none of those.
            effort = effort._replace(heat=0.0)
        nobody = np.zeros(int(bundle.max()) + 1, np.bool_)
        improve_bundles(cells, points, bundle, nobody, k, cloak, effort, threads, progress)
        areas = compute_areas(build_cloaks(cells, bundle, cloak, threads)).sum(axis=1)
        left_out = _choose_left_out(
            areas, np.bincount(bundle), self.suppress_above, self.max_suppressed
        )
        if left_out.any() and not left_out.all():
            # The bundles are good already: make only changes that lower the cost.
            effort = effort._replace(heat=0.0)
            improve_bundles(cells, points, bundle, left_out, k, cloak, effort, threads, progress)
        return _leave_out(bundle, left_out)

    def _total(self, policy: Policy) -> float:
        """Compute the cost, plus the price of every trajectory in no bundle."""
        return policy.cost() + (self.suppress_above or 0.0) * policy.num_suppressed


def _choose_left_out(
    areas: npt.NDArray[np.float64],
    sizes: npt.NDArray[np.int64],
    price: float | None,
    share: float | None,
) -> npt.NDArray[np.bool_]:
    """Choose the bundles to leave out; ``areas`` is the cost of each per member.

    With a price: all whose members cost at least so much; with a share: the most expensive ones, as
    long as they hold at most this share of all trajectories.

    Examples
    --------
    >>> areas, sizes = np.array([9.0, 2.0, 5.0]), np.array([3, 4, 3])
    >>> _choose_left_out(areas, sizes, 5.0, None)
    array([ True, False,  True])
    >>> _choose_left_out(areas, sizes, None, 0.35)
    array([ True, False, False])
    """
    if price is not None:
        return areas >= price
    budget = math.floor((share or 0.0) * int(sizes.sum()))
    by_cost = np.argsort(-areas, kind="stable")
    left_out = np.zeros(len(areas), np.bool_)
    left_out[by_cost] = np.cumsum(sizes[by_cost]) <= budget
    return left_out


def _leave_out(
    bundle: npt.NDArray[np.int32], left_out: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int32]:
    """Remove the bundles that are left out, and number the others from 0 again.

    Examples
    --------
    >>> _leave_out(np.array([0, 1, 2, 1], np.int32), np.array([True, False, False]))
    array([-1,  0,  1,  0], dtype=int32)
    """
    number = np.cumsum(~left_out, dtype=np.int32) - 1
    number[left_out] = -1
    return number[bundle]


def enlarge_bundles(k: int, least: int, count: int) -> int:
    """Choose how many members bundles have at least, if these are divided anew at every instant.

    Half as many again as k, so that there is more to choose from, and then as many more as fill
    parts of ``least`` members without a rest; at most all ``count`` trajectories. Measured with k =
    50 and parts of 10 on three logs of 20,000 trajectories, bundles of 80 have parts a fifth
    smaller than bundles of 50 do, and together these cover a quarter more.

    Examples
    --------
    >>> enlarge_bundles(50, 10, 20_000)
    80
    """
    return min(-(-3 * k // (2 * least)) * least, count)


def _bundle_parts(
    cells: npt.NDArray[np.uint32],
    part: npt.NDArray[np.int32],
    k: int,
    cloak: str,
    threads: int,
) -> Policy:
    """Make bundles of parts; ``part`` is that of each trajectory, numbered over all bundles."""
    of_part = group_parts(cells, part, k, threads)
    in_order, first = group_by_number(of_part, int(of_part.max()) + 1)
    number = np.empty_like(of_part)
    number[in_order] = np.arange(len(of_part)) - first[of_part[in_order]]
    bundle = of_part[part]
    return Policy(bundle, build_cloaks(cells, bundle, cloak, threads), number[part][:, None])
