"""Form the groups of an epoch from what is known and predicted.

Groups are a function of location reports, k and public settings (invariant 1 of
``docs/guarantee.md``). A prediction that fails makes cloaks larger, never groups smaller.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.refined import Refined
from trajcloak.cloaks import build_cloaks, order_by_cloaks
from trajcloak.online.prediction import Futures
from trajcloak.options import MBR


class GroupingEffort(NamedTuple):
    """How hard to try to form good groups."""

    # Users times instants of an epoch up to which this effort is made.
    most_cells: float
    # Futures that groups are formed for. The expected size of a cloak depends on how sure the
    # ways of its members are, which few futures cannot show: with 2, 4, 8 of them and W = 5, the
    # cost was 2.9, 2.4, 2.1 times that of hindsight, and 2.4 with one that is the mean; with 8
    # and 16 of them and W = 10, it was 4.8 and 4.5 times that of hindsight.
    num_futures: int
    level: str  # Effort of :class:`trajcloak.algorithms.refined.Refined`.


EFFORTS_ONLINE = (
    GroupingEffort(60_000, 16, "high"),
    GroupingEffort(250_000, 16, "normal"),
    GroupingEffort(500_000, 8, "normal"),
    GroupingEffort(2_500_000, 1, "low"),
    GroupingEffort(float("inf"), 1, "least"),
)
"""So that instants of a minute are long enough on two cores."""

MOST_TIMES_K = 8
"""Groups have at most this many times k members, however many leave: larger ones would show
nothing of use."""


def choose_effort(num_users: int, epoch: int) -> GroupingEffort:
    """Say how hard to try: by public numbers, not by the clock, so that runs can be repeated."""
    return next(e for e in EFFORTS_ONLINE if num_users * epoch <= e.most_cells)


def choose_members(k: int, absence: float, length: int) -> int:
    """Choose how many members a group needs to lose some and be published nevertheless.

    If members leave independently of each other, the number of those left at the last instant
    is binomial; k is one standard deviation below its mean. Then more than 94% of all sets have
    k members, with k from 2 to 60 and up to a tenth of the members leaving at each instant.

    ``absence`` is the share of the members that leave from one instant to the next; ``length`` is
    how many instants there are until the groups end. At the first, everybody is present.

    Examples
    --------
    >>> choose_members(50, 0.0, 10), choose_members(50, 0.01, 5), choose_members(50, 0.05, 5)
    (50, 54, 66)
    """
    share = max((1.0 - absence) ** (length - 1), 1.0 / MOST_TIMES_K)
    if share == 1.0:
        return k
    deviation = math.sqrt(share * (1.0 - share))
    root = deviation + math.sqrt(deviation * deviation + 4.0 * share * k)
    return min(math.ceil((root / (2.0 * share)) ** 2), MOST_TIMES_K * k)


def lay_side_by_side(
    known: npt.NDArray[np.int32], futures: Futures, height: int
) -> npt.NDArray[np.uint32]:
    """Join known and predicted instants to one trajectory for each user.

    All futures stand one after another, as if they were more instants, and what is known is
    repeated as often: then the summed area of a group's cloaks is that of all futures.

    ``known`` is (users, instants, 2). Predictions may leave the region, whose side has
    ``2**height`` cells; they are moved to its edge.
    """
    num_users, num_futures, length, _ = futures.shape
    repeated = np.tile(known, (1, num_futures if length else 1, 1))
    predicted = futures.reshape(num_users, num_futures * length, 2)
    cells = np.concatenate([repeated, predicted], axis=1)
    inside: npt.NDArray[np.uint32] = np.clip(cells, 0, (1 << height) - 1).astype(np.uint32)
    return inside


def form_groups(
    cells: npt.NDArray[np.uint32], height: int, members: int, effort: str, threads: int
) -> npt.NDArray[np.int32]:
    """Form groups of at least so many members, or one group of all if there are too few.

    Returns the group of each trajectory, numbered by the cloaks that are predicted.
    """
    members = min(members, len(cells))
    policy = Refined(effort).solve(cells, height, members, MBR, threads=threads)
    cloaks = build_cloaks(cells, policy.bundle, MBR, threads)
    order = order_by_cloaks(cloaks, policy.sizes)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return number[policy.bundle]
