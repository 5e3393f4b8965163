"""A large window with ``traj-anon``: workers solve subtrees, and the client the top of the tree.

The key order is cut into ranges. The functions on a range run on workers; the decisions
between them, which need a row of costs for each subtree only, are made here. The result is
that of the whole window: see :mod:`trajcloak.algorithms.traj_anon.forest`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.algorithms.traj_anon.assign import build_node_cloaks, build_prefix_cloaks
from trajcloak.algorithms.traj_anon.forest import (
    Forest,
    assign_forest,
    assign_top,
    build_forest,
    build_top,
    count_held_below,
    decide,
    find_top_price,
    summarise_forest,
)
from trajcloak.algorithms.traj_anon.keys import KeyLayout, SortedKeys, build_layout, sort_keys
from trajcloak.algorithms.traj_anon.ranges import (
    Sample,
    Words,
    build_words,
    choose_splitters,
    count_common,
    merge_samples,
    route,
    sample_keys,
)
from trajcloak.bundling.runs import BundlingTask, RankedBundles, Unpublished, bundle_input
from trajcloak.cloaks import build_bounding_boxes
from trajcloak.engines.engine import Engine, Handle
from trajcloak.options import MBR
from trajcloak.window_inputs import WindowInput, join_inputs, order_inputs, split_input

KEYS_PER_RANGE = 64
"""Keys that are drawn for each range."""

MAX_RECUTS = 4
TOO_LARGE = 2.0
"""A range is cut again if it is larger than wanted by this factor."""


@dataclass(frozen=True)
class LargeWindow:
    """A window whose participants are spread over shards."""

    number: int
    length: int  # Instants of the window.
    num_users: int  # Participants.
    inputs: Sequence[Handle]  # Of a list with the :class:`WindowInput` of each shard.


@dataclass(frozen=True)
class BundledWindow:
    """Bundles of a large window, range by range."""

    ranked: Sequence[Handle]  # Of :class:`RankedBundles`.
    unpublished: Sequence[Handle]  # Of :class:`Unpublished`.
    num_blocks: int = 1  # How many blocks were bundled without regard to the others.


class SortedRange(NamedTuple):
    """A range of the key order."""

    given: WindowInput
    keys: SortedKeys


class PassedUp(NamedTuple):
    """Trajectories that a range passes up, and the top's bundle of each."""

    given: WindowInput
    bundle: npt.NDArray[np.int32]


def bundle_by_tree(
    engine: Engine, window: LargeWindow, task: BundlingTask, wanted: int
) -> BundledWindow:
    """Bundle the participants of a window with ``traj-anon``, in about ``wanted`` ranges."""
    assert isinstance(task.algorithm, TrajAnon)
    tree = task.algorithm
    layout = build_layout(window.length, task.region.height, tree.tree)
    splitters, counts = choose_ranges(engine, window, layout, wanted)
    pieces = split_window(engine, window, layout, splitters)
    chosen = np.flatnonzero(counts)
    ranges = engine.derive(
        sort_range, [(pieces[r], layout, engine.threads) for r in chosen.tolist()]
    )
    engine.drop(pieces)
    ends = engine.ask(find_end_keys, [(part, layout) for part in ranges])
    first, last = np.stack(ends).transpose(1, 0, 2)
    common = count_common(last[:-1], first[1:])
    edges = list(pairwise([-1, *common.tolist(), -1]))
    forests = engine.derive(
        solve_range,
        [
            (part, layout, task.members, *edge, engine.threads)
            for part, edge in zip(ranges, edges, strict=True)
        ],
    )
    top = build_top(
        engine.ask(summarise_forest, [(forest,) for forest in forests]), layout, task.members
    )
    price = tree.suppress_above
    if tree.max_suppressed is not None:

        def count_held(prices: list[float]) -> list[int]:
            counts = engine.ask(count_held_below, [(forest, prices) for forest in forests])
            return list(map(int, np.sum(counts, axis=0)))

        most = math.floor(tree.max_suppressed * window.num_users)
        price = find_top_price(top, most, count_held)
    passed_up, of_item = decide(top, task.members, price)
    top_bundle, node, rising = assign_top(top, passed_up, of_item)
    item_ends = np.cumsum(top.per_range)[:-1]
    place = np.append(0, np.cumsum(counts[chosen]))
    jobs_of_ranges = [
        (part, forest, task, layout, price, *decision, engine.threads)
        for part, forest, *decision in zip(
            ranges,
            forests,
            np.split(of_item, item_ends),
            np.split(top_bundle, np.cumsum(rising)[:-1]),
            place[:-1].tolist(),
            strict=True,
        )
    ]
    ranked, for_top, unpublished = engine.shuffle(bundle_range, jobs_of_ranges, 3)
    if len(node):
        rank = np.column_stack([top.tree.stop[node].astype(np.int64), -top.tree.depth[node]])
        depth = top.tree.depth[node]
        job = (for_top, task, layout, depth, rank, engine.threads)
        above = engine.shuffle(bundle_top, [job], 2)
        ranked = [*ranked, *above[0]]
        unpublished = [*unpublished, *above[1]]
    return BundledWindow(ranked, unpublished)


def choose_ranges(
    engine: Engine, window: LargeWindow, layout: KeyLayout, wanted: int
) -> tuple[Words, npt.NDArray[np.int64]]:
    """Cut the key order into about ``wanted`` ranges, from samples and then exact counts.

    A range that turns out too large is cut again, unless all its keys are the same. Returns also
    how many trajectories are in each range.
    """
    rate = KEYS_PER_RANGE * wanted / window.num_users
    samples = engine.ask(sample_input, [(given, layout, rate) for given in window.inputs])
    splitters = choose_splitters(merge_samples(samples), wanted, layout)
    for attempt in range(MAX_RECUTS + 1):
        if not len(splitters):
            return splitters, np.array([window.num_users])
        shared = engine.put(splitters)
        counts: npt.NDArray[np.int64] = np.sum(
            engine.ask(count_ranges, [(given, layout, shared) for given in window.inputs]), axis=0
        )
        pieces = np.ceil(counts * wanted / window.num_users / TOO_LARGE).astype(np.int64)
        if attempt == MAX_RECUTS or pieces.max() <= 1:
            break
        rates = np.where(pieces > 1, KEYS_PER_RANGE * pieces / np.maximum(counts, 1), 0.0)
        drawn = engine.ask(sample_ranges, [(g, layout, shared, rates) for g in window.inputs])
        more = [
            choose_splitters(merge_samples(list(of_range)), int(TOO_LARGE * n), layout)
            for n, of_range in zip(
                pieces[pieces > 1].tolist(), zip(*drawn, strict=True), strict=True
            )
        ]
        cut = np.unique(np.concatenate([splitters, *more]), axis=0)
        if len(cut) == len(splitters):
            break
        splitters = cut
    return splitters, counts


def split_window(
    engine: Engine, window: LargeWindow, layout: KeyLayout, splitters: Words
) -> list[Sequence[Handle]]:
    """Cut the participants of a window into ranges of the key order."""
    shared = engine.put(splitters)
    jobs = [(given, layout, shared) for given in window.inputs]
    return engine.shuffle(split_by_key, jobs, len(splitters) + 1)


def sample_input(given: Sequence[WindowInput], layout: KeyLayout, rate: float) -> Sample:
    """Draw keys of a shard's participants."""
    return sample_keys(given[0].window.cells, layout, rate)


def sample_ranges(
    given: Sequence[WindowInput], layout: KeyLayout, splitters: Words, rates: Any
) -> list[Sample]:
    """Draw keys of those ranges that have a rate above 0."""
    cells = given[0].window.cells
    place = route(cells, layout, splitters)
    return [sample_keys(cells[place == r], layout, rates[r]) for r in np.flatnonzero(rates)]


def count_ranges(
    given: Sequence[WindowInput], layout: KeyLayout, splitters: Words
) -> npt.NDArray[np.int64]:
    """Count the trajectories of a shard's participants in each range."""
    place = route(given[0].window.cells, layout, splitters)
    return np.bincount(place, minlength=len(splitters) + 1)


def split_by_key(
    given: Sequence[WindowInput], layout: KeyLayout, splitters: Words
) -> Iterator[list[WindowInput]]:
    """Cut a shard's participants into ranges of the key order."""
    place = route(given[0].window.cells, layout, splitters)
    yield split_input(given[0], place, len(splitters) + 1)


def sort_range(inputs: Sequence[WindowInput], layout: KeyLayout, threads: int) -> SortedRange:
    """Put a range together and sort it; ties in order of ids."""
    given = join_inputs(inputs)
    return SortedRange(given, sort_keys(given.window.cells, layout, threads))


def find_end_keys(part: SortedRange, layout: KeyLayout) -> Words:
    """Find the first and the last key of a range."""
    ends = part.keys.order[[0, -1]].astype(np.int64)
    words: Words = build_words(part.given.window.cells, ends, layout)
    return words


def solve_range(
    part: SortedRange, layout: KeyLayout, k: int, before: int, after: int, threads: int
) -> Forest:
    """Solve the subtrees of a range."""
    return build_forest(part.keys, layout, k, before, after, threads)


def bundle_range(
    part: SortedRange,
    forest: Forest,
    task: BundlingTask,
    layout: KeyLayout,
    price: float | None,
    of_item: npt.NDArray[np.int64],
    top_bundle: npt.NDArray[np.int32],
    first_place: int,
    threads: int,
) -> Iterator[list[Any]]:
    """Bundle a range; yields its :class:`RankedBundles`, what it passes up, what is left out.

    ``price`` is that of leaving out a trajectory, ``of_item`` how many trajectories each item
    passes up, ``top_bundle`` the top's bundle of each of them (-1: it is left out), and
    ``first_place`` how many trajectories are in the ranges before.
    """
    given, keys = part
    cells = given.window.cells
    bundle, node, passed_up = assign_forest(forest, keys, task.members, of_item, price)
    if task.cloak == MBR:
        cloaks = build_bounding_boxes(cells, bundle, len(node), threads)
    else:
        cloaks = build_node_cloaks(cells, keys, layout, task.region.height, forest.tree, node)
    rises = np.zeros(given.num_users, np.int32)
    rises[passed_up[top_bundle >= 0]] = 1
    stays, goes = split_input(given, rises, 2)
    numbers = np.full(given.num_users, -1, np.int32)
    numbers[passed_up] = top_bundle
    rank = np.column_stack(
        [first_place + forest.tree.stop[node].astype(np.int64), -forest.tree.depth[node]]
    )
    policy = Policy(bundle[rises == 0], cloaks)
    bundles, order, unpublished = bundle_input(stays, policy, task, threads)
    ranked = RankedBundles(bundles, rank[order])
    yield [ranked, PassedUp(goes, numbers[rises == 1]), unpublished]


def bundle_top(
    passed: Sequence[PassedUp],
    task: BundlingTask,
    layout: KeyLayout,
    depth: Any,
    rank: npt.NDArray[np.int64],
    threads: int,
) -> Iterator[tuple[RankedBundles, Unpublished]]:
    """Bundle what the ranges pass up.

    ``depth`` is that of each bundle's node.
    """
    inputs = [one.given for one in passed]
    given = join_inputs(inputs)
    bundle = np.concatenate([one.bundle for one in passed])[order_inputs(inputs)]
    cells = given.window.cells
    if task.cloak == MBR:
        cloaks = build_bounding_boxes(cells, bundle, len(depth), threads)
    else:
        sample = np.unique(bundle, return_index=True)[1].astype(np.int32)
        cloaks = build_prefix_cloaks(cells, sample, depth, layout, task.region.height)
    bundles, order, unpublished = bundle_input(given, Policy(bundle, cloaks), task, threads)
    yield RankedBundles(bundles, rank[order]), unpublished
