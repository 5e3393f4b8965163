"""Algorithms that only say who is bundled with whom: the paper's rivals, and those of others."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.traj_anon.keys import build_layout, sort_keys
from trajcloak.cloaks import build_cloaks
from trajcloak.errors import OptionError
from trajcloak.options import CUSTOM, is_custom
from trajcloak.progress import Progress, silent

Group = Callable[[npt.NDArray[np.uint32], int, int, int, Progress], npt.NDArray[np.int32]]
"""Called with cells in canonical order, the height, k, threads and progress, as
:meth:`trajcloak.algorithms.Algorithm.solve` has them; returns the bundle of each trajectory."""


@dataclass(frozen=True)
class GroupAlgorithm:
    """An algorithm given by its name and a function; cloaks are the smallest around each bundle."""

    name: str
    group: Group

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
        # Algorithms that draw at random, or break ties by numbers, see an order in which user ids
        # decide nothing but ties between identical trajectories (invariant 2 of
        # ``docs/guarantee.md``).
        order = sort_keys(cells, build_layout(cells.shape[1], height), threads).order
        bundle = np.empty(len(cells), np.int32)
        bundle[order] = self.group(cells[order], height, k, threads, progress)
        return Policy(bundle, build_cloaks(cells, bundle, cloak, threads))


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


def wrap_custom(custom: CustomAlgorithm) -> GroupAlgorithm:
    """Put an algorithm of others behind the interface of ours; what it returns is checked."""
    name = f"{CUSTOM}{custom.name}"
    if not is_custom(name):
        raise OptionError(
            "the algorithm's name is not plain; expected small letters, digits and hyphens, "
            "which the manifest shows; give it another name"
        )
    return GroupAlgorithm(name, partial(_group_checked, custom))


def _group_checked(
    custom: CustomAlgorithm,
    cells: npt.NDArray[np.uint32],
    height: int,
    k: int,
    threads: int,
    progress: Progress,
) -> npt.NDArray[np.int32]:
    """Raise unless every trajectory is put in a bundle, and every bundle has at least k."""
    progress("bundling", 0, 1)
    # Counted before, because the array is theirs to change.
    count = len(cells)
    found = np.asarray(custom.group(cells, k))
    progress("bundling", 1, 1)
    is_numbered = (
        found.shape == (count,)
        and np.issubdtype(found.dtype, np.integer)
        and found.min() >= 0
        and found.max() < count
    )
    smallest = int(np.bincount(found).min()) if is_numbered else 0
    if smallest < k:
        problem = (
            f"made a bundle of {smallest} users"
            if is_numbered
            else "did not number the bundle of each trajectory from 0, without gaps"
        )
        raise OptionError(
            f"algorithm '{custom.name}' {problem}; expected a bundle for each of {count:,} "
            f"trajectories, and at least {k} in each; correct it"
        )
    return found
