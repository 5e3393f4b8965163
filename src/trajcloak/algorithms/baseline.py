"""``baseline``: the best snapshot policy for the first instant, kept for all others."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.algorithms.traj_anon.keys import sort_canonically
from trajcloak.cloaks import build_cloaks
from trajcloak.options import QUAD
from trajcloak.progress import Progress, silent


@dataclass(frozen=True)
class Baseline:
    """Bundle by the first snapshot alone (section 5.2 of the paper)."""

    name = "baseline"

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
        # Equal first locations are ordered by the rest of the trajectory, not by row.
        order = sort_canonically(cells, height, threads)
        first = np.ascontiguousarray(cells[order, :1])
        bundle = np.empty(len(cells), np.int32)
        snapshot = TrajAnon().solve(first, height, k, QUAD, threads=threads, progress=progress)
        bundle[order] = snapshot.bundle
        return Policy(bundle, build_cloaks(cells, bundle, cloak, threads))
