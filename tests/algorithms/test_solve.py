"""The solver, against the plain dynamic program on the uncompressed tree and on explicit trees."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from algorithms.test_gtree import build
from reference import k_summing
from reference.tree import build_tree
from trajcloak.algorithms.traj_anon.assign import assign_bundles
from trajcloak.algorithms.traj_anon.gtree import GTree
from trajcloak.algorithms.traj_anon.keys import SortedKeys
from trajcloak.algorithms.traj_anon.solve import solve_configuration, solve_rows
from trajcloak.algorithms.traj_anon.suppression import suppress_nobody
from zoo import (
    Example,
    as_trajectories,
    build_zoo,
    draw_clustered,
    draw_duplicates,
    draw_examples,
    draw_uniform,
    draw_walks,
    needs_jit,
)

ZOO = build_zoo()


def cost_of_root(tree, k, limit=None):
    rows = solve_rows(tree, k, 1, limit)
    return rows.cost[rows.first[-2]]


def children_of(tree, node):
    child = node - 1
    while child > node - tree.below[node]:
        yield child
        child -= tree.below[child]


def bundled_by_node(tree, passed_up):
    """How many trajectories each node bundles: what it receives less what it passes up."""
    return [
        int(tree.loose[node])
        + sum(int(passed_up[child]) for child in children_of(tree, node))
        - int(passed_up[node])
        for node in range(len(tree.start))
    ]


def check_configuration(tree, k, passed_up, cost):
    """Check Definitions 3 and 5 on the compressed tree, and the cost by Definition 4."""
    bundled = bundled_by_node(tree, passed_up)
    assert passed_up[-1] == 0
    assert (passed_up >= 0).all()
    assert all(count == 0 or count >= k for count in bundled)
    assert sum(count * int(area) for count, area in zip(bundled, tree.area, strict=True)) == cost


def write_back(slow, keys, tree, passed_up):
    """Write a configuration of the compressed tree out on the uncompressed one.

    A node that is kept passes up what the configuration says; one with a single
    non-empty child the same as the child; and one with too few all that it masks.
    """
    kept = {
        frozenset(keys.order[start:stop].tolist()): int(count)
        for start, stop, count in zip(tree.start, tree.stop, passed_up, strict=True)
    }
    return {node.number: kept.get(frozenset(node.masked), node.d) for node in slow.nodes}


@pytest.mark.parametrize("seed", range(5))
def test_configuration_is_an_optimum_of_the_uncompressed_tree(seed):
    for example in draw_examples(seed=[21, seed], count=60):
        cells, height, k = example
        keys, tree = build(example)
        rows = solve_rows(tree, k, 1)
        passed_up = solve_configuration(tree, rows, k, suppress_nobody(tree))
        slow = build_tree(as_trajectories(cells), height, "binary-axis-major")
        expected, _ = k_summing.solve(slow, k)
        assert rows.cost[rows.first[-2]] == expected
        check_configuration(tree, k, passed_up, expected)
        configuration = write_back(slow, keys, tree, passed_up)
        assert k_summing.is_k_summing(slow, configuration, k)
        assert k_summing.is_complete(slow, configuration)
        assert k_summing.configuration_cost(slow, configuration) == expected


def test_rows_are_those_of_the_plain_program():
    for example in draw_examples(seed=22, count=80):
        cells, height, k = example
        keys, tree = build(example)
        rows = solve_rows(tree, k, 1)
        slow = build_tree(as_trajectories(cells), height, "binary-axis-major")
        expected = {
            frozenset(node.masked): row
            for node, row in zip(slow.nodes, k_summing.cost_rows(slow, k), strict=True)
        }
        for node in range(len(tree.start)):
            actual = rows.cost[rows.first[node] : rows.first[node + 1]]
            masked = keys.order[tree.start[node] : tree.stop[node]].tolist()
            row = expected[frozenset(masked)]
            assert len(actual) == min(2 * k - 2, len(masked)) + 1
            assert actual.tolist() == [row.get(u, math.inf) for u in range(len(actual))]


@pytest.mark.parametrize("seed", range(3))
def test_the_limit_of_the_paper_gives_the_same_cost(seed):
    # Lemma 7: at most k (h + 1), where h counts the node's ancestors.
    for example in draw_examples(seed=[23, seed], count=120, most=40, height=5):
        _, tree = build(example)
        k = example.k
        paper = k * (tree.depth.astype(np.int64) + 1)
        unbounded = np.full(len(tree.start), len(example.cells), np.int64)
        expected = cost_of_root(tree, k, unbounded)
        assert cost_of_root(tree, k, paper) == expected
        assert cost_of_root(tree, k) == expected


def test_a_lower_limit_would_be_too_low():
    # If k stayed in the first cell, k - 1 would be left: all 2k - 1 must meet at the top.
    for k in (2, 3, 5):
        cells = np.array([[[0, 0]]] * (2 * k - 2) + [[[1, 1]]], np.uint32)
        _, tree = build((cells, 1, k))
        cost = cost_of_root(tree, k)
        assert cost == 4 * (2 * k - 1)
        lower = np.full(len(tree.start), 2 * k - 3, np.int64)
        assert cost_of_root(tree, k, lower) == math.inf


def medium_examples():
    rng = np.random.default_rng(24)
    yield Example(draw_uniform(rng, 2000, 1, 12), 12, 5)
    yield Example(draw_uniform(rng, 300, 6, 5), 5, 50)
    yield Example(draw_clustered(rng, 1500, 4, 14, spread=300, centres=20), 14, 17)
    yield Example(draw_clustered(rng, 700, 2, 8, spread=9, centres=7), 8, 50)
    yield Example(draw_duplicates(rng, 2000, 3, 10, 90), 10, 23)
    yield Example(draw_duplicates(rng, 900, 3, 10, 300), 10, 8)
    yield Example(draw_walks(rng, 1800, 10, 9), 9, 10)
    yield Example(draw_walks(rng, 500, 25, 6), 6, 30)


@needs_jit
@pytest.mark.parametrize("example", list(medium_examples()), ids=range(8))
def test_no_limit_gives_the_same_cost(example):
    _, tree = build(example)
    k = example.k
    unbounded = np.full(len(tree.start), len(example.cells), np.int64)
    rows = solve_rows(tree, k, 2)
    cost = rows.cost[rows.first[-2]]
    assert cost == cost_of_root(tree, k, unbounded)
    check_configuration(tree, k, solve_configuration(tree, rows, k, suppress_nobody(tree)), cost)


@needs_jit
@pytest.mark.parametrize("name", ZOO)
def test_zoo_with_any_number_of_threads(name):
    example = ZOO[name]
    k = example.k
    _, tree = build(example)
    one = solve_rows(tree, k, 1)
    configuration = solve_configuration(tree, one, k, suppress_nobody(tree))
    for threads in (2, 3, 16):
        many = solve_rows(tree, k, threads)
        assert np.array_equal(many.first, one.first)
        assert np.array_equal(many.cost, one.cost)
        again = solve_configuration(tree, many, k, suppress_nobody(tree))
        assert np.array_equal(again, configuration)
    bundled = bundled_by_node(tree, configuration)
    assert all(count == 0 or count >= k for count in bundled)
    assert sum(bundled) == len(example.cells)


@dataclass
class Branch:
    """A node of a tree of any degree."""

    area: int
    loose: int
    children: list["Branch"] = field(default_factory=list)

    @property
    def count(self):
        return self.loose + sum(child.count for child in self.children)


def draw_branch(rng, k, area, levels, degrees):
    """Draw a tree whose nodes have at least k trajectories, and areas that fall downward."""
    if levels == 0 or (levels == 1 and rng.random() < 0.2):
        return Branch(area, int(rng.integers(k, 3 * k + 1)))
    children = [
        draw_branch(rng, k, int(rng.integers(levels, area)), levels - 1, degrees)
        for _ in range(int(rng.integers(degrees[0], degrees[1] + 1)))
    ]
    return Branch(area, int(rng.integers(0, 2 * k + 1)), children)


def flatten(branch, rng):
    """Lay the tree out in postorder; loose trajectories are anywhere between the children."""
    columns = {name: [] for name in ("start", "stop", "loose", "below", "area")}
    place = 0

    def visit(branch):
        nonlocal place
        start = place
        num_before = len(columns["start"])
        gaps = rng.multinomial(
            branch.loose, np.ones(len(branch.children) + 1) / (len(branch.children) + 1)
        )
        for child, gap in zip(branch.children, gaps[:-1], strict=True):
            place += int(gap)
            visit(child)
        place += int(gaps[-1])
        columns["start"].append(start)
        columns["stop"].append(place)
        columns["loose"].append(branch.loose)
        columns["below"].append(len(columns["start"]) - num_before)
        columns["area"].append(branch.area)

    visit(branch)
    integers = {
        name: np.array(columns[name], np.int32) for name in ("start", "stop", "loose", "below")
    }
    return GTree(
        depth=np.zeros(len(columns["start"]), np.int32),
        area=np.array(columns["area"], np.float64),
        **integers,
    )


def naive_rows(branch, k):
    """Rows of all nodes in postorder, each a dict of every u that can be passed up."""
    rows = []
    pool = {branch.loose: 0}
    for child in branch.children:
        below = naive_rows(child, k)
        rows.extend(below)
        total = {}
        for held, cost in pool.items():
            for u, more in below[-1].items():
                total[held + u] = min(total.get(held + u, math.inf), cost + more)
        pool = total
    row = dict(pool)
    for held, cost in pool.items():
        for u in range(held - k + 1):
            row[u] = min(row.get(u, math.inf), cost + branch.area * (held - u))
    return [*rows, row]


@pytest.mark.parametrize(
    ("levels", "degrees", "most_k", "count"),
    [(1, (3, 20), 6, 60), (2, (3, 6), 4, 40), (3, (1, 3), 4, 40), (5, (1, 2), 4, 25)],
)
def test_trees_of_any_degree(levels, degrees, most_k, count):
    rng = np.random.default_rng([25, levels])
    for _ in range(count):
        k = int(rng.integers(2, most_k + 1))
        branch = draw_branch(rng, k, int(rng.integers(levels + 1, 60)), levels, degrees)
        tree = flatten(branch, rng)
        n = int(tree.stop[-1])
        assert n == branch.count
        expected = naive_rows(branch, k)
        for limit in (2 * k - 2, 2 * k + 1, n):
            rows = solve_rows(tree, k, 1, np.full(len(tree.start), limit, np.int64))
            for node, naive in enumerate(expected):
                actual = rows.cost[rows.first[node] : rows.first[node + 1]]
                assert actual.tolist() == [naive.get(u, math.inf) for u in range(len(actual))]
            passed_up = solve_configuration(tree, rows, k, suppress_nobody(tree))
            check_configuration(tree, k, passed_up, expected[-1][0])
            check_bundles(tree, passed_up, n)


def check_bundles(tree, passed_up, n):
    """Check that bundles have the sizes of the configuration, and members that their nodes mask."""
    keys = SortedKeys(np.arange(n, dtype=np.int32), np.zeros(n, np.int32))
    bundle, node = assign_bundles(tree, keys.order, passed_up)
    bundled = bundled_by_node(tree, passed_up)
    assert node.tolist() == [m for m, count in enumerate(bundled) if count > 0]
    assert np.bincount(bundle).tolist() == [count for count in bundled if count > 0]
    for number, m in enumerate(node):
        members = np.flatnonzero(bundle == number)
        assert tree.start[m] <= members[0]
        assert members[-1] < tree.stop[m]


def test_a_pool_far_above_the_cap():
    # Twenty children of k each, all too dear to keep: the root bundles everybody.
    k = 3
    branch = Branch(8, 2 * k, [Branch(7, k) for _ in range(20)])
    tree = flatten(branch, np.random.default_rng(0))
    rows = solve_rows(tree, k, 1)
    naive = naive_rows(branch, k)
    last = rows.cost[rows.first[-2] :]
    assert last.tolist() == [naive[-1].get(u, math.inf) for u in range(2 * k - 1)]


def test_every_node_may_keep_its_own():
    branch = Branch(9, 0, [Branch(1, 4), Branch(2, 5), Branch(3, 6)])
    tree = flatten(branch, np.random.default_rng(0))
    rows = solve_rows(tree, 4, 1)
    passed_up = solve_configuration(tree, rows, 4, suppress_nobody(tree))
    assert passed_up.tolist() == [0, 0, 0, 0]
    assert rows.cost[rows.first[-2]] == 4 + 10 + 18


def test_among_equals_the_smallest_bundle_at_the_top():
    # Two at the bottom and three at the root, or three in the middle and two at the root: 14.
    branch = Branch(4, 1, [Branch(2, 2, [Branch(1, 2)])])
    tree = flatten(branch, np.random.default_rng(0))
    rows = solve_rows(tree, 2, 1)
    assert rows.cost[rows.first[-2]] == 2 * 1 + 3 * 4 == 3 * 2 + 2 * 4
    assert solve_configuration(tree, rows, 2, suppress_nobody(tree)).tolist() == [2, 1, 0]


def test_input_is_left_as_it_was():
    for example in draw_examples(seed=26, count=10):
        _, tree = build(example)
        before = [column.copy() for column in tree]
        top = suppress_nobody(tree)
        solve_configuration(tree, solve_rows(tree, example.k, 1), example.k, top)
        assert np.array_equal(top, suppress_nobody(tree))
        assert all(np.array_equal(a, b) for a, b in zip(tree, before, strict=True))
