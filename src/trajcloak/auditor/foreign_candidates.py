"""Who could be in the rectangles of a foreign table, and what its edges give away."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_log import AuditedRows
from trajcloak.auditor.audited_values import Floats, Ints
from trajcloak.auditor.foreign_table import ForeignTable
from trajcloak.progress import Progress

STAGE = "following users"
SLACK = 1e-9
"""Of a coordinate's size: what interpolation may round away."""

MOST_DECIMALS = 6
"""Edges with more decimals have no lattice."""

BLOCK = 1 << 22
"""Rows, or locations, of a block of users; a user with more has a block of their own."""

MAX_OF_USER = 2**27
MAX_IN_ALL = 2**34
"""Bounds on locations: far beyond any log, but not beyond a wrong time."""


@dataclass(frozen=True)
class GroupMembers:
    """Users and their groups: group numbers ascending, each pair once."""

    group: Ints
    user: Ints


@dataclass(frozen=True)
class KnownEdges:
    """Edges that equal a coordinate of a user at their instant.

    A value is counted once, however many rectangles have it.

    Attributes
    ----------
    found, num_edges : int
        How many of the different edges.
    by_chance : float
        How many of them chance explains.
    """

    found: int
    num_edges: int
    by_chance: float


@dataclass(frozen=True)
class CandidateCounts:
    """What following all users found.

    Attributes
    ----------
    candidates : list of (groups,) int64
        For each grouping: users who are inside all rectangles of a group.
    inside : (groups,) int64
        Members of each group of the first grouping who are.
    own : list of int
        For each column of users: rows whose user is inside their rectangle.
    edges : KnownEdges
    """

    candidates: list[Ints]
    inside: Ints
    own: list[int]
    edges: KnownEdges


@dataclass(frozen=True)
class _Entries:
    """Rectangles at single instants, in order of their groups."""

    group: Ints
    instant: Ints
    rectangle: Floats
    first: Ints


def count_candidates(
    foreign: ForeignTable,
    rows: AuditedRows,
    grid: InstantGrid,
    groupings: Sequence[Ints],
    members: GroupMembers,
    users: Sequence[Ints],
    progress: Progress,
) -> CandidateCounts:
    """Follow every user, and count who could be in each group.

    Parameters
    ----------
    groupings
        For each: the number of each row's group.
    members
        Of the groups of the first grouping.
    users
        For each column of users: the user that each row names, or -1.
    """
    entries = [_list_entries(foreign, group) for group in groupings]
    counted = [(each, np.arange(len(each.first) - 1)) for each in entries[:1]]
    counted += [_merge_alike(each) for each in entries[1:]]
    candidates = [np.zeros(len(each.first) - 1, np.int64) for each, _ in counted]
    inside = np.zeros(len(counted[0][0].first) - 1, np.int64)
    own = [0] * len(users)
    known = _EdgeSearch(entries[0], rows)
    num_users = len(rows.first) - 1
    for low, high in _list_blocks(rows, grid):
        progress(STAGE, low, num_users)
        x, y = _locate(rows, low, high, grid)
        of_block = (members.user >= low) & (members.user < high)
        here = GroupMembers(members.group[of_block], members.user[of_block] - low)
        nobody = GroupMembers(here.group[:0], here.user[:0])
        for i, (each, _) in enumerate(counted):
            _count(each, x, y, nobody if i else here, candidates[i], inside)
        for i, named in enumerate(users):
            own[i] += _count_own(foreign, x, y, named - low)
        known.mark(x, y)
    progress(STAGE, num_users, num_users)
    return CandidateCounts(
        [found[number] for found, (_, number) in zip(candidates, counted, strict=True)],
        inside,
        own,
        known.summarise(),
    )


def _list_entries(foreign: ForeignTable, group: Ints) -> _Entries:
    length = foreign.stop - foreign.first
    row = np.repeat(np.arange(len(length)), length)
    instant = (
        foreign.first[row] + np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    )
    order = np.argsort(group[row], kind="stable")
    row, instant = row[order], instant[order]
    _, first = np.unique(group[row], return_index=True)
    first = np.append(first, len(row))
    return _Entries(group[row], instant, foreign.rectangle[row], first)


def _merge_alike(entries: _Entries) -> tuple[_Entries, Ints]:
    """Keep one of the groups that are the same rectangle at the same instant.

    Returns the entries kept, and for each group the index of its entry. A table of snapshots
    has a row for every report, and few rectangles. Groups of several entries are kept.
    """
    if len(entries.group) > len(entries.first) - 1:
        return entries, np.arange(len(entries.first) - 1)
    values = np.column_stack([entries.instant, entries.rectangle])
    _, kept, number = np.unique(values, axis=0, return_index=True, return_inverse=True)
    merged = _Entries(
        np.arange(len(kept)),
        entries.instant[kept],
        entries.rectangle[kept],
        np.arange(len(kept) + 1),
    )
    return merged, number.ravel()


def _weigh_users(rows: AuditedRows, grid: InstantGrid) -> Ints:
    """Bound how many locations each user has."""
    counts = np.diff(rows.first)
    if grid.hold:
        return np.where(counts > 0, np.maximum(counts, grid.num_instants), 0)
    begin = np.minimum(rows.first[:-1], len(rows.time) - 1)
    spanned = (rows.time[rows.first[1:] - 1] - rows.time[begin]) // grid.every + 1
    bridged = counts * (grid.max_gap // grid.every + 1.0)
    weight: Ints = np.maximum(counts, np.minimum(spanned, bridged)).astype(np.int64)
    return weight


def can_be_followed(rows: AuditedRows, grid: InstantGrid) -> bool:
    """Whether users have no more locations than can be held and looked at."""
    weight = _weigh_users(rows, grid)
    return int(weight.max()) <= MAX_OF_USER and float(weight.sum(dtype=np.float64)) <= MAX_IN_ALL


def _list_blocks(rows: AuditedRows, grid: InstantGrid) -> Iterator[tuple[int, int]]:
    """Cut the users of a log into half-open ranges, each of which has rows."""
    block = np.cumsum(_weigh_users(rows, grid)) // BLOCK
    edges = [*np.flatnonzero(np.diff(block, prepend=-1)).tolist(), len(block)]
    for low, high in pairwise(edges):
        if rows.first[high] > rows.first[low]:
            yield low, high


def _locate(rows: AuditedRows, low: int, high: int, grid: InstantGrid) -> tuple[Floats, Floats]:
    """Find where some users are at the instants, by instant and user; NaN where that is not known.

    Each instant is looked up from the last report at or before it: a report is good for the
    instants from its own moment up to, not including, that of the next report.
    """
    part = slice(rows.first[low], rows.first[high])
    user = np.repeat(np.arange(high - low), np.diff(rows.first[low : high + 1]))
    time = rows.time[part]
    again = (user[1:] == user[:-1]) & (time[1:] == time[:-1])
    kept = np.flatnonzero(np.append(True, ~again))
    user, time, x, y = user[kept], time[kept], rows.x[part][kept], rows.y[part][kept]

    offset = time - grid.origin
    begin = -(-offset // grid.every)
    is_last = np.append(user[1:] != user[:-1], True)
    next_begin = np.where(is_last, grid.num_instants, np.append(begin[1:], 0))
    gap = np.where(is_last, 0, np.append(time[1:], 0) - time)
    bridged = ~is_last & (gap <= grid.max_gap)
    if grid.hold:
        is_first = np.append(True, user[1:] != user[:-1])
        begin = np.where(is_first, 0, begin)
        count = next_begin - begin
    else:
        count = np.where(bridged, next_begin - begin, offset % grid.every == 0)

    report = np.repeat(np.arange(len(user)), count)
    within = np.arange(len(report)) - np.repeat(np.cumsum(count) - count, count)
    instant = begin[report] + within
    since = grid.origin + instant * grid.every - time[report]
    between = bridged[report] & (since > 0)
    following = np.minimum(report + 1, len(user) - 1)
    share = np.where(between, since / np.maximum(gap[report], 1), 0.0)
    places = np.full((2, grid.num_instants, high - low), np.nan)
    for place, of_report in zip(places, (x, y), strict=True):
        moved = share * (of_report[following] - of_report[report])
        place[instant, user[report]] = of_report[report] + moved
    return places[0], places[1]


def _count(
    entries: _Entries, x: Floats, y: Floats, own: GroupMembers, candidates: Ints, inside: Ints
) -> None:
    order, start, stop = _search(entries, x)
    slack = SLACK * (1 + np.abs(entries.rectangle).max())
    own_first = np.searchsorted(own.group, np.arange(len(candidates) + 1))
    width = stop - start
    for group, (first, last) in enumerate(zip(entries.first[:-1], entries.first[1:], strict=True)):
        # Begin where the fewest users are between the left and the right edge.
        pivot = first + int(np.argmin(width[first:last]))
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


def _count_own(foreign: ForeignTable, x: Floats, y: Floats, user: Ints) -> int:
    """Count the rows whose user is inside their rectangle at its first instant."""
    row = np.flatnonzero((user >= 0) & (user < x.shape[1]) & (foreign.first < len(x)))
    row = row[foreign.first[row] >= 0]
    here_x, here_y = x[foreign.first[row], user[row]], y[foreign.first[row], user[row]]
    x_min, y_min, x_max, y_max = foreign.rectangle[row].T
    is_in = (x_min <= here_x) & (here_x <= x_max) & (y_min <= here_y) & (here_y <= y_max)
    return int(is_in.sum())


class _EdgeSearch:
    """Looks for edges that are coordinates of users, block by block of the log.

    Edges of a fixed grid lie on a lattice, and some users stand on its lines by chance: as
    many edges, as lines of the lattice have a user at some instant.
    """

    def __init__(self, entries: _Entries, rows: AuditedRows) -> None:
        self._entries = entries
        self._is_known = np.zeros((len(entries.group), 4), bool)
        self._steps = [_find_step(entries.rectangle[:, [axis, axis + 2]]) for axis in (0, 1)]
        self._spans = [float(np.ptp(place)) for place in (rows.x, rows.y)]
        self._on_lines: list[Floats] = [np.zeros(0), np.zeros(0)]

    def mark(self, x: Floats, y: Floats) -> None:
        """Look for the coordinates of some users, by instant and user."""
        for instant in np.unique(self._entries.instant).tolist():
            if not 0 <= instant < len(x):
                continue
            at = np.flatnonzero(self._entries.instant == instant)
            for axis, place in enumerate((x[instant], y[instant])):
                known = np.unique(place[np.isfinite(place)])
                for side in (axis, axis + 2):
                    edges = self._entries.rectangle[at, side]
                    self._is_known[at, side] |= np.isin(edges, known)
                step = self._steps[axis]
                if step is not None:
                    lines = known[np.isclose(np.rint(known / step) * step, known, rtol=1e-12)]
                    self._on_lines[axis] = np.union1d(self._on_lines[axis], lines)

    def summarise(self) -> KnownEdges:
        """Count the different edges."""
        found = num_edges = 0
        by_chance = 0.0
        for axis in (0, 1):
            sides = [axis, axis + 2]
            edges = self._entries.rectangle[:, sides]
            num_values = len(np.unique(edges))
            num_edges += num_values
            found += len(np.unique(edges[self._is_known[:, sides]]))
            step = self._steps[axis]
            if step is not None:
                num_lines = self._spans[axis] / step + 1
                by_chance += num_values * min(1.0, len(self._on_lines[axis]) / num_lines)
        return KnownEdges(found, num_edges, by_chance)


def _find_step(edges: Floats) -> float | None:
    """Find the step of the lattice that all edges lie on; None if they have none."""
    for decimals in range(MOST_DECIMALS + 1):
        scaled = edges.ravel() * 10.0**decimals
        whole = np.rint(scaled)
        if (np.abs(whole) < 2**53).all() and np.allclose(scaled, whole, rtol=1e-15, atol=1e-6):
            return int(np.gcd.reduce(whole.astype(np.int64))) / 10.0**decimals or None
    return None
