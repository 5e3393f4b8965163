"""Algorithms of others: they say who is bundled with whom, and are checked."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.traj_anon.keys import sort_canonically
from trajcloak.cloaks import build_cloaks
from trajcloak.errors import OptionError
from trajcloak.options import CUSTOM, is_custom
from trajcloak.progress import Progress, silent


@runtime_checkable
class CustomAlgorithm(Protocol):
    """What an algorithm of yours must have, to be passed to :func:`trajcloak.anonymize`.

    It must be deterministic, and use nothing but what it is given: neither requests nor user
    ids, which it does not see. Then the guarantee holds, whatever it does.

    Attributes
    ----------
    name : str
        Small letters, digits and hyphens. The manifest has it as ``custom:NAME``.

    Examples
    --------
    >>> import numpy as np
    >>> class Rows:
    ...     name = "rows"
    ...     def group(self, cells, k):
    ...         return np.minimum(np.arange(len(cells)) // k, len(cells) // k - 1)
    >>> isinstance(Rows(), CustomAlgorithm)
    True
    """

    name: str

    def group(self, cells: npt.NDArray[np.uint32], k: int) -> npt.ArrayLike:
        """Say which trajectory is in which bundle.

        Parameters
        ----------
        cells : (n, instants, 2) uint32
            The cells, x and y, of the trajectories of a window: at least k of them, in an order
            that does not depend on the log's.
        k : int
            Least number of trajectories in a bundle.

        Returns
        -------
        (n,) integers
            The bundle of each trajectory, numbered from 0.
        """


@dataclass(frozen=True)
class CheckedAlgorithm:
    """An algorithm of others behind the interface of ours; what it returns is checked.

    Attributes
    ----------
    custom : CustomAlgorithm
    """

    custom: CustomAlgorithm

    def __post_init__(self) -> None:
        if not is_custom(self.name):
            raise OptionError(
                "the algorithm's name is not plain; expected small letters, digits and hyphens, "
                "which the manifest shows; give it another name"
            )

    @property
    def name(self) -> str:
        """Name in the manifest."""
        return f"{CUSTOM}{self.custom.name}"

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
        progress("bundling", 0, 1)
        found = np.asarray(self.custom.group(cells[order].copy(), k))
        progress("bundling", 1, 1)
        self._check(found, len(cells), k)
        bundle = np.empty(len(cells), np.int32)
        bundle[order] = found
        return Policy(bundle, build_cloaks(cells, bundle, cloak, threads))

    def _check(self, found: npt.NDArray[np.int64], num_trajectories: int, k: int) -> None:
        """Raise unless every trajectory is in a bundle, and every bundle has at least k."""
        is_numbered = (
            found.shape == (num_trajectories,)
            and np.issubdtype(found.dtype, np.integer)
            and found.min() >= 0
            and found.max() < num_trajectories
        )
        smallest = int(np.bincount(found).min()) if is_numbered else 0
        if smallest < k:
            problem = (
                f"made a bundle of {smallest} users"
                if is_numbered
                else "did not number the bundle of each trajectory from 0, without gaps"
            )
            raise OptionError(
                f"algorithm '{self.custom.name}' {problem}; expected a bundle for each of "
                f"{num_trajectories:,} trajectories, and at least {k} in each; correct it"
            )
