"""The stages from a log to a release on several workers, in order. Read this first.

::

    exchange_log           row groups       -> parts of the log, by user       survey
    place_log              parts of the log -> the same on the plane           survey
    lay_out_log            small answers    -> grid, region, windows           survey
    check_spread_requests  counts of values -> Treatment                       requests
    build_shares           part of the log  -> shares of windows, by user      partition
    bundle_by_tree         shares           -> bundles, by key (traj-anon)     bundling
    bundle_by_blocks       shares           -> bundles, by block (refined)     blocks
    order_bundles          bundles          -> ranges of bundles, by cloaks    publishing
    SpreadRelease.write    ranges           -> release folder                  publishing

Whatever holds a row, a trajectory or a user stays with the workers; the client sees counts,
bounds, samples of keys, distinct requests, and the rows of subtrees' roots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.engines.blocks import bundle_by_blocks
from trajcloak.engines.bundling import Bundled, Meeting, bundle_by_tree
from trajcloak.engines.engine import Engine, Handle, fetch
from trajcloak.engines.partition import Scene, build_shares, count_left_out, count_participants
from trajcloak.engines.publishing import Range, SpreadRelease, order_bundles, total_range
from trajcloak.engines.requests import check_spread_requests
from trajcloak.engines.sources import Source
from trajcloak.engines.subtrees import Counts, Task
from trajcloak.engines.survey import (
    build_spread_ingest,
    check_spread_misplaced,
    compare_spread_reports,
    exchange_log,
    lay_out_log,
    place_log,
)
from trajcloak.errors import InputError, OptionError
from trajcloak.hygiene import RareColumn
from trajcloak.log import LogSummary
from trajcloak.manifest import LeftOut, build_manifest, merge_totals
from trajcloak.options import SWAPPED, LogColumns, Options
from trajcloak.pipeline import nobody_left, too_few_users
from trajcloak.progress import Progress, silent
from trajcloak.published import Manifest
from trajcloak.release import Release, place_box
from trajcloak.space import Places, Region, check_height
from trajcloak.trajectories import Ingest, judge_conflicts

SPREAD_ALGORITHMS = ("traj-anon", "refined")


@dataclass(frozen=True)
class Sizes:
    """How much a worker holds at a time; decides about time and memory.

    Attributes
    ----------
    rows : int
        Rows of the log in a part.
    cells : int
        Users times instants in a range of the key order, or in a block of ``refined``.
    bundles : int
        Least number of bundles of k users in a block of ``refined``, however long the window
        is: bundles cannot reach across the edges of a block.
    """

    rows: int = 1 << 22
    cells: int = 1 << 22
    bundles: int = 400


MAX_PARTS = 1 << 11
"""Parts exchange as many pieces as there are pairs of them, so very large logs get larger parts."""


def choose_sizes(num_rows: int) -> Sizes:
    """Choose how much a worker holds at a time for a log of so many rows."""
    most = -(-num_rows // MAX_PARTS)
    return Sizes(max(Sizes.rows, most), max(Sizes.cells, most))


@dataclass(frozen=True)
class SpreadResult:
    """What a plan made: a release to publish, whose bundles are with the workers.

    Attributes
    ----------
    release : SpreadRelease
    rare : tuple of RareColumn
        Attributes with values that few users sent. Private: it is no part of the release.
    """

    release: SpreadRelease
    rare: tuple[RareColumn, ...]

    @property
    def manifest(self) -> Manifest:
        """The content of ``manifest.json``."""
        return self.release.head.manifest

    def write(
        self,
        release: str | Path,
        policy: str | Path | None = None,
        *,
        progress: Progress = silent,
    ) -> None:
        """Write the release and, if asked for, the policy file: both or neither."""
        progress("writing release", 0, 1)
        self.release.write(
            Path(release).absolute(), None if policy is None else Path(policy).absolute()
        )
        progress("writing release", 1, 1)


def run_plan(
    engine: Engine,
    source: Source,
    columns: LogColumns,
    asked: Options,
    sizes: Sizes,
    progress: Progress = silent,
) -> SpreadResult:
    """Bundle the users of a log that is spread over workers."""
    check_supported(asked, columns)
    check_height(asked.height)
    progress("reading log", 0, 4)
    log, numbers = exchange_log(engine, source, columns, sizes.rows)
    progress("reading log", 2, 4)
    summary = log.summary
    if asked.region is None:
        check_spread_misplaced(engine, log)
    log, crs = place_log(engine, log, numbers)
    scene = lay_out_log(engine, log, asked, crs)
    rare, treatment = check_spread_requests(engine, log.parts, log.kinds, scene)
    progress("reading log", 4, 4)
    kinds = log.kinds if treatment is None else treatment.kinds
    try:
        *shares, attendance = engine.exchange(
            build_shares,
            [(*part, i, scene, engine.threads) for i, part in enumerate(log.parts)],
            len(scene.ranges) + 1,
        )
        present = engine.ask(count_participants, [(part,) for part in attendance])
    except InputError:
        # Rows of a part contradict each other; the message is to name those of all parts.
        judge_conflicts(compare_spread_reports(engine, log, 0))
        raise
    num_users = np.sum([counts for counts, _ in present], axis=0).tolist()
    ingest = build_spread_ingest(engine, log, scene, [located for _, located in present])
    is_published = [count >= asked.k for count in num_users]
    if not any(is_published):
        raise too_few_users(max(num_users, default=0), summary.num_users, asked.k)
    task = Task(
        asked.k,
        scene.region.height,
        asked.cloak,
        asked.tree,
        asked.suppress_above and asked.suppress_above / scene.region.cell**2,
        asked.max_suppressed,
        log.kinds.num_rows,
        treatment,
    )
    bundled: list[Bundled] = []
    ranges: list[Range] = []
    marks = np.zeros(kinds.num_rows, np.bool_)
    for number, (start, stop) in enumerate(scene.ranges.tolist()):
        progress("bundling", number, len(num_users))
        if not is_published[number]:
            bundled.append(Bundled())
            continue
        meeting = Meeting(number, stop - start, num_users[number], shares[number])
        users = max(1, sizes.cells // (stop - start))
        if asked.algorithm == "refined":
            users = max(users, sizes.bundles * asked.k)
            found = bundle_by_blocks(engine, meeting, task, asked.effort, users)
        else:
            found = bundle_by_tree(engine, meeting, task, users)
        of_window, is_held = _total(engine, found, meeting, scene.region, kinds.num_rows)
        if not of_window:
            raise nobody_left(number)
        ranges += of_window
        marks |= is_held
        bundled.append(Bundled((), found.counts, found.num_blocks))
    progress("bundling", len(num_users), len(num_users))
    left_out = _count_left_out(engine, attendance, bundled, is_published)
    manifest = _build_manifest(summary, scene, ranges, left_out, ingest, kinds.column_names)
    num_blocks = [found.num_blocks for found in bundled if found.counts]
    if max(num_blocks) > 1:
        manifest["parameters"]["blocks"] = sum(num_blocks)
    total = merge_totals([r.totals for r in ranges])
    head = Release(
        manifest=manifest,
        windows=(),
        kinds=kinds.take(pa.array(np.flatnonzero(marks))),
        region=scene.region,
        moments=(scene.grid.origin, scene.grid.every) if summary.has_timestamps else None,
        zone=summary.zone,
        box=place_box(scene.region, total.low, total.high),
    )
    kind_number = np.cumsum(marks, dtype=np.int32) - np.int32(1)
    return SpreadResult(SpreadRelease(engine, head, ranges, kind_number), rare)


def check_supported(asked: Options, columns: LogColumns) -> None:
    """Raise if something is asked for that only the local engine does."""
    if SWAPPED in columns.drop:
        raise OptionError(
            f"rows are to be dropped that are {SWAPPED}, which takes a look at the whole log; "
            f"expected other reasons on an engine of several workers; leave out --drop {SWAPPED}, "
            f"or --engine"
        )
    if asked.algorithm not in SPREAD_ALGORITHMS:
        raise OptionError(
            f"the algorithm is {asked.algorithm}; an engine of several workers has "
            f"{' and '.join(SPREAD_ALGORITHMS)}; pass another --algorithm, or leave out --engine"
        )
    if asked.algorithm == "refined" and asked.max_suppressed is not None:
        raise OptionError(
            "a budget for suppression is given; with refined, an engine of several workers expects "
            "a price; pass --suppress-above or --algorithm traj-anon, or leave out --engine"
        )


def _total(
    engine: Engine, found: Bundled, meeting: Meeting, region: Region, num_kinds: int
) -> tuple[list[Range], npt.NDArray[np.bool_]]:
    """Sort the bundles of a window into ranges, and add them up."""
    ordered = order_bundles(engine, found)
    totals = engine.ask(total_range, [(part, region, num_kinds) for part in ordered])
    ranges = [
        Range(part, meeting.number, total, meeting.length)
        for part, (total, _) in zip(ordered, totals, strict=True)
        if total is not None
    ]
    return ranges, np.any([is_held for _, is_held in totals], axis=0)


def _count_left_out(
    engine: Engine,
    attendance: Sequence[Handle],
    bundled: Sequence[Bundled],
    is_published: Sequence[bool],
) -> LeftOut:
    """Count who and what is not published."""
    counted: list[list[Counts]] = [fetch(engine, found.counts) for found in bundled]
    gone = [[(c.part, c.user) for c in of_window if len(c.user)] for of_window in counted]
    left_out = LeftOut(0)
    shared = engine.put(gone)
    for part in engine.ask(
        count_left_out, [(part, i, is_published, shared) for i, part in enumerate(attendance)]
    ):
        left_out.merge(part)
    for of_window in counted:
        for counts in of_window:
            left_out.merge(counts.left_out)
    return left_out


def _build_manifest(
    summary: LogSummary,
    scene: Scene,
    ranges: Sequence[Range],
    left_out: LeftOut,
    ingest: Ingest,
    attributes: Sequence[str],
) -> Manifest:
    windows = {r.window: r.length for r in ranges}
    totals = [
        (length, merge_totals([r.totals for r in ranges if r.window == number]))
        for number, length in windows.items()
    ]
    left_out.add_outside(summary.num_requests)
    return build_manifest(
        summary,
        scene.asked,
        scene.grid,
        scene.max_gap,
        Places(np.empty(0), np.empty(0), scene.region, scene.crs),
        totals,
        left_out,
        ingest,
        attributes,
    )
