"""Algorithms: trajectories and k to a policy, all behind one interface."""

from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.clustering import grow_clusters
from trajcloak.algorithms.exact import group_exactly
from trajcloak.algorithms.group_algorithm import Group, GroupAlgorithm
from trajcloak.algorithms.hilbert import cluster_along_curve
from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.refined import Refined
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.errors import OptionError
from trajcloak.options import ALGORITHMS, PER_WINDOW, QUAD
from trajcloak.progress import Progress, silent

__all__ = ["Algorithm", "Policy", "build_algorithm"]


class Algorithm(Protocol):
    """Bundles trajectories.

    Membership and cloaks are a function of the trajectories, k and public
    settings: an algorithm never sees a request or a user id (invariants 1 and 2
    of ``docs/guarantee.md``).
    """

    @property
    def name(self) -> str:
        """Name on the command line and in the manifest."""

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
        """Bundle trajectories.

        Parameters
        ----------
        cells : (n, instants, 2) uint32
            At least k trajectories, cells below ``2**height``. The order of
            rows may decide ties between identical trajectories, nothing else.
        height : int
        k : int
        cloak : {"quad", "mbr"}
        threads : int
            Changes the time, never the result.
        progress : Progress

        Returns
        -------
        Policy
            Every bundle has at least k trajectories, and its cloaks hold them.
        """


def build_algorithm(
    name: str,
    *,
    seed: int = 0,
    tree: str = "usb",
    effort: str = "normal",
    suppress_above: float | None = None,
    max_suppressed: float | None = None,
    parts: int | None = None,
    parts_per: str = PER_WINDOW,
) -> Algorithm:
    """Build an algorithm by its name, one of :data:`trajcloak.options.ALGORITHMS`.

    :class:`TrajAnon` and :class:`Refined` say what their settings mean; ``seed`` is for algorithms
    that draw at random.
    """
    if name == TrajAnon.name:
        return TrajAnon(tree, suppress_above, max_suppressed)
    if name == Refined.name:
        return Refined(effort, suppress_above, max_suppressed, parts, parts_per)
    rivals: dict[str, Group] = {
        "baseline": _group_by_first_instant,
        "fast-clustering": partial(grow_clusters, slow=False, seed=seed),
        "slow-clustering": partial(grow_clusters, slow=True, seed=seed),
        "hilbert-clustering": cluster_along_curve,
        "exact": group_exactly,
    }
    if name not in rivals:
        raise OptionError(
            f"algorithm '{name}' is not known; expected one of {', '.join(ALGORITHMS)}; "
            f"pass another --algorithm"
        )
    if suppress_above is not None or max_suppressed is not None:
        raise OptionError(
            f"algorithm '{name}' suppresses nobody; expected no --suppress-above and no "
            f"--max-suppressed with it; leave them out, or pass --algorithm=traj-anon or refined"
        )
    return GroupAlgorithm(name, rivals[name])


def _group_by_first_instant(
    cells: npt.NDArray[np.uint32], height: int, k: int, threads: int, progress: Progress
) -> npt.NDArray[np.int32]:
    """Take the best snapshot policy for the first instant (section 5.2 of the paper)."""
    first = np.ascontiguousarray(cells[:, :1])
    return TrajAnon().solve(first, height, k, QUAD, threads=threads, progress=progress).bundle
