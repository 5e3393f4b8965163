"""Which bundles to leave out, at a price or within a budget."""

import math

import numpy as np
import numpy.typing as npt


def choose_left_out(
    areas: npt.NDArray[np.float64],
    sizes: npt.NDArray[np.int64],
    price: float | None,
    share: float | None,
) -> npt.NDArray[np.bool_]:
    """Choose the most expensive bundles.

    Parameters
    ----------
    areas : (bundles,) float64
        Cost of each bundle per member.
    sizes : (bundles,) int64
    price : float, optional
        Leave out every bundle whose members cost at least this much.
    share : float, optional
        Leave out the most expensive bundles, as long as they hold at most this share of all.

    Examples
    --------
    >>> areas, sizes = np.array([9.0, 2.0, 5.0]), np.array([3, 4, 3])
    >>> choose_left_out(areas, sizes, 5.0, None)
    array([ True, False,  True])
    >>> choose_left_out(areas, sizes, None, 0.35)
    array([ True, False, False])
    """
    if price is not None:
        return areas >= price
    budget = math.floor((share or 0.0) * int(sizes.sum()))
    by_cost = np.argsort(-areas, kind="stable")
    left_out = np.zeros(len(areas), np.bool_)
    left_out[by_cost] = np.cumsum(sizes[by_cost]) <= budget
    return left_out


def leave_out(
    bundle: npt.NDArray[np.int32], left_out: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int32]:
    """Remove the bundles that are left out, and number the others from 0 again.

    Examples
    --------
    >>> leave_out(np.array([0, 1, 2, 1], np.int32), np.array([True, False, False]))
    array([-1,  0,  1,  0], dtype=int32)
    """
    number = np.cumsum(~left_out, dtype=np.int32) - 1
    number[left_out] = -1
    return number[bundle]
