"""``traj-anon`` on several workers: each solves some subtrees, and the client the top.

The functions here run on workers, on a range of the key order; what decides between them
is in :mod:`trajcloak.algorithms.traj_anon.forest`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.policy import Policy
from trajcloak.algorithms.traj_anon.assign import build_node_cloaks, build_prefix_cloaks
from trajcloak.algorithms.traj_anon.forest import Forest, assign_forest, build_forest
from trajcloak.algorithms.traj_anon.keys import KeyLayout, SortedKeys, build_layout, sort_keys
from trajcloak.algorithms.traj_anon.ranges import (
    Sample,
    Words,
    build_words,
    route,
    sample_keys,
)
from trajcloak.bundles import build_bundles
from trajcloak.cloaks import build_bounding_boxes
from trajcloak.engines.finished import Finished, finish
from trajcloak.engines.shares import Share, join_shares, order_shares, split_share
from trajcloak.hygiene import Treatment
from trajcloak.manifest import LeftOut
from trajcloak.options import MBR


class Task(NamedTuple):
    """What is public of the bundling of a window.

    Attributes
    ----------
    k, height, cloak, tree
        As asked for.
    price : float or None
        What a suppressed trajectory costs, in cells.
    max_suppressed : float or None
        The share of trajectories that may be suppressed, where no price is given.
    num_kinds : int
    treatment : Treatment or None
    """

    k: int
    height: int
    cloak: str
    tree: str
    price: float | None
    max_suppressed: float | None
    num_kinds: int
    treatment: Treatment | None

    def layout(self, share: Share) -> KeyLayout:
        """Lay out the keys of a window."""
        window = share.window
        return build_layout(window.stop - window.start, self.height, self.tree)


class Sorted(NamedTuple):
    """A range of the key order.

    Attributes
    ----------
    share : Share
    keys : SortedKeys
    """

    share: Share
    keys: SortedKeys


def sample_share(share: Share, task: Task, rate: float) -> Sample:
    """Draw keys of a share."""
    return sample_keys(share.window.cells, task.layout(share), rate)


def sample_ranges(share: Share, task: Task, splitters: Words, rates: Any) -> list[Sample]:
    """Draw keys of those ranges of a share that have a rate above 0."""
    cells, layout = share.window.cells, task.layout(share)
    place = route(cells, layout, splitters)
    return [sample_keys(cells[place == r], layout, rates[r]) for r in np.flatnonzero(rates)]


def count_ranges(share: Share, task: Task, splitters: Words) -> npt.NDArray[np.int64]:
    """Count the trajectories of a share in each range."""
    place = route(share.window.cells, task.layout(share), splitters)
    return np.bincount(place, minlength=len(splitters) + 1)


def split_by_key(share: Share, task: Task, splitters: Words) -> list[Share]:
    """Cut a share into ranges of the key order."""
    if not len(splitters):
        return [share]
    place = route(share.window.cells, task.layout(share), splitters)
    return split_share(share, place, len(splitters) + 1)


def sort_range(shares: Sequence[Share], task: Task, threads: int) -> Sorted:
    """Put a range together and sort it; ties in order of ids."""
    share = join_shares(shares)
    return Sorted(share, sort_keys(share.window.cells, task.layout(share), threads))


def find_ends(part: Sorted, task: Task) -> Words:
    """Find the first and the last key of a range."""
    ends = part.keys.order[[0, -1]].astype(np.int64)
    return build_words(part.share.window.cells, ends, task.layout(part.share))


def solve_range(part: Sorted, task: Task, before: int, after: int, threads: int) -> Forest:
    """Solve the subtrees of a range."""
    return build_forest(part.keys, task.layout(part.share), task.k, before, after, threads)


class Told(NamedTuple):
    """What the client decides for a range.

    Attributes
    ----------
    of_item : int64
        How many trajectories each item passes up.
    top_bundle : int32
        The top's bundle of each trajectory that the range passes up; -1: it is left out.
    first_place : int
        How many trajectories are in the ranges before.
    """

    of_item: npt.NDArray[np.int64]
    top_bundle: npt.NDArray[np.int32]
    first_place: int


def bundle_range(
    part: Sorted, forest: Forest, task: Task, told: Told, threads: int
) -> tuple[Finished, "ForTop", "Counts"]:
    """Bundle a range: what its subtrees bundle, what goes up, and what is left out."""
    share, keys = part
    cells, layout = share.window.cells, task.layout(share)
    bundle, node, passed_up = assign_forest(forest, keys, task.k, told.of_item, task.price)
    if task.cloak == MBR:
        cloaks = build_bounding_boxes(cells, bundle, len(node), threads)
    else:
        cloaks = build_node_cloaks(cells, keys, layout, task.height, forest.tree, node)
    rises = np.zeros(share.num_users, np.int32)
    rises[passed_up[told.top_bundle >= 0]] = 1
    stays, goes = split_share(share, rises, 2)
    numbers = np.full(share.num_users, -1, np.int32)
    numbers[passed_up] = told.top_bundle
    rank = np.column_stack(
        [told.first_place + forest.tree.stop[node].astype(np.int64), -forest.tree.depth[node]]
    )
    finished, counts = bundle_share(stays, Policy(bundle[rises == 0], cloaks), rank, task)
    return finished, ForTop(goes, numbers[rises == 1]), counts


class ForTop(NamedTuple):
    """Trajectories that a range passes up, and the top's bundle of each."""

    share: Share
    bundle: npt.NDArray[np.int32]


def bundle_top(
    parts: Sequence[ForTop], task: Task, depth: Any, rank: Any, threads: int
) -> tuple[Finished, "Counts"]:
    """Bundle what the ranges pass up.

    ``depth`` is that of each bundle's node.
    """
    shares = [part.share for part in parts]
    share = join_shares(shares)
    bundle = np.concatenate([part.bundle for part in parts])[order_shares(shares)]
    cells = share.window.cells
    if task.cloak == MBR:
        cloaks = build_bounding_boxes(cells, bundle, len(depth), threads)
    else:
        sample = np.unique(bundle, return_index=True)[1].astype(np.int32)
        cloaks = build_prefix_cloaks(cells, sample, depth, task.layout(share), task.height)
    return bundle_share(share, Policy(bundle, cloaks), rank, task)


class Counts(NamedTuple):
    """What of some participants of a window is not published.

    Attributes
    ----------
    left_out : LeftOut
        Without users.
    part, user : int32
        The part and the position of each suppressed user.
    """

    left_out: LeftOut
    part: npt.NDArray[np.int32]
    user: npt.NDArray[np.int32]


def bundle_share(
    share: Share, policy: Policy, rank: npt.NDArray[np.int64], task: Task
) -> tuple[Finished, Counts]:
    """Build the bundles of a policy; see :class:`Finished` for ``rank``."""
    bundles = build_bundles(share.window, policy, task.num_kinds, task.k, task.treatment)
    left_out = LeftOut(0)
    left_out.count_suppressed(share.window, bundles)
    gone = bundles.bundle < 0
    counts = Counts(left_out, share.part[gone], share.window.user[gone])
    return finish(bundles, rank, policy.bundle, share.ids), counts
