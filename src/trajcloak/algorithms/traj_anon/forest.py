"""Solve the tree range by range: a forest of subtrees per range, and the tree above them all.

A node that reaches beyond its range belongs to the tree above, called the top; every other
node is wholly inside a range and is solved there. A range hands the top a list of items: its
maximal subtrees, each with the cost row of its root, and loose trajectories.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.algorithms.traj_anon.assign import assign_bundles
from trajcloak.algorithms.traj_anon.gtree import (
    GTree,
    TreeItems,
    build_gtree,
    build_gtree_of_items,
    round_to_levels,
)
from trajcloak.algorithms.traj_anon.keys import KeyLayout, SortedKeys
from trajcloak.algorithms.traj_anon.solve import (
    CostRows,
    fill_rows,
    lay_out_rows,
    solve_configuration,
    solve_rows,
)
from trajcloak.algorithms.traj_anon.suppression import (
    count_held,
    find_price,
    highest_price,
    suppress_above,
    suppress_nobody,
)

NOT_SET = -1
ROUNDS_AHEAD = 5
"""Steps of the bisection of a price that are asked of the ranges in one call."""


class Forest(NamedTuple):
    """The subtrees that are wholly inside a range."""

    tree: GTree  # The nodes of all subtrees, subtree after subtree.
    rows: CostRows
    # The items of the range. ``common`` of the first is shared with the range before.
    items: TreeItems
    # (items,): root node of each item that is a subtree; -1: the item is loose trajectories.
    root: npt.NDArray[np.int64]


class Summary(NamedTuple):
    """What a range hands to the top."""

    items: TreeItems
    rows: list[npt.NDArray[np.float64]]  # Cost row of the root of each item that is a subtree.


def build_forest(
    keys: SortedKeys, layout: KeyLayout, k: int, before: int, after: int, threads: int
) -> Forest:
    """Solve the subtrees that are wholly inside a range.

    ``before`` is how many leading bits the first key shares with the last key of the range before,
    ``after`` the same of the last key and the range after; -1 where there is no such range.
    """
    common = round_to_levels(keys.common, layout)
    before, after = round_to_levels(np.array([before, after], np.int32), layout).tolist()
    edges = _find_edges(common, before, after)
    tree = build_gtree(keys, layout, k)
    # Keep the nodes that are inside one run, from an edge to the next; the others are the top's.
    run = np.searchsorted(edges, tree.start, side="right")
    is_inside = run == np.searchsorted(edges, tree.stop - 1, side="right")
    tree = GTree(*(column[is_inside] for column in tree))
    first = np.append(edges, len(common))
    # A run is a subtree if one node, its root, holds all of it; otherwise it is loose.
    root = np.full(len(edges), NOT_SET, np.int64)
    run = np.searchsorted(edges, tree.start, side="right") - 1
    is_root = (tree.start == first[run]) & (tree.stop == first[run + 1])
    root[run[is_root]] = np.flatnonzero(is_root)
    depth = np.where(root < 0, NOT_SET, tree.depth[root] if len(tree.depth) else NOT_SET)
    between = common[edges]
    between[:1] = before
    kept = _merge_loose(np.append(between, after), root)
    items = TreeItems(
        between[kept], np.append(edges[kept], len(common)), depth[kept].astype(np.int32)
    )
    return Forest(tree, solve_rows(tree, k, threads), items, root[kept])


def _find_edges(common: npt.NDArray[np.int32], before: int, after: int) -> npt.NDArray[np.int64]:
    """Find the edges of the runs of a range: each run is inside one child of a top node.

    An edge is between two neighbours whose splitting node is the top's. That node holds all
    keys with the neighbours' common prefix; it is the top's if it reaches beyond the range.
    It reaches beyond the start if no earlier pair of neighbours shares fewer bits, and the
    range before shares at least as many; likewise for the end.
    """
    inner = common[1:]
    from_first = (inner == np.minimum.accumulate(inner)) & (inner <= before)
    to_last = (inner == np.minimum.accumulate(inner[::-1])[::-1]) & (inner <= after)
    return np.append(0, 1 + np.flatnonzero(from_first | to_last)).astype(np.int64)


def _merge_loose(
    between: npt.NDArray[np.int32], root: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Merge neighbouring loose items that are children of the same node; lists the items left.

    An item is merged into the one before it if both are loose, and both are children of the
    node that splits them. The split before the first of them stays, so that node still exists
    in the top. ``between`` are the depths of the splits before each item and after the last.
    """
    loose = root < 0
    split, following = between[1:-1], between[2:]
    same = loose[1:] & loose[:-1] & (split == between[:-2]) & (following <= split)
    return np.append(0, 1 + np.flatnonzero(~same))


def summarise_forest(forest: Forest) -> Summary:
    """Collect what the top has to know of a range."""
    rows = [
        forest.rows.cost[forest.rows.first[r] : forest.rows.first[r + 1]].copy()
        for r in forest.root
        if r >= 0
    ]
    return Summary(forest.items, rows)


def count_held_below(forest: Forest, prices: Sequence[float]) -> list[int]:
    """Count, for each price, who is bundled inside subtrees whose root costs too much.

    Subtrees with a cheaper root are not counted: the top decides and counts them.
    """
    counts = []
    for price in prices:
        chosen = suppress_above(forest.tree, forest.rows, price)
        chosen[forest.root[forest.root >= 0]] = NOT_SET
        counts.append(count_held(forest.tree, chosen))
    return counts


class Top(NamedTuple):
    """The tree above the subtrees of all ranges."""

    tree: GTree
    rows: CostRows
    items: TreeItems
    # (items,): node of each item that is a subtree; -1: the item is loose trajectories.
    node: npt.NDArray[np.int64]
    per_range: npt.NDArray[np.int64]  # (ranges,): number of items of each range.


def build_top(ranges: Sequence[Summary], layout: KeyLayout, k: int) -> Top:
    """Build and solve the tree above the subtrees of all ranges; ranges are in key order."""
    sizes = np.concatenate([np.diff(r.items.first) for r in ranges])
    first = np.append(0, np.cumsum(sizes, dtype=np.int64))
    if first[-1] < 2**31:
        first = first.astype(np.int32)
    common = np.concatenate([r.items.common for r in ranges]).astype(np.int32)
    common[0] = -1
    items = TreeItems(common, first, np.concatenate([r.items.depth for r in ranges]))
    tree = build_gtree_of_items(items, layout, k)
    # A subtree is a leaf here: the only nodes without children and without loose trajectories.
    is_item = (tree.below == 1) & (tree.loose == 0)
    node = np.full(len(common), NOT_SET, np.int64)
    node[items.depth >= 0] = np.flatnonzero(is_item)
    rows = lay_out_rows(tree, k)
    given = [row for r in ranges for row in r.rows]
    for number, row in zip(np.flatnonzero(is_item).tolist(), given, strict=True):
        rows.cost[rows.first[number] : rows.first[number + 1]] = row
    fill_rows(tree, k, rows, np.flatnonzero(~is_item))
    per_range = np.array([len(r.items.depth) for r in ranges], np.int64)
    return Top(tree, rows, items, node, per_range)


def decide(
    top: Top, k: int, price: float | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Read off the top's rows how many trajectories each node and each item passes up.

    Of nodes, -1 means that no bundle is formed there or above; of items, that they are loose
    trajectories, or a subtree that decides itself whom to leave out.
    """
    chosen = (
        suppress_nobody(top.tree) if price is None else suppress_above(top.tree, top.rows, price)
    )
    passed_up = solve_configuration(top.tree, top.rows, k, chosen)
    return passed_up, np.where(top.node < 0, NOT_SET, passed_up[top.node])


def find_top_price(
    top: Top, budget: int, count_below: Callable[[list[float]], Sequence[int]]
) -> float | None:
    """Find the lowest price at which at most ``budget`` trajectories are left out.

    ``count_below`` sums :func:`count_held_below` over all ranges. Returns None if nobody is to
    be left out.
    """
    n = int(top.tree.stop[-1])

    def count(prices: list[float]) -> list[int]:
        return [
            n - count_held(top.tree, suppress_above(top.tree, top.rows, price)) - held
            for price, held in zip(prices, count_below(prices), strict=True)
        ]

    return find_price(highest_price(top.tree), budget, count, ROUNDS_AHEAD)


def assign_top(
    top: Top, passed_up: npt.NDArray[np.int64], of_item: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Bundle the trajectories that the ranges pass up, range after range in key order.

    Returns the bundle of each (-1: left out), the node of each bundle, and how many trajectories
    each range passes up.
    """
    sizes = np.diff(top.items.first).astype(np.int64)
    count = np.where(top.node < 0, sizes, np.maximum(of_item, 0))
    first = np.append(0, np.cumsum(count))
    # The tree's places count all trajectories; here only those that are passed up are numbered.
    place = [
        first[np.searchsorted(top.items.first, edge)] for edge in (top.tree.start, top.tree.stop)
    ]
    start, stop = (edges.astype(np.int32) for edges in place)
    idle = passed_up.copy()
    idle[top.node[top.node >= 0]] = NOT_SET
    idle[start == stop] = NOT_SET
    tree = top.tree._replace(start=start, stop=stop)
    bundle, node = assign_bundles(tree, np.arange(first[-1], dtype=np.int32), idle)
    ends = np.cumsum(top.per_range)
    return bundle, node.astype(np.int64), first[ends] - first[ends - top.per_range]


def assign_forest(
    forest: Forest, keys: SortedKeys, k: int, of_item: npt.NDArray[np.int64], price: float | None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Form the bundles of a range's subtrees, for what :func:`decide` found for its items.

    Returns the bundle of each row (-1: passed up, or left out), the node of each bundle, and the
    rows of the trajectories that are passed up, in key order.
    """
    tree = forest.tree
    chosen = np.full(len(tree.start), NOT_SET, np.int64)
    if price is not None:
        chosen = suppress_above(tree, forest.rows, price)
    is_decided = (forest.root >= 0) & (of_item >= 0)
    chosen[forest.root[is_decided]] = of_item[is_decided]
    configuration = solve_configuration(tree, forest.rows, k, chosen)
    place = np.arange(len(keys.order), dtype=np.int32)
    bundle, node = assign_bundles(tree, place, configuration)
    rises = np.repeat(is_decided | (forest.root < 0), np.diff(forest.items.first))
    passed_up = keys.order[(bundle < 0) & rises].astype(np.int64)
    by_row = np.empty_like(bundle)
    by_row[keys.order] = bundle
    return by_row, node, passed_up
