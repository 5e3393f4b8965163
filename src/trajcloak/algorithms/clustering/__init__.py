"""The clustering rivals of section 5.2 of the paper.

``fast-clustering``
    A random trajectory and the k - 1 nearest to it. The distance of two trajectories is
    the sum, over instants, of the logarithm of the area of their bounding rectangle.
``slow-clustering``
    A random trajectory, and k - 1 more, one by one: each time the one that least raises
    the summed logarithms of the areas of the cluster's bounding rectangles.
``hilbert-clustering``
    Every trajectory with its k - 1 nearest by Hilbert index; overlaps merged.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.clustering.cluster_boxes import build_columns
from trajcloak.algorithms.clustering.grow import grow_clusters
from trajcloak.algorithms.clustering.hilbert import cluster_along_curve
from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.traj_anon.keys import sort_canonically
from trajcloak.cloaks import build_cloaks
from trajcloak.progress import Progress, silent


@dataclass(frozen=True)
class Clustering:
    """Fast or slow clustering.

    Attributes
    ----------
    slow : bool
    seed : int
        Decides the order in which trajectories become centres.
    """

    slow: bool
    seed: int = 0

    @property
    def name(self) -> str:
        """Name on the command line and in the manifest."""
        return "slow-clustering" if self.slow else "fast-clustering"

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
        order = sort_canonically(cells, height, threads)
        centres = np.random.default_rng(self.seed).permutation(len(cells))
        bundle = np.empty(len(cells), np.int32)
        bundle[order] = grow_clusters(
            build_columns(cells[order]), k, centres, slow=self.slow, progress=progress
        )
        return Policy(bundle, build_cloaks(cells, bundle, cloak, threads))


@dataclass(frozen=True)
class HilbertClustering:
    """Hilbert-based clustering."""

    name = "hilbert-clustering"

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
        order = sort_canonically(cells, height, threads)
        bundle = np.empty(len(cells), np.int32)
        bundle[order] = cluster_along_curve(cells[order], height, k, threads, progress)
        return Policy(bundle, build_cloaks(cells, bundle, cloak, threads))
