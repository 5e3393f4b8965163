"""Cut a log into windows of dense trajectories."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError
from trajcloak.log import RequestLog, sort_rows
from trajcloak.options import HOLD
from trajcloak.progress import Progress, silent
from trajcloak.space import Places
from trajcloak.trajectories.clock import Ranges, cut_windows
from trajcloak.trajectories.fill import (
    Timeline,
    collect_requests,
    complete_users,
    count_known,
    scatter_reports,
)
from trajcloak.trajectories.grid import MAX_INSTANTS, TimeGrid
from trajcloak.trajectories.ingest import Located
from trajcloak.trajectories.reports import Reports, compare_reports

CELLS_PER_THREAD = 1 << 16


@dataclass(frozen=True)
class Window:
    """The users who take part in a window, their trajectories and their requests.

    Attributes
    ----------
    number : int
    start, stop : int
        Half-open range of instants.
    user : (n,) int32
        Position of each participant in the log's ``users``, ascending.
    reported : (n,) bool
        Whether the participant has a report in the window.
    cells : (n, stop - start, 2) uint32
        Cell of each participant at each instant, x and y.
    request_user : int32
        The participant (row of ``cells``) who sent each request.
    request_instant : int32
        Its instant, counted from ``start``.
    request_kind : int32
        Row of ``log.requests.kinds``.
    left_out_users : int
        Users with a report in the window who do not take part.
    left_out_requests : int
        Requests that they sent in the window.
    located : Located
        How the locations of all users of the log are known at its instants.
    """

    number: int
    start: int
    stop: int
    user: npt.NDArray[np.int32]
    reported: npt.NDArray[np.bool_]
    cells: npt.NDArray[np.uint32]
    request_user: npt.NDArray[np.int32]
    request_instant: npt.NDArray[np.int32]
    request_kind: npt.NDArray[np.int32]
    left_out_users: int
    left_out_requests: int
    located: Located = field(default_factory=Located)


def stream_windows(
    log: RequestLog,
    places: Places,
    grid: TimeGrid,
    *,
    length: int | None,
    max_gap: int,
    missing: str,
    threads: int,
    progress: Progress = silent,
    ranges: Ranges | None = None,
    whole: RequestLog | None = None,
) -> Iterator[Window]:
    """Yield the windows of a log in order, one at a time.

    ``ranges`` are the instants of the windows; default: all, cut every ``length``.
    ``whole`` is the log that ``log`` is only a stretch of. Then the caller has checked already
    that no rows of it contradict each other if they are not all on the grid.

    Raises
    ------
    InputError
        If a user has two different places at one time.
    """
    is_checked = not grid.on_grid
    if is_checked and whole is None:
        check_conflicts(log)
    if ranges is None:
        ranges = cut_windows(log, grid, length=length)
    is_whole = ranges.tolist() == [[0, grid.num_instants]] and grid.origin <= log.time_range[0]
    rows = None if is_whole else _RowsByInstant(log, grid)
    all_requests = np.arange(len(log.requests.row))
    requests = [all_requests] if is_whole else _group_requests(log, grid, ranges)
    margin = -(-max_gap // grid.every)
    for number, (start, stop) in enumerate(ranges.tolist()):
        progress("building trajectories", start, grid.num_instants)
        if rows is not None and missing != HOLD and not rows.has_any(start - margin, stop + margin):
            yield build_empty_window(number, start, stop, log.num_users)
            continue
        cells, known, located, has_repeats = _build_cells(
            log, places, grid, rows, start, stop, max_gap, missing, threads
        )
        if has_repeats and not is_checked:
            check_conflicts(log if whole is None else whole)
            is_checked = True
        present = _find_present(log, rows, start, stop)
        user = np.flatnonzero(known).astype(np.int32)
        inside = requests[number]
        sender, instant, kind = collect_requests(log, grid, start, inside, user)
        yield Window(
            number=number,
            start=start,
            stop=stop,
            user=user,
            reported=present[user],
            cells=cells if len(user) == log.num_users else cells[user],
            request_user=sender,
            request_instant=instant,
            request_kind=kind,
            left_out_users=int((present & ~known).sum()),
            left_out_requests=len(inside) - len(sender),
            located=located,
        )
        # The next window needs the room.
        del cells
    progress("building trajectories", grid.num_instants, grid.num_instants)


def build_empty_window(number: int, start: int, stop: int, num_users: int) -> Window:
    """Build a window in which nobody is located."""
    nobody = np.empty(0, np.int32)
    return Window(
        number=number,
        start=start,
        stop=stop,
        user=nobody,
        reported=np.empty(0, np.bool_),
        cells=np.empty((0, stop - start, 2), np.uint32),
        request_user=nobody,
        request_instant=nobody,
        request_kind=nobody,
        left_out_users=0,
        left_out_requests=0,
        located=Located(missing=num_users * (stop - start)),
    )


def _group_requests(log: RequestLog, grid: TimeGrid, ranges: Ranges) -> list[npt.NDArray[np.int64]]:
    """List, window by window, the positions of its requests."""
    instant = (log.time[log.requests.row] - grid.origin) // grid.every
    if len(ranges) == 1:
        return [np.flatnonzero((instant >= ranges[0, 0]) & (instant < ranges[0, 1]))]
    order = np.argsort(instant, kind="stable")
    edges = np.searchsorted(instant[order], ranges)
    return [order[start:stop] for start, stop in edges.tolist()]


def _build_cells(
    log: RequestLog,
    places: Places,
    grid: TimeGrid,
    rows: "_RowsByInstant | None",
    start: int,
    stop: int,
    max_gap: int,
    missing: str,
    threads: int,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_], Located, bool]:
    """Locate every user at every instant of a window.

    Says who is located at all of them, how, and whether a user has several reports at one.
    """
    # There may be many small windows: threads cost more than they save in them.
    threads = min(threads, 1 + log.num_users * (stop - start) // CELLS_PER_THREAD)
    inside = None if rows is None else rows.between(start, stop)
    cells, num_placed = scatter_reports(log, places, grid, inside, start, stop, threads)
    found = count_known(cells, threads)
    reported = int(found.sum())
    has_repeats = reported < num_placed
    known = found == stop - start
    held = 0
    if known.all():
        return cells, known, Located(reported), has_repeats
    if missing == HOLD or max_gap >= 2 * grid.every or not grid.on_grid:
        margin = min(-(-max_gap // grid.every), grid.num_instants)
        around = None if rows is None else rows.between(start - margin, stop + margin)
        hold = missing == HOLD
        timeline = rows.timeline if hold and rows is not None else None
        held = complete_users(
            log, places, grid, around, timeline, start, stop, margin, max_gap, hold, known, cells
        )
        found = count_known(cells, threads)
        known = found == stop - start
    completed = int(found.sum())
    located = Located(
        reported, completed - reported - held, held, log.num_users * (stop - start) - completed
    )
    return cells, known, located, has_repeats


class _RowsByInstant:
    """Rows of a log in order of their instants."""

    def __init__(self, log: RequestLog, grid: TimeGrid) -> None:
        self._log = log
        # The stretch before the first instant has reports, too.
        instant = ((log.time - grid.origin) // grid.every).astype(np.int32)
        self._order = np.argsort(instant, kind="stable")
        self._instant = instant[self._order]

    @cached_property
    def timeline(self) -> Timeline:
        """All rows by user and time, and where those of each user start."""
        order = sort_rows(self._log)
        users = np.arange(self._log.num_users + 1)
        return order, np.searchsorted(self._log.user[order], users)

    def between(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """List the rows whose instants are in a half-open range."""
        first, last = self._find(start, stop)
        return self._order[first:last]

    def has_any(self, start: int, stop: int) -> bool:
        """Whether there are rows whose instants are in a half-open range."""
        first, last = self._find(start, stop)
        return first < last

    def _find(self, start: int, stop: int) -> tuple[int, int]:
        # Of another type than the instants, the ends would cost a copy of them.
        ends = np.clip([start, stop], -MAX_INSTANTS, MAX_INSTANTS).astype(np.int32)
        first, last = np.searchsorted(self._instant, ends).tolist()
        return first, last


def _find_present(
    log: RequestLog, rows: _RowsByInstant | None, start: int, stop: int
) -> npt.NDArray[np.bool_]:
    """Find the users with at least one report in a window."""
    if rows is None:
        return np.ones(log.num_users, np.bool_)
    present = np.zeros(log.num_users, np.bool_)
    present[log.user[rows.between(start, stop)]] = True
    return present


def check_conflicts(log: RequestLog) -> None:
    """Raise if a user has two rows with the same time and different places."""
    judge_conflicts(compare_reports(log, 0, threads=1))


def judge_conflicts(reports: Reports) -> None:
    """Raise as :func:`check_conflicts` does, from the reports of a whole log."""
    if reports.conflict is not None:
        one, other = reports.conflict
        raise InputError(
            f"rows {one} and {other}: the same user and time with different places "
            f"({reports.num_conflicts} such pairs in the log); expected one place for a user at a "
            f"time; remove the wrong rows, or drop all such rows with --drop conflict"
        )
