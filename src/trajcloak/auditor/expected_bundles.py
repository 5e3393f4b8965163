"""The bundles that must have been published: boxes around members, and who may have sent."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_log import Log, Rows
from trajcloak.auditor.audited_policy import Members
from trajcloak.auditor.audited_values import MOST_TICKS, Ints, Mask
from trajcloak.auditor.findings import first_few
from trajcloak.auditor.followed_users import (
    enclose_members,
    mark_participants,
    run_in_parts,
)
from trajcloak.progress import Progress

STAGE = "following users"
NOWHERE = np.iinfo(np.int32).max


@dataclass(frozen=True)
class CellGrid:
    """The region, cut into cells."""

    x_min: float
    y_min: float
    side: float
    height: int

    @property
    def cell(self) -> float:
        """Side of a cell."""
        return float(np.ldexp(self.side, -self.height))

    @property
    def num_cells(self) -> int:
        """How many cells an axis has."""
        return 1 << self.height

    def edges(self, boxes: Any) -> Any:
        """Compute the published edges of boxes of cells."""
        corner = np.array([self.x_min, self.y_min, self.x_min, self.y_min])
        return corner + boxes.astype(np.float64) * self.cell


@dataclass
class Followed:
    """What log and policy say, over all users, windows and bundles.

    The *sets* of a bundle are its instants, in order, bundle after bundle: one set of requests
    each, and one *row* of ``bundles.parquet``; with parts, one row for each part.

    Attributes
    ----------
    first_set
        Where the sets of each bundle start.
    first_row
        Where the rows of each set start.
    boxes
        Of each row: the box around the members, in cells: x and y of its first cell, and of
        the one after its last.
    sizes
        Of each row: how many members it has.
    reporters
        Of each set: how many members have a row in the instant.
    marks
        Of each window, if requests must be safe against linking: who of the members has a
        row in which instant.
    participants
        Of each window: how many users take part.
    strangers
        Of each window: how many members do not take part.
    unlisted
        Of each window: users who take part, and are in no bundle.
    located
        How many locations are reported, interpolated, held and missing.
    sent
        Distinct requests of sets: ``set * number of distinct requests + request``.
    bounds
        Of all reports on the plane: least x and y, greatest x and y.
    """

    first_set: Ints
    first_row: Ints
    boxes: Any
    sizes: Any
    reporters: Any
    marks: dict[int, Mask]
    participants: Ints
    strangers: Ints
    unlisted: list[list[Ints]]
    located: Ints
    sent: list[Ints] = field(default_factory=list)
    bounds: tuple[float, ...] = (np.inf, np.inf, -np.inf, -np.inf)


def follow_users(
    log: Log,
    crs: str | None,
    grid: InstantGrid,
    cells: CellGrid,
    members: Members,
    *,
    keeps_marks: bool,
    progress: Progress,
) -> Followed:
    """Follow every user through every window."""
    lengths = grid.lengths[members.window]
    first_set = np.append(0, np.cumsum(lengths))
    first_row = _place_rows(members, grid, first_set)
    boxes = np.empty((first_row[-1], 4), np.int32)
    boxes[:, :2], boxes[:, 2:] = NOWHERE, 0
    found = Followed(
        first_set,
        first_row,
        boxes,
        np.zeros(first_row[-1], np.int32),
        np.zeros(first_set[-1], np.int32),
        {},
        np.zeros(grid.num_windows, np.int64),
        np.zeros(grid.num_windows, np.int64),
        [[] for _ in range(grid.num_windows)],
        np.zeros(4, np.int64),
    )
    for shard in range(log.num_shards):
        rows = log.load(shard)
        x, y = log.project(rows, crs)
        if len(x):
            low_x, low_y, high_x, high_y = found.bounds
            found.bounds = (
                min(low_x, float(x.min())),
                min(low_y, float(y.min())),
                max(high_x, float(x.max())),
                max(high_y, float(y.max())),
            )
        _follow_shard(log, shard, rows, (x, y), grid, cells, members, found, keeps_marks, progress)
    progress(STAGE, 1, 1)
    return found


def _place_rows(members: Members, grid: InstantGrid, first_set: Ints) -> Ints:
    """Find where the rows of each set start."""
    if not members.parts:
        return np.arange(first_set[-1] + 1)
    counts = np.empty(first_set[-1], np.int64)
    for window, part in members.parts.items():
        low, high = members.list_bundles(window)
        starts = members.first[low:high] - members.first[low]
        of_bundle = np.maximum.reduceat(part, starts, axis=0) + 1
        shape = high - low, int(grid.lengths[window])
        counts[first_set[low] : first_set[high]] = np.broadcast_to(of_bundle, shape).ravel()
    return np.append(0, np.cumsum(counts))


def _follow_shard(
    log: Log,
    shard: int,
    rows: Rows,
    planar: tuple[Any, Any],
    grid: InstantGrid,
    cells: CellGrid,
    members: Members,
    found: Followed,
    keeps_marks: bool,
    progress: Progress,
) -> None:
    num_users = len(rows.first) - 1
    mine: Any = slice(None)
    first = members.first
    if log.num_shards > 1:
        mine = np.flatnonzero(members.user % log.num_shards == shard)
        first = np.searchsorted(mine, members.first)
    member = members.user[mine] // log.num_shards
    gaps = grid.max_gap, grid.hold
    where = cells.x_min, cells.y_min, cells.cell, cells.num_cells
    # No instant is earlier or later, and differences must not overflow.
    sent = np.clip(rows.request_time, -MOST_TICKS, MOST_TICKS)
    instant = (sent - grid.origin) // grid.every
    request_window = grid.find_windows(instant)
    is_sorted = bool((request_window[1:] >= request_window[:-1]).all())
    by_window: Any = slice(None) if is_sorted else np.argsort(request_window, kind="stable")
    edges = np.searchsorted(request_window[by_window], np.arange(grid.num_windows + 1))
    for window in range(grid.num_windows):
        progress(STAGE, shard * grid.num_windows + window, log.num_shards * grid.num_windows)
        start, length = int(grid.starts[window]), int(grid.lengths[window])
        when = grid.origin + start * grid.every, grid.every, length
        takes_part = np.zeros(num_users, bool)
        counts = []

        def mark(begin: int, end: int, when: Any = when, takes_part: Any = takes_part) -> None:
            of_part = np.zeros(4, np.int64)
            counts.append(of_part)  # noqa: B023
            mark_participants(rows.first, rows.time, when, gaps, begin, end, takes_part, of_part)

        run_in_parts(num_users, mark)
        found.located += np.sum(counts, axis=0)
        found.participants[window] += takes_part.sum()
        low, high = members.list_bundles(window)
        own = slice(first[low], first[high])
        user = member[own]
        found.strangers[window] += (~takes_part[user]).sum()
        bundle = np.full(num_users, -1, np.int32)
        bundle[user] = np.repeat(np.arange(low, high), np.diff(first[low : high + 1]))
        unlisted = np.flatnonzero(takes_part & (bundle < 0))
        found.unlisted[window].append(unlisted * log.num_shards + shard)
        if low == high:
            continue
        sets = slice(found.first_set[low], found.first_set[high])
        first_row = found.first_row[sets.start : sets.stop + 1]
        whole = slice(members.first[low], members.first[high])
        place: Any = mine[own] - whole.start if log.num_shards > 1 else slice(None)
        part = members.parts[window][place] if members.parts else np.zeros((0, 1), np.int64)
        marks = np.zeros((len(user) if keeps_marks else 0, length), bool)

        def enclose(
            begin: int, end: int, when: Any = when, user: Any = user, low: int = low,
            high: int = high, own: slice = own, sets: slice = sets, marks: Any = marks,
            first_row: Any = first_row, part: Any = part,
        ) -> None:  # fmt: skip
            enclose_members(
                rows.first, rows.time, *planar, when, gaps, where, user,
                first[low : high + 1] - own.start, part, begin, end,
                first_row, found.boxes, found.sizes, found.reporters[sets], marks,
            )  # fmt: skip

        run_in_parts(high - low, enclose)
        if keeps_marks:
            of_window = found.marks.setdefault(
                window, np.zeros((whole.stop - whole.start, length), bool)
            )
            of_window[place] = marks
        chosen: Any = slice(edges[window], edges[window + 1])
        chosen = chosen if is_sorted else by_window[chosen]
        _collect_requests(log, rows, chosen, instant[chosen] - start, bundle, sets, found)


def _collect_requests(
    log: Log, rows: Rows, chosen: Any, instant: Ints, bundle: Any, sets: slice, found: Followed
) -> None:
    """List the distinct requests of the sets of a window."""
    sender = bundle[rows.request_user[chosen]]
    is_member = sender >= 0
    of_set = found.first_set[sender[is_member]] + instant[is_member] - sets.start
    kind = log.kind_number[rows.request_kind[chosen][is_member]]
    num_kinds = len(log.kinds)
    keys, size = of_set * num_kinds + kind, (sets.stop - sets.start) * num_kinds
    found.sent.append(list_distinct(keys, size) + sets.start * num_kinds)


def list_distinct(numbers: Ints, size: int) -> Ints:
    """List the distinct numbers, all below ``size``, in ascending order."""
    if size > 64 * len(numbers):
        return np.unique(numbers)
    there = np.zeros(size, bool)
    there[numbers] = True
    return np.flatnonzero(there)


def find_member_problems(
    found: Followed, parameters: dict[str, Any], least: int, suppressed: Ints
) -> list[str]:
    """Check that all who take part are in a bundle, but the suppressed, and no others.

    ``least`` is the least number of users of a bundle; ``suppressed`` are counted by window.
    """
    problems = []
    if found.strangers.any():
        problems.append(
            f"{int(found.strangers.sum()):,} members of bundles do not take part in the window "
            f"(windows {first_few(np.flatnonzero(found.strangers))})"
        )
    share = parameters["max_suppressed"]
    most = found.participants * (parameters["suppress_above"] is not None)
    if share is not None:
        most = np.floor(share * found.participants).astype(np.int64)
    for wrong, what in (
        (suppressed > most, "where more users are in no bundle than the parameters allow"),
        (
            (found.participants >= least) & (suppressed == found.participants),
            "with enough participants that are not published",
        ),
    ):
        if wrong.any():
            windows = np.flatnonzero(wrong)
            problems.append(f"{len(windows):,} windows {what} ({first_few(windows)})")
    return problems


def count_suppressed(found: Followed, least: int) -> Ints:
    """Count, by window, who takes part without a bundle where there are enough users."""
    missing = np.array([sum(map(len, parts)) for parts in found.unlisted], np.int64)
    return np.where(found.participants >= least, missing, 0)


def bound_rows(cloaks: Any, first_row: Ints) -> Any:
    """Find the box around all rows of each set."""
    if len(first_row) == len(cloaks) + 1:
        return cloaks
    low = np.minimum.reduceat(cloaks[:, :2], first_row[:-1])
    return np.concatenate([low, np.maximum.reduceat(cloaks[:, 2:], first_row[:-1])], axis=1)


def find_order_problems(cloaks: Any, found: Followed, members: Members) -> list[str]:
    """Check that the numbers of bundles and parts tell nothing beyond their rectangles.

    Bundles of a window are in the order of their cloak sequences, then of their sizes; with
    parts, then in the order of these. Parts are in the order of their rectangles, then sizes.
    """
    wrong: list[int] = []
    bounds = bound_rows(cloaks, found.first_row)
    ends = found.first_row[found.first_set]
    for window in np.unique(members.window).tolist():
        low, high = members.list_bundles(window)
        sequences = bounds[found.first_set[low] : found.first_set[high]].reshape(high - low, -1)
        digits = np.column_stack([sequences, members.sizes[low:high]])
        wrong += (np.flatnonzero(_is_after(digits[:-1], digits[1:])) + low + 1).tolist()
        if members.parts:
            tied = np.flatnonzero((digits[:-1] == digits[1:]).all(axis=1)) + low
            keys = {b: _list_parts(b, cloaks, found, ends) for b in {*tied, *(tied + 1)}}
            wrong += [int(b) + 1 for b in tied if keys[b] > keys[b + 1]]
    problems = []
    if wrong:
        problems.append(
            f"{len(wrong):,} bundles are not in the order of their cloak sequences "
            f"({first_few(wrong)})"
        )
    if members.parts and _has_unsorted_parts(cloaks, found, members):
        problems.append("the parts of a bundle are not in the order of their rectangles")
    return problems


def _is_after(one: Any, other: Any) -> Mask:
    """Whether each row of numbers comes after the other one, compared number by number."""
    differs = one != other
    at = differs.argmax(axis=1)
    row = np.arange(len(one))
    after: Mask = differs.any(axis=1) & (one[row, at] > other[row, at])
    return after


def _list_parts(bundle: int, cloaks: Any, found: Followed, ends: Ints) -> list[Any]:
    """List what decides about the order of bundles with the same cloaks and sizes."""
    rows = slice(ends[bundle], ends[bundle + 1])
    sets = found.first_row[found.first_set[bundle] : found.first_set[bundle + 1] + 1]
    return [np.diff(sets).tolist(), cloaks[rows].tolist(), found.sizes[rows].tolist()]


def _has_unsorted_parts(cloaks: Any, found: Followed, members: Members) -> bool:
    counts = np.diff(found.first_row)
    for window, part in members.parts.items():
        low, high = members.list_bundles(window)
        sets = np.arange(found.first_set[low], found.first_set[high]).reshape(high - low, -1)
        # Parts that keep their members are compared over all instants at once.
        groups = sets if part.shape[1] == 1 else sets.reshape(-1, 1)
        more = np.maximum(counts[groups[:, 0]] - 1, 0)
        group = np.repeat(np.arange(len(groups)), more)
        number = np.arange(len(group)) - np.repeat(np.cumsum(more) - more, more)
        row = found.first_row[groups[group]] + number[:, None]
        one, other = (
            np.column_stack([cloaks[r].reshape(len(r), 4 * r.shape[1]), found.sizes[r[:, 0]]])
            for r in (row, row + 1)
        )
        if _is_after(one, other).any():
            return True
    return False
