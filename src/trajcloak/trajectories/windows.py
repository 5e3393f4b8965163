"""Cut a log into windows of dense trajectories."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError
from trajcloak.kernels.sort import sort_words
from trajcloak.log import RequestLog
from trajcloak.options import HOLD
from trajcloak.progress import Progress, silent
from trajcloak.space import Places
from trajcloak.trajectories.fill import (
    collect_requests,
    complete_users,
    count_known,
    scatter_reports,
)
from trajcloak.trajectories.grid import TimeGrid


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
) -> Iterator[Window]:
    """Yield the windows of a log in order, one at a time.

    Raises
    ------
    InputError
        If a user has two different places at one time.
    """
    is_checked = not grid.on_grid
    if is_checked:
        check_conflicts(log)
    length = grid.num_instants if length is None else length
    num_windows = -(-grid.num_instants // length)
    rows = _RowsByInstant(log, grid) if num_windows > 1 else None
    requests = _group_requests(log, grid, length, num_windows)
    for number in range(num_windows):
        start, stop = number * length, min((number + 1) * length, grid.num_instants)
        progress("building trajectories", start, grid.num_instants)
        cells, known, has_repeats = _build_cells(
            log, places, grid, rows, start, stop, max_gap, missing, threads
        )
        if has_repeats and not is_checked:
            check_conflicts(log)
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
        )
    progress("building trajectories", grid.num_instants, grid.num_instants)


def _group_requests(
    log: RequestLog, grid: TimeGrid, length: int, num_windows: int
) -> list[npt.NDArray[np.int64]]:
    """List, window by window, the positions of its requests."""
    if num_windows == 1:
        return [np.arange(len(log.requests.row))]
    window = (log.time[log.requests.row] - grid.origin) // (grid.every * length)
    order = np.argsort(window, kind="stable")
    edges = np.searchsorted(window[order], np.arange(num_windows + 1))
    return [order[start:stop] for start, stop in pairwise(edges)]


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
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_], bool]:
    """Locate every user at every instant of a window.

    Says who is located at all of them, and whether a user has several reports at one.
    """
    inside = None if rows is None else rows.between(start, stop)
    cells, num_placed = scatter_reports(log, places, grid, inside, start, stop, threads)
    found = count_known(cells, threads)
    has_repeats = int(found.sum()) < num_placed
    known = found == stop - start
    if known.all():
        return cells, known, has_repeats
    if missing == HOLD or max_gap >= 2 * grid.every or not grid.on_grid:
        margin = min(-(-max_gap // grid.every), grid.num_instants)
        around = None if rows is None else rows.between(start - margin, stop + margin)
        complete_users(
            log, places, grid, around, start, stop, margin, max_gap, missing == HOLD, known, cells
        )
        known = count_known(cells, threads) == stop - start
    return cells, known, has_repeats


class _RowsByInstant:
    """Rows of a log in order of their instants."""

    def __init__(self, log: RequestLog, grid: TimeGrid) -> None:
        instant = (log.time - grid.origin) // grid.every
        self._order = np.argsort(instant, kind="stable")
        self._edges = np.searchsorted(instant[self._order], np.arange(grid.num_instants + 1))

    def between(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """List the rows whose instants are in a half-open range."""
        last = len(self._edges) - 1
        start, stop = min(max(start, 0), last), min(max(stop, 0), last)
        return self._order[self._edges[start] : self._edges[stop]]


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
    # Sort by user and time: by time first, and then, keeping that order, by user.
    order = np.arange(log.num_rows)
    spare = np.empty(log.num_rows, np.uint64), np.empty_like(order)
    for key in (log.time - log.time_range[0], log.user):
        words = key[order].astype(np.uint64)
        sort_words(words, order, 0, len(order), *spare)
    before, after = order[:-1], order[1:]
    conflict = (
        (log.user[before] == log.user[after])
        & (log.time[before] == log.time[after])
        & ((log.x[before] != log.x[after]) | (log.y[before] != log.y[after]))
    )
    if conflict.any():
        first = int(np.argmin(np.where(conflict, after, log.num_rows)))
        one, other = sorted((int(before[first]) + 1, int(after[first]) + 1))
        raise InputError(
            f"rows {one} and {other}: the same user and time with different places "
            f"({int(conflict.sum())} such pairs in the log); expected one place for a user at a "
            f"time; remove the wrong rows"
        )
