from itertools import product

import numpy as np
import pytest

from .tree import SPLITS, Cloak, all_child_cloaks, build_tree, is_masked, path_to_root


def random_trajectories(seed, count, length, height):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 2**height, size=(count, length, 2))
    return [[(int(x), int(y)) for x, y in trajectory] for trajectory in cells]


def all_trajectories(height, length):
    cells = list(product(range(2**height), repeat=2))
    return [list(trajectory) for trajectory in product(cells, repeat=length)]


@pytest.mark.parametrize(
    ("kind", "degree", "depth"),
    [
        ("binary-axis-major", 2, 12),
        ("binary-instant-major", 2, 12),
        ("us", 4, 6),
        ("u", 4**3, 2),
    ],
)
def test_degree_and_depth(kind, degree, depth):
    trajectories = random_trajectories(1, count=7, length=3, height=2)
    tree = build_tree(trajectories, 2, kind)
    for node in tree.nodes:
        if not node.is_leaf:
            assert len(all_child_cloaks(node)) == degree
    leaves = [node for node in tree.nodes if node.is_leaf]
    assert {len(path_to_root(leaf)) - 1 for leaf in leaves} == {depth}
    assert all(cloak.width == cloak.height == 1 for leaf in leaves for cloak in leaf.cloaks)


@pytest.mark.parametrize("kind", SPLITS)
def test_a_node_masks_exactly_the_trajectories_inside_its_cloaks(kind):
    trajectories = random_trajectories(2, count=9, length=2, height=2)
    tree = build_tree(trajectories, 2, kind)
    for node in tree.nodes:
        inside = [t for t, path in enumerate(trajectories) if is_masked(path, node.cloaks)]
        assert node.masked == inside
        if not node.is_leaf:
            assert sorted(t for child in node.children for t in child.masked) == inside
            assert {child.cloaks for child in node.children} <= set(all_child_cloaks(node))


@pytest.mark.parametrize("kind", SPLITS)
def test_areas_strictly_decrease_from_parent_to_child(kind):
    tree = build_tree(random_trajectories(3, count=9, length=2, height=3), 3, kind)
    assert tree.root.area == 2 * 64
    assert all(child.area < node.area for node in tree.nodes for child in node.children)


def test_first_cuts_of_each_kind():
    everywhere = all_trajectories(height=1, length=2)
    left, lower_left = Cloak(0, 0, 1, 2), Cloak(0, 0, 1, 1)
    whole = Cloak(0, 0, 2, 2)
    first_path = {}
    for kind in SPLITS:
        node = build_tree(everywhere, 1, kind).root
        first_path[kind] = []
        while node.children:
            node = node.children[0]
            first_path[kind].append(node.cloaks)
    assert first_path == {
        "binary-axis-major": [
            (left, whole),
            (left, left),
            (lower_left, left),
            (lower_left, lower_left),
        ],
        "binary-instant-major": [
            (left, whole),
            (lower_left, whole),
            (lower_left, left),
            (lower_left, lower_left),
        ],
        "us": [(lower_left, whole), (lower_left, lower_left)],
        "u": [(lower_left, lower_left)],
    }


def test_each_finer_tree_holds_the_nodes_of_the_coarser():
    trajectories = random_trajectories(4, count=12, length=3, height=2)
    sequences = {
        kind: {node.cloaks for node in build_tree(trajectories, 2, kind).nodes} for kind in SPLITS
    }
    assert sequences["u"] < sequences["us"] < sequences["binary-instant-major"]
    assert sequences["u"] < sequences["binary-axis-major"]


def test_axis_major_tree_holds_all_uniform_semi_quadrant_sequences():
    everywhere = all_trajectories(height=1, length=2)
    sequences = {node.cloaks for node in build_tree(everywhere, 1, "binary-axis-major").nodes}
    halves = [Cloak(0, 0, 1, 2), Cloak(1, 0, 1, 2)]
    assert set(product(halves, repeat=2)) <= sequences
    instant_major = {
        node.cloaks for node in build_tree(everywhere, 1, "binary-instant-major").nodes
    }
    assert not set(product(halves, repeat=2)) & instant_major


def test_height_zero_is_one_leaf():
    tree = build_tree([[(0, 0)], [(0, 0)]], 0, "u")
    assert len(tree.nodes) == 1
    assert tree.root.is_leaf
    assert tree.root.area == 1


def test_bad_trajectories_are_refused():
    with pytest.raises(ValueError, match="lengths"):
        build_tree([[(0, 0)], [(0, 0), (1, 1)]], 1, "u")
    with pytest.raises(ValueError, match="outside"):
        build_tree([[(0, 2)]], 1, "u")
