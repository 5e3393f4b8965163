"""Inspect a log before it is anonymized: how regular it is, which instants and windows fit.

Nothing here looks at requests: a proposal made by them would tell who sent some
(``docs/guarantee.md``).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product, starmap
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.errors import InputError, OptionError, Refusals
from trajcloak.kept_counts import MOST_GUESSED, Choice, KeptCounter, SetCounter
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import RequestLog, hold_in_memory
from trajcloak.log.clean import (
    DEFAULT_SPEED,
    find_bulk,
    find_null_island,
    find_swapped,
    find_teleports,
    may_be_misplaced,
)
from trajcloak.log.sharded_log import ShardedLog
from trajcloak.options import MIN_K, NULL_ISLAND, SWAPPED, TELEPORT, Options
from trajcloak.progress import Progress, silent
from trajcloak.trajectories import (
    Ingest,
    TimeGrid,
    build_ingest,
    build_time_grid,
    check_log,
    check_rows,
    is_dense,
    parse_duration,
    too_few_users,
)
from trajcloak.trajectories.grid import MAX_WINDOWS, find_own_step, most_instants
from trajcloak.trajectories.reports import Reports, compare_reports
from trajcloak.trajectories.schedule import Schedule, find_schedule

SECOND = 10**6
NICE_SECONDS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)
NICE_LENGTHS = (5, 10, 15, 30, 60, 120, 240, 480, 1440)
GAP_FACTORS = (2, 3, 5, 10, 30)
NUM_STEPS = 5
ENOUGH = 0.8  # proposed windows keep at least this share of what the shortest windows keep
MOST = 0.95  # least share of the gaps that a proposal bridges, and of the reports that it keeps
USEFUL = 0.2  # a release that keeps less than this share of the rows is hardly of use
VARIED = ("every", "max_gap", "length", "members")  # the settings that are proposed
MEMBERS_PERCENT = (100, 120, 150, 200, 300, 500)  # members of bundles, in percent of k
LONGEST = 86400 * SECOND
"""Longest instants that are proposed to keep more rows, and longest gap to be interpolated, unless
it is the least gap that instants need."""


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


@dataclass(frozen=True, repr=False)
class Inspection:
    """What :func:`trajcloak.inspect_log` found; see also ``settings`` and ``choices``.

    Attributes
    ----------
    ingest : Ingest
        What was read, with the proposed instants.
    proposed : Choice
        The proposal, and what it would keep.
    by_every, by_max_gap, by_length, by_members : list of Choice
        The proposal and variants with other values of one setting, ascending.
    schedule : Schedule
        Whether rows follow a schedule, and the exceptions to it.
    suspects : list of Suspect
        Rows that are probably wrong.
    refusals : list of str
        Why :func:`trajcloak.anonymize` would refuse the log with the proposed settings.
    doubts : list of str
        Why a release with the proposed settings would hardly be of use.
    """

    ingest: Ingest
    proposed: Choice
    by_every: list[Choice]
    by_max_gap: list[Choice]
    by_length: list[Choice]
    by_members: list[Choice]
    schedule: Schedule
    suspects: list[Suspect]
    refusals: list[str]
    doubts: list[str]

    def __repr__(self) -> str:
        """Show the proposal, and whether the log would be refused."""
        shown = self.settings | {"refusals": len(self.refusals), "doubts": len(self.doubts)}
        return f"Inspection({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def settings(self) -> dict[str, Any]:
        """The proposal as arguments: ``anonymize(log, k=50, **found.settings)``."""
        proposed = {name: getattr(self.proposed, name) for name in VARIED}
        return {name: value for name, value in proposed.items() if value is not None}

    @property
    def choices(self) -> pa.Table:
        """The proposal, and its variants by the setting that is varied, as a table."""
        listed = [("nothing", self.proposed)]
        listed += [(name, choice) for name in VARIED for choice in getattr(self, f"by_{name}")]
        rows = [{"varied": varied, **vars(choice)} for varied, choice in listed]
        for row in rows:
            row |= {"every": str(row["every"]), "max_gap": str(row["max_gap"])}
        return pa.Table.from_pylist(rows)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, for JSON."""
        return {
            "ingest": self.ingest.to_dict(),
            "proposed": vars(self.proposed),
            **{f"by_{name}": list(map(vars, getattr(self, f"by_{name}"))) for name in VARIED},
            "schedule": self.schedule._asdict(),
            "suspects": {suspect.reason: len(suspect.rows) for suspect in self.suspects},
            "refusals": self.refusals,
            "doubts": self.doubts,
        }


def inspect_rows(
    log: RequestLog,
    *,
    k: int | None = None,
    every: str | None = None,
    max_gap: str | None = None,
    length: int | None = None,
    members: int | None = None,
    rows_alike: bool = False,
    region: tuple[float, float, float] | None = None,
    threads: int | None = None,
    progress: Progress = silent,
) -> Inspection:
    """Report on a log, and propose how to cut it; see :func:`trajcloak.inspect_log`.

    Proposed are, as ``every``, the step of the log's times or, if they are irregular, the
    median time between reports, rounded up; as ``length``, the longest that keeps at least
    80% of what the shortest windows keep, if 95% of the gaps are bridged; as ``max_gap``,
    the least of 2, 3, 5, 10 and 30 steps that then keeps at least 95% of the reports, or
    the one that keeps most. Settings by which more than half of the locations would have no
    report of their own are proposed only if there are no others.

    If ``k`` is given and rows may carry requests, sets of requests are withheld where fewer
    than k members of a bundle have a row. If that concerns many rows, users are bundled for
    many choices, on some windows of a large log. Proposed is then, of the believable choices that
    keep at least 80% of the rows that the best of them keeps, the one with the shortest instants,
    the fewest members and the longest windows. No instants are tried that are longer than 95% of
    the gaps.
    """
    least = MIN_K if k is None else k
    asked = Options(least, length=length, members=members, rows_alike=rows_alike, region=region)
    counter = KeptCounter(log, choose_threads(threads), progress)

    def parse(text: str | None, name: str) -> int | None:
        if text is None:
            return None
        return parse_duration(str(text), has_timestamps=log.has_timestamps, name=name)

    whole = counter.whole
    given = GivenSettings(parse(every, "every"), parse(max_gap, "max-gap"), length, members)
    step = given.every or _propose_every(counter)
    gap = given.max_gap
    size = length or _propose_length(counter, step, gap or _find_typical_gap(counter, step))
    gap = gap or _propose_gap(counter, step, size)
    bundled = None
    if k is not None and log.is_one_log:
        bundled = SetCounter(log, k, step, region, counter.threads)
        members = members or k
        if bundled.count(step, gap, size, members)[1] < ENOUGH:
            first = TriedSettings(step, gap, size, members)
            step, gap, size, members = _search(counter, bundled, first, given, progress)

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
    proposed = count(step, gap, size, members)
    final = {name: getattr(proposed, name) for name in VARIED}
    final |= {"every": str(proposed.every), "max_gap": str(proposed.max_gap)}
    return Inspection(
        ingest=build_ingest(whole.facts, grid, gap, located, reports),
        proposed=proposed,
        by_every=[
            count(other, max(gap, 2 * other), max(1, size * step // other), members)
            for other in _near(_list_steps(whole), step, log)
        ],
        by_max_gap=[
            count(step, other, size, members)
            for other in sorted({*(factor * step for factor in GAP_FACTORS), gap})
        ],
        by_length=[count(step, gap, n, members) for n in _list_lengths(grid, size)],
        by_members=[
            count(step, gap, size, n) for n in (_list_members(k, members) if k and bundled else [])
        ],
        schedule=find_schedule(whole, reports),
        suspects=list_suspects(log),
        refusals=_list_refusals(whole, replace(asked, **final), reports, proposed.most_users),
        doubts=_list_doubts(proposed, k),
    )


def _list_refusals(
    log: ShardedLog, asked: Options, reports: Reports | None, most_users: int
) -> list[str]:
    """Check a log as :func:`trajcloak.anonymize` does; ``reports`` are None if it is dense."""
    refusals = Refusals(log.facts.refusals)
    try:
        _, _, found = check_log(log, asked, refusals)
        if found is None:
            check_rows(log, asked, reports, refusals)
    except (InputError, OptionError):
        # The error repeats a refusal that is noted already; if there is none, it is a new one.
        if not refusals.reasons:
            raise
    reasons = refusals.reasons
    if most_users < asked.bundle_size:
        error = too_few_users(most_users, log.facts.num_users, asked.bundle_size)
        reasons.append(error.with_options)
    return reasons


def _list_doubts(proposed: Choice, k: int | None) -> list[str]:
    """Say why a release would hardly be of use."""
    doubts = []
    kept, what = proposed.reports, "users who take part in their window"
    if proposed.rows is not None:
        kept, what = proposed.rows, f"sets of requests with {k:,} members who have a row"
    if kept < USEFUL:
        doubts.append(f"only {kept:.1%} of the rows are of {what}")
    if proposed.guessed > MOST_GUESSED:
        doubts.append(
            f"{proposed.guessed:.1%} of the locations have no report in their instant: they are "
            f"points of straight lines across gaps of up to {proposed.max_gap}"
        )
    return doubts


def list_suspects(log: RequestLog) -> list[Suspect]:
    """List rows at 0, 0, with swapped axes, or too far from the same user's report before.

    Distances are checked only in logs with metres and seconds. A row is listed once.
    """
    whole = hold_in_memory(log)
    masks = dict.fromkeys((NULL_ISLAND, SWAPPED), np.zeros(log.num_rows, np.bool_))
    if may_be_misplaced(whole.facts):
        bulk = find_bulk(whole)
        masks = {NULL_ISLAND: find_null_island(log, bulk), SWAPPED: find_swapped(log, bulk)}
    listed = masks[NULL_ISLAND] | masks[SWAPPED]
    if log.has_timestamps and log.crs is not None:
        masks[TELEPORT] = find_teleports(log, DEFAULT_SPEED, ~listed)
    found = {reason: np.flatnonzero(mask) for reason, mask in masks.items() if mask.any()}
    return [Suspect(reason, rows, log.name_rows(rows)) for reason, rows in found.items()]


class GivenSettings(NamedTuple):
    """Settings that are decided already; None: to be proposed."""

    every: int | None
    max_gap: int | None
    length: int | None
    members: int | None


class TriedSettings(NamedTuple):
    """Settings for which it is counted what they keep."""

    every: int
    max_gap: int
    length: int
    members: int


def _search(
    counter: KeptCounter,
    bundled: SetCounter,
    first: TriedSettings,
    given: GivenSettings,
    progress: Progress,
) -> TriedSettings:
    """Choose the settings by the rows in eligible sets; ``first`` stays if no choice has any."""
    step = first.every
    # Longer instants hold more rows, so that more members have one. Nearly everybody who is there
    # has one in instants as long as most gaps: still longer ones would only be coarser.
    low, high = counter.log.time_range
    longest = min((high - low) // 10, LONGEST if counter.log.has_timestamps else high - low)
    longer = [s for s in _list_steps(counter.whole) if step < s <= longest]
    most = counter.find_gap(MOST)
    steps = [step, *longer[: bisect_left(longer, most) + 1]]
    choices: list[TriedSettings] = []
    for every in [given.every] if given.every else steps[:: -(-len(steps) // NUM_STEPS)]:
        grid = build_time_grid(counter.whole, every)
        gaps = {_find_typical_gap(counter, every), _list_believable_gaps(counter.log, every)[-1]}
        choices += starmap(
            TriedSettings,
            product(
                [every],
                [given.max_gap] if given.max_gap else sorted(gaps),
                [given.length] if given.length else _list_lengths(grid, None)[:NUM_STEPS],
                [given.members] if given.members else _list_members(bundled.k, None),
            ),
        )
    kept = []
    for done, choice in enumerate(choices):
        progress("trying choices", done, len(choices))
        kept.append(bundled.count(*choice)[1])
    progress("trying choices", len(choices), len(choices))
    if not any(kept):
        return first
    believable = [
        share * counter.is_believable(choice.every, choice.max_gap, choice.length)
        for share, choice in zip(kept, choices, strict=True)
    ]
    if any(believable):
        kept = believable
    enough = ENOUGH * max(kept)
    return min(
        (choice for choice, share in zip(choices, kept, strict=True) if share >= enough),
        key=lambda choice: (choice.every, choice.members, -choice.length, choice.max_gap),
    )


def _list_members(k: int, chosen: int | None) -> list[int]:
    return sorted({*(-(-k * percent // 100) for percent in MEMBERS_PERCENT), chosen or k})


def _propose_every(counter: KeptCounter) -> int:
    """Choose the step of the log's times, or else the median gap, rounded up."""
    own = find_own_step(counter.whole)
    if own is not None:
        return own
    typical = counter.find_gap(0.5)
    steps = _list_steps(counter.whole)
    return next((step for step in steps if step >= typical), steps[-1])


def _find_typical_gap(counter: KeptCounter, every: int) -> int:
    """Find the least multiple of the step that bridges 95% of the gaps, or else the longest."""
    most = counter.find_gap(MOST)
    gaps = _list_believable_gaps(counter.log, every)
    return next((gap for gap in gaps if gap >= most), gaps[-1])


def _list_believable_gaps(log: RequestLog, every: int) -> list[int]:
    """List gaps across which a straight line may be near the truth."""
    least, *others = (factor * every for factor in GAP_FACTORS)
    return [least, *(gap for gap in others if gap <= LONGEST or not log.has_timestamps)]


def _propose_gap(counter: KeptCounter, every: int, length: int) -> int:
    """Choose the least multiple of the step that keeps 95% of the reports, or else the best."""
    gaps = _list_believable_gaps(counter.log, every)
    gaps = [gap for gap in gaps if counter.is_believable(every, gap, length)] or gaps[:1]
    kept = [counter.count(every, gap, length).reports for gap in gaps]
    enough = min(MOST, max(kept))
    return next(gap for gap, share in zip(gaps, kept, strict=True) if share >= enough)


def _propose_length(counter: KeptCounter, every: int, max_gap: int) -> int:
    """Choose the longest windows that keep nearly as much as the shortest."""
    lengths = _list_lengths(build_time_grid(counter.whole, every), None)
    kept = [counter.count(every, max_gap, length).reports for length in lengths]
    return max(
        length
        for length, share in zip(lengths, kept, strict=True)
        if share >= ENOUGH * kept[0] or length == lengths[0]
    )


def _list_steps(log: ShardedLog) -> list[int]:
    """List round steps that do not result in too many instants."""
    low, high = log.facts.time_range
    if log.facts.has_timestamps:
        steps = [seconds * SECOND for seconds in NICE_SECONDS]
        steps += [86400 * SECOND * 2**i for i in range(20)]
    else:
        steps = [digit * 10**exponent for exponent in range(18) for digit in (1, 2, 5)]
    return [step for step in steps if (high - low) // step < most_instants(log.facts)]


def _near(steps: Sequence[int], chosen: int, log: RequestLog) -> list[int]:
    """List the chosen step and the few nearest to it that are no longer than the log."""
    low, high = log.time_range
    fitting = [step for step in steps if step <= high - low]
    around = sorted(sorted(fitting, key=lambda step: abs(np.log(step / chosen)))[: NUM_STEPS - 1])
    return sorted({*around, chosen})


def _list_lengths(grid: TimeGrid, chosen: int | None) -> list[int]:
    least = grid.num_instants / MAX_WINDOWS
    fitting = {length for length in NICE_LENGTHS if least <= length < grid.num_instants}
    return sorted({*fitting, grid.num_instants} if chosen is None else {*fitting, chosen})
