"""traj-anon on each tree of the paper, against the plain program on the uncompressed tree."""

import numpy as np
import pytest

from algorithms.test_traj_anon import (
    bundles_as_sets,
    check_boxes_inside,
    check_policy,
    exact_cost,
    nodes_of_bundles,
)
from reference import k_summing
from reference.tree import build_tree
from runs import anonymize
from small_logs import COLUMNS, UNIT_CELLS, Row, write_parquet
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.algorithms.traj_anon.gtree import build_areas
from trajcloak.algorithms.traj_anon.keys import build_layout
from trajcloak.auditor import audit_files
from trajcloak.log import read_in_memory
from trajcloak.options import TREES
from trajcloak.release.reading import read_manifest
from zoo import Example, as_trajectories, build_zoo, draw_clustered, draw_examples, needs_jit

KINDS = {
    "usb": "binary-axis-major",
    "usb-instant": "binary-instant-major",
    "us": "us",
    "u": "u",
}
"""Our trees, and what the slow twin calls them."""

ZOO = build_zoo()
each_tree = pytest.mark.parametrize("tree", TREES)


def solve(example, tree, cloak="quad", threads=1):
    cells, height, k = example
    return TrajAnon(tree).solve(cells, height, k, cloak, threads=threads)


def check_against_plain_program(example, tree):
    slow = build_tree(as_trajectories(example.cells), example.height, KINDS[tree])
    expected, _ = k_summing.solve(slow, example.k)
    policy = solve(example, tree)
    check_policy(example, policy)
    assert exact_cost(policy) == policy.cost() == expected
    # Every bundle is a node of this very tree, and the configuration is k-summing.
    configuration = k_summing.configuration_of(slow, nodes_of_bundles(slow, policy))
    assert k_summing.is_k_summing(slow, configuration, example.k)
    assert k_summing.is_complete(slow, configuration)
    assert k_summing.configuration_cost(slow, configuration) == expected
    check_boxes_inside(policy, solve(example, tree, "mbr"))


def test_every_tree_has_a_slow_twin():
    assert sorted(KINDS) == sorted(TREES)


@each_tree
@pytest.mark.parametrize("seed", range(3))
def test_cost_is_the_optimum_of_the_uncompressed_tree(tree, seed):
    for example in draw_examples([101, seed], 60):
        check_against_plain_program(example, tree)


@each_tree
def test_cost_is_the_optimum_where_nodes_have_many_children(tree):
    for example in draw_examples([102], 25, most=45, most_k=4, length=2, height=2):
        check_against_plain_program(example, tree)


@needs_jit
@pytest.mark.parametrize("tree", ["usb-instant", "us", "u"])
@pytest.mark.parametrize("name", ["long_and_high", "long_near_duplicates", "one_instant_high"])
def test_deep_trees_against_the_plain_program(name, tree):
    example = ZOO[name]
    check_against_plain_program(Example(example.cells[-8:], example.height, 3), tree)


@each_tree
def test_suppression_at_a_price(tree):
    suppressed = 0
    for number, example in enumerate(draw_examples(103, 40)):
        cells, height, k = example
        price = [3.5, 9.25, 40.5][number % 3] * cells.shape[1]
        slow = build_tree(as_trajectories(cells), height, KINDS[tree])
        expected, _ = k_summing.solve_with_suppression(slow, k, price)
        policy = TrajAnon(tree, suppress_above=price).solve(cells, height, k, "quad")
        assert exact_cost(policy) + price * policy.num_suppressed == expected
        suppressed += policy.num_suppressed > 0
    assert suppressed >= 5


def test_lemma_5_more_nodes_never_cost_more():
    strictly_less = dict.fromkeys(["us", "usb-instant", "usb"], 0)
    for example in draw_examples(104, 300, most=16, height=5):
        cost = {tree: exact_cost(solve(example, tree)) for tree in TREES}
        assert cost["us"] <= cost["u"]
        assert cost["usb-instant"] <= cost["us"]
        # The axis-major tree has the nodes of the U-tree, but not those of the US-tree.
        assert cost["usb"] <= cost["u"]
        for finer, coarser in (("us", "u"), ("usb-instant", "us"), ("usb", "u")):
            strictly_less[finer] += cost[finer] < cost[coarser]
    assert min(strictly_less.values()) >= 20


def test_one_instant_has_two_trees():
    for example in draw_examples(105, 60, length=1):
        cost = {tree: exact_cost(solve(example, tree)) for tree in TREES}
        assert cost["usb"] == cost["usb-instant"] <= cost["us"] == cost["u"]


@each_tree
def test_cloaks_are_quadrants_or_quadrants_cut_in_x(tree):
    halves = 0
    for example in draw_examples(106, 80, most=30, height=5):
        for sequence in solve(example, tree).cloaks.tolist():
            sides = []
            for x0, y0, x1, y1 in sequence:
                width, side = x1 - x0, y1 - y0
                assert side.bit_count() == 1
                assert width == side or 2 * width == side
                assert x0 % width == 0
                assert y0 % side == 0
                halves += width < side
                sides.append((width, side))
            if tree == "u":
                assert len(set(sides)) == 1
    assert (halves > 0) == (tree in ("usb", "usb-instant"))


def test_layouts_of_two_instants_by_hand():
    """``2 * instant + axis`` of the bits of one level, and how many make a node."""
    bits = {tree: build_layout(length=2, height=2, tree=tree) for tree in TREES}
    level = {
        tree: (layout.column[:4].tolist(), layout.bits_per_level) for tree, layout in bits.items()
    }
    assert level == {
        "usb": ([0, 2, 1, 3], 1),
        "usb-instant": ([0, 1, 2, 3], 1),
        "us": ([0, 1, 2, 3], 2),
        "u": ([0, 1, 2, 3], 4),
    }
    for layout in bits.values():
        assert layout.column[4:].tolist() == layout.column[:4].tolist()
        assert layout.shift.tolist() == [1] * 4 + [0] * 4


@each_tree
def test_areas_by_depth_are_those_of_the_slow_tree(tree):
    length, height = 3, 3
    layout = build_layout(length, height, tree)
    areas = build_areas(layout)
    cells = draw_clustered(np.random.default_rng(107), 12, length, height)
    slow = build_tree(as_trajectories(cells), height, KINDS[tree])
    for node in slow.nodes:
        depth, parent = 0, node.parent
        while parent is not None:
            depth, parent = depth + 1, parent.parent
        assert areas[depth * layout.bits_per_level] == node.area


@needs_jit
@each_tree
@pytest.mark.parametrize("name", ZOO)
def test_zoo(name, tree):
    example = ZOO[name]
    quad, mbr = solve(example, tree), solve(example, tree, "mbr", threads=3)
    check_policy(example, quad)
    check_policy(example, mbr)
    check_boxes_inside(quad, mbr)


@each_tree
def test_order_of_rows_and_threads_change_no_bundle(tree):
    rng = np.random.default_rng(108)
    for example in draw_examples(109, 40, most=40, height=4):
        shuffled = example._replace(cells=example.cells[rng.permutation(len(example.cells))])
        expected = bundles_as_sets(example.cells, solve(example, tree))
        assert bundles_as_sets(shuffled.cells, solve(shuffled, tree, threads=3)) == expected


@each_tree
@pytest.mark.parametrize("cloak", ["mbr", "quad"])
def test_releases_pass_the_audit(tmp_path, tree, cloak):
    cells = draw_clustered(np.random.default_rng(110), 25, 3, 4, spread=3, centres=4)
    rows = [
        Row(f"user-{user}", instant, int(x), int(y), f"r{(user + instant) % 5}")
        for user, trajectory in enumerate(cells)
        for instant, (x, y) in enumerate(trajectory)
    ]
    log = write_parquet(tmp_path / "log.parquet", rows)
    result = anonymize(
        read_in_memory(log, COLUMNS),
        3,
        algorithm="traj-anon",
        tree=tree,
        cloak=cloak,
        threads=1,
        **UNIT_CELLS,
    )
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    assert read_manifest(tmp_path / "release")["parameters"]["tree"] == tree
    report = audit_files(log, tmp_path / "release", tmp_path / "policy.parquet", COLUMNS)
    assert [check.name for check in report.checks if not check.passed] == []
