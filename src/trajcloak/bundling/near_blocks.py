"""A large window with ``refined``: each call refines a block of near trajectories.

Blocks are large, so that little is lost where bundles cannot reach across their edges. Where
the edges are depends on the trajectories and on the size of a block, not on the workers.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.refined.blocks import Planes, choose_planes, find_blocks, join_small
from trajcloak.algorithms.refined.boxes import build_points
from trajcloak.algorithms.traj_anon.keys import build_layout
from trajcloak.algorithms.traj_anon.ranges import draw_distinct
from trajcloak.bundling.key_ranges import BundledWindow, LargeWindow, choose_ranges, split_window
from trajcloak.bundling.runs import BundlingTask, RankedBundles, Unpublished, bundle_input
from trajcloak.engines.engine import Engine, Handle
from trajcloak.options import QUAD
from trajcloak.window_inputs import WindowInput, join_inputs, split_input

TRAJECTORIES_PER_BLOCK = 1024
"""Trajectories that are drawn for each block."""

Drawn = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.int64]]
"""Hashes of distinct trajectories, their cells, and how often there is each."""


def bundle_by_blocks(
    engine: Engine, window: LargeWindow, task: BundlingTask, wanted: int
) -> BundledWindow:
    """Bundle the participants of a window with ``refined``, in about ``wanted`` blocks."""
    if task.cloak == QUAD:
        # Cuts between nodes of the tree are edges of quadrants, too.
        layout = build_layout(window.length, task.region.height)
        splitters, counts = choose_ranges(engine, window, layout, wanted)
        splitters = splitters[find_cuts(counts, task.members)]
        pieces = split_window(engine, window, layout, splitters)
    else:
        planes, number = _choose_blocks(engine, window, task, wanted)
        jobs = [(given, planes, number) for given in window.inputs]
        pieces = engine.shuffle(split_by_block, jobs, int(number.max()) + 1)
    num_blocks = len(pieces)
    refining = [(of_block, task, block, engine.threads) for block, of_block in enumerate(pieces)]
    ranked, unpublished = engine.shuffle(refine_block, refining, 2)
    engine.drop(pieces)
    return BundledWindow(ranked, unpublished, num_blocks)


def find_cuts(counts: npt.NDArray[np.int64], k: int) -> npt.NDArray[np.int64]:
    """List the cuts between ranges that leave at least k trajectories on both sides.

    Examples
    --------
    >>> find_cuts(np.array([1, 4, 0, 5, 2]), k=3).tolist()
    [1]
    """
    cuts = []
    held = 0
    for cut, count in enumerate(counts[:-1].tolist()):
        held += count
        if held >= k:
            cuts.append(cut)
            held = 0
    if cuts and held + int(counts[-1]) < k:
        cuts.pop()
    return np.array(cuts, np.int64)


def _choose_blocks(
    engine: Engine, window: LargeWindow, task: BundlingTask, wanted: int
) -> tuple[Handle, npt.NDArray[np.int32]]:
    """Choose the planes between blocks from a sample; returns them and the blocks' numbers."""
    rate = TRAJECTORIES_PER_BLOCK * wanted / window.num_users
    drawn: list[Drawn] = engine.ask(draw_input, [(given, rate) for given in window.inputs])
    hashes, cells, weight = (np.concatenate(column) for column in zip(*drawn, strict=True))
    _, first, of_hash = np.unique(hashes, return_index=True, return_inverse=True)
    weight = np.bincount(of_hash, weight, minlength=len(first)).astype(np.int64)
    planes = choose_planes(build_points(cells[first]), weight, wanted)
    shared = engine.put(planes)
    counts = engine.ask(count_blocks, [(given, shared) for given in window.inputs])
    return shared, join_small(planes, np.sum(counts, axis=0), task.members)


def draw_input(given: Sequence[WindowInput], rate: float) -> Drawn:
    """Draw trajectories of a shard's participants."""
    cells = given[0].window.cells
    hashes, rows, weight = draw_distinct(cells, rate)
    return hashes, cells[rows], weight


def count_blocks(given: Sequence[WindowInput], planes: Planes) -> npt.NDArray[np.int64]:
    """Count the trajectories of a shard's participants in each block."""
    return np.bincount(_find(given[0], planes), minlength=planes.num_blocks)


def split_by_block(
    given: Sequence[WindowInput], planes: Planes, number: npt.NDArray[np.int32]
) -> Iterator[list[WindowInput]]:
    """Cut a shard's participants into blocks."""
    yield split_input(given[0], number[_find(given[0], planes)], int(number.max()) + 1)


def refine_block(
    inputs: Sequence[WindowInput], task: BundlingTask, block: int, threads: int
) -> Iterator[tuple[RankedBundles, Unpublished]]:
    """Put a block together and bundle it."""
    given = join_inputs(inputs)
    policy = task.solve(given, threads)
    number = np.arange(policy.num_bundles, dtype=np.int64)
    rank = np.column_stack([np.full_like(number, block), number])
    bundles, order, unpublished = bundle_input(given, policy, task, threads)
    yield RankedBundles(bundles, rank[order]), unpublished


def _find(given: WindowInput, planes: Planes) -> npt.NDArray[np.int32]:
    blocks: npt.NDArray[np.int32] = find_blocks(build_points(given.window.cells), planes)
    return blocks
