"""Cut a shard into windows of dense trajectories."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from trajcloak.log import RequestLog
from trajcloak.log.clean import group_by_user
from trajcloak.options import HOLD
from trajcloak.trajectories.fill import (
    collect_requests,
    complete_users,
    count_known,
    mark_rows,
    scatter_reports,
)
from trajcloak.trajectories.grid import Ranges, TimeGrid
from trajcloak.trajectories.ingest import Located
from trajcloak.trajectories.layout import Layout

CELLS_PER_THREAD = 1 << 16
MAX_TICKS = 2**63 - 1


@dataclass(frozen=True)
class Window:
    """The users who take part in a window, their trajectories and their requests."""

    number: int
    start: int  # Half-open range of instants.
    stop: int
    # (n,): position of each participant in the shard's ``users``, ascending.
    user: npt.NDArray[np.int32]
    reported: npt.NDArray[np.bool_]  # (n,): whether the participant has a report in the window.
    # (n, stop - start): whether the participant may have sent a request at each instant: in one
    # log, whether a row of theirs is in the instant. None: all may at all instants.
    has_row: npt.NDArray[np.bool_] | None
    # (n, stop - start, 2): cell of each participant at each instant, x and y.
    cells: npt.NDArray[np.uint32]
    request_user: npt.NDArray[np.int32]  # The participant (row of ``cells``) who sent each request.
    request_instant: npt.NDArray[np.int32]  # Its instant, counted from ``start``.
    request_kind: npt.NDArray[np.int32]  # Row of ``log.requests.kinds``.
    left_out_users: int  # Users with a report in the window who do not take part.
    left_out_requests: int  # Requests that those users sent in the window.
    # How the locations of all users of the shard are known at its instants.
    located: Located = field(default_factory=Located)


class WindowCutter:
    """Cuts a shard on the plane into windows, in any order and from several threads."""

    def __init__(self, log: RequestLog, layout: Layout) -> None:
        self._log = log
        self._layout = layout
        grid, ranges = layout.grid, layout.ranges
        is_whole = layout.is_one_window
        # Rows by time, if a window does not hold all of them; no order: they are in order already.
        self._time = log.time
        self._order: npt.NDArray[np.int64] | None = None
        if not is_whole and (log.time[:-1] > log.time[1:]).any():
            self._order = np.argsort(log.time, kind="stable")
            self._time = log.time[self._order]
        is_held = layout.asked.missing == HOLD and not is_whole
        self._timeline = group_by_user(log) if is_held else None
        # Requests of a second input may be outside all windows.
        self._requests = (
            [np.arange(log.num_requests)]
            if is_whole and log.is_one_log
            else _group_requests(log, grid, ranges)
        )

    def is_empty(self, number: int) -> bool:
        """Whether no row is near enough to a window to locate anybody in it."""
        layout = self._layout
        if layout.is_one_window or layout.asked.missing == HOLD:
            return False
        start, stop = layout.ranges[number].tolist()
        margin = -(-layout.max_gap // layout.grid.every)
        first, last = self._find_rows(start - margin, stop + margin)
        return first == last

    def cut(self, number: int, threads: int) -> Window:
        """Cut one window."""
        log, layout = self._log, self._layout
        start, stop = layout.ranges[number].tolist()
        inside = self._list_rows(start, stop)
        if self.is_empty(number):
            cells = np.empty((0, stop - start, 2), np.uint32)
            known = np.zeros(log.num_users, np.bool_)
            located = Located(missing=log.num_users * (stop - start))
        else:
            cells, known, located = self._locate(inside, start, stop, threads)
        # In a single window of all rows, every user has one.
        present = np.full(log.num_users, inside is None)
        if inside is not None:
            present[log.user[inside]] = True
        user = np.flatnonzero(known).astype(np.int32)
        has_row = None
        if log.is_one_log and located.reported < log.num_users * (stop - start):
            has_row = mark_rows(log, layout.grid, inside, start, stop)[user]
        requests = self._requests[number]
        sender, instant, kind = collect_requests(log, layout.grid, start, requests, user)
        return Window(
            number=number,
            start=start,
            stop=stop,
            user=user,
            reported=present[user],
            has_row=has_row,
            cells=cells if len(user) == log.num_users else cells[user],
            request_user=sender,
            request_instant=instant,
            request_kind=kind,
            left_out_users=int((present & ~known).sum()),
            left_out_requests=len(requests) - len(sender),
            located=located,
        )

    def _locate(
        self, inside: npt.NDArray[np.int64] | None, start: int, stop: int, threads: int
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_], Located]:
        """Locate every user at every instant of a window; ``inside`` are the rows in it, None: all.

        Returns the cells, which users are located at all instants, and counts of how.
        """
        log, layout = self._log, self._layout
        grid, max_gap = layout.grid, layout.max_gap
        num_places = log.num_users * (stop - start)
        # In small windows, of which there may be many, threads cost more than they save.
        threads = min(threads, 1 + num_places // CELLS_PER_THREAD)
        cells = scatter_reports(log, layout, inside, start, stop, threads)
        found = count_known(cells, threads)
        reported, held = int(found.sum()), 0
        is_hold = layout.asked.missing == HOLD
        if reported < num_places and (is_hold or max_gap >= 2 * grid.every or not grid.on_grid):
            margin = min(-(-max_gap // grid.every), grid.num_instants)
            around = self._list_rows(start - margin, stop + margin)
            done = found == stop - start
            held = complete_users(log, layout, around, self._timeline, start, margin, done, cells)
            found = count_known(cells, threads)
        known = int(found.sum())
        located = Located(reported, known - reported - held, held, num_places - known)
        return cells, found == stop - start, located

    def _list_rows(self, start: int, stop: int) -> npt.NDArray[np.int64] | None:
        """List the rows whose instants are in a half-open range; None: all, in a single window."""
        if self._layout.is_one_window:
            return None
        first, last = self._find_rows(start, stop)
        return np.arange(first, last) if self._order is None else self._order[first:last]

    def _find_rows(self, start: int, stop: int) -> tuple[int, int]:
        """Find, in order of time, the rows whose instants are in a half-open range."""
        grid = self._layout.grid
        moments = (grid.origin + instant * grid.every for instant in (start, stop))
        ends = np.array([min(max(moment, -MAX_TICKS), MAX_TICKS) for moment in moments])
        first, last = np.searchsorted(self._time, ends).tolist()
        return first, last


def join_marks(
    parts: Sequence[npt.NDArray[np.bool_] | None], counts: Sequence[int]
) -> npt.NDArray[np.bool_] | None:
    """Join marks of users; None stands for ``counts`` users with all marks."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    length = found[0].shape[1]
    return np.concatenate(
        [
            np.ones((count, length), np.bool_) if part is None else part
            for part, count in zip(parts, counts, strict=True)
        ]
    )


def _group_requests(log: RequestLog, grid: TimeGrid, ranges: Ranges) -> list[npt.NDArray[np.int64]]:
    """List the positions of each window's requests."""
    instant = (log.request_time - grid.origin) // grid.every
    if len(ranges) == 1:
        return [np.flatnonzero((instant >= ranges[0, 0]) & (instant < ranges[0, 1]))]
    order = np.argsort(instant, kind="stable")
    edges = np.searchsorted(instant[order], ranges)
    return [order[start:stop] for start, stop in edges.tolist()]
