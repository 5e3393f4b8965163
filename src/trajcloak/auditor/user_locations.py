"""Where users are at the instants of a window: plain loops, compiled.

``first`` is where each user's rows start, ``when`` a window's first moment, the step of its
instants and how many there are, ``gaps`` the longest gap that is bridged and whether the last
place is held beyond, ``where`` the region's corner, the side of a cell and the cells of an
axis. See "From rows to trajectories" in ``docs/data-model.md``.
"""

from typing import Any

import numpy as np
from numba import njit

from trajcloak.auditor.audited_columns import Codes, Ints, run_in_parts

REPORTED, INTERPOLATED, HELD, MISSING = range(4)
"""How a location is known."""


def count_known_instants(first: Ints, time: Ints, when: Any, gaps: Any) -> tuple[Codes, Ints]:
    """Find for how many instants of a window, from the first on, each user's location is known.

    Also counts how the locations of all users are known.
    """
    known = np.zeros(len(first) - 1, np.int32)
    counts = run_in_parts(
        len(known),
        lambda begin, end: _count_known(first, time, when, gaps, begin, end, known),
    )
    return known, np.sum(counts, axis=0)


@njit(cache=True, nogil=True)
def _find_last(time, start, stop, moment):  # type: ignore[no-untyped-def]
    """Find the last of some rows at or before a moment; ``start - 1`` if there is none."""
    return start + np.searchsorted(time[start:stop], moment, side="right") - 1


@njit(cache=True, nogil=True, inline="always")
def _find_how(time, start, stop, last, moment, gaps):  # type: ignore[no-untyped-def]
    """Find how a user's location is known at a moment; ``last`` is the last row up to it."""
    max_gap, hold = gaps
    if last >= start and time[last] == moment:
        return REPORTED
    if last >= start and last + 1 < stop and time[last + 1] - time[last] <= max_gap:
        return INTERPOLATED
    return HELD if hold else MISSING


@njit(cache=True, nogil=True, inline="always")
def _find_place(time, x, y, start, last, how, moment):  # type: ignore[no-untyped-def]
    """Find a location that is known in some way at a moment; see :func:`_find_how`."""
    if how == INTERPOLATED:
        share = (moment - time[last]) / (time[last + 1] - time[last])
        return x[last] + share * (x[last + 1] - x[last]), y[last] + share * (y[last + 1] - y[last])
    # Before the first report, the place of the first report is held.
    at = max(last, start)
    return x[at], y[at]


@njit(cache=True, nogil=True)
def locate_users(first, time, x, y, when, gaps, places):  # type: ignore[no-untyped-def]
    """Fill ``places``, by axis, instant and user, where locations are known."""
    moment, every, length = when
    for u in range(len(first) - 1):
        start, stop = first[u], first[u + 1]
        if start == stop:
            continue
        last = _find_last(time, start, stop, moment)
        for i in range(length):
            now = moment + i * every
            while last + 1 < stop and time[last + 1] <= now:
                last += 1
            how = _find_how(time, start, stop, last, now, gaps)
            if how != MISSING:
                places[0, i, u], places[1, i, u] = _find_place(time, x, y, start, last, how, now)


@njit(cache=True, nogil=True, inline="always")
def _find_cell(value, low, cell, num_cells):  # type: ignore[no-untyped-def]
    """Find the cell of a coordinate; rounding may not put it outside the cell's edges."""
    i = min(max(np.int64((value - low) / cell), 0), num_cells - 1)
    if low + i * cell > value:
        return i - 1
    if low + (i + 1) * cell < value:
        return i + 1
    return i


@njit(cache=True, nogil=True)
def _count_known(first, time, when, gaps, begin, end, known):  # type: ignore[no-untyped-def]
    """Count the instants up to the first missing location, and locations by how they are known."""
    moment, every, length = when
    counts = np.zeros(4, np.int64)
    for u in range(begin, end):
        start, stop = first[u], first[u + 1]
        if start == stop:
            continue
        last = _find_last(time, start, stop, moment)
        for i in range(length):
            now = moment + i * every
            while last + 1 < stop and time[last + 1] <= now:
                last += 1
            how = _find_how(time, start, stop, last, now, gaps)
            counts[how] += 1
            known[u] += how != MISSING and known[u] == i
    return counts


@njit(cache=True, nogil=True)
def enclose_members(  # type: ignore[no-untyped-def]
    begin, end, first, time, x, y, when, gaps, where, user, members, shown, part,
    first_row, boxes, sizes, reporters, marks,
):  # fmt: skip
    """Widen the boxes of bundles to the cells of their members, and count who has a row.

    Bundle ``b`` has the members ``user[members[b] : members[b + 1]]``, and the sets ``b *
    length`` up to ``(b + 1) * length``, one for each instant. Member ``m`` is shown at the first
    ``shown[m]`` of them. Fills, for each set, how many
    members have a row in the instant (``reporters``); for each of its rows, from ``first_row``
    on, one for each part of the bundle, the box (least x and y, and those after the greatest,
    in cells) and how many members it has; and, unless it is empty, ``marks[m, i]``: whether
    member ``m`` has a row in instant ``i``. ``part`` is that of each member, in one column for
    all instants or in one for each; without parts it is empty.
    """
    moment, every, length = when
    low_x, low_y, cell, num_cells = where
    for b in range(begin, end):
        for m in range(members[b], members[b + 1]):
            start, stop = first[user[m]], first[user[m] + 1]
            last = _find_last(time, start, stop, moment)
            for i in range(shown[m]):
                now = moment + i * every
                while last + 1 < stop and time[last + 1] <= now:
                    last += 1
                how = _find_how(time, start, stop, last, now, gaps)
                own = last if how == REPORTED else last + 1
                has_row = own < stop and time[own] < now + every
                reporters[b * length + i] += has_row
                if len(marks):
                    marks[m, i] = has_row
                if how == MISSING:
                    continue
                px, py = _find_place(time, x, y, start, last, how, now)
                i_x = _find_cell(px, low_x, cell, num_cells)
                i_y = _find_cell(py, low_y, cell, num_cells)
                row = first_row[b * length + i]
                if len(part):
                    row += part[m, min(i, part.shape[1] - 1)]
                sizes[row] += 1
                box = boxes[row]
                box[0] = min(box[0], i_x)
                box[1] = min(box[1], i_y)
                box[2] = max(box[2], i_x + 1)
                box[3] = max(box[3], i_y + 1)
