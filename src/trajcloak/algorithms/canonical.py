"""An order of trajectories that does not depend on the order of rows."""

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.traj_anon.keys import build_layout, sort_keys


def sort_canonically(
    cells: npt.NDArray[np.uint32], height: int, threads: int
) -> npt.NDArray[np.int32]:
    """Sort trajectories by what they are, and only equal ones by row.

    An algorithm that draws trajectories at random, or breaks ties by their number,
    does so in this order, so that user ids decide nothing but ties between
    identical trajectories (invariant 2 of ``docs/guarantee.md``).
    """
    return sort_keys(cells, build_layout(cells.shape[1], height), threads).order
