"""Who could be in the rectangles of a foreign table, and what its edges give away."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trajcloak.auditor.audited_columns import Floats, Ints, Mask, list_ranges
from trajcloak.auditor.audited_log import AuditedRows
from trajcloak.auditor.expected_instants import InstantGrid
from trajcloak.auditor.foreign_table import ForeignTable
from trajcloak.auditor.user_locations import locate_users
from trajcloak.progress import Progress

STAGE = "following users"
SLACK = 1e-9
"""Of a coordinate's size: what interpolation may round away."""

MOST_DECIMALS = 6
"""Edges with more decimals have no lattice."""

BLOCK = 1 << 22
"""Locations of the users who are followed at once."""


@dataclass(frozen=True)
class GroupMembers:
    """Who is in which group, and the group of each row of the table."""

    group: Ints
    user: Ints
    of_row: Ints

    @property
    def sizes(self) -> Ints:
        """How many members each group has."""
        return np.bincount(self.group, minlength=int(self.of_row.max()) + 1)


@dataclass(frozen=True)
class CandidateCounts:
    """What following all users found."""

    candidates: list[Ints]  # for each grouping and group: users inside all its rectangles
    inside: Ints  # members of each group who are
    own: list[int]  # for each column of users: rows whose user is inside their rectangle
    num_edges: int  # different edges
    num_known: int  # those of them that equal a coordinate of a user at their instant
    by_chance: float  # how many of these chance explains


@dataclass(frozen=True)
class _Entries:
    """Rectangles at single instants; ``first`` is where those of each group start."""

    instant: Ints
    rectangle: Floats
    first: Ints

    def list_by_instant(self, num_instants: int) -> Iterator[tuple[int, Ints]]:
        """List the instants that the log has, and the rectangles at each."""
        for instant in np.unique(self.instant).tolist():
            if 0 <= instant < num_instants:
                yield instant, np.flatnonzero(self.instant == instant)


def count_candidates(
    foreign: ForeignTable,
    rows: AuditedRows,
    grid: InstantGrid,
    groupings: Sequence[Ints],
    members: GroupMembers | None,
    users: Sequence[Ints],
    progress: Progress,
) -> CandidateCounts:
    """Follow every user, and count who could be in each group.

    ``groupings`` are numbers of each row's group; in the first one each row is a group of its own.
    ``users`` are, for each column of users, the user that each row names, or -1.
    """
    merged = [_merge_alike(_list_entries(foreign, group)) for group in groupings]
    candidates = [np.zeros(len(entries.first) - 1, np.int64) for entries, _ in merged]
    inside = np.zeros(0 if members is None else len(members.sizes), np.int64)
    own = [0] * len(users)
    edges = _EdgeSearch(merged[0][0], rows)
    slack = SLACK * (1 + np.abs(foreign.rectangle).max())
    num_users = len(rows.first) - 1
    block = max(1, BLOCK // grid.num_instants)
    for low in range(0, num_users, block):
        progress(STAGE, low, num_users)
        first = rows.first[low : low + block + 1]
        places = np.full((2, grid.num_instants, len(first) - 1), np.nan)
        locate_users(first, rows.time, rows.x, rows.y, grid.find_moments(0), grid.gaps, places)
        for counts, (entries, _) in zip(candidates, merged, strict=True):
            counts += np.array(list(_count_inside(entries, places, slack)))
        if members is not None:
            here = (members.user >= low) & (members.user < low + len(first) - 1)
            entries = _list_entries(foreign, members.of_row)
            group, user = members.group[here], members.user[here] - low
            is_in = _find_members_inside(entries, places, group, user, slack)
            inside += np.bincount(group[is_in], minlength=len(inside))
        for i, named in enumerate(users):
            row = np.flatnonzero((named >= low) & (named < low + len(first) - 1))
            at, rectangle = foreign.first[row], foreign.rectangle[row]
            own[i] += int(_is_inside(places, at, named[row] - low, rectangle, slack).sum())
        edges.mark(places)
    progress(STAGE, num_users, num_users)
    by_group = [counts[number] for counts, (_, number) in zip(candidates, merged, strict=True)]
    return CandidateCounts(by_group, inside, own, *edges.summarise())


def _list_entries(foreign: ForeignTable, group: Ints) -> _Entries:
    length = foreign.stop - foreign.first
    row = np.repeat(np.arange(len(length)), length)
    instant = list_ranges(foreign.first, length)
    order = np.argsort(group[row], kind="stable")
    row, instant = row[order], instant[order]
    first = np.append(np.unique(group[row], return_index=True)[1], len(row))
    return _Entries(instant, foreign.rectangle[row], first)


def _merge_alike(entries: _Entries) -> tuple[_Entries, Ints]:
    """Keep one of the groups that are the same rectangle at the same instant.

    Returns the entries kept, and for each group the index of its entry. A table of snapshots
    has a row for every report, and few rectangles. Groups of several entries are kept.
    """
    num_groups = len(entries.first) - 1
    if len(entries.instant) > num_groups:
        return entries, np.arange(num_groups)
    values = np.column_stack([entries.instant, entries.rectangle])
    _, kept, number = np.unique(values, axis=0, return_index=True, return_inverse=True)
    first = np.arange(len(kept) + 1)
    return _Entries(entries.instant[kept], entries.rectangle[kept], first), number.ravel()


def _is_inside(places: Any, instant: Any, user: Ints, rectangle: Any, slack: float) -> Mask:
    """Tell which users are inside rectangles at instants; nobody is where the log has none."""
    is_known = (instant >= 0) & (instant < places.shape[1])
    x, y = places[:, np.where(is_known, instant, 0), user]
    x_min, y_min, x_max, y_max = rectangle.T
    is_in = (x >= x_min - slack) & (x <= x_max + slack)
    is_in &= (y >= y_min - slack) & (y <= y_max + slack)
    return np.asarray(is_known & is_in)


def _find_members_inside(
    entries: _Entries, places: Any, group: Ints, user: Ints, slack: float
) -> Mask:
    """Find the members who are inside all rectangles of their group."""
    count = np.diff(entries.first)[group]
    member = np.repeat(np.arange(len(group)), count)
    entry = list_ranges(entries.first[group], count)
    is_in = _is_inside(
        places, entries.instant[entry], user[member], entries.rectangle[entry], slack
    )
    return np.asarray(np.bincount(member[~is_in], minlength=len(group)) == 0)


def _count_inside(entries: _Entries, places: Any, slack: float) -> Iterator[int]:
    """Count, group by group, the users who are inside all rectangles."""
    order, start, stop = _search(entries, places[0], slack)
    width = stop - start
    for first, last in zip(entries.first[:-1], entries.first[1:], strict=True):
        # Begin where the fewest users are between the left and the right edge.
        pivot = first + int(np.argmin(width[first:last]))
        user = np.zeros(0, np.int64)
        if width[pivot]:
            user = order[int(entries.instant[pivot])][start[pivot] : stop[pivot]]
        for entry in range(first, last):
            if not len(user):
                break
            instant, rectangle = entries.instant[entry], entries.rectangle[entry]
            user = user[_is_inside(places, instant, user, rectangle, slack)]
        yield len(user)


def _search(entries: _Entries, x: Floats, slack: float) -> tuple[dict[int, Ints], Ints, Ints]:
    """Find, for each entry, the users between its left and right edge in the order of x."""
    order: dict[int, Ints] = {}
    start, stop = np.zeros((2, len(entries.instant)), np.int64)
    for instant, at in entries.list_by_instant(len(x)):
        order[instant] = np.argsort(x[instant], kind="stable")
        ascending = x[instant][order[instant]]
        start[at] = np.searchsorted(ascending, entries.rectangle[at, 0] - slack)
        stop[at] = np.searchsorted(ascending, entries.rectangle[at, 2] + slack, "right")
    return order, start, np.maximum(start, stop)


class _EdgeSearch:
    """Looks for edges that are coordinates of users, block by block of the log.

    Edges of a fixed grid lie on a lattice, and some users stand on its lines by chance: as
    many edges, as lines of the lattice have a user at some instant.
    """

    def __init__(self, entries: _Entries, rows: AuditedRows) -> None:
        self._entries = entries
        self._is_known = np.zeros((len(entries.instant), 4), bool)
        self._steps = [_find_step(entries.rectangle[:, [axis, axis + 2]]) for axis in (0, 1)]
        self._spans = [float(np.ptp(place)) for place in (rows.x, rows.y)]
        self._on_lines: list[Floats] = [np.zeros(0), np.zeros(0)]

    def mark(self, places: Any) -> None:
        """Look for the coordinates of some users, by axis, instant and user."""
        for instant, at in self._entries.list_by_instant(places.shape[1]):
            for axis, place in enumerate(places[:, instant]):
                known = np.unique(place[np.isfinite(place)])
                for side in (axis, axis + 2):
                    edges = self._entries.rectangle[at, side]
                    self._is_known[at, side] |= np.isin(edges, known)
                step = self._steps[axis]
                if step is not None:
                    lines = known[np.isclose(np.rint(known / step) * step, known, rtol=1e-12)]
                    self._on_lines[axis] = np.union1d(self._on_lines[axis], lines)

    def summarise(self) -> tuple[int, int, float]:
        """Count the different edges, those that are known, and those that chance explains."""
        num_edges = num_known = 0
        by_chance = 0.0
        for axis in (0, 1):
            sides = [axis, axis + 2]
            edges = self._entries.rectangle[:, sides]
            num_values = len(np.unique(edges))
            num_edges += num_values
            num_known += len(np.unique(edges[self._is_known[:, sides]]))
            step = self._steps[axis]
            if step is not None:
                num_lines = self._spans[axis] / step + 1
                by_chance += num_values * min(1.0, len(self._on_lines[axis]) / num_lines)
        return num_edges, num_known, by_chance


def _find_step(edges: Floats) -> float | None:
    """Find the step of the lattice that all edges lie on; None if they have none."""
    for decimals in range(MOST_DECIMALS + 1):
        scaled = edges.ravel() * 10.0**decimals
        whole = np.rint(scaled)
        if (np.abs(whole) < 2**53).all() and np.allclose(scaled, whole, rtol=1e-15, atol=1e-6):
            return int(np.gcd.reduce(whole.astype(np.int64))) / 10.0**decimals or None
    return None
