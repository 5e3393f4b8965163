"""Group positions by number, by counting sort."""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit


def group_by_number(
    number: npt.NDArray[Any], count: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """List the positions of each number below ``count``, ascending; negative ones are left out.

    Returns
    -------
    members : int32
        Positions, those of number 0 first.
    first : (count + 1,) int64
        Where the positions of each number start in ``members``.
    """
    members, first = _group(number, count)
    return members, first


@njit(cache=True, nogil=True)
def _group(number, count):  # type: ignore[no-untyped-def]
    """Sort positions by counting; O(positions + count)."""
    # first[n + 1] counts number n; summed up, first[n] is where number n starts.
    first = np.zeros(count + 1, np.int64)
    for i in range(len(number)):
        if number[i] >= 0:
            first[number[i] + 1] += 1
    for n in range(count):
        first[n + 1] += first[n]
    members = np.empty(first[count], np.int32)
    position = first[:-1].copy()
    for i in range(len(number)):
        n = number[i]
        if n >= 0:
            members[position[n]] = i
            position[n] += 1
    return members, first
