"""Kernels that find the cell of each user at each instant."""

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.kernels.threads import run_sliced
from trajcloak.log import RequestLog
from trajcloak.options import HOLD
from trajcloak.space import find_cell
from trajcloak.trajectories.grid import TimeGrid
from trajcloak.trajectories.layout import Layout

NOWHERE = np.uint32(0xFFFFFFFF)
"""Cell of a user whose place is not known, who has left a stream, or is not shown."""

_NO_ROW = -1

Timeline = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""All rows of a log by user and time, and where each user's rows start."""


def scatter_reports(
    log: RequestLog,
    layout: Layout,
    rows: npt.NDArray[np.int64] | None,
    start: int,
    stop: int,
    threads: int,
) -> npt.NDArray[np.uint32]:
    """Write the cells of all reports whose time is exactly an instant of a window.

    ``rows`` are the rows to look at; None: all. Returns (users, stop - start, 2) cells, NOWHERE
    where a user has no such report.
    """
    shape = log.num_users, stop - start, 2
    cells = np.empty(shape, np.uint32)
    run_sliced(lambda a, b: cells[a:b].fill(NOWHERE), log.num_users, threads)
    when, where = layout.grid.starting_at(start), _find_where(layout)
    run_sliced(
        lambda a, b: _scatter(log.user, log.time, *log.plane, rows, when, where, a, b, cells),
        log.num_rows if rows is None else len(rows),
        threads,
    )
    return cells


def _find_where(layout: Layout) -> tuple[float, float, float, int]:
    """Return the region's corner, the side of a cell, and the cells per axis."""
    region = layout.region
    return region.x_min, region.y_min, region.cell, 1 << region.height


def count_known(cells: npt.NDArray[np.uint32], threads: int) -> npt.NDArray[np.int64]:
    """Count the known cells of each user: (users,) int64."""
    known = np.empty(len(cells), np.int64)
    run_sliced(lambda start, stop: _count_known(cells, start, stop, known), len(cells), threads)
    return known


def mark_rows(
    log: RequestLog, grid: TimeGrid, rows: npt.NDArray[np.int64] | None, start: int, stop: int
) -> npt.NDArray[np.bool_]:
    """Mark the instants of a window in which each user has a row: (users, stop - start).

    ``rows`` are the rows to look at; None: all.
    """
    marks = np.zeros((log.num_users, stop - start), np.bool_)
    _mark_rows(log.user, log.time, rows, grid.starting_at(start), marks)
    return marks


def collect_requests(
    log: RequestLog,
    grid: TimeGrid,
    start: int,
    chosen: npt.NDArray[np.int64],
    user: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Find sender, instant and kind of a window's requests, if their sender takes part.

    ``chosen`` are the positions of the window's requests. Instants are counted from ``start``;
    senders are positions in ``user``, the participants.
    """
    position = np.full(log.num_users, _NO_ROW, np.int32)
    position[user] = np.arange(len(user), dtype=np.int32)
    sender, instant, kind = (np.empty(len(chosen), np.int32) for _ in range(3))
    requests = log.requests
    user_of, time = (log.user, log.time) if log.is_one_log else (requests.user, requests.time)
    when = grid.starting_at(start)
    count = _collect(
        user_of, time, requests.row, requests.kind, chosen, position, when, sender, instant, kind
    )
    return sender[:count], instant[:count], kind[:count]


def complete_users(
    log: RequestLog,
    layout: Layout,
    rows: npt.NDArray[np.int64] | None,
    timeline: Timeline | None,
    start: int,
    margin: int,
    done: npt.NDArray[np.bool_],
    cells: npt.NDArray[np.uint32],
) -> int:
    """Fill the unknown cells of users who are not done, by interpolation or by holding.

    ``rows`` are all rows of the window and of ``margin`` instants on both sides; None: all. With
    ``missing="hold"``, gaps longer than the layout's ``max_gap`` are filled, too, with the last
    place before the gap or, if there is none, the first place after it; that needs a ``timeline``
    unless all rows are given. Returns how many cells were filled so.
    """
    grid, hold = layout.grid, layout.asked.missing == HOLD
    lacking = np.flatnonzero(~done)
    number = np.full(log.num_users, _NO_ROW, np.int32)
    number[lacking] = np.arange(len(lacking), dtype=np.int32)
    bins = cells.shape[1] + 2 * margin
    first, last = np.full((2, len(lacking), bins), _NO_ROW, np.int64)
    when = grid.starting_at(start - margin)
    chosen = np.arange(log.num_rows) if rows is None else rows
    _index_reports(log.user, log.time, chosen, number, when, first, last)
    earlier, later = np.full((2, len(lacking)), _NO_ROW, np.int64)
    if timeline is not None:
        edges = when[0], when[0] + bins * grid.every
        _find_nearest(log.time, *timeline, lacking, edges, earlier, later)
    held = _complete(
        log.time, *log.plane, first, last, earlier, later,
        when, _find_where(layout), margin, layout.max_gap, hold, lacking, cells,
    )  # fmt: skip
    return int(held)


@njit(cache=True, nogil=True)
def _scatter(user, time, x, y, rows, when, where, begin, end, cells):  # type: ignore[no-untyped-def]
    """Do :func:`scatter_reports` for ``rows[begin:end]``; None is compiled on its own.

    ``when`` and ``where`` are as ``starting_at`` and ``_find_where`` return them. Rows of other
    times are skipped (instant -1).
    """
    origin, every = when
    low_x, low_y, cell, num_cells = where
    length = cells.shape[1]
    last_time = origin - 1
    instant = np.int64(-1)
    for i in range(begin, end):
        row = i if rows is None else rows[i]
        # Neighbouring rows often share a time: divide only where it changes.
        if time[row] != last_time:
            last_time = time[row]
            offset = last_time - origin
            instant = offset // every if offset >= 0 and offset % every == 0 else np.int64(-1)
            if instant >= length:
                instant = np.int64(-1)
        if instant >= 0:
            target = cells[user[row], instant]
            target[0] = find_cell(x[row], low_x, cell, num_cells)
            target[1] = find_cell(y[row], low_y, cell, num_cells)


@njit(cache=True, nogil=True)
def _count_known(cells, begin, end, known):  # type: ignore[no-untyped-def]
    """Fill ``known[begin:end]`` with the number of known cells of each user."""
    for u in range(begin, end):
        count = 0
        for i in range(cells.shape[1]):
            count += cells[u, i, 0] != NOWHERE
        known[u] = count


@njit(cache=True, nogil=True)
def _collect(user, time, row, kinds, chosen, position, when, sender, instant, kind):  # type: ignore[no-untyped-def]
    """Fill sender, instant and kind of the requests of participants; returns how many.

    ``user`` and ``time`` are those of rows, and ``row`` that of each request; or, if ``row``
    is None, those of requests.
    """
    origin, every = when
    count = 0
    for c in chosen:
        r = c if row is None else row[c]
        participant = position[user[r]]
        if participant >= 0:
            sender[count] = participant
            instant[count] = (time[r] - origin) // every
            kind[count] = kinds[c]
            count += 1
    return count


@njit(cache=True, nogil=True)
def _index_reports(user, time, rows, number, when, first, last):  # type: ignore[no-untyped-def]
    """Find each user's first and last report in each bin, the time from an instant to the next.

    ``first[u, b]`` and ``last[u, b]`` are rows, where u is ``number[user]``: the position of a
    user with unknown cells, or -1 for all others. Bin 0 starts ``margin`` instants before the
    window.
    """
    origin, every = when
    for i in range(len(rows)):
        row = rows[i]
        u = number[user[row]]
        if u < 0 or time[row] < origin:
            continue
        # Rows outside the bins are too far away for interpolation.
        b = (time[row] - origin) // every
        if b >= first.shape[1]:
            continue
        if first[u, b] < 0 or time[row] < time[first[u, b]]:
            first[u, b] = row
        if last[u, b] < 0 or time[row] > time[last[u, b]]:
            last[u, b] = row


@njit(cache=True, nogil=True)
def _find_nearest(time, order, first, lacking, edges, earlier, later):  # type: ignore[no-untyped-def]
    """Find each lacking user's last report before the indexed bins, and the first one after."""
    for u in range(len(lacking)):
        start, stop = first[lacking[u]], first[lacking[u] + 1]
        before = find_first(time, order, start, stop, edges[0]) - 1
        after = find_first(time, order, start, stop, edges[1])
        if before >= start:
            earlier[u] = order[before]
        if after < stop:
            later[u] = order[after]


@njit(cache=True, nogil=True)
def find_first(time, order, start, stop, moment):  # type: ignore[no-untyped-def]
    """Find, by bisection, the first of ``order[start:stop]`` at or after a moment."""
    while start < stop:
        middle = (start + stop) // 2
        if time[order[middle]] < moment:
            start = middle + 1
        else:
            stop = middle
    return start


@njit(cache=True, nogil=True)
def _complete(  # type: ignore[no-untyped-def]
    time, x, y, first, last, earlier, later, when, where, margin, max_gap, hold, lacking, cells
):
    """Fill the unknown cells of lacking users from the reports around them.

    Ensures: a cell stays unknown only if ``hold`` is false, and the reports before and after
    it are more than ``max_gap`` apart or one of them is missing. Returns how many cells were
    held. O(bins) per user.
    """
    origin, every = when
    low_x, low_y, cell, num_cells = where
    length = cells.shape[1]
    bins = first.shape[1]
    # By bin: the user's first report in it or later.
    after = np.empty(bins + 1, np.int64)
    held = 0
    for u in range(len(lacking)):
        after[bins] = later[u]
        for b in range(bins - 1, -1, -1):
            after[b] = first[u, b] if first[u, b] >= 0 else after[b + 1]
        # ``before`` is the last report before bin b, which starts at the moment of instant i.
        before = earlier[u]
        for b in range(margin + length):
            i = b - margin
            moment = origin + b * every
            if i >= 0 and cells[lacking[u], i, 0] == NOWHERE:
                following = after[b]
                px = np.nan
                py = np.nan
                if before >= 0 and following >= 0 and time[following] - time[before] <= max_gap:
                    gap = time[following] - time[before]
                    share = (moment - time[before]) / gap
                    px = x[before] + share * (x[following] - x[before])
                    py = y[before] + share * (y[following] - y[before])
                elif hold:
                    # Every user has a report, so one of the two exists.
                    nearest = before if before >= 0 else following
                    px = x[nearest]
                    py = y[nearest]
                    held += 1
                if not np.isnan(px):
                    cells[lacking[u], i, 0] = find_cell(px, low_x, cell, num_cells)
                    cells[lacking[u], i, 1] = find_cell(py, low_y, cell, num_cells)
            # Reports inside bin b come before the next instant.
            if last[u, b] >= 0:
                before = last[u, b]
    return held


@njit(cache=True, nogil=True)
def _mark_rows(user, time, rows, when, marks):  # type: ignore[no-untyped-def]
    """Mark user and instant of each row; rows outside the instants are ignored."""
    first, every = when
    for i in range(len(time if rows is None else rows)):
        row = i if rows is None else rows[i]
        instant = (time[row] - first) // every
        if 0 <= instant < marks.shape[1]:
            marks[user[row], instant] = True
