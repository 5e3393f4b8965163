"""Where users were at the last few instants, from location reports alone."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.online.stream_tables import add_users

ABSENT = -1
"""Cell of a user whose location is not known."""

Frame = npt.NDArray[np.int32]
"""(users, 2): the cell of each user at one instant; ABSENT where it is not known."""

MOST_MOVEMENTS = 2_000_000
"""Users times instants to learn from, which bounds memory and time."""


class History(NamedTuple):
    """The last instants, the newest last; a value, not changed once it is made."""

    frames: npt.NDArray[np.int32]  # (instants, users, 2): see :data:`Frame`.
    # (users,): the longest way that each went from one instant to the next, as far as is known.
    top_speed: npt.NDArray[np.int32]


class Recorder:
    """Keeps the last instants of all users; memory is bounded by the number of users."""

    def __init__(self, epoch: int, lag: int) -> None:
        # A movement to learn from needs the instant before it, and as many after it as are
        # predicted: these are kept as well. So are the instants that are waited for.
        self._span = max(lag, epoch - lag)
        self._frames: list[Frame] = []
        self._top_speed = np.zeros(0, np.int32)

    def add(self, frame: Frame) -> None:
        """Add the newest instant, which may have more users than those before."""
        # A copy: what look_back has returned is not changed.
        speed = add_users(self._top_speed, len(frame), 0).copy()
        if self._frames:
            before = add_users(self._frames[-1], len(frame), ABSENT)
            is_known = (before[:, 0] >= 0) & (frame[:, 0] >= 0)
            way = frame[is_known].astype(np.float64) - before[is_known]
            length = np.sqrt((way * way).sum(axis=1)).astype(np.int32)
            speed[is_known] = np.maximum(speed[is_known], length)
        self._top_speed = speed
        self._frames.append(frame)

    def trim(self, num_users: int) -> None:
        """Forget the oldest instants: few users are remembered for longer than many."""
        kept = self._span + max(1, MOST_MOVEMENTS // max(1, num_users))
        del self._frames[:-kept]

    def is_seen(self, num_users: int) -> npt.NDArray[np.bool_]:
        """Mark the users whose location is known at some instant that is kept."""
        seen = np.zeros(num_users, np.bool_)
        for frame in self._frames:
            seen[: len(frame)] |= frame[:, 0] >= 0
        return seen

    def renumber(self, order: npt.NDArray[np.int64]) -> None:
        """Keep these users only, in this order, which may name users who came later."""
        num_users = int(order.max(initial=-1)) + 1
        self._frames = [add_users(frame, num_users, ABSENT)[order] for frame in self._frames]
        self._top_speed = add_users(self._top_speed, num_users, 0)[order]

    def get_frame(self, back: int, num_users: int) -> Frame:
        """Return the instant that is so many before the newest, for so many users."""
        return add_users(self._frames[-1 - back], num_users, ABSENT)

    def look_back(self, num_users: int) -> History:
        """Return all instants that are kept."""
        frames = np.stack([add_users(frame, num_users, ABSENT) for frame in self._frames])
        return History(frames, add_users(self._top_speed, num_users, 0))
