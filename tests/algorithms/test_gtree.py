"""The compressed tree, against prefixes counted one by one."""

from fractions import Fraction

import numpy as np
import pytest

from reference.tree import build_tree
from trajcloak.algorithms.traj_anon.gtree import build_areas, build_gtree
from trajcloak.algorithms.traj_anon.keys import build_layout, sort_keys
from zoo import (
    as_keys,
    as_trajectories,
    build_zoo,
    draw_examples,
    draw_uniform,
    flip_last_bits,
    needs_jit,
)

ZOO = build_zoo()


def build(example):
    cells, height, k = example
    layout = build_layout(cells.shape[1], height)
    keys = sort_keys(cells, layout, 1)
    return keys, build_gtree(keys, layout, k)


def naive_nodes(keys, k):
    """Rows of each prefix that has k or more trajectories, and branches or is a whole key."""
    masked = {}
    for row, key in enumerate(keys):
        for depth in range(len(key) + 1):
            masked.setdefault(key[:depth], []).append(row)
    return {
        prefix: frozenset(rows)
        for prefix, rows in masked.items()
        if len(rows) >= k
        and (len(prefix) == len(keys[0]) or (prefix + "0" in masked and prefix + "1" in masked))
    }


def check_against_prefixes(example):
    cells, height, k = example
    keys, tree = build(example)
    expected = naive_nodes(as_keys(cells, height), k)
    rows = [
        frozenset(keys.order[start:stop].tolist())
        for start, stop in zip(tree.start, tree.stop, strict=True)
    ]
    actual = set(zip(tree.depth.tolist(), rows, strict=True))
    assert len(actual) == len(tree.start)
    assert actual == {(len(prefix), masked) for prefix, masked in expected.items()}
    for node, (depth, masked) in enumerate(zip(tree.depth, rows, strict=True)):
        inside = [
            (other_depth, other)
            for other_depth, other in actual
            if other <= masked and other_depth > depth
        ]
        assert tree.below[node] == 1 + len(inside)
        in_some_child = frozenset().union(*(other for _, other in inside))
        assert tree.loose[node] == len(masked - in_some_child)


def check_postorder(tree, n, k):
    """Check that the arrays of a GTree fit together as its docstring says."""
    num_nodes = len(tree.start)
    assert {len(field) for field in tree} == {num_nodes}
    assert tree.start[-1] == 0
    assert tree.stop[-1] == n
    assert tree.below[-1] == num_nodes
    assert (tree.stop - tree.start >= k).all()
    for node in range(num_nodes):
        bottom = node - tree.below[node]
        held = 0
        child = node - 1
        right_edge = tree.stop[node]
        while child > bottom:
            assert tree.start[node] <= tree.start[child] < tree.stop[child] <= right_edge
            assert tree.depth[child] > tree.depth[node]
            assert tree.area[child] < tree.area[node]
            right_edge = tree.start[child]
            held += tree.stop[child] - tree.start[child]
            child -= tree.below[child]
        assert child == bottom
        assert tree.loose[node] == tree.stop[node] - tree.start[node] - held


@pytest.mark.parametrize("seed", range(4))
def test_small_random_trees(seed):
    for example in draw_examples(seed=[11, seed], count=75, most=25):
        check_against_prefixes(example)
        check_postorder(build(example)[1], len(example.cells), example.k)


def test_long_keys():
    rng = np.random.default_rng(12)
    for k in (2, 3, 4):
        cells = flip_last_bits(rng, draw_uniform(rng, 4, 12, 20), 30)
        check_against_prefixes((cells, 20, k))


@needs_jit
@pytest.mark.parametrize("name", ZOO)
def test_zoo(name):
    example = ZOO[name]
    _, tree = build(example)
    check_postorder(tree, len(example.cells), example.k)
    if len(example.cells) <= 100:
        check_against_prefixes(example)


def test_identical_trajectories_are_one_node():
    _, tree = build(ZOO["identical"])
    assert [field.tolist() for field in tree] == [[0], [23], [2 * 3 * 3], [23], [1], [3.0]]


def test_exactly_k_make_a_node_and_fewer_do_not():
    # Three at one corner, two at the other.
    cells = np.array([[[0, 0]]] * 3 + [[[1, 1]]] * 2, np.uint32)
    depths = {k: build((cells, 1, k))[1].depth.tolist() for k in (2, 3, 4, 5)}
    assert depths == {2: [2, 2, 0], 3: [2, 0], 4: [0], 5: [0]}
    assert build((cells, 1, 3))[1].loose.tolist() == [3, 2]
    assert build((cells, 1, 4))[1].loose.tolist() == [5]


def test_root_is_the_deepest_node_that_masks_all():
    cells = np.array([[[4, 4]], [[4, 5]], [[5, 4]]], np.uint32)
    _, tree = build((cells, 3, 2))
    assert tree.depth[-1] == 4
    assert tree.area[-1] == 4.0


@pytest.mark.parametrize(("length", "height"), [(1, 1), (1, 24), (2, 3), (7, 5), (70, 24)])
def test_areas_by_depth(length, height):
    # Halve one cloak after the other and add up, in whole numbers and their halves.
    expected = []
    cloak = [Fraction(4**height)] * length
    for depth in range(2 * length * height + 1):
        expected.append(sum(cloak))
        cloak[depth % length] /= 2
    actual = build_areas(build_layout(length, height))
    assert actual.dtype == np.float64
    assert [Fraction(area) for area in actual] == expected
    assert (np.diff(actual) < 0).all()


def test_areas_are_those_of_the_cloaks():
    for example in draw_examples(seed=13, count=30):
        cells, height, _ = example
        keys, tree = build(example)
        slow = build_tree(as_trajectories(cells), height, "binary-axis-major")
        masks = {}
        for node in slow.nodes:  # parents first: the deepest of equals stays
            masks[frozenset(node.masked)] = node.area
        for start, stop, area in zip(tree.start, tree.stop, tree.area, strict=True):
            assert area == masks[frozenset(keys.order[start:stop].tolist())]
