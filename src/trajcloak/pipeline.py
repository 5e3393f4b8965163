"""The stages from a log to a release, in order, for every engine. Read this first.

::

    read_shards     files                -> ShardedLog                   trajcloak.log
    lay_out         ShardedLog           -> Layout: instants, windows,   trajcloak.trajectories
                                            region; rows on the plane
    cut_shard       shard                -> WindowInput of each window   trajcloak.window_inputs
    bundle_run      WindowInputs         -> Bundles of small windows     trajcloak.bundling
    bundle_by_tree  WindowInputs         -> Bundles of a large window    trajcloak.bundling
    order_bundles   Bundles              -> the same, in published order trajcloak.bundling
    decide_requests eligible sets        -> requests to publish          trajcloak.requests
    RunResult.write Bundles              -> release folder               trajcloak.release

An engine (:mod:`trajcloak.engines`) holds the shards and calls the functions: whatever holds
a row, a trajectory or a user stays with it. What is decided here rests on counts, bounds,
samples of keys and distinct requests.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trajcloak.algorithms import Algorithm, build_algorithm
from trajcloak.bundling.bundle_windows import BundledLog, bundle_windows, count_left_out
from trajcloak.bundling.runs import BundlingTask, Unpublished
from trajcloak.engines.engine import Engine, MemoryEngine
from trajcloak.engines.folder import (
    FolderEngine,
    list_unmoved,
    name_work_folder,
    open_work_folder,
    parse_memory,
)
from trajcloak.errors import OptionError, Refusals
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import LogPath, RequestLog, ShardedLog, hold_in_memory, read_shards
from trajcloak.log.files import count_rows, list_files
from trajcloak.log.sharded_log import build_shard
from trajcloak.options import DAY, KEEP, PER_WINDOW, LogColumns, Options
from trajcloak.parts import PartSettings
from trajcloak.progress import Progress, silent
from trajcloak.release.manifest import LeftOut, build_figures, build_manifest, merge_totals
from trajcloak.release.published_rows import ReleaseHead, place_box
from trajcloak.release.reading import check_outputs, check_outside_log, name_private_files
from trajcloak.release.result import RunResult
from trajcloak.requests.decide import WindowKinds, check_request_options, decide_requests
from trajcloak.requests.suspicions import check_values
from trajcloak.trajectories import (
    Layout,
    Located,
    Window,
    WindowCutter,
    build_ingest,
    check_conflicts,
    check_log,
    check_rows,
    compare_all_reports,
    lay_out,
    too_few_users,
)
from trajcloak.version import __version__
from trajcloak.window_inputs import BUILDING

HASHED_BYTES = 1 << 16  # at either end of each file of the log, to tell whether it is the same


def anonymize_log(
    log: RequestLog,
    asked: Options,
    algorithm: Algorithm | None = None,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> RunResult:
    """Bundle the users of a log in memory, by ``algorithm`` or by that of the options."""
    return run_plan(hold_in_memory(log, MemoryEngine(threads, progress)), asked, algorithm)


def anonymize_again(
    source: LogPath,
    columns: LogColumns,
    asked: Options,
    request_log: LogPath | None = None,
    progress: Progress = silent,
) -> RunResult:
    """Read a log and bundle its users in memory, as the audit does to compare the groups."""
    return anonymize_on(MemoryEngine(progress=progress), source, columns, asked, request_log)


def anonymize_on(
    engine: Engine,
    source: LogPath,
    columns: LogColumns,
    asked: Options,
    request_log: LogPath | None = None,
    algorithm: Algorithm | None = None,
) -> RunResult:
    """Read a log and bundle its users on an engine; see :func:`anonymize_log`."""
    return run_plan(read_shards(engine, source, columns, request_log), asked, algorithm)


def anonymize_files(
    source: LogPath,
    release: Path,
    policy: Path | None,
    columns: LogColumns,
    asked: Options,
    *,
    request_log: LogPath | None = None,
    memory: str | int,
    resume: bool = False,
    threads: int | None = None,
    progress: Progress = silent,
) -> RunResult:
    """Turn a log that may be larger than memory into a release, in a run that can be continued.

    The files are those that a run in memory would have made. Its work stands in a private
    folder beside the release until the release is complete.

    ``memory`` is the most that the process may take, such as ``4GiB``. ``resume``: continue a run
    that was interrupted, with the same log and options, if there is one; otherwise such a run in
    the way is an error.
    """
    limit = parse_memory(memory)
    threads = choose_threads(threads)
    files = [list_files(given) for given in (source, request_log) if given is not None]
    if not all(isinstance(file, Path) for of_log in files for file in of_log):
        raise OptionError("the log is a table in memory; expected files; leave out memory")
    folder = name_work_folder(release)
    private = name_private_files(policy, asked.parts_per)
    check_outside_log([source, request_log], [release, *private])
    check_outputs(release, list_unmoved(folder, private))
    if columns.is_report is None:
        _check_cut(FolderEngine(folder, limit), files[0], asked)
    # What must be the same for a run to be continued.
    fingerprint = {
        "log files": [[_identify_file(file) for file in of_log] for of_log in files],
        "log options": asdict(columns),
        "options": asdict(asked),
        "software": __version__,
        "policy file": None if policy is None else str(policy.absolute()),
    }
    with open_work_folder(folder, fingerprint, limit, resume=resume) as known_limit:
        engine = FolderEngine(folder, known_limit, threads, progress)
        made = anonymize_on(engine, source, columns, asked, request_log)
        made.write(release, policy, progress=progress)
        return made


def _check_cut(engine: Engine, files: Sequence[Path], asked: Options) -> None:
    """Raise, before anything is read, if a log that does not fit is to be one window."""
    num_rows = count_rows(files)
    is_one = asked.length is None and asked.windows is None and asked.align != DAY
    limit = engine.choose_sizes(num_rows).window_cells
    if is_one and num_rows > limit and asked.algorithm != "traj-anon":
        raise OptionError(
            f"the {num_rows:,} rows of the log are one window, of which {limit:,} fit into the "
            f"memory that is left besides what the program itself needs; expected windows that "
            f"fit; pass --length, a larger --memory, or --algorithm=traj-anon, which takes windows "
            f"apart"
        )


def _identify_file(file: Path) -> list[Any]:
    found = file.stat()
    ends = hashlib.blake2b(digest_size=16)
    with file.open("rb") as stream:
        ends.update(stream.read(HASHED_BYTES))
        stream.seek(max(0, found.st_size - HASHED_BYTES))
        ends.update(stream.read(HASHED_BYTES))
    return [str(file.absolute()), found.st_size, found.st_mtime_ns, ends.hexdigest()]


def run_plan(log: ShardedLog, asked: Options, algorithm: Algorithm | None = None) -> RunResult:
    """Bundle the users of a log in shards."""
    facts, engine = log.facts, log.engine
    refusals = Refusals(facts.refusals)
    with refusals.collecting():
        check_request_options(log.kinds, asked)
    log, layout, reports = check_log(log, asked, refusals)
    task = BundlingTask(
        asked.k,
        asked.bundle_size,
        layout.region,
        asked.cloak,
        algorithm or choose_algorithm(asked, layout.region.cell),
        log.kinds.num_rows,
        asked.link_safe,
        None if asked.parts is None else PartSettings(asked.parts, asked.parts_per),
    )
    checks_values = asked.rare == KEEP and asked.vocabulary is None

    def let_go(located: Located) -> None:
        nonlocal reports
        if reports is None and located.reported != facts.num_rows:
            reports = compare_all_reports(log, layout.max_gap)
            check_rows(log, asked, reports, refusals)
            refusals.check()
        if not checks_values:
            log.drop()

    # What reading has freed goes back to the system before bundling asks for more.
    pa.default_memory_pool().release_unused()
    bundled = bundle_windows(log, layout, task, engine.choose_sizes(facts.num_rows), let_go)
    _check_published(bundled, asked.bundle_size, facts.num_users)
    if checks_values:
        check_values(log, list(chain.from_iterable(bundled.ranges)), log.kinds, asked.allow)
        log.drop()
    left_out = _count_left_out(engine, bundled, asked.bundle_size)
    engine.drop(bundled.inputs)
    found = [
        _collect_kinds(unpublished)
        for of_window, unpublished in zip(bundled.ranges, bundled.unpublished, strict=True)
        if of_window
    ]
    published = [of_window for of_window in bundled.ranges if of_window]
    decided = decide_requests(
        engine, published, found, log.kinds, asked, is_text=facts.has_text_requests
    )
    ranges = list(chain.from_iterable(decided.windows))
    num_requests = sum(r.num_requests for r in ranges)
    totals = [
        (of_window[0].length, merge_totals([r.totals for r in of_window]))
        for of_window in decided.windows
    ]
    manifest = build_manifest(
        facts,
        layout,
        totals,
        left_out,
        build_ingest(facts, layout.grid, layout.max_gap, bundled.located, reports),
        decided.kinds.column_names,
        num_requests,
        bundled.num_blocks,
    )
    total = merge_totals([r.totals for r in ranges])
    head = ReleaseHead(
        layout.crs,
        decided.kinds,
        layout.region,
        (layout.grid.origin, layout.grid.every) if facts.has_timestamps else None,
        facts.zone,
        place_box(layout.region, total.low, total.high),
        None if asked.parts is None else asked.parts_per,
    )
    figures = build_figures(facts, left_out, decided.counts, num_requests)
    return RunResult(manifest, figures, head, ranges, engine)


def _collect_kinds(unpublished: Sequence[Unpublished]) -> WindowKinds:
    """Add up how often each distinct request of a window was sent."""
    kind, place = np.unique(
        np.concatenate([u.counts.kind for u in unpublished]), return_inverse=True
    )
    sent = np.concatenate([u.counts.sent for u in unpublished])
    return WindowKinds(kind, np.bincount(place, sent, minlength=len(kind)).astype(np.int64))


def choose_algorithm(asked: Options, cell: float) -> Algorithm:
    """Build the algorithm that is asked for; ``cell`` is the side of a cell."""
    return build_algorithm(
        asked.algorithm,
        seed=asked.seed,
        tree=asked.tree,
        effort=asked.effort,
        suppress_above=asked.suppress_above and asked.suppress_above / cell**2,
        max_suppressed=asked.max_suppressed,
        # Where the number of members is given, bundles are not enlarged for parts per instant.
        parts=asked.parts if asked.parts_per == PER_WINDOW or asked.members is None else None,
        parts_per=asked.parts_per,
    )


def _check_published(bundled: BundledLog, members: int, num_users: int) -> None:
    """Raise if no window has enough users, or all participants of one would be left out."""
    largest = max(bundled.num_users, default=0)
    if largest < members:
        raise too_few_users(largest, num_users, members)
    for window, count in enumerate(bundled.num_users):
        if count >= members and not bundled.ranges[window]:
            raise OptionError(
                f"window {window}: everybody would be left out; expected a price above the cost of "
                f"the cheapest bundle; pass a higher --suppress-above"
            )


def _count_left_out(engine: Engine, bundled: BundledLog, members: int) -> LeftOut:
    """Count who and what is not published."""
    suppressed = [
        [(part.shard, part.user) for part in of_window if len(part.user)]
        for of_window in bundled.unpublished
    ]
    is_published = [count >= members for count in bundled.num_users]
    shared = engine.put(suppressed)
    presences = enumerate(bundled.presences)
    jobs = [(list(of_shard), shard, is_published, shared) for shard, of_shard in presences]
    left_out = LeftOut(num_windows=is_published.count(False))
    for of_shard in engine.ask(count_left_out, jobs):
        left_out.merge(of_shard)
    for part in chain.from_iterable(bundled.unpublished):
        left_out.add("suppressed", part.counts.reported, part.counts.suppressed_requests)
        left_out.add("few_reporters", 0, part.counts.few_reporters)
        left_out.num_suppressed += len(part.user)
        left_out.num_sets += part.counts.sets
    return left_out


@dataclass(frozen=True)
class Prepared:
    """A log in memory, laid out in time and space, ready to be cut into windows."""

    log: RequestLog  # On the plane.
    layout: Layout
    threads: int

    def windows(self, progress: Progress = silent) -> Iterator[Window]:
        """Yield the windows in order."""
        cutter = WindowCutter(self.log, self.layout)
        total = len(self.layout.ranges)
        for number in range(total):
            progress(BUILDING, number, total)
            yield cutter.cut(number, self.threads)
        progress(BUILDING, total, total)


def prepare(log: RequestLog, asked: Options, threads: int) -> Prepared:
    """Lay a log out in time and space; refuse it if a user is at two places at one time."""
    placed, layout = lay_out(hold_in_memory(log, MemoryEngine(threads)), asked)
    check_conflicts(compare_all_reports(placed, 0), log.files)
    return Prepared(build_shard(placed.shards[0]), layout, threads)
