"""What has arrived for an instant that is not closed yet."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from trajcloak.online.history import ABSENT
from trajcloak.online.stream_users import add_users

NEVER = np.iinfo(np.int64).min
"""Time of the last report of a user who has not reported."""


@dataclass
class OpenInstant:
    """The last report of each user in an instant, and the requests that were sent in it.

    What is kept is the same in whatever order lines arrive.
    """

    # (users,): of the last report; NEVER where there is none.
    time: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    # (users, 2): of that report. If a user has several at that time, the greatest by x, then y.
    cell: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 2), np.int32))
    # (users,): whether there are several reports of the user at that time.
    is_repeated: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    requests: list[pa.Table] = field(default_factory=list)  # As they came.

    def extend(self, num_users: int) -> None:
        """Add users who have not reported."""
        self.time = add_users(self.time, num_users, NEVER)
        self.cell = add_users(self.cell, num_users, ABSENT)
        self.is_repeated = add_users(self.is_repeated, num_users, False)

    def renumber(self, order: npt.NDArray[np.int64]) -> None:
        """Keep these users only, in this order."""
        self.time = self.time[order]
        self.cell = self.cell[order]
        self.is_repeated = self.is_repeated[order]

    def report(
        self,
        user: npt.NDArray[np.int32],
        time: npt.NDArray[np.int64],
        cell: npt.NDArray[np.int32],
    ) -> None:
        """Add location reports; ``user`` are numbers below those that :meth:`extend` was told."""
        _keep_last(user, time, cell, self.time, self.cell, self.is_repeated)


@njit(cache=True, nogil=True)
def _keep_last(user, time, cell, last, last_cell, is_repeated):  # type: ignore[no-untyped-def]
    """Keep the last report of each user; of several at that time the greatest by x, then y."""
    for row in range(len(user)):
        u = user[row]
        is_repeated[u] = time[row] == last[u] or (is_repeated[u] and time[row] < last[u])
        is_greater = (cell[row, 0], cell[row, 1]) > (last_cell[u, 0], last_cell[u, 1])
        if time[row] > last[u] or (time[row] == last[u] and is_greater):
            last[u] = time[row]
            last_cell[u] = cell[row]
