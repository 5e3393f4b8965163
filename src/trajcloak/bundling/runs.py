"""Runs of windows, bundled whole by any algorithm, side by side."""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms import Algorithm, Policy
from trajcloak.bundles import Bundles, NotPublished, ShownKinds, build_bundles, count_shown
from trajcloak.kernels.threads import run_all
from trajcloak.log import RequestLog
from trajcloak.parts import PartSettings
from trajcloak.progress import Progress, silent
from trajcloak.release.manifest import Totals, add_up
from trajcloak.space import Region
from trajcloak.trajectories import Layout, WindowCutter
from trajcloak.window_inputs import (
    BUILDING,
    ShardPresence,
    WindowInput,
    WindowPresence,
    cut_input,
    join_inputs,
)

SMALL_CELLS = 1 << 21
"""Users times instants up to which a window gets one thread, and others run beside it."""

BUNDLING = "bundling windows"


class BundlingTask(NamedTuple):
    """What is public about the bundling of windows."""

    k: int
    members: int  # Least number of users in a bundle.
    region: Region
    cloak: str
    algorithm: Algorithm
    num_kinds: int  # Distinct requests of the log.
    keeps_rows: bool  # Whether bundles keep who has a row at which instant.
    parts: PartSettings | None  # How members are shown in parts.

    def solve(self, given: WindowInput, threads: int, progress: Progress = silent) -> Policy:
        """Bundle participants with the algorithm."""
        return self.algorithm.solve(
            given.window.cells,
            self.region.height,
            self.members,
            self.cloak,
            threads=threads,
            progress=progress,
        )


class Unpublished(NamedTuple):
    """What is not published of some participants of a window."""

    shard: npt.NDArray[np.int32]  # The shard and the position of each suppressed user.
    user: npt.NDArray[np.int32]
    counts: NotPublished


class RankedBundles(NamedTuple):
    """Some bundles of a window."""

    bundles: Bundles
    # (bundles, 2): where a bundle stands among all of its window if cloaks and sizes are the same.
    rank: npt.NDArray[np.int64]


def bundle_input(
    given: WindowInput, policy: Policy, task: BundlingTask, threads: int
) -> tuple[Bundles, npt.NDArray[np.int64], Unpublished]:
    """Build the bundles of a policy; returns also which bundle of the policy each of them is."""
    bundles, counts, order = build_bundles(
        given.window,
        given.ids,
        policy,
        task.num_kinds,
        task.k,
        members=task.members,
        settings=task.parts,
        cloak=task.cloak,
        keeps_rows=task.keeps_rows,
        threads=threads,
    )
    gone = policy.bundle < 0
    return bundles, order, Unpublished(given.shard[gone], given.window.user[gone], counts)


Total = tuple[Totals, ShownKinds] | None
"""What bundles of a window add up to, and which distinct requests they hold; None: no bundles."""


def total_bundles(bundles: Bundles, region: Region) -> Total:
    """Add up bundles of a window."""
    return (add_up(bundles, region), count_shown(bundles)) if len(bundles.sizes) else None


class WindowResult(NamedTuple):
    """What became of a window that is bundled whole; None where too few users take part."""

    bundles: Bundles | None
    total: Total
    unpublished: Unpublished | None


RunResults = tuple[list[Bundles | None], list[tuple[Total, Unpublished | None]]]
"""Of each window of a run: its bundles, and what is known of them and of whom they leave out."""


def bundle_run(
    shards: Sequence[Sequence[WindowInput]], task: BundlingTask, threads: int, progress: Progress
) -> Iterator[RunResults]:
    """Bundle a run of windows whose inputs come from several shards."""

    def bundle(number: int, threads: int, progress: Progress) -> WindowResult:
        whole = join_inputs([shard[number] for shard in shards])
        return bundle_whole(whole, task, threads, progress)

    windows = zip(*shards, strict=True)
    cells = [sum(given.window.cells.size // 2 for given in window) for window in windows]
    yield _run_side_by_side(bundle, cells, threads, progress)


def bundle_shard(
    log: RequestLog,
    layout: Layout,
    run: range,
    task: BundlingTask,
    threads: int,
    progress: Progress,
) -> Iterator[list[Any]]:
    """Cut a run of windows out of the only shard, and bundle them.

    Yields :data:`RunResults`, a :class:`ShardPresence`, and what it counts.
    """
    cutter = WindowCutter(log, layout)
    presences: list[WindowPresence | None] = [None] * len(run)

    def bundle(i: int, threads: int, progress: Progress) -> WindowResult:
        progress(BUILDING, i, len(run))
        given, presences[i] = cut_input(log, cutter, run[i], 0, threads)
        progress(BUILDING, i + 1, len(run))
        return bundle_whole(given, task, threads, progress)

    lengths = np.diff(layout.ranges[run.start : run.stop])[:, 0]
    results = _run_side_by_side(bundle, (log.num_users * lengths).tolist(), threads, progress)
    presence = ShardPresence(log.num_users, [p for p in presences if p is not None])
    yield [*results, presence, presence.count_users()]


def bundle_whole(
    given: WindowInput, task: BundlingTask, threads: int, progress: Progress
) -> WindowResult:
    """Bundle a window; None if too few users take part."""
    if given.num_users < task.members:
        return WindowResult(None, None, None)
    policy = task.solve(given, threads, progress)
    bundles, _, unpublished = bundle_input(given, policy, task, threads)
    return WindowResult(bundles, total_bundles(bundles, task.region), unpublished)


def _run_side_by_side(
    bundle: Callable[[int, int, Progress], WindowResult],
    cells: Sequence[int],
    threads: int,
    progress: Progress,
) -> RunResults:
    """Bundle windows in order: large ones with all threads, small ones next to each other.

    ``cells`` is the size of each window.
    """
    lock = threading.Lock()
    done = 0

    def is_alone(i: int) -> bool:
        return cells[i] > SMALL_CELLS or len(cells) == 1

    def run(i: int, threads: int) -> WindowResult:
        nonlocal done
        result = bundle(i, threads, progress if is_alone(i) else silent)
        with lock:
            done += 1
            if len(cells) > 1:
                progress(BUNDLING, done, len(cells))
        return result

    results: list[WindowResult] = []
    for alone, windows in groupby(range(len(cells)), is_alone):
        if alone:
            results += [run(i, threads) for i in windows]
        else:
            results += run_all(run, [(i, 1) for i in windows], threads)
    return [r.bundles for r in results], [(r.total, r.unpublished) for r in results]
