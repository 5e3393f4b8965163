"""Rows of a log by user and time, and which of them contradict others: plain compiled loops.

Which rows are dropped is defined in ``docs/data-model.md``, "Rows that are dropped". All
loops run over users; ``first`` is where each user's rows start.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from trajcloak.auditor.audited_columns import Floats, Ints

EARTH = 6_371_008.8
"""Radius in metres."""


def sort_rows_by_user(user: Any, time: Ints, num_users: int) -> tuple[Any, Ints]:
    """Order rows by user, then time; returns the order, and where each user's rows start."""
    small = len(user) < 2**31
    order = np.empty(len(user), np.int32 if small else np.int64)
    first = np.zeros(num_users + 1, np.int64)
    np.cumsum(np.bincount(user, minlength=num_users), out=first[1:])
    _place_rows(user, first[:-1].copy(), order)
    _sort_each_user(time, first, order)
    return order, first


@njit(cache=True, nogil=True)
def _place_rows(user, place, order):  # type: ignore[no-untyped-def]
    """List the rows of user after user; ``place`` is where each user's next row goes."""
    for row in range(len(user)):
        u = user[row]
        order[place[u]] = row
        place[u] += 1


@njit(cache=True, nogil=True)
def _sort_each_user(time, first, order):  # type: ignore[no-untyped-def]
    """Sort the rows of each user by time, where they are not in order already."""
    for u in range(len(first) - 1):
        rows = order[first[u] : first[u + 1]]
        for i in range(1, len(rows)):
            if time[rows[i]] < time[rows[i - 1]]:
                rows[:] = rows[np.argsort(time[rows], kind="mergesort")]
                break


@njit(cache=True, nogil=True)
def compare_with_next(first, time, x, y, usual, gaps):  # type: ignore[no-untyped-def]
    """Compare each report with the same user's next one.

    Returns how many have the same time, how many of these another place, how many are
    ``usual`` ticks apart, and how many gaps of other lengths are written to ``gaps``.
    """
    repeated = disagreeing = regular = others = 0
    for u in range(len(first) - 1):
        for row in range(first[u] + 1, first[u + 1]):
            gap = time[row] - time[row - 1]
            if gap == 0:
                repeated += 1
                disagreeing += x[row] != x[row - 1] or y[row] != y[row - 1]
            elif gap == usual:
                regular += 1
            else:
                gaps[others] = gap
                others += 1
    return repeated, disagreeing, regular, others


@njit(cache=True, nogil=True)
def _find_group(time, x, y, row, stop):  # type: ignore[no-untyped-def]
    """Find the end of the rows with the time of ``row``, and whether their places differ."""
    end = row + 1
    differs = False
    while end < stop and time[end] == time[row]:
        differs |= x[end] != x[row] or y[end] != y[row]
        end += 1
    return end, differs


@njit(cache=True, nogil=True)
def mark_conflicts(first, time, x, y, bad):  # type: ignore[no-untyped-def]
    """Mark all rows of a user at a time for which there are several places."""
    for u in range(len(first) - 1):
        row = first[u]
        while row < first[u + 1]:
            end, differs = _find_group(time, x, y, row, first[u + 1])
            bad[row:end] = differs
            row = end


@njit(cache=True, nogil=True)
def mark_teleports(first, time, x, y, speed, radius, bad):  # type: ignore[no-untyped-def]
    """Mark the rows that cannot be reached in time from the last one kept.

    A user's first report is kept only if the next one can be reached from it. Rows in
    conflict are passed over. ``speed`` is per tick; ``radius`` is that of the sphere, or 0
    for a plane.
    """
    for u in range(len(first) - 1):
        row, stop = first[u], first[u + 1]
        last = last_end = np.int64(-1)
        confirmed = False
        while row < stop:
            end, differs = _find_group(time, x, y, row, stop)
            if not differs:
                if last < 0:
                    last, last_end = row, end
                elif _measure(x[last], y[last], x[row], y[row], radius) <= speed * (
                    time[row] - time[last]
                ):
                    last, last_end, confirmed = row, end, True
                elif confirmed:
                    bad[row:end] = True
                else:
                    bad[last:last_end] = True
                    last, last_end = row, end
            row = end


@njit(cache=True, nogil=True)
def _measure(x1, y1, x2, y2, radius):  # type: ignore[no-untyped-def]
    """Measure a distance in a plane, or on a sphere of a radius."""
    if radius == 0.0:
        return math.hypot(x2 - x1, y2 - y1)
    lat1, lat2 = math.radians(y1), math.radians(y2)
    half = (
        math.sin((lat2 - lat1) / 2) ** 2
        + math.cos(lat1) * math.cos(lat2) * math.sin(math.radians(x2 - x1) / 2) ** 2
    )
    return 2 * radius * math.asin(min(1.0, math.sqrt(half)))


def measure_spread(lon: Floats, lat: Floats, centre: tuple[float, float]) -> Floats:
    """Measure how far places are from a centre, on the axis where it is more."""
    spread: Floats = np.maximum(np.abs(lon - centre[0]), np.abs(lat - centre[1]))
    return spread


def find_lower_median(parts: Any, count: int) -> float:
    """Find the median of ``count`` numbers in parts; the lower one of two in the middle.

    ``parts`` is called for the arrays anew in each of four rounds, which settle 16 bits of
    the median each: so no more than one array need be held.
    """
    rank, prefix = (count - 1) // 2, np.uint64(0)
    for shift in (48, 32, 16, 0):
        counts = np.zeros(1 << 16, np.int64)
        for numbers in parts():
            # Bits of floats sort like the floats, once negative ones are turned round.
            bits = (numbers + 0.0).view(np.uint64)
            sign = np.uint64(1 << 63)
            keys = np.where(bits & sign != 0, ~bits, bits | sign)
            if shift < 48:
                keys = keys[keys >> np.uint64(shift + 16) == prefix]
            digits = (keys >> np.uint64(shift)) & np.uint64(0xFFFF)
            counts += np.bincount(digits.astype(np.int64), minlength=1 << 16)
        total = np.cumsum(counts)
        digit = int(np.searchsorted(total, rank, side="right"))
        rank -= int(total[digit - 1]) if digit else 0
        prefix = prefix << np.uint64(16) | np.uint64(digit)
    sign = np.uint64(1 << 63)
    bits = prefix ^ sign if prefix & sign else ~prefix
    return float(np.array([bits], np.uint64).view(np.float64)[0])
