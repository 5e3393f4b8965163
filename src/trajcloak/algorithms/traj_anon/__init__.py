"""``traj-anon``: the paper's algorithm, exact on the tree it is given.

Sort the trajectories' keys (:mod:`.keys`), build the compressed tree over them
(:mod:`.gtree`), find the cheapest configuration (:mod:`.solve`), possibly with
suppression (:mod:`.suppression`), and turn it into bundles (:mod:`.assign`).
Time is linear in the number of trajectories for a fixed k. The cost is at most
``length`` times the cost of the best quad-cloak policy (Theorem 2 of the paper).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.traj_anon.assign import assign_bundles, build_node_cloaks
from trajcloak.algorithms.traj_anon.gtree import GTree, build_gtree
from trajcloak.algorithms.traj_anon.keys import KeyLayout, SortedKeys, build_layout, sort_keys
from trajcloak.algorithms.traj_anon.solve import CostRows, solve_configuration, solve_rows
from trajcloak.algorithms.traj_anon.suppression import (
    suppress_above,
    suppress_at_most,
    suppress_nobody,
)
from trajcloak.cloaks import build_bounding_boxes
from trajcloak.options import MBR
from trajcloak.progress import Progress, silent


@dataclass(frozen=True)
class TrajAnon:
    """Settings of ``traj-anon``, all public.

    Attributes
    ----------
    tree : {"usb", "usb-instant", "us", "u"}
        Which tree of the paper to search. All else is set by :func:`trajcloak.anonymize`.
    suppress_above
        Leave out trajectories that cost at least this much (summed area of
        their cloaks, in cells).
    max_suppressed
        Leave out at most this share of the trajectories, where it saves most.
    """

    tree: str = "usb"
    suppress_above: float | None = None
    max_suppressed: float | None = None

    name = "traj-anon"

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
        layout = build_layout(cells.shape[1], height, self.tree)
        progress("sorting trajectories", 0, 1)
        keys = sort_keys(cells, layout, threads)
        progress("sorting trajectories", 1, 1)
        bundle, tree, node = self.bundle_keys(keys, layout, k, threads, progress)
        if cloak == MBR:
            cloaks = build_bounding_boxes(cells, bundle, len(node), threads)
        else:
            cloaks = build_node_cloaks(cells, keys, layout, height, tree, node)
        return Policy(bundle, cloaks)

    def bundle_keys(
        self,
        keys: SortedKeys,
        layout: KeyLayout,
        k: int,
        threads: int,
        progress: Progress = silent,
    ) -> tuple[npt.NDArray[np.int32], GTree, npt.NDArray[np.int32]]:
        """Bundle trajectories whose keys are sorted.

        Returns the bundle of each trajectory by row (-1: suppressed), the tree, and the
        node of each bundle.
        """
        progress("bundling", 0, 3)
        tree = build_gtree(keys, layout, k)
        progress("bundling", 1, 3)
        rows = solve_rows(tree, k, threads)
        progress("bundling", 2, 3)
        passed_up = solve_configuration(tree, rows, k, self._suppress(tree, rows))
        bundle, node = assign_bundles(tree, keys.order, passed_up)
        progress("bundling", 3, 3)
        return bundle, tree, node

    def _suppress(self, tree: GTree, rows: CostRows) -> npt.NDArray[np.int64]:
        top = suppress_nobody(tree)
        if self.suppress_above is not None:
            top = suppress_above(tree, rows, self.suppress_above)
        elif self.max_suppressed is not None:
            top = suppress_at_most(tree, rows, math.floor(self.max_suppressed * int(tree.stop[-1])))
        return top
