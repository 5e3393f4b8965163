"""Inspect a log before it is anonymized: how regular it is, which instants and windows fit.

Nothing here looks at requests: a proposal made by them would tell who sent some
(``docs/guarantee.md``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.bundles import find_eligible
from trajcloak.errors import InputError
from trajcloak.kernels.threads import choose_threads, run_sliced
from trajcloak.log import RequestLog, hold_in_memory, sort_rows
from trajcloak.log.clean import DEFAULT_SPEED, find_teleports
from trajcloak.log.misplaced import (
    find_bulk,
    find_null_island,
    find_swapped,
    may_be_at_zero,
    may_be_swapped,
)
from trajcloak.log.sharded_log import build_shard
from trajcloak.options import MBR, NULL_ISLAND, SWAPPED, TELEPORT, Options
from trajcloak.progress import Progress, silent
from trajcloak.trajectories import (
    Ingest,
    Located,
    TimeGrid,
    WindowCutter,
    build_ingest,
    build_time_grid,
    format_duration,
    is_dense,
    lay_out,
    parse_duration,
)
from trajcloak.trajectories.clock import MAX_WINDOWS
from trajcloak.trajectories.grid import find_own_step, most_instants
from trajcloak.trajectories.reports import compare_reports
from trajcloak.trajectories.schedule import Schedule, find_schedule

SECOND = 10**6
NICE_SECONDS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)
NICE_LENGTHS = (5, 10, 15, 30, 60, 120, 240, 480, 1440)
GAP_FACTORS = (2, 3, 5, 10, 30)
NUM_STEPS = 5
ENOUGH = 0.8
"""Proposed windows keep at least this share of what the shortest windows keep."""

MEMBERS_PERCENT = (100, 120, 150, 200, 300, 500)
"""Members of bundles that are tried, in percent of k."""

LONGEST = 86400 * SECOND
"""Longest instants that are proposed to keep more rows."""

MOST_CELLS = 200_000
"""Users times instants that are bundled for a choice."""

MOST = 0.95
"""Least share of the gaps that a proposal bridges, and of the reports that it keeps."""


@dataclass(frozen=True)
class Suspect:
    """Rows that are probably wrong for the same reason.

    Attributes
    ----------
    reason : str
        The reason, as ``--drop`` names it.
    rows : (rows,) int64
        Positions in the log, ascending.
    named : str
        Their number and the first few, as in messages: ``3 rows (4, 7, 9) are``.
    """

    reason: str
    rows: npt.NDArray[np.int64]
    named: str


@dataclass(frozen=True)
class Choice:
    """What a choice of ``every``, ``max_gap``, ``length`` and ``members`` would keep.

    Attributes
    ----------
    every, max_gap : int or str
        In the form that :func:`trajcloak.anonymize` takes.
    length : int
    users : float
        Share of the users who take part in at least one window.
    reports : float
        Share of the rows whose user takes part in their window.
    members : int or None
        Least number of users in a bundle; None if k is not known.
    sets : float or None
        Share of the sets of requests, one for each bundle and instant, that are eligible: k
        members have a row. None if k is not known.
    rows : float or None
        Share of the rows that are in such a set, so that a request of theirs could be
        published. None if k is not known.
    """

    every: int | str
    max_gap: int | str
    length: int
    users: float
    reports: float
    members: int | None = None
    sets: float | None = None
    rows: float | None = None


@dataclass(frozen=True)
class Inspection:
    """What :func:`inspect_log` found.

    Attributes
    ----------
    ingest : Ingest
        The ingest report, with the proposed instants.
    proposed : Choice
    by_every, by_max_gap, by_length, by_members : list of Choice
        The proposal and variants with other values of one setting, ascending.
    schedule : Schedule
        Whether rows follow a schedule, and the exceptions to it.
    suspects : list of Suspect
        Rows that are probably wrong.
    """

    ingest: Ingest
    proposed: Choice
    by_every: list[Choice]
    by_max_gap: list[Choice]
    by_length: list[Choice]
    by_members: list[Choice]
    schedule: Schedule
    suspects: list[Suspect]

    @property
    def choices(self) -> pa.Table:
        """The proposal, and its variants by the setting that is varied, as a table."""
        listed = [("nothing", self.proposed)] + [
            (name.removeprefix("by_"), choice)
            for name in ("by_every", "by_max_gap", "by_length", "by_members")
            for choice in getattr(self, name)
        ]
        rows = [
            {
                "varied": varied,
                **vars(choice),
                "every": str(choice.every),
                "max_gap": str(choice.max_gap),
            }
            for varied, choice in listed
        ]
        return pa.Table.from_pylist(rows)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        return {
            "ingest": self.ingest.to_dict(),
            "proposed": vars(self.proposed),
            **{
                name: [vars(choice) for choice in getattr(self, name)]
                for name in ("by_every", "by_max_gap", "by_length", "by_members")
            },
            "schedule": self.schedule._asdict(),
            "suspects": {suspect.reason: len(suspect.rows) for suspect in self.suspects},
        }


def inspect_log(
    log: RequestLog,
    *,
    k: int | None = None,
    every: str | None = None,
    max_gap: str | None = None,
    length: int | None = None,
    members: int | None = None,
    threads: int | None = None,
    progress: Progress = silent,
) -> Inspection:
    """Report on a log, and propose how to cut it into instants and windows.

    Proposed are, as ``every``, the step of the log's times or, if they are irregular, the
    median time between reports, rounded up; as ``length``, the longest that keeps at least
    80% of what the shortest windows keep, if 95% of the gaps are bridged; as ``max_gap``,
    the least of 2, 3, 5, 10 and 30 steps that then keeps at least 95% of the reports, or
    the one that keeps most.

    If ``k`` is given and rows may carry requests, sets of requests are withheld where fewer
    than k members of a bundle have a row. If that concerns many rows, users are bundled for
    many choices, on some windows of a large log. Proposed is then, of the choices that keep at
    least 80% of the rows that the best one keeps, the one with the shortest instants, the
    fewest members and the longest windows.

    Parameters
    ----------
    log : RequestLog
        From :func:`trajcloak.read_log`.
    k : int, optional
        As for :func:`trajcloak.anonymize`.
    every, max_gap, length, members : optional
        Values that are decided already; the others are proposed.
    threads : int, optional
        Default: all cores.
    progress : Progress
    """
    counter = _KeptCounter(log, choose_threads(threads), progress)

    def parse(text: str | None, name: str) -> int | None:
        if text is None:
            return None
        return parse_duration(str(text), has_timestamps=log.has_timestamps, name=name)

    whole = hold_in_memory(log)
    asked = Asked(parse(every, "every"), parse(max_gap, "max-gap"), length, members)
    step = asked.every or _propose_every(counter)
    gap = asked.max_gap
    size = length or _propose_length(counter, step, gap or _find_typical_gap(counter, step))
    gap = gap or _propose_gap(counter, step, size)
    bundled = None
    if k is not None and log.is_one_log:
        bundled = _SetCounter(log, k, counter.threads)
        members = members or k
        if bundled.count(step, gap, size, members)[1] < ENOUGH:
            step, gap, size, members = _search(counter, bundled, step, asked, progress)

    def count(every: int, max_gap: int, length: int, members: int | None) -> Choice:
        choice = counter.count(every, max_gap, length)
        if bundled is None or members is None:
            return choice
        sets, rows = bundled.count(every, max_gap, length, members)
        return replace(choice, members=members, sets=sets, rows=rows)

    grid = build_time_grid(whole, step)
    located = counter.locate(grid, gap)
    reports = None
    if not (is_dense(whole.facts, grid) and located.reported == log.num_rows):
        reports = compare_reports(log, gap, counter.threads)
    return Inspection(
        ingest=build_ingest(whole.facts, grid, gap, located, reports),
        proposed=count(step, gap, size, members),
        by_every=[
            count(other, max(gap, 2 * other), max(1, size * step // other), members)
            for other in _near(_list_steps(log), step, log)
        ],
        by_max_gap=[count(step, g, size, members) for g in _list_gaps(step, gap)],
        by_length=[count(step, gap, n, members) for n in _list_lengths(grid, size)],
        by_members=[
            count(step, gap, size, n)
            for n in ([] if bundled is None else _list_members(bundled.k, members))
        ],
        schedule=find_schedule(whole, reports),
        suspects=list_suspects(log),
    )


def list_suspects(log: RequestLog) -> list[Suspect]:
    """List rows at 0, 0, with swapped axes, or too far from the same user's report before.

    Distances are checked only in logs with metres and seconds. A row is listed once.
    """
    whole = hold_in_memory(log)
    bulk = None
    if may_be_swapped(whole.facts) or may_be_at_zero(whole.facts):
        bulk = find_bulk(whole)
    masks = {NULL_ISLAND: find_null_island(log, bulk), SWAPPED: find_swapped(log, bulk)}
    listed = masks[NULL_ISLAND] | masks[SWAPPED]
    if log.has_timestamps and log.crs is not None:
        masks[TELEPORT] = find_teleports(log, DEFAULT_SPEED, ~listed)
    return [
        Suspect(reason, rows, log.name_rows(rows))
        for reason, rows in ((reason, np.flatnonzero(mask)) for reason, mask in masks.items())
        if len(rows)
    ]


class _KeptCounter:
    """Counts what a choice would keep, and remembers the counts."""

    def __init__(self, log: RequestLog, threads: int, progress: Progress) -> None:
        progress("sorting reports", 0, 1)
        self.log = log
        self.threads = threads
        self.reports = compare_reports(log, 0, threads)
        order = sort_rows(log)
        self._time = log.time[order]
        self._first = np.searchsorted(log.user[order], np.arange(log.num_users + 1))
        self._known: dict[tuple[int, int, int], Choice] = {}
        progress("sorting reports", 1, 1)

    def locate(self, grid: TimeGrid, max_gap: int) -> Located:
        """Count the locations that are reported, interpolated and missing."""
        *_, known, reported = self._count(grid, max_gap, 1)
        return Located(
            reported, known - reported, missing=self.log.num_users * grid.num_instants - known
        )

    def count(self, every: int, max_gap: int, length: int) -> Choice:
        """Count what a choice would keep."""
        key = every, max_gap, length
        if key not in self._known:
            users, reports, *_ = self._count(
                build_time_grid(hold_in_memory(self.log), every), max_gap, length
            )
            # Requests of a second input are not counted: nothing here may depend on them.
            self._known[key] = Choice(
                format_duration(every, has_timestamps=self.log.has_timestamps),
                format_duration(max_gap, has_timestamps=self.log.has_timestamps),
                length,
                users / self.log.num_users,
                reports / self.log.num_rows,
            )
        return self._known[key]

    def _count(self, grid: TimeGrid, max_gap: int, length: int) -> list[int]:
        when = grid.origin, grid.every, grid.num_instants
        parts = run_sliced(
            lambda start, stop: _count_kept(
                self._time, self._first, when, max_gap, length, start, stop
            ),
            self.log.num_users,
            self.threads,
        )
        total: list[int] = np.sum(parts, axis=0).tolist()
        return total


class _SetCounter:
    """Counts the sets of requests that a choice would leave eligible, and their rows.

    Users are bundled with ``traj-anon``. Of a large log, windows with rows are drawn evenly.
    """

    def __init__(self, log: RequestLog, k: int, threads: int) -> None:
        self.log = log
        self.k = k
        self._threads = threads
        self._known: dict[tuple[int, int, int, int], tuple[float, float]] = {}

    def count(self, every: int, max_gap: int, length: int, members: int) -> tuple[float, float]:
        """Compute the shares of sets that are eligible, and of rows that are in one."""
        key = every, max_gap, length, members
        if key not in self._known:
            self._known[key] = self._count(*key)
        return self._known[key]

    def _count(self, every: int, max_gap: int, length: int, members: int) -> tuple[float, float]:
        log, unit = self.log, self.log.has_timestamps
        asked = Options(
            k=self.k,
            algorithm="traj-anon",
            every=str(format_duration(every, has_timestamps=unit)),
            max_gap=str(format_duration(max_gap, has_timestamps=unit)),
            length=length,
        )
        try:
            placed, layout = lay_out(hold_in_memory(log), asked)
        except InputError:
            # Misplaced rows: they are listed as suspects.
            return 0.0, 0.0
        log, grid = build_shard(placed.shards[0]), layout.grid
        cutter = WindowCutter(log, layout)
        instant = (log.time - grid.origin) // grid.every
        order = np.argsort(instant, kind="stable")
        edges = np.searchsorted(instant[order], layout.ranges)
        most = max(1, MOST_CELLS // (log.num_users * length))
        filled = np.flatnonzero(edges[:, 0] < edges[:, 1])
        chosen = filled[np.unique(np.linspace(0, len(filled) - 1, most).astype(np.int64))]
        num_sets, num_eligible, num_rows, num_kept = 0, 0, 0, 0
        for number in chosen.tolist():
            rows = order[slice(*edges[number])]
            num_rows += len(rows)
            window = cutter.cut(number, self._threads)
            if len(window.user) < members:
                continue
            policy = TrajAnon().solve(
                window.cells, layout.region.height, members, MBR, threads=self._threads
            )
            is_eligible = find_eligible(window, policy.bundle, policy.num_bundles, self.k)
            num_sets += is_eligible.size
            num_eligible += int(is_eligible.sum())
            bundle = np.full(log.num_users, -1, np.int32)
            bundle[window.user] = policy.bundle
            bundle = bundle[log.user[rows]]
            inside = bundle >= 0
            num_kept += int(is_eligible[bundle[inside], instant[rows[inside]] - window.start].sum())
        is_inside = int((edges[:, 1] - edges[:, 0]).sum()) / log.num_rows
        return num_eligible / max(1, num_sets), is_inside * num_kept / max(1, num_rows)


class Asked(NamedTuple):
    """Settings that are decided already; None: to be proposed."""

    every: int | None
    max_gap: int | None
    length: int | None
    members: int | None


def _search(
    counter: _KeptCounter, bundled: _SetCounter, step: int, asked: Asked, progress: Progress
) -> tuple[int, int, int, int]:
    """Choose every, max_gap, length and members by the rows in eligible sets."""
    # Longer instants hold more rows, so that more members have one.
    low, high = counter.log.time_range
    longest = min((high - low) // 10, LONGEST if counter.log.has_timestamps else high - low)
    steps = [step, *(s for s in _list_steps(counter.log) if step < s <= longest)]
    choices: list[tuple[int, int, int, int]] = []
    for every in [asked.every] if asked.every else steps[:: -(-len(steps) // NUM_STEPS)]:
        grid = build_time_grid(hold_in_memory(counter.log), every)
        gaps = {_find_typical_gap(counter, every), GAP_FACTORS[-1] * every}
        choices += product(
            [every],
            [asked.max_gap] if asked.max_gap else sorted(gaps),
            [asked.length] if asked.length else _list_lengths(grid, None)[:NUM_STEPS],
            [asked.members] if asked.members else _list_members(bundled.k, None),
        )
    kept = []
    for done, choice in enumerate(choices):
        progress("trying choices", done, len(choices))
        kept.append(bundled.count(*choice)[1])
    progress("trying choices", len(choices), len(choices))
    enough = ENOUGH * max(kept)
    return min(
        (choice for choice, share in zip(choices, kept, strict=True) if share >= enough),
        key=lambda choice: (choice[0], choice[3], -choice[2], choice[1]),
    )


def _list_members(k: int, chosen: int | None) -> list[int]:
    return sorted({*(-(-k * percent // 100) for percent in MEMBERS_PERCENT), chosen or k})


def _propose_every(counter: _KeptCounter) -> int:
    """Choose the step of the log's times, or else the median gap, rounded up."""
    own = find_own_step(hold_in_memory(counter.log))
    if own is not None:
        return own
    typical = counter.reports.quantile(0.5) if counter.reports.num_gaps else 1
    steps = _list_steps(counter.log)
    return next((step for step in steps if step >= typical), steps[-1])


def _find_typical_gap(counter: _KeptCounter, every: int) -> int:
    """Find the least multiple of the step that bridges 95% of the gaps."""
    most = counter.reports.quantile(MOST) if counter.reports.num_gaps else 0
    return every * next((f for f in GAP_FACTORS if f * every >= most), GAP_FACTORS[-1])


def _propose_gap(counter: _KeptCounter, every: int, length: int) -> int:
    """Choose the least multiple of the step that keeps 95% of the reports, or else the best."""
    gaps = [factor * every for factor in GAP_FACTORS]
    kept = [counter.count(every, gap, length).reports for gap in gaps]
    enough = min(MOST, max(kept))
    return next(gap for gap, share in zip(gaps, kept, strict=True) if share >= enough)


def _propose_length(counter: _KeptCounter, every: int, max_gap: int) -> int:
    """Choose the longest windows that keep nearly as much as the shortest."""
    lengths = _list_lengths(build_time_grid(hold_in_memory(counter.log), every), None)
    kept = [counter.count(every, max_gap, length).reports for length in lengths]
    return max(
        length
        for length, share in zip(lengths, kept, strict=True)
        if share >= ENOUGH * kept[0] or length == lengths[0]
    )


def _list_steps(log: RequestLog) -> list[int]:
    """List round steps that do not result in too many instants."""
    low, high = log.time_range
    if log.has_timestamps:
        steps = [seconds * SECOND for seconds in NICE_SECONDS]
        steps += [86400 * SECOND * 2**i for i in range(20)]
    else:
        steps = [digit * 10**exponent for exponent in range(18) for digit in (1, 2, 5)]
    return [
        step for step in steps if (high - low) // step < most_instants(hold_in_memory(log).facts)
    ]


def _near(steps: Sequence[int], chosen: int, log: RequestLog) -> list[int]:
    """List the chosen step and the few nearest to it that are no longer than the log."""
    low, high = log.time_range
    fitting = [step for step in steps if step <= high - low]
    around = sorted(sorted(fitting, key=lambda step: abs(np.log(step / chosen)))[: NUM_STEPS - 1])
    return sorted({*around, chosen})


def _list_gaps(every: int, chosen: int) -> list[int]:
    return sorted({*(factor * every for factor in GAP_FACTORS), chosen})


def _list_lengths(grid: TimeGrid, chosen: int | None) -> list[int]:
    least = grid.num_instants / MAX_WINDOWS
    fitting = {length for length in NICE_LENGTHS if least <= length < grid.num_instants}
    return sorted({*fitting, grid.num_instants} if chosen is None else {*fitting, chosen})


@njit(cache=True, nogil=True)
def _count_kept(time, first, when, max_gap, length, begin, end):  # type: ignore[no-untyped-def]
    """Count what is kept: users, reports, pairs of user and window, exact reports.

    A stretch is a run of a user's reports that are at most ``max_gap`` apart. The user takes
    part in every window that is within a stretch. An exact report has the time of an instant.

    Requires: ``time`` by user, ascending; ``first`` is where each user's rows start.
    """
    origin, every, num_instants = when
    span = every * length
    last_window = (num_instants - 1) // length
    last_moment = origin + (num_instants - 1) * every
    kept: npt.NDArray[np.int64] = np.zeros(4, np.int64)
    for u in range(begin, end):
        takes_part = False
        # First and last window, both included, of the latest stretch that has any.
        low = np.int64(0)
        high = np.int64(-1)
        row = first[u]
        while row < first[u + 1]:
            stop = row + 1
            while stop < first[u + 1] and time[stop] - time[stop - 1] <= max_gap:
                stop += 1
            # First and last window with all their moments within the stretch.
            first_window = max(-((origin - time[row]) // span), np.int64(0))
            final_window = (time[stop - 1] - origin + every) // span - 1
            if time[stop - 1] >= last_moment:
                final_window = last_window
            if final_window >= first_window:
                takes_part = True
                low = first_window
                high = final_window
                kept[2] += high - low + 1
            # A report may belong to a window of an earlier stretch: after a gap that follows the
            # window's last moment.
            for i in range(row, stop):
                offset = time[i] - origin
                window = offset // span
                if offset >= 0 and low <= window <= high:
                    kept[1] += 1
                is_new = i == first[u] or time[i] != time[i - 1]
                kept[3] += is_new and offset >= 0 and offset % every == 0
            row = stop
        kept[0] += takes_part
    return kept
