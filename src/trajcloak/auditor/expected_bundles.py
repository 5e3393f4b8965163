"""The bundles that must have been published: boxes around members, and who may have sent."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trajcloak.auditor.audited_columns import (
    Codes,
    Ints,
    Mask,
    list_distinct,
    list_ranges,
    run_in_parts,
)
from trajcloak.auditor.audited_log import EMPTY_BOX, AuditedLog, AuditedRows, Box, widen
from trajcloak.auditor.audited_policy import ABSENT, BundleMembers
from trajcloak.auditor.audited_times import MOST_TICKS
from trajcloak.auditor.expected_instants import InstantGrid
from trajcloak.auditor.findings import first_few
from trajcloak.auditor.user_locations import count_known_instants, enclose_members
from trajcloak.progress import Progress

STAGE = "following users"
NOWHERE = np.iinfo(np.int32).max


@dataclass(frozen=True)
class RegionCells:
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
class ExpectedBundles:
    """The bundles that must have been published, and what log and policy say of their members.

    The *sets* of a bundle are its instants, in order, bundle after bundle: one set of requests
    each, and one *row* of ``bundles.parquet``; with parts, one row for each part.
    """

    log: AuditedLog
    grid: InstantGrid
    cells: RegionCells
    members: BundleMembers
    # Of each member: for how many instants, from the window's first one on, the member is shown.
    # All, but in the release of a stream, where members may leave and bundles fall silent.
    shown: Codes
    first_set: Ints  # where the sets of each bundle start
    first_row: Ints  # where the rows of each set start; silent sets have none
    # Of each row: the box around its members, in cells: x and y of the first one, and of the one
    # after the last.
    boxes: Any
    sizes: Any  # of each row: how many members it has
    reporters: Any  # of each set: how many members have a row in the instant
    participants: Ints  # of each window: how many users take part
    strangers: Ints  # of each window: how many members do not
    unlisted: list[list[Ints]]  # of each window: users who take part, and are in no bundle
    keeps_marks: bool  # whether ``marks`` are needed: requests must be safe against linking
    # Of each window: who of the members has a row when.
    marks: dict[int, Mask] = field(default_factory=dict)
    # How many locations are reported, interpolated, held and missing.
    located: Ints = field(default_factory=lambda: np.zeros(4, np.int64))
    # Distinct requests of sets: ``set * number of distinct requests + request``.
    sent: list[Ints] = field(default_factory=list)
    bounds: Box = EMPTY_BOX  # of all reports on the plane

    def list_sets(self, window: int) -> slice:
        """Find the sets of a window."""
        low, high = self.members.list_bundles(window)
        return slice(int(self.first_set[low]), int(self.first_set[high]))

    @property
    def is_silent(self) -> Mask:
        """Whether each set is of a bundle that is silent at its instant."""
        return np.asarray(np.diff(self.first_row) == 0)

    @property
    def present(self) -> Ints:
        """Of each set: how many members are shown."""
        return np.diff(np.append(0, np.cumsum(self.sizes))[self.first_row])


def follow_users(
    log: AuditedLog, grid: InstantGrid, cells: RegionCells, members: BundleMembers, k: int,
    keeps_marks: bool, progress: Progress,
) -> ExpectedBundles:  # fmt: skip
    """Follow every user through every window."""
    first_set = np.append(0, np.cumsum(grid.lengths[members.window]))
    shown = np.repeat(grid.lengths[members.window], members.sizes).astype(np.int32)
    if grid.needed is not None:
        shown = _find_shown(log, grid, members, k)
    first_row = _place_rows(members, grid, first_set, shown)
    boxes = np.empty((first_row[-1], 4), np.int32)
    boxes[:, :2], boxes[:, 2:] = NOWHERE, 0
    bundles = ExpectedBundles(
        log, grid, cells, members, shown, first_set, first_row, boxes,
        sizes=np.zeros(first_row[-1], np.int32),
        reporters=np.zeros(first_set[-1], np.int32),
        participants=np.zeros(grid.num_windows, np.int64),
        strangers=np.zeros(grid.num_windows, np.int64),
        unlisted=[[] for _ in range(grid.num_windows)],
        keeps_marks=keeps_marks,
    )  # fmt: skip
    for shard in range(log.num_shards):
        rows = log.project(log.load(shard))
        bundles.bounds = widen(bundles.bounds, rows.x, rows.y)
        _follow_shard(bundles, shard, rows, progress)
    progress(STAGE, 1, 1)
    return bundles


def _find_shown(log: AuditedLog, grid: InstantGrid, members: BundleMembers, k: int) -> Codes:
    """Find for how many instants each member of a stream's bundles is shown.

    Members who are absent once are not shown until the window ends, and a bundle only while at
    least k of its members have been there all along.
    """
    known = np.zeros(len(members.user), np.int32)
    for shard in range(log.num_shards):
        rows = log.load(shard)
        here = members.user % log.num_shards == shard
        for window in np.unique(members.window).tolist():
            low, high = members.list_bundles(window)
            own = slice(members.first[low], members.first[high])
            when = grid.find_moments(window)
            of_user, _ = count_known_instants(rows.first, rows.time, when, grid.gaps)
            chosen = here[own]
            known[own][chosen] = of_user[members.user[own][chosen] // log.num_shards]
    bundle = np.repeat(np.arange(len(members.window)), members.sizes)
    # The k-th largest of a bundle's members says how long at least k have been there.
    order = np.lexsort((-known, bundle))
    has_k = members.sizes >= k
    lasts = np.zeros(len(members.window), np.int32)
    lasts[has_k] = known[order[members.first[:-1][has_k] + k - 1]]
    return np.minimum(known, lasts[bundle])


def _place_rows(members: BundleMembers, grid: InstantGrid, first_set: Ints, shown: Codes) -> Ints:
    """Find where the rows of each set start."""
    if not members.parts:
        lasts = np.maximum.reduceat(shown, members.first[:-1])
        lengths = grid.lengths[members.window]
        within = np.arange(first_set[-1]) - np.repeat(first_set[:-1], lengths)
        return np.append(0, np.cumsum(within < np.repeat(lasts, lengths)))
    counts = np.empty(first_set[-1], np.int64)
    for window, part in members.parts.items():
        low, high = members.list_bundles(window)
        starts = members.first[low:high] - members.first[low]
        of_bundle = np.maximum.reduceat(part, starts, axis=0) + 1
        shape = high - low, int(grid.lengths[window])
        counts[first_set[low] : first_set[high]] = np.broadcast_to(of_bundle, shape).ravel()
    return np.append(0, np.cumsum(counts))


def _follow_shard(
    bundles: ExpectedBundles, shard: int, rows: AuditedRows, progress: Progress
) -> None:
    """Follow the users of a shard, window by window, and list the distinct requests of sets.

    The rows are on the plane.
    """
    log, grid = bundles.log, bundles.grid
    # No instant is earlier or later, and differences must not overflow.
    sent = np.clip(rows.request_time, -MOST_TICKS, MOST_TICKS)
    instant = (sent - grid.origin) // grid.every
    of_request = grid.find_windows(instant)
    by_window = np.argsort(of_request, kind="stable")
    edges = np.searchsorted(of_request[by_window], np.arange(grid.num_windows + 1))
    for window in range(grid.num_windows):
        progress(STAGE, shard * grid.num_windows + window, log.num_shards * grid.num_windows)
        when = grid.find_moments(window)
        known, counts = count_known_instants(rows.first, rows.time, when, grid.gaps)
        takes_part = known >= (when[2] if grid.needed is None else grid.needed)
        bundles.located += counts
        bundles.participants[window] += takes_part.sum()
        bundle, shown = _enclose(bundles, shard, rows, window)
        bundles.strangers[window] += (~takes_part & (bundle >= 0)).sum()
        unlisted = np.flatnonzero(takes_part & (bundle < 0))
        bundles.unlisted[window].append(unlisted * log.num_shards + shard)
        chosen = by_window[edges[window] : edges[window + 1]]
        within = instant[chosen] - grid.starts[window]
        # What is sent by users who are in no bundle, or not shown, is withheld.
        is_shown = within < shown[rows.request_user[chosen]]
        chosen, within = chosen[is_shown], within[is_shown]
        sets, num_kinds = bundles.list_sets(window), len(log.kinds)
        of_set = bundles.first_set[bundle[rows.request_user[chosen]]] + within - sets.start
        kind = log.kind_number[rows.request_kind[chosen]]
        keys = list_distinct(of_set * num_kinds + kind, (sets.stop - sets.start) * num_kinds)
        bundles.sent.append(keys + sets.start * num_kinds)


def _enclose(
    bundles: ExpectedBundles, shard: int, rows: AuditedRows, window: int
) -> tuple[Codes, Codes]:
    """Enclose the members of a window's bundles.

    Returns, of each user, the bundle, -1: none; and for how many instants the user is shown.
    """
    members, cells, num_shards = bundles.members, bundles.cells, bundles.log.num_shards
    low, high = members.list_bundles(window)
    bundle = np.full(len(rows.first) - 1, -1, np.int32)
    shown = np.zeros(len(bundle), np.int32)
    if low == high:
        return bundle, shown
    start, stop = members.first[low], members.first[high]
    # Members of the window that are in the shard, and where those of each bundle start.
    place = np.flatnonzero(members.user[start:stop] % num_shards == shard)
    first = np.searchsorted(place, members.first[low : high + 1] - start)
    user = members.user[start:stop][place] // num_shards
    bundle[user] = np.repeat(np.arange(low, high), np.diff(first))
    shown[user] = bundles.shown[start:stop][place]
    when, sets = bundles.grid.find_moments(window), bundles.list_sets(window)
    marks = np.zeros((len(user) if bundles.keeps_marks else 0, when[2]), bool)
    where = cells.x_min, cells.y_min, cells.cell, cells.num_cells
    arguments = (
        rows.first, rows.time, rows.x, rows.y, when, bundles.grid.gaps,
        where, user, first, shown[user],
        members.parts[window][place] if members.parts else np.zeros((0, 1), np.int64),
        bundles.first_row[sets], bundles.boxes, bundles.sizes, bundles.reporters[sets], marks,
    )  # fmt: skip
    run_in_parts(high - low, lambda begin, end: enclose_members(begin, end, *arguments))
    if bundles.keeps_marks:
        everybody = np.zeros((stop - start, when[2]), bool)
        bundles.marks.setdefault(window, everybody)[place] = marks
    return bundle, shown


def find_region_problems(bundles: ExpectedBundles) -> list[str]:
    """Check that the region holds every report on the plane strictly inside."""
    low, high = np.array(bundles.bounds).reshape(2, 2)
    corner = np.array([bundles.cells.x_min, bundles.cells.y_min])
    is_inside = (corner < low).all() and (high < corner + bundles.cells.side).all()
    return [] if is_inside else ["the region does not hold all reports of the log strictly inside"]


def find_member_problems(
    bundles: ExpectedBundles, parameters: dict[str, Any], least: int
) -> list[str]:
    """Check that all who take part are in a bundle of ``least`` users, but the suppressed."""
    problems, suppressed = [], count_suppressed(bundles, least)
    if bundles.strangers.any():
        problems.append(
            f"{int(bundles.strangers.sum()):,} members of bundles do not take part in the window "
            f"(windows {first_few(np.flatnonzero(bundles.strangers))})"
        )
    if bundles.grid.needed is not None and _has_other_parts(bundles):
        problems.append("parts are not given for exactly those members who are shown at an instant")
    share = parameters["max_suppressed"]
    most = bundles.participants * (parameters["suppress_above"] is not None)
    if share is not None:
        most = np.floor(share * bundles.participants).astype(np.int64)
    for wrong, what in (
        (suppressed > most, "where more users are in no bundle than the parameters allow"),
        (
            (bundles.participants >= least) & (suppressed == bundles.participants),
            "with enough participants that are not published",
        ),
    ):
        if wrong.any():
            windows = np.flatnonzero(wrong)
            problems.append(f"{len(windows):,} windows {what} ({first_few(windows)})")
    return problems


def _has_other_parts(bundles: ExpectedBundles) -> bool:
    """Whether members of a stream's bundles have parts where they are not shown, or none."""
    members = bundles.members
    for window, part in members.parts.items():
        low, high = members.list_bundles(window)
        shown = bundles.shown[members.first[low] : members.first[high], None]
        if ((part != ABSENT) != (np.arange(part.shape[1]) < shown)).any():
            return True
    return False


def count_suppressed(bundles: ExpectedBundles, least: int) -> Ints:
    """Count, by window, who takes part without a bundle where there are enough users."""
    missing = np.array([sum(map(len, parts)) for parts in bundles.unlisted], np.int64)
    return np.where(bundles.participants >= least, missing, 0)


def find_order_problems(cloaks: Any, bundles: ExpectedBundles) -> list[str]:
    """Check that the numbers of bundles and parts tell nothing beyond their rectangles.

    Bundles of a window are in the order of their cloak sequences, then of their sizes; with
    parts, then in the order of these. Parts are in the order of their rectangles, then sizes.
    Bundles of a stream are numbered when no more than their first cloaks is known.
    """
    wrong: list[int] = []
    members = bundles.members
    is_stream = bundles.grid.needed is not None
    if is_stream:
        firsts = _bound_sets(cloaks, bundles, bundles.first_set[:-1])
        is_wrong = _is_after(firsts[:-1], firsts[1:]) & (np.diff(members.window) == 0)
        wrong = (np.flatnonzero(is_wrong) + 1).tolist()
    for window in [] if is_stream else np.unique(members.window).tolist():
        low, high = members.list_bundles(window)
        sets = np.arange(bundles.first_set[low], bundles.first_set[high])
        sequences = _bound_sets(cloaks, bundles, sets).reshape(high - low, -1)
        digits = np.column_stack([sequences, members.sizes[low:high]])
        wrong += (np.flatnonzero(_is_after(digits[:-1], digits[1:])) + low + 1).tolist()
        if members.parts:
            tied = np.flatnonzero((digits[:-1] == digits[1:]).all(axis=1)) + low
            keys = {b: _list_parts(b, cloaks, bundles) for b in {*tied, *(tied + 1)}}
            wrong += [int(b) + 1 for b in tied if keys[b] > keys[b + 1]]
    problems = []
    if wrong:
        problems.append(
            f"{len(wrong):,} bundles are not in the order of their cloak sequences "
            f"({first_few(wrong)})"
        )
    if members.parts and _has_unsorted_parts(cloaks, bundles):
        problems.append("the parts of a bundle are not in the order of their rectangles")
    return problems


def _bound_sets(cloaks: Any, bundles: ExpectedBundles, sets: Ints) -> Any:
    """Find the box around all rows of each of some sets, which have at least one."""
    edges = np.column_stack([bundles.first_row[sets], bundles.first_row[sets + 1]]).ravel()
    # What is between the rows of two sets is reduced, too, and left out.
    more = np.concatenate([cloaks, cloaks[:1]])
    low = np.minimum.reduceat(more[:, :2], edges)[::2]
    return np.concatenate([low, np.maximum.reduceat(more[:, 2:], edges)[::2]], axis=1)


def _is_after(one: Any, other: Any) -> Mask:
    """Whether each row of numbers comes after the other one, compared number by number."""
    differs = one != other
    at = differs.argmax(axis=1)
    row = np.arange(len(one))
    after: Mask = differs.any(axis=1) & (one[row, at] > other[row, at])
    return after


def _list_parts(bundle: int, cloaks: Any, bundles: ExpectedBundles) -> list[Any]:
    """List what decides about the order of bundles with the same cloaks and sizes."""
    first_row = bundles.first_row[bundles.first_set[bundle] : bundles.first_set[bundle + 1] + 1]
    rows = slice(first_row[0], first_row[-1])
    return [np.diff(first_row).tolist(), cloaks[rows].tolist(), bundles.sizes[rows].tolist()]


def _has_unsorted_parts(cloaks: Any, bundles: ExpectedBundles) -> bool:
    members = bundles.members
    counts = np.diff(bundles.first_row)
    for window, part in members.parts.items():
        low, high = members.list_bundles(window)
        sets = np.arange(bundles.first_set[low], bundles.first_set[high]).reshape(high - low, -1)
        # Parts that keep their members are compared over all instants at once.
        groups = sets if part.shape[1] == 1 else sets.reshape(-1, 1)
        more = np.maximum(counts[groups[:, 0]] - 1, 0)
        group = np.repeat(np.arange(len(groups)), more)
        number = list_ranges(np.zeros(len(more), np.int64), more)
        row = bundles.first_row[groups[group]] + number[:, None]
        one, other = (
            np.column_stack([cloaks[r].reshape(len(r), 4 * r.shape[1]), bundles.sizes[r[:, 0]]])
            for r in (row, row + 1)
        )
        if _is_after(one, other).any():
            return True
    return False
