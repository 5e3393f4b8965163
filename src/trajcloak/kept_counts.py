"""Count what a choice of instants, windows and bundles would keep of a log."""

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.bundles import find_eligible
from trajcloak.engines.engine import MemoryEngine
from trajcloak.errors import InputError, OptionError
from trajcloak.kernels.threads import run_sliced
from trajcloak.log import RequestLog, ShardedLog, hold_in_memory
from trajcloak.log.clean import group_by_user
from trajcloak.log.sharded_log import build_shard
from trajcloak.options import MBR, Options
from trajcloak.progress import Progress
from trajcloak.trajectories import (
    Layout,
    Located,
    TimeGrid,
    WindowCutter,
    build_time_grid,
    change_times,
    format_duration,
    lay_out,
)
from trajcloak.trajectories.reports import compare_reports

MOST_CELLS = 200_000  # users times instants that are bundled for a choice
MOST_GUESSED = 0.5  # largest share of locations without a report of their own that is believable


@dataclass(frozen=True)
class Choice:
    """What a choice of ``every``, ``max_gap``, ``length`` and ``members`` would keep.

    Attributes
    ----------
    every, max_gap : int or str
        In the form that :func:`trajcloak.anonymize` takes.
    length : int
    users : float
        Share of the users who take part in at least one window.
    reports : float
        Share of the rows whose user takes part in their window.
    guessed : float
        Share of the published locations of users without a report in that instant: points of a
        straight line between two reports.
    most_users : int
        Users who take part in the window with most of them.
    members : int or None
        Least number of users in a bundle; None if k is not known.
    sets : float or None
        Share of the sets of requests, one for each bundle and instant, that are eligible: k
        members have a row. None if k is not known.
    rows : float or None
        Share of the rows that are in such a set, so that a request of theirs could be
        published. None if k is not known.
    """

    every: int | str
    max_gap: int | str
    length: int
    users: float
    reports: float
    guessed: float
    most_users: int
    members: int | None = None
    sets: float | None = None
    rows: float | None = None


class _KeptCounts(NamedTuple):
    """What :func:`_count_kept` counts, in its order, and the most users of a window."""

    users: int
    reports: int
    user_windows: int
    exact: int
    instants: int
    reported_instants: int
    most_users: int


class KeptCounter:
    """Counts what a choice would keep: ``count``, which remembers its answers."""

    def __init__(self, log: RequestLog, threads: int, progress: Progress) -> None:
        progress("sorting reports", 0, 1)
        self.log = log
        self.whole = hold_in_memory(log)
        self.threads = threads
        self.reports = compare_reports(log, 0, threads)
        order, self._first = group_by_user(log)
        self._time = log.time[order]
        self.count = cache(self._count_choice)
        progress("sorting reports", 1, 1)

    def locate(self, grid: TimeGrid, max_gap: int) -> Located:
        """Count the locations that are reported, interpolated and missing."""
        # Windows of one instant: a user takes part wherever the location is known.
        kept = self._count(grid, max_gap, 1)
        return Located(
            kept.exact,
            kept.user_windows - kept.exact,
            missing=self.log.num_users * grid.num_instants - kept.user_windows,
        )

    def _count_choice(self, every: int, max_gap: int, length: int) -> Choice:
        kept = self._count(build_time_grid(self.whole, every), max_gap, length)
        # Requests of a second input are not counted: nothing here may depend on them.
        return Choice(
            format_duration(every, has_timestamps=self.log.has_timestamps),
            format_duration(max_gap, has_timestamps=self.log.has_timestamps),
            length,
            kept.users / self.log.num_users,
            kept.reports / self.log.num_rows,
            (kept.instants - kept.reported_instants) / max(1, kept.instants),
            kept.most_users,
        )

    def find_gap(self, share: float) -> int:
        """Find the least gap such that this share of all gaps are not longer; 0 without gaps."""
        return self.reports.quantile(share) if self.reports.num_gaps else 0

    def is_believable(self, every: int, max_gap: int, length: int) -> bool:
        """Whether at most half of the locations would be guessed."""
        return self.count(every, max_gap, length).guessed <= MOST_GUESSED

    def _count(self, grid: TimeGrid, max_gap: int, length: int) -> _KeptCounts:
        when = grid.origin, grid.every, grid.num_instants
        parts = run_sliced(
            lambda start, stop: _count_kept(
                self._time, self._first, when, max_gap, length, start, stop
            ),
            self.log.num_users,
            self.threads,
        )
        kept, changes = (np.sum(found, axis=0) for found in zip(*parts, strict=True))
        return _KeptCounts._make([*kept.tolist(), int(np.cumsum(changes).max())])


class SetCounter:
    """Counts the sets of requests that a choice would leave eligible, and their rows: ``count``.

    Answers are remembered. Users are bundled with ``traj-anon``. Of a large log, windows with rows
    are drawn evenly. ``every`` is any step that the log can be laid out with.
    """

    def __init__(
        self,
        log: RequestLog,
        k: int,
        every: int,
        region: tuple[float, float, float] | None,
        threads: int,
    ) -> None:
        self.k = k
        self._threads = threads
        step = format_duration(every, has_timestamps=log.has_timestamps)
        asked = Options(k=k, every=str(step), region=region)
        self._placed: tuple[ShardedLog, Layout] | None = None
        # Misplaced rows, for example: they are among the refusals.
        with suppress(InputError, OptionError):
            self._placed = lay_out(hold_in_memory(log, MemoryEngine(threads)), asked)
        self.count = cache(self._count)

    def _count(self, every: int, max_gap: int, length: int, members: int) -> tuple[float, float]:
        """Compute the shares of sets that are eligible, and of rows that are in one."""
        if self._placed is None:
            return 0.0, 0.0
        placed, first = self._placed
        layout = change_times(placed, first, every=every, max_gap=max_gap, length=length)
        log, grid = build_shard(placed.shards[0]), layout.grid
        cutter = WindowCutter(log, layout)
        instant = (log.time - grid.origin) // grid.every
        order = np.argsort(instant, kind="stable")
        edges = np.searchsorted(instant[order], layout.ranges)
        most = max(1, MOST_CELLS // (log.num_users * length))
        filled = np.flatnonzero(edges[:, 0] < edges[:, 1])
        chosen = filled[np.unique(np.linspace(0, len(filled) - 1, most).astype(np.int64))]
        num_sets = num_eligible = num_rows = num_kept = 0
        for number in chosen.tolist():
            rows = order[slice(*edges[number])]
            num_rows += len(rows)
            window = cutter.cut(number, self._threads)
            if len(window.user) < members:
                continue
            policy = TrajAnon().solve(
                window.cells, layout.region.height, members, MBR, threads=self._threads
            )
            is_eligible = find_eligible(window, policy.bundle, policy.num_bundles, self.k)
            num_sets += is_eligible.size
            num_eligible += int(is_eligible.sum())
            bundle = np.full(log.num_users, -1, np.int32)
            bundle[window.user] = policy.bundle
            bundle = bundle[log.user[rows]]
            inside = bundle >= 0
            num_kept += int(is_eligible[bundle[inside], instant[rows[inside]] - window.start].sum())
        share_inside = int((edges[:, 1] - edges[:, 0]).sum()) / log.num_rows
        return num_eligible / max(1, num_sets), share_inside * num_kept / max(1, num_rows)


@njit(cache=True, nogil=True)
def _count_kept(time, first, when, max_gap, length, begin, end):  # type: ignore[no-untyped-def]
    """Count what is kept of some users.

    A stretch is a run of a user's reports that are at most ``max_gap`` apart. The user takes
    part in every window that is within a stretch. An exact report has the time of an instant.

    Requires: ``time`` by user, ascending; ``first`` is where each user's rows start.

    Ensures: returns counts of users, reports, pairs of user and window, exact reports, instants
    of users in these windows, and those of them with a report; and by how many users each window
    has more than the one before.
    """
    origin, every, num_instants = when
    span = every * length
    last_window = (num_instants - 1) // length
    last_moment = origin + (num_instants - 1) * every
    kept: npt.NDArray[np.int64] = np.zeros(6, np.int64)
    changes: npt.NDArray[np.int64] = np.zeros(last_window + 2, np.int64)
    for u in range(begin, end):
        takes_part = False
        # First and last window, both included, of the latest stretch that has any.
        low = np.int64(0)
        high = np.int64(-1)
        latest = np.int64(-1)
        row = first[u]
        while row < first[u + 1]:
            stop = row + 1
            while stop < first[u + 1] and time[stop] - time[stop - 1] <= max_gap:
                stop += 1
            # First and last window with all their moments within the stretch.
            first_window = max(-((origin - time[row]) // span), np.int64(0))
            final_window = (time[stop - 1] - origin + every) // span - 1
            if time[stop - 1] >= last_moment:
                final_window = last_window
            if final_window >= first_window:
                takes_part = True
                low = first_window
                high = final_window
                kept[2] += high - low + 1
                kept[4] += min((high + 1) * length, num_instants) - low * length
                changes[low] += 1
                changes[high + 1] -= 1
            # A report may belong to a window of an earlier stretch: after a gap that follows the
            # window's last moment.
            for i in range(row, stop):
                offset = time[i] - origin
                window = offset // span
                if offset >= 0 and low <= window <= high:
                    kept[1] += 1
                    kept[5] += offset // every != latest
                    latest = offset // every
                is_new = i == first[u] or time[i] != time[i - 1]
                kept[3] += is_new and offset >= 0 and offset % every == 0
            row = stop
        kept[0] += takes_part
    return kept, changes
