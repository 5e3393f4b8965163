"""Ranges of the key order, solved one by one, against the tree solved as a whole."""

import numpy as np
import pytest

from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.algorithms.traj_anon.forest import (
    assign_forest,
    assign_top,
    build_forest,
    build_top,
    decide,
    summarise_forest,
)
from trajcloak.algorithms.traj_anon.gtree import build_gtree
from trajcloak.algorithms.traj_anon.keys import build_layout, sort_keys
from trajcloak.algorithms.traj_anon.ranges import (
    build_words,
    choose_splitters,
    count_common,
    merge_samples,
    route,
    sample_keys,
)
from trajcloak.algorithms.traj_anon.solve import solve_rows
from trajcloak.kernels.sort import group_by_number
from trajcloak.options import TREES

HEIGHT = 4


def draw_cells(rng, n, length, size=16):
    return rng.integers(0, size, (n, length, 2), dtype=np.uint32)


def solve_apart(cells, cuts, k, tree, price):
    """Bundle trajectories in ranges of the sorted order; returns sets of rows."""
    layout = build_layout(cells.shape[1], HEIGHT, tree)
    order = sort_keys(cells, layout, 1).order
    parts = [part for part in np.split(order, cuts) if len(part)]
    # Rows of a range in ascending order, as a worker has them.
    rows = [np.sort(part) for part in parts]
    keys = [sort_keys(cells[part], layout, 1) for part in rows]
    words = build_words(cells, order.astype(np.int64), layout)
    ends = np.cumsum([len(part) for part in parts])
    common = count_common(words[ends[:-1] - 1], words[ends[:-1]])
    edges = [-1, *common.tolist(), -1]
    forests = [
        build_forest(part, layout, k, edges[i], edges[i + 1], 1) for i, part in enumerate(keys)
    ]
    top = build_top([summarise_forest(forest) for forest in forests], layout, k)
    passed_up, of_item = decide(top, k, price)
    top_bundle, node, rising = assign_top(top, passed_up, of_item)
    bundles = []
    risen = []
    told = np.split(of_item, np.cumsum(top.per_range)[:-1])
    for part, forest, sorted_keys, items in zip(rows, forests, keys, told, strict=True):
        bundle, of_node, up = assign_forest(forest, sorted_keys, k, items, price)
        members, first = group_by_number(bundle, len(of_node))
        bundles += [frozenset(part[m].tolist()) for m in np.split(members, first[1:-1]) if len(m)]
        risen.append(part[up])
    assert [len(part) for part in risen] == rising.tolist()
    members, first = group_by_number(top_bundle, len(node))
    risen = np.concatenate(risen)
    bundles += [frozenset(risen[m].tolist()) for m in np.split(members, first[1:-1]) if len(m)]
    return top, set(bundles)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("seed", range(15))
def test_ranges_give_the_bundles_of_the_whole(seed, tree):
    rng = np.random.default_rng([seed, TREES.index(tree)])
    n, length, k = int(rng.integers(4, 80)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    cells = draw_cells(rng, max(n, k), length, int(rng.choice([2, 5, 16])))
    n = len(cells)
    layout = build_layout(length, HEIGHT, tree)
    keys = sort_keys(cells, layout, 1)
    # Equal keys stay together.
    places = np.flatnonzero(keys.common[1:] < layout.num_bits) + 1
    cuts = np.sort(rng.choice(places, min(len(places), 5), replace=False)) if len(places) else []
    price = None if seed % 3 else float(rng.choice([3, 20, 100]))
    top, actual = solve_apart(cells, cuts, k, tree, price)
    policy = TrajAnon(tree, price).solve(cells, HEIGHT, k, "mbr")
    expected = {
        frozenset(np.flatnonzero(policy.bundle == b).tolist()) for b in range(policy.num_bundles)
    }
    assert actual == expected
    whole = build_gtree(keys, layout, k)
    rows = solve_rows(whole, k, 1)
    root = rows.cost[rows.first[-2] : rows.first[-1]]
    np.testing.assert_array_equal(top.rows.cost[top.rows.first[-2] : top.rows.first[-1]], root)


@pytest.mark.parametrize("tree", TREES)
def test_ranges_are_even_and_keep_the_key_order(tree):
    rng = np.random.default_rng(5)
    cells = draw_cells(rng, 2000, 3)
    layout = build_layout(3, HEIGHT, tree)
    halves = [sample_keys(half, layout, 0.2) for half in np.split(cells, 2)]
    splitters = choose_splitters(merge_samples(halves), 8, layout)
    place = route(cells, layout, splitters)
    sorted_places = place[sort_keys(cells, layout, 1).order]
    assert (np.diff(sorted_places) >= 0).all()
    counts = np.bincount(place, minlength=8)
    assert len(counts) == 8
    assert counts.max() < 2 * 2000 / 8


def test_routes_agree_with_whole_keys():
    rng = np.random.default_rng(6)
    cells = draw_cells(rng, 300, 20, 3)
    layout = build_layout(20, HEIGHT)
    rows = np.arange(300)
    words = build_words(cells, rows, layout)
    splitters = np.unique(words[::30], axis=0)
    expected = [sum(tuple(s) <= tuple(w) for s in splitters.tolist()) for w in words.tolist()]
    assert route(cells, layout, splitters).tolist() == expected


def test_a_sample_depends_on_the_trajectories_alone():
    rng = np.random.default_rng(7)
    cells = np.repeat(draw_cells(rng, 200, 2), 2, axis=0)
    layout = build_layout(2, HEIGHT)
    whole = merge_samples([sample_keys(cells, layout, 0.3)])
    shuffled = cells[rng.permutation(len(cells))]
    parts = merge_samples([sample_keys(p, layout, 0.3) for p in np.split(shuffled, [30, 111])])
    assert 20 < len(whole.words) < 100
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_key_alone_cannot_be_cut():
    cells = np.full((50, 2, 2), 3, np.uint32)
    layout = build_layout(2, HEIGHT)
    sample = merge_samples([sample_keys(cells, layout, 1.0)])
    assert sample.weight.tolist() == [50]
    assert len(choose_splitters(sample, 4, layout)) == 0
