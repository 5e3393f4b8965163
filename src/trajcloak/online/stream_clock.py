"""When a stream begins, and when its instants close: decided by the times of reports, of k users.

Requests have no say in it, nor have fewer than k wrong clocks: among k users is one whose clock is
right.
"""

from collections.abc import Iterable

FARTHEST = 24 * 3600 * 10**6
"""Times so far ahead are those of wrong clocks, unless k users stay there, or instants are as long;
in microseconds."""

FARTHEST_EVER = 366 * FARTHEST
"""Times so far ahead are always those of wrong clocks."""


class StreamClock:
    """Tells from reports which instants are over; times are in microseconds.

    An instant is over when k users have reported a time at or after ``closes``, when it is to be
    closed. ``every`` is the length of an instant. ``patience`` is for how long, by their own
    clocks, k users have to report times far ahead, while no instant closes, until it is believed
    that nobody has reported anything for as long.
    """

    def __init__(self, k: int, every: int, patience: int, closes: int) -> None:
        self._k = k
        self._every = every
        self._patience = patience
        self._farthest = max(FARTHEST, patience)
        self.closes = closes
        self._ahead: dict[str, int] = {}  # The latest time of each user who is past ``closes``.
        # Since the last instant was closed: the first time far ahead of each user who reported
        # one, and who has done so for long.
        self._far: dict[str, int] = {}
        self._stays_far: set[str] = set()

    @property
    def ends(self) -> int:
        """The time from which on reports are not used."""
        return self.closes + self._farthest

    @property
    def is_over(self) -> bool:
        """Whether the instant that closes at ``closes`` is over."""
        return len(self._ahead) >= self._k

    @property
    def is_lost(self) -> bool:
        """Whether users are so far ahead that the stream has to begin anew."""
        return len(self._stays_far) >= self._k

    def see(self, user: str, time: int) -> None:
        """Note the time of a report."""
        if self.closes <= time < self.ends:
            self._ahead[user] = max(time, self._ahead.get(user, time))
        elif self.ends <= time < self.closes + FARTHEST_EVER:
            first = self._far.setdefault(user, time)
            if time - first >= self._patience:
                self._stays_far.add(user)

    def close(self) -> None:
        """Go on to the next instant."""
        self.closes += self._every
        self._ahead = {user: time for user, time in self._ahead.items() if time >= self.closes}
        self._far, self._stays_far = {}, set()


def find_agreed_time(times: Iterable[int], k: int, span: int) -> int | None:
    """Find the least of k times that are at most ``span`` apart; the latest if there are several.

    ``times`` are of different users. Fewer than k wrong clocks cannot make the result later than
    that of a right one, nor earlier by more than ``span``. None if no k times are so close.

    Examples
    --------
    >>> find_agreed_time([100, 7, 103, 9000], 2, 10)
    100
    """
    ordered = sorted(times)
    pairs = zip(ordered, ordered[k - 1 :], strict=False)
    return max((first for first, last in pairs if last - first <= span), default=None)
