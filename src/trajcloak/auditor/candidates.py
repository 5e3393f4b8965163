"""Who could be in published rectangles: users inside at all the instants of a group."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.auditor.arrays import find_runs
from trajcloak.auditor.foreign_table import Foreign
from trajcloak.auditor.grid import Grid
from trajcloak.auditor.logs import Log
from trajcloak.auditor.trajectories import Locations, list_blocks, locate
from trajcloak.progress import Progress

STAGE = "following users"
SLACK = 1e-9
"""Of a coordinate's size: what interpolation may round away."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pairs:
    """Users and their groups: group numbers ascending, each pair once."""

    group: Ints
    user: Ints


@dataclass(frozen=True)
class Counts:
    """What following all users found.

    Attributes
    ----------
    candidates : (groups,) int64
        Users who are inside all rectangles of a group.
    inside : (groups,) int64
        Those of its members.
    edges, by_chance
        Edges that equal a coordinate of a user at their instant, and how many of them
        chance explains; of all ``num_edges``.
    """

    candidates: Ints
    inside: Ints
    edges: int
    by_chance: float
    num_edges: int


@dataclass(frozen=True)
class _Entries:
    """Rectangles at single instants, in order of their groups."""

    group: Ints
    instant: Ints
    rectangle: Floats
    first: Ints


def count_candidates(
    foreign: Foreign, log: Log, grid: Grid, members: Pairs, progress: Progress
) -> Counts:
    """Follow every user, and count who could be in each group."""
    entries = _list_entries(foreign)
    counted, number = entries, np.arange(foreign.num_groups)
    if len(entries.group) == foreign.num_groups and not len(members.group):
        counted, number = _merge_alike(entries)
    candidates, inside = np.zeros((2, len(counted.first) - 1), np.int64)
    is_known = np.zeros((len(entries.group), 4), bool)
    num_values = np.zeros((2, grid.num_instants), np.int64)
    num_rows = len(log.user)
    for block in list_blocks(log, grid):
        progress(STAGE, block.start, num_rows)
        user = log.user[block].astype(np.int64)
        located = locate(user, log.time[block], log.x[block], log.y[block], grid)
        low, high = int(user[0]), int(user[-1]) + 1
        x, y = _lay_out(located, low, high, grid.num_instants)
        of_block = (members.user >= low) & (members.user < high)
        own = Pairs(members.group[of_block], members.user[of_block] - low)
        _count(counted, x, y, own, candidates, inside)
        _mark_known(entries, x, y, is_known, num_values)
    progress(STAGE, num_rows, num_rows)
    by_chance = _expect(entries, log, num_values)
    return Counts(candidates[number], inside[number], int(is_known.sum()), by_chance, is_known.size)


def _list_entries(foreign: Foreign) -> _Entries:
    length = foreign.stop - foreign.first
    row = np.repeat(np.arange(len(length)), length)
    instant = (
        foreign.first[row] + np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    )
    order = np.argsort(foreign.group[row], kind="stable")
    row, instant = row[order], instant[order]
    _, counts = find_runs(foreign.group[row])
    first = np.append(0, np.cumsum(counts))
    return _Entries(foreign.group[row], instant, foreign.rectangle[row], first)


def _merge_alike(entries: _Entries) -> tuple[_Entries, Ints]:
    """Keep one of the groups that are the same rectangle at the same instant.

    Returns them, and the number of each group's own among them. A table of snapshots has a
    row for every report, and few rectangles.
    """
    values = np.column_stack([entries.instant, entries.rectangle])
    _, kept, number = np.unique(values, axis=0, return_index=True, return_inverse=True)
    merged = _Entries(
        np.arange(len(kept)),
        entries.instant[kept],
        entries.rectangle[kept],
        np.arange(len(kept) + 1),
    )
    return merged, number.ravel()


def _lay_out(located: Locations, low: int, high: int, num_instants: int) -> tuple[Floats, Floats]:
    """Lay locations out by instant and user; not a number where there is none."""
    x, y = np.full((2, num_instants, high - low), np.nan)
    x[located.instant, located.user - low] = located.x
    y[located.instant, located.user - low] = located.y
    return x, y


def _count(
    entries: _Entries, x: Floats, y: Floats, own: Pairs, candidates: Ints, inside: Ints
) -> None:
    order, start, stop = _search(entries, x)
    slack = SLACK * (1 + np.abs(entries.rectangle).max())
    own_first = np.searchsorted(own.group, np.arange(len(candidates) + 1))
    for group, (first, last) in enumerate(zip(entries.first[:-1], entries.first[1:], strict=True)):
        # Begin where the fewest users are between the left and the right edge.
        pivot = first + int(np.argmin((stop - start)[first:last]))
        user = np.zeros(0, np.int64)
        if stop[pivot] > start[pivot]:
            user = order[int(entries.instant[pivot])][start[pivot] : stop[pivot]]
        for entry in range(first, last):
            if not len(user):
                break
            x_min, y_min, x_max, y_max = entries.rectangle[entry]
            here_x, here_y = x[entries.instant[entry], user], y[entries.instant[entry], user]
            is_in = (here_x >= x_min - slack) & (here_x <= x_max + slack)
            is_in &= (here_y >= y_min - slack) & (here_y <= y_max + slack)
            user = user[is_in]
        candidates[group] += len(user)
        members = own.user[own_first[group] : own_first[group + 1]]
        if len(members):
            inside[group] += int(np.isin(members, user).sum())


def _search(entries: _Entries, x: Floats) -> tuple[dict[int, Ints], Ints, Ints]:
    """Find, for each entry, the users between its left and right edge in the order of x."""
    order: dict[int, Ints] = {}
    start, stop = np.zeros((2, len(entries.instant)), np.int64)
    slack = SLACK * (1 + np.abs(entries.rectangle).max())
    for instant in np.unique(entries.instant).tolist():
        if not 0 <= instant < len(x):
            continue
        order[instant] = np.argsort(x[instant], kind="stable")
        ascending = x[instant][order[instant]]
        at = np.flatnonzero(entries.instant == instant)
        start[at] = np.searchsorted(ascending, entries.rectangle[at, 0] - slack)
        stop[at] = np.searchsorted(ascending, entries.rectangle[at, 2] + slack, "right")
    return order, start, np.maximum(start, stop)


def _mark_known(
    entries: _Entries, x: Floats, y: Floats, is_known: npt.NDArray[np.bool_], num_values: Ints
) -> None:
    """Mark the edges that equal a coordinate of a user; counts the distinct coordinates."""
    for instant in np.unique(entries.instant).tolist():
        if not 0 <= instant < len(x):
            continue
        at = np.flatnonzero(entries.instant == instant)
        for axis, place in enumerate((x[instant], y[instant])):
            known = np.unique(place[np.isfinite(place)])
            num_values[axis, instant] += len(known)
            for side in (axis, axis + 2):
                is_known[at, side] |= np.isin(entries.rectangle[at, side], known)


def _expect(entries: _Entries, log: Log, num_values: Ints) -> float:
    """Expect so many equal edges if they were drawn from the lattice of all coordinates."""
    expected = 0.0
    for axis, place in enumerate((log.x, log.y)):
        values = np.unique(place)
        step = float(np.diff(values).min()) if len(values) > 1 else 1.0
        num_points = (values[-1] - values[0]) / step + 1
        valid = (entries.instant >= 0) & (entries.instant < num_values.shape[1])
        share = num_values[axis][entries.instant[valid]] / num_points
        expected += 2 * float(np.minimum(share, 1).sum())
    return expected
