"""The decisions between the workers' steps of ``traj-anon``: cut, top, configuration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.traj_anon.forest import (
    Top,
    assign_top,
    build_top,
    count_held_below,
    decide,
    find_top_price,
    summarise_forest,
)
from trajcloak.algorithms.traj_anon.keys import build_layout
from trajcloak.algorithms.traj_anon.ranges import (
    Words,
    choose_splitters,
    count_common,
    merge_samples,
)
from trajcloak.engines.engine import Engine, Handle
from trajcloak.engines.subtrees import (
    Task,
    Told,
    bundle_range,
    bundle_top,
    count_ranges,
    find_ends,
    sample_ranges,
    sample_share,
    solve_range,
    sort_range,
    split_by_key,
)

SAMPLE = 64
"""Keys that are drawn for each range."""

MAX_RECUTS = 4
TOO_LARGE = 2.0
"""A range is cut again if it is larger than wanted by this factor."""


@dataclass(frozen=True)
class Meeting:
    """The participants of a window, spread over the workers.

    Attributes
    ----------
    number : int
    length : int
        Instants of the window.
    num_users : int
    shares : sequence of Handle
    """

    number: int
    length: int
    num_users: int
    shares: Sequence[Handle]


@dataclass(frozen=True)
class Bundled:
    """Bundles of a window, spread over the workers.

    Attributes
    ----------
    finished : sequence of Handle
        Of :class:`trajcloak.engines.finished.Finished`.
    counts : sequence of Handle
        Of :class:`trajcloak.engines.subtrees.Counts`.
    num_blocks : int
        How many blocks were bundled apart from each other.
    """

    finished: Sequence[Handle] = ()
    counts: Sequence[Handle] = ()
    num_blocks: int = 1


def bundle_by_tree(engine: Engine, meeting: Meeting, task: Task, users_per_range: int) -> Bundled:
    """Bundle the participants of a window with ``traj-anon``."""
    layout = build_layout(meeting.length, task.height, task.tree)
    wanted = -(-meeting.num_users // users_per_range)
    splitters, counts = choose_ranges(engine, meeting, task, wanted)
    shared = engine.put(splitters)
    pieces = engine.exchange(
        split_by_key, [(share, task, shared) for share in meeting.shares], len(splitters) + 1
    )
    chosen = np.flatnonzero(counts)
    ranges = engine.run(sort_range, [(pieces[r], task, engine.threads) for r in chosen.tolist()])
    del pieces
    ends = engine.ask(find_ends, [(part, task) for part in ranges])
    first, last = np.stack(ends).transpose(1, 0, 2)
    common = count_common(last[:-1], first[1:])
    edges = list(pairwise([-1, *common.tolist(), -1]))
    forests = engine.run(
        solve_range,
        [(part, task, *edge, engine.threads) for part, edge in zip(ranges, edges, strict=True)],
    )
    top = build_top(
        engine.ask(summarise_forest, [(forest,) for forest in forests]),
        layout,
        task.k,
    )
    if task.max_suppressed is not None:
        task = task._replace(price=_find_price(engine, top, forests, meeting, task.max_suppressed))
    passed_up, of_item = decide(top, task.k, task.price)
    top_bundle, node, rising = assign_top(top, passed_up, of_item)
    item_ends = np.cumsum(top.per_range)[:-1]
    place = np.append(0, np.cumsum(counts[chosen]))
    jobs = [
        (part, forest, task, Told(*told), engine.threads)
        for part, forest, *told in zip(
            ranges,
            forests,
            np.split(of_item, item_ends),
            np.split(top_bundle, np.cumsum(rising)[:-1]),
            place[:-1].tolist(),
            strict=True,
        )
    ]
    finished, for_top, left_out = engine.exchange(bundle_range, jobs, 3)
    if len(node):
        rank = np.column_stack([top.tree.stop[node].astype(np.int64), -top.tree.depth[node]])
        depth = top.tree.depth[node]
        above = engine.exchange(bundle_top, [(for_top, task, depth, rank, engine.threads)], 2)
        finished = [*finished, *above[0]]
        left_out = [*left_out, *above[1]]
    return Bundled(finished, left_out)


def _find_price(
    engine: Engine, top: Top, forests: Sequence[Handle], meeting: Meeting, share: float
) -> float | None:
    """Find the price that leaves out at most a share of the participants."""

    def count(prices: list[float]) -> list[int]:
        jobs = [(forest, prices) for forest in forests]
        total: list[int] = np.sum(engine.ask(count_held_below, jobs), axis=0).tolist()
        return total

    return find_top_price(top, math.floor(share * meeting.num_users), count)


def choose_ranges(
    engine: Engine, meeting: Meeting, task: Task, wanted: int
) -> tuple[Words, npt.NDArray[np.int64]]:
    """Cut the key order into about ``wanted`` ranges, from samples and then exact counts.

    A range that turns out too large is cut again, unless all its keys are the same.

    Returns
    -------
    splitters : Words
    counts : int64
        Trajectories in each range.
    """
    layout = build_layout(meeting.length, task.height, task.tree)
    rate = SAMPLE * wanted / meeting.num_users
    if wanted == 1:
        return np.empty((0, 0), np.uint64), np.array([meeting.num_users])
    samples = engine.ask(sample_share, [(share, task, rate) for share in meeting.shares])
    splitters = choose_splitters(merge_samples(samples), wanted, layout)
    for attempt in range(MAX_RECUTS + 1):
        if not len(splitters):
            return splitters, np.array([meeting.num_users])
        counts = _count(engine, meeting, task, splitters)
        parts = np.ceil(counts * wanted / meeting.num_users / TOO_LARGE).astype(np.int64)
        if attempt == MAX_RECUTS or parts.max() <= 1:
            break
        rates = np.where(parts > 1, SAMPLE * parts / np.maximum(counts, 1), 0.0)
        shared = engine.put(splitters)
        drawn = engine.ask(sample_ranges, [(s, task, shared, rates) for s in meeting.shares])
        more = [
            choose_splitters(merge_samples(list(of_range)), int(TOO_LARGE * n), layout)
            for n, of_range in zip(parts[parts > 1].tolist(), zip(*drawn, strict=True), strict=True)
        ]
        cut = _sort_words(np.concatenate([splitters, *more]))
        if len(cut) == len(splitters):
            break
        splitters = cut
    return splitters, counts


def _count(engine: Engine, meeting: Meeting, task: Task, splitters: Words) -> npt.NDArray[np.int64]:
    shared = engine.put(splitters)
    counts: Sequence[npt.NDArray[np.int64]] = engine.ask(
        count_ranges, [(share, task, shared) for share in meeting.shares]
    )
    total: npt.NDArray[np.int64] = np.sum(counts, axis=0)
    return total


def _sort_words(words: Words) -> Words:
    """Sort keys, each once."""
    return np.unique(words, axis=0)
