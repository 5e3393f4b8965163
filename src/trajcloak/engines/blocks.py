"""``refined`` on several workers: each refines a block of near trajectories.

Blocks are large, so that little is lost where bundles cannot reach across their edges; a
window that fits into one block is bundled as in memory. Where the edges are depends on
the trajectories and on the size of a block, not on the workers.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.refined import Refined
from trajcloak.algorithms.refined.boxes import build_points
from trajcloak.algorithms.refined.regions import (
    Planes,
    choose_planes,
    find_blocks,
    join_small,
)
from trajcloak.algorithms.traj_anon.ranges import draw_distinct
from trajcloak.engines.bundling import Bundled, Meeting, choose_ranges
from trajcloak.engines.engine import Engine, Job
from trajcloak.engines.finished import Finished
from trajcloak.engines.shares import Share, join_shares, split_share
from trajcloak.engines.subtrees import Counts, Task, bundle_share, split_by_key
from trajcloak.options import QUAD

SAMPLE = 1024
"""Trajectories that are drawn for each block."""

Drawn = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.int64]]
"""Hashes of distinct trajectories, their cells, and how often there is each."""


def bundle_by_blocks(
    engine: Engine, meeting: Meeting, task: Task, effort: str, users_per_block: int
) -> Bundled:
    """Bundle the participants of a window with ``refined``."""
    wanted = max(1, meeting.num_users // users_per_block)
    jobs: list[Job]
    if task.cloak == QUAD:
        # Cuts between nodes of the tree are edges of quadrants, too.
        splitters, counts = choose_ranges(engine, meeting, task, wanted)
        splitters = splitters[find_cuts(counts, task.k)]
        shared = engine.put(splitters)
        jobs = [(share, task, shared) for share in meeting.shares]
        pieces = engine.exchange(split_by_key, jobs, len(splitters) + 1)
    else:
        planes, number = _choose_blocks(engine, meeting, task, wanted)
        shared = engine.put(planes)
        jobs = [(share, shared, number) for share in meeting.shares]
        pieces = engine.exchange(split_by_block, jobs, int(number.max()) + 1)
    jobs = [
        (of_block, task, effort, block, engine.threads) for block, of_block in enumerate(pieces)
    ]
    finished, left_out = engine.exchange(refine_block, jobs, 2)
    return Bundled(finished, left_out, len(pieces))


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
    engine: Engine, meeting: Meeting, task: Task, wanted: int
) -> tuple[Planes, npt.NDArray[np.int32]]:
    """Choose the planes between blocks from a sample; returns them and the blocks' numbers."""
    rate = SAMPLE * wanted / meeting.num_users if wanted > 1 else 0.0
    jobs = [(share, rate) for share in meeting.shares]
    hashes, cells, weight = (
        np.concatenate(parts) for parts in zip(*engine.ask(draw_share, jobs), strict=True)
    )
    _, first, of_hash = np.unique(hashes, return_index=True, return_inverse=True)
    weight = np.bincount(of_hash, weight, minlength=len(first)).astype(np.int64)
    planes = choose_planes(build_points(cells[first]), weight, wanted)
    shared = engine.put(planes)
    counts = engine.ask(count_blocks, [(share, shared) for share in meeting.shares])
    return planes, join_small(planes, np.sum(counts, axis=0), task.k)


def draw_share(share: Share, rate: float) -> Drawn:
    """Draw trajectories of a share."""
    hashes, rows, weight = draw_distinct(share.window.cells, rate)
    return hashes, share.window.cells[rows], weight


def count_blocks(share: Share, planes: Planes) -> npt.NDArray[np.int64]:
    """Count the trajectories of a share in each block."""
    return np.bincount(_find(share, planes), minlength=planes.num_blocks)


def split_by_block(share: Share, planes: Planes, number: npt.NDArray[np.int32]) -> list[Share]:
    """Cut a share into blocks."""
    return split_share(share, number[_find(share, planes)], int(number.max()) + 1)


def refine_block(
    shares: Sequence[Share], task: Task, effort: str, block: int, threads: int
) -> tuple[Finished, Counts]:
    """Put a block together and bundle it."""
    share = join_shares(shares)
    algorithm = Refined(effort, task.price)
    policy = algorithm.solve(share.window.cells, task.height, task.k, task.cloak, threads=threads)
    rank = np.column_stack(
        [np.full(policy.num_bundles, block), np.arange(policy.num_bundles)]
    ).astype(np.int64)
    return bundle_share(share, policy, rank, task)


def _find(share: Share, planes: Planes) -> npt.NDArray[np.int32]:
    return find_blocks(build_points(share.window.cells), planes)
