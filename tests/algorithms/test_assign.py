"""From configurations to bundles, and the cloaks of nodes."""

import numpy as np
import pytest

from algorithms.test_gtree import build
from reference.tree import build_tree, path_to_root
from trajcloak.algorithms.traj_anon.assign import assign_bundles, build_node_cloaks
from trajcloak.algorithms.traj_anon.keys import build_layout
from trajcloak.algorithms.traj_anon.solve import solve_configuration, solve_rows
from trajcloak.algorithms.traj_anon.suppression import suppress_above, suppress_nobody
from trajcloak.cloaks import X_START, X_STOP, Y_START, Y_STOP, compute_areas
from zoo import Example, as_keys, as_trajectories, build_zoo, draw_examples, needs_jit

ZOO = build_zoo()


def all_node_cloaks(example):
    """Cloaks of all nodes of the tree, whether they form a bundle or not."""
    keys, tree = build(example)
    layout = build_layout(example.cells.shape[1], example.height)
    node = np.arange(len(tree.start), dtype=np.int32)
    cloaks = build_node_cloaks(example.cells, keys, layout, example.height, tree, node)
    return keys, tree, cloaks


def halve(prefix, length, height):
    """The cloaks of a key's prefix, by one halving after the other."""
    cloaks = [[0, 0, 1 << height, 1 << height] for _ in range(length)]
    for place, bit in enumerate(prefix):
        axis = place // length % 2
        cloak = cloaks[place % length]
        middle = (cloak[axis] + cloak[axis + 2]) // 2
        cloak[axis if bit == "1" else axis + 2] = middle
    return cloaks


def pass_up_one_by_one(tree, order, passed_up):
    """Bundle as the definition says, with a list of trajectories for each node."""
    bundle = [-1] * len(order)
    waiting = {}
    nodes = []
    for node in range(len(tree.start)):
        inside = sorted(
            (other for other in waiting if tree.start[node] <= tree.start[other]),
            key=lambda other: tree.start[other],
        )
        in_a_child = {p for child in inside for p in range(tree.start[child], tree.stop[child])}
        received = [p for p in range(tree.start[node], tree.stop[node]) if p not in in_a_child]
        for child in inside:
            received += waiting.pop(child)
        received.sort()
        waiting[node] = received
        if passed_up[node] >= 0 and len(received) > passed_up[node]:
            for place in received[passed_up[node] :]:
                bundle[order[place]] = len(nodes)
            waiting[node] = received[: passed_up[node]]
            nodes.append(node)
    return bundle, nodes


def test_cloaks_are_those_of_the_uncompressed_tree():
    for example in draw_examples(seed=41, count=80):
        keys, tree, cloaks = all_node_cloaks(example)
        slow = build_tree(as_trajectories(example.cells), example.height, "binary-axis-major")
        expected = {
            (len(path_to_root(node)) - 1, frozenset(node.masked)): node for node in slow.nodes
        }
        for node, corners in enumerate(cloaks.tolist()):
            masked = frozenset(keys.order[tree.start[node] : tree.stop[node]].tolist())
            twin = expected[int(tree.depth[node]), masked]
            assert corners == [[c.x0, c.y0, c.x0 + c.width, c.y0 + c.height] for c in twin.cloaks]
            assert tree.area[node] == twin.area


@needs_jit
@pytest.mark.parametrize("name", ZOO)
def test_cloaks_of_the_zoo(name):
    example = ZOO[name]
    cells, height, _ = example
    keys, tree, cloaks = all_node_cloaks(example)
    assert cloaks.dtype == np.uint32
    assert np.array_equal(compute_areas(cloaks).sum(axis=1), tree.area)
    for node in range(len(tree.start)):
        masked = cells[keys.order[tree.start[node] : tree.stop[node]]]
        assert (masked[..., 0] >= cloaks[node, :, X_START]).all()
        assert (masked[..., 0] < cloaks[node, :, X_STOP]).all()
        assert (masked[..., 1] >= cloaks[node, :, Y_START]).all()
        assert (masked[..., 1] < cloaks[node, :, Y_STOP]).all()
    for node in range(0, len(tree.start), 1 + len(tree.start) // 40):
        sample = keys.order[tree.start[node]]
        prefix = as_keys(cells[sample : sample + 1], height)[0][: tree.depth[node]]
        assert cloaks[node].tolist() == halve(prefix, cells.shape[1], height)


@pytest.mark.parametrize("price", [None, 3.0, 9.5, 40.0])
def test_bundles_are_taken_as_the_definition_says(price):
    for example in draw_examples(seed=42, count=80, most=30):
        keys, tree = build(example)
        rows = solve_rows(tree, example.k, 1)
        top = suppress_nobody(tree) if price is None else suppress_above(tree, rows, price)
        passed_up = solve_configuration(tree, rows, example.k, top)
        bundle, node = assign_bundles(tree, keys.order, passed_up)
        expected_bundle, expected_node = pass_up_one_by_one(tree, keys.order, passed_up)
        assert bundle.dtype == node.dtype == np.int32
        assert bundle.tolist() == expected_bundle
        assert node.tolist() == expected_node


def test_the_first_in_key_order_are_passed_up():
    # Six in one cell and two in another: of the six, the first two go up to the root.
    cells = np.array([[[0, 0]]] * 6 + [[[1, 1]]] * 2, np.uint32)
    keys, tree = build(Example(cells, 1, 4))
    rows = solve_rows(tree, 4, 1)
    passed_up = solve_configuration(tree, rows, 4, suppress_nobody(tree))
    assert passed_up.tolist() == [2, 0]
    bundle, node = assign_bundles(tree, keys.order, passed_up)
    assert bundle.tolist() == [1, 1, 0, 0, 0, 0, 1, 1]
    assert node.tolist() == [0, 1]


def test_no_bundle_at_all():
    keys, tree = build(ZOO["every_cell"])
    nowhere = np.full(len(tree.start), -1, np.int64)
    bundle, node = assign_bundles(tree, keys.order, nowhere)
    assert (bundle == -1).all()
    assert len(node) == 0
