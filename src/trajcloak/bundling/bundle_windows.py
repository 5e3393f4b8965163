"""All windows of a log to bundles, in the order in which they are published."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.refined import Refined
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.bundles import Bundles, join_bundles
from trajcloak.bundling.key_ranges import BundledWindow, LargeWindow, bundle_by_tree
from trajcloak.bundling.near_blocks import bundle_by_blocks
from trajcloak.bundling.runs import (
    BUNDLING,
    BundlingTask,
    RankedBundles,
    Total,
    Unpublished,
    bundle_run,
    bundle_shard,
    total_bundles,
)
from trajcloak.cloaks import encode_cloaks, order_by_cloaks
from trajcloak.engines.engine import Engine, Handle, Sizes
from trajcloak.errors import OptionError
from trajcloak.kernels.sort import group_by_number
from trajcloak.log import ShardedLog
from trajcloak.log.sharded_log import call_on_shard
from trajcloak.release.manifest import LeftOut
from trajcloak.release.result import BundleRange
from trajcloak.space import Region
from trajcloak.trajectories import Layout, Located
from trajcloak.window_inputs import BUILDING, ShardPresence, cut_shard

RUNS_PER_CALL = 4
"""Runs of windows for each call that an engine runs side by side, so that all end together."""

CLOAKS_PER_PART = 64
"""Cloak sequences of each part that are drawn to find where to cut their order."""


class BundledLog:
    """The bundles of all windows, whose ``lengths`` are given, as they are found."""

    def __init__(self, lengths: Sequence[int]) -> None:
        # Of each window; none where too few users take part, or all are suppressed.
        self.ranges: list[list[BundleRange]] = [[] for _ in lengths]
        self.unpublished: list[list[Unpublished]] = [[] for _ in lengths]
        self.num_users: list[int] = []  # Participants of each window.
        self.located = Located()
        # Of each shard, its :class:`ShardPresence`, run by run if it is the only shard.
        self.presences: list[list[Handle]] = []
        # What is to be dropped when presences are not needed any more.
        self.inputs: Sequence[Handle] = ()
        self._lengths = lengths
        self._num_blocks = [1] * len(lengths)

    @property
    def num_blocks(self) -> int:
        """Blocks of ``refined`` in all windows; 0 if none was taken apart."""
        numbers = [n for n, found in zip(self._num_blocks, self.ranges, strict=True) if found]
        return sum(numbers) if max(numbers, default=1) > 1 else 0

    def add_runs(
        self, runs: Sequence[range], handles: Sequence[Handle], summaries: Sequence[Any]
    ) -> None:
        """Add windows that were bundled whole; see :data:`trajcloak.bundling.runs.RunResults`."""
        for run, handle, windows in zip(runs, handles, summaries, strict=True):
            for place, (number, (total, unpublished)) in enumerate(zip(run, windows, strict=True)):
                if unpublished is not None:
                    self.unpublished[number].append(unpublished)
                if total is not None:
                    length = self._lengths[number]
                    self.ranges[number].append(BundleRange(handle, place, length, *total))

    def add_large(
        self, engine: Engine, window: LargeWindow, bundled: BundledWindow, region: Region
    ) -> None:
        """Add a window that was taken apart."""
        number = window.number
        ordered, totals = order_bundles(engine, bundled.ranked, region)
        for of_range, total in zip(ordered, engine.collect(totals), strict=True):
            if total is not None:
                self.ranges[number].append(BundleRange(of_range, 0, window.length, *total))
        self.unpublished[number] += engine.collect(bundled.unpublished)
        self._num_blocks[number] = bundled.num_blocks


def bundle_windows(
    log: ShardedLog,
    layout: Layout,
    task: BundlingTask,
    sizes: Sizes,
    let_go: Callable[[Located], None],
) -> BundledLog:
    """Bundle the participants of every window.

    ``let_go`` is called when windows are cut and bundling does not need the log any more.
    """
    engine = log.engine
    lengths = np.diff(layout.ranges)[:, 0].tolist()
    runs = choose_runs([log.facts.num_users * n for n in lengths], sizes.cells, engine.parallel)
    found = BundledLog(lengths)
    shared, rest = engine.put(task), (engine.threads, engine.inner_progress)
    fits = all(log.facts.num_users * n <= sizes.cells for n in lengths)
    if len(log.shards) == 1 and len(lengths) != 1 and fits:
        # Windows are cut as they are bundled: all of them may be more than the log.
        jobs = [(bundle_shard, log.shards[0], layout, run, shared, *rest) for run in runs]
        results, summaries, presence, counted = engine.shuffle(call_on_shard, jobs, 4, BUNDLING)
        counts = engine.collect(counted)
        found.num_users = list(chain.from_iterable(of_run for of_run, _ in counts))
        found.located = _add_located(counts)
        found.presences = [list(presence)]
        found.add_runs(runs, results, engine.collect(summaries))
        let_go(found.located)
        return found
    cut_jobs = [
        (cut_shard, shard, number, layout, runs, *rest) for number, shard in enumerate(log.shards)
    ]
    *found.inputs, presence, counted = engine.shuffle(
        call_on_shard, cut_jobs, len(runs) + 2, BUILDING
    )
    counts = engine.collect(counted)
    found.num_users = np.sum([of_shard for of_shard, _ in counts], axis=0).tolist()
    found.located = _add_located(counts)
    found.presences = [[of_shard] for of_shard in presence]
    let_go(found.located)
    whole: list[int] = []
    large: list[tuple[LargeWindow, int]] = []
    for r, run in enumerate(runs):
        number, num_users, length = run[0], found.num_users[run[0]], lengths[run[0]]
        pieces = _count_pieces(task, sizes, num_users, length) if len(run) == 1 else 1
        if pieces > 1:
            large.append((LargeWindow(number, length, num_users, found.inputs[r]), pieces))
        else:
            _check_fits(sizes, run, found.num_users, lengths)
            whole.append(r)
    run_jobs = [(found.inputs[r], shared, *rest) for r in whole]
    results, summaries = engine.shuffle(bundle_run, run_jobs, 2, BUNDLING)
    found.add_runs([runs[r] for r in whole], results, engine.collect(summaries))
    bundle = bundle_by_tree if isinstance(task.algorithm, TrajAnon) else bundle_by_blocks
    for window, pieces in large:
        engine.progress(BUNDLING, window.number, len(lengths))
        found.add_large(engine, window, bundle(engine, window, task, pieces), layout.region)
    engine.progress(BUNDLING, len(lengths), len(lengths))
    return found


def _add_located(counts: Sequence[tuple[list[int], Located]]) -> Located:
    return reduce(Located.plus, (located for _, located in counts), Located())


def choose_runs(cells: Sequence[int], most: int, parallel: int) -> list[range]:
    """Cut the windows into runs of neighbours.

    ``cells`` is how many users times instants each window has, at most. A run may have ``most`` of
    them; a larger window is a run of its own. ``parallel`` calls run side by side, and are to share
    the runs evenly.

    Examples
    --------
    >>> choose_runs([4, 4, 4, 9, 1], 8, 1)
    [range(0, 2), range(2, 3), range(3, 4), range(4, 5)]
    """
    if parallel > 1:
        most = min(most, -(-sum(cells) // (RUNS_PER_CALL * parallel)))
    runs: list[range] = []
    held = 0
    for number, size in enumerate(cells):
        held += size
        if runs and held <= most:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
            held = size
    return runs


def _count_pieces(task: BundlingTask, sizes: Sizes, num_users: int, length: int) -> int:
    """Count the pieces that a window is taken apart into; 1: it is bundled whole, if at all."""
    users = max(1, sizes.cells // length)
    if num_users < task.members:
        return 1
    if isinstance(task.algorithm, TrajAnon):
        return -(-num_users // users)
    if isinstance(task.algorithm, Refined):
        return num_users // max(users, sizes.bundles * task.members)
    return 1


def _check_fits(sizes: Sizes, run: range, num_users: Sequence[int], lengths: Sequence[int]) -> None:
    """Raise if a window that is bundled whole does not fit into bounded memory."""
    for number in run:
        if num_users[number] * lengths[number] > sizes.window_cells:
            raise OptionError(
                f"window {number} has {num_users[number]:,} users at {lengths[number]:,} instants, "
                f"which do not fit into the memory that is left besides what the program itself "
                f"needs; expected windows that fit; pass a smaller --length, a larger --memory, or "
                f"--algorithm=traj-anon, which takes windows apart"
            )


def count_left_out(
    presence: Sequence[ShardPresence],
    shard: int,
    is_published: Sequence[bool],
    suppressed: Sequence[Sequence[tuple[Any, Any]]],
) -> LeftOut:
    """Count who of a shard is not published, and why.

    ``suppressed`` are, window by window, the shards and positions of suppressed users.
    """
    left_out = LeftOut()
    num_users = presence[0].num_users
    published = np.zeros(num_users, np.bool_)
    on_purpose = np.zeros(num_users, np.bool_)
    windows = [window for part in presence for window in part.windows]
    for window, is_shown, gone in zip(windows, is_published, suppressed, strict=True):
        left_out.num_requests += window.left_out_requests + window.requests
        left_out.add("missing_location", window.left_out_users, window.left_out_requests)
        if not is_shown:
            left_out.add("small_window", window.reported, window.requests)
            continue
        shown = np.unpackbits(window.participants, count=num_users).astype(np.bool_)
        for of_shard, user in gone:
            mine = user[of_shard == shard]
            shown[mine] = False
            on_purpose[mine] = True
        published |= shown
    left_out.published_users = int(published.sum())
    left_out.gone_users = int((~published & ~on_purpose).sum())
    return left_out


def order_bundles(
    engine: Engine, found: Sequence[Handle], region: Region
) -> list[Sequence[Handle]]:
    """Sort the bundles of a large window into ranges, in the order in which they are numbered.

    They are numbered by their cloak sequences (invariant 2 of ``docs/guarantee.md``), so they
    are cut into ranges of that order, and each range is sorted on its own.

    Returns handles of what :func:`join_range` yields of each range.
    """
    samples = engine.ask(sample_cloaks, [(ranked,) for ranked in found])
    cuts = choose_cuts(samples, len(found))
    shared = engine.put(cuts)
    pieces = engine.shuffle(split_by_cloaks, [(ranked, shared) for ranked in found], len(cuts) + 1)
    ordered = engine.shuffle(join_range, [(of_range, region) for of_range in pieces], 2)
    engine.drop(pieces)
    return ordered


def sample_cloaks(ranked: RankedBundles) -> npt.NDArray[np.void]:
    """Draw some cloak sequences, evenly from the sorted bundles."""
    cloaks = ranked.bundles.cloaks
    chosen = np.unique(
        np.linspace(0, len(cloaks) - 1, min(CLOAKS_PER_PART, len(cloaks))).astype(np.int64)
    )
    return encode_cloaks(cloaks[chosen])


def choose_cuts(samples: Sequence[npt.NDArray[np.void]], num_ranges: int) -> npt.NDArray[np.void]:
    """Choose up to ``num_ranges - 1`` cloak sequences, ascending, that cut the bundles evenly."""
    every = np.sort(np.concatenate(samples))
    if not len(every):
        return every
    return np.unique(every[[len(every) * i // num_ranges for i in range(1, num_ranges)]])


def split_by_cloaks(
    ranked: RankedBundles, cuts: npt.NDArray[np.void]
) -> Iterator[list[RankedBundles]]:
    """Cut bundles into ranges of the order of cloak sequences."""
    place = np.searchsorted(cuts, encode_cloaks(ranked.bundles.cloaks), side="right")
    chosen, first = group_by_number(place, len(cuts) + 1)
    groups = [chosen[first[i] : first[i + 1]] for i in range(len(cuts) + 1)]
    yield [RankedBundles(ranked.bundles.take(group), ranked.rank[group]) for group in groups]


def join_range(
    found: Sequence[RankedBundles], region: Region
) -> Iterator[tuple[list[Bundles], Total]]:
    """Put the bundles of a range together, in the order in which they are numbered.

    Yields them as if they were a window of a run, and what they add up to.
    """
    bundles = join_bundles([ranked.bundles for ranked in found])
    rank = np.concatenate([ranked.rank for ranked in found])
    by_rank = np.lexsort(rank.T[::-1])
    order = by_rank[order_by_cloaks(bundles.cloaks[by_rank], bundles.sizes[by_rank])]
    if bundles.parts is not None:
        order = bundles.parts.break_ties(order, bundles.cloaks, bundles.sizes)
    ordered = bundles.take(order)
    yield [ordered], total_bundles(ordered, region)
