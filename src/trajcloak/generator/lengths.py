"""How long trips are meant to be: half a normal deviate times a fifth of the diagonal."""

from statistics import NormalDist
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

LENGTH_BITS = 20
"""The longer side of a network measures 2 to this, in units of planning."""

_TABLE_BITS = 12
_SHARE_OF_DIAGONAL = 5


def build_lengths(width: float, height: float) -> NDArray[np.int64]:
    """Tabulate the quantiles of the wanted length of trips, in units of planning.

    Parameters
    ----------
    width, height
        The extent of the network, in any unit.
    """
    size = 1 << _TABLE_BITS
    normal = NormalDist()
    deviates = [normal.inv_cdf(0.5 + (index + 0.5) / (2 * size)) for index in range(size)]
    longer = max(width, height)
    diagonal = np.sqrt((width / longer) ** 2 + (height / longer) ** 2) * (1 << LENGTH_BITS)
    lengths = np.array(deviates) * (diagonal / _SHARE_OF_DIAGONAL)
    whole: NDArray[np.int64] = np.rint(lengths).astype(np.int64)
    return whole


@njit(cache=True, nogil=True)
def draw_length(lengths: Any, bits: Any) -> Any:
    """Map a random ``uint64`` to a wanted length."""
    return lengths[np.int64(bits >> np.uint64(64 - _TABLE_BITS))]
