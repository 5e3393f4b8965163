"""traj-anon as a whole: its cost, its guarantee, and what must not influence it."""

from collections import Counter

import numpy as np
import pytest

from reference import k_summing
from reference.partitions import best_partition
from reference.tree import build_tree
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.algorithms.traj_anon.keys import build_layout, sort_keys
from trajcloak.cloaks import X_START, X_STOP, Y_START, Y_STOP
from zoo import Example, as_trajectories, build_zoo, draw_examples, draw_walks, needs_jit, repeat

ZOO = build_zoo()
NUM_SEEDS = 8
NUM_EXAMPLES = 80


def solve(example, cloak="quad", threads=1):
    cells, height, k = example
    return TrajAnon().solve(cells, height, k, cloak, threads=threads)


def exact_cost(policy):
    """Add up areas in whole numbers of any size."""
    total = 0
    sizes = Counter(policy.bundle.tolist())
    for number, cloaks in enumerate(policy.cloaks.tolist()):
        total += sizes[number] * sum((x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in cloaks)
    return total


def check_policy(example, policy):
    """Check that everybody is in one bundle of k or more whose cloaks hold the locations."""
    cells, height, k = example
    assert policy.bundle.shape == (len(cells),)
    assert policy.cloaks.shape[1:] == (cells.shape[1], 4)
    assert policy.cloaks.max() <= 1 << height
    sizes = Counter(policy.bundle.tolist())
    assert sorted(sizes) == list(range(policy.num_bundles))
    assert min(sizes.values()) >= k
    assert policy.sizes.tolist() == [sizes[number] for number in range(policy.num_bundles)]
    assert policy.num_suppressed == 0
    cloaks = policy.cloaks[policy.bundle]
    assert (cells[..., 0] >= cloaks[..., X_START]).all()
    assert (cells[..., 0] < cloaks[..., X_STOP]).all()
    assert (cells[..., 1] >= cloaks[..., Y_START]).all()
    assert (cells[..., 1] < cloaks[..., Y_STOP]).all()


def check_boxes_inside(quad, mbr):
    """Check for the same bundles, with cloaks that are no larger."""
    assert np.array_equal(quad.bundle, mbr.bundle)
    assert (mbr.cloaks[..., :2] >= quad.cloaks[..., :2]).all()
    assert (mbr.cloaks[..., 2:] <= quad.cloaks[..., 2:]).all()
    assert exact_cost(mbr) <= exact_cost(quad)


def nodes_of_bundles(slow, policy):
    """Number of the node whose cloaks each trajectory's bundle has, None for those left out."""
    by_cloaks = {
        tuple((c.x0, c.y0, c.x0 + c.width, c.y0 + c.height) for c in node.cloaks): node.number
        for node in slow.nodes
    }
    numbers = [by_cloaks[tuple(map(tuple, cloaks))] for cloaks in policy.cloaks.tolist()]
    assert len(set(numbers)) == len(numbers)
    return [None if b < 0 else numbers[b] for b in policy.bundle.tolist()]


def check_against_plain_program(example):
    slow = build_tree(as_trajectories(example.cells), example.height, "binary-axis-major")
    expected, _ = k_summing.solve(slow, example.k)
    policy = solve(example)
    check_policy(example, policy)
    assert exact_cost(policy) == expected
    # Lemma 2: the policy's configuration is k-summing. Lemma 4: it costs what the policy does.
    configuration = k_summing.configuration_of(slow, nodes_of_bundles(slow, policy))
    assert k_summing.is_k_summing(slow, configuration, example.k)
    assert k_summing.is_complete(slow, configuration)
    assert k_summing.configuration_cost(slow, configuration) == expected
    boxes = solve(example, "mbr")
    check_policy(example, boxes)
    check_boxes_inside(policy, boxes)
    return policy, expected


@pytest.mark.parametrize("seed", range(NUM_SEEDS))
def test_cost_is_the_optimum_of_the_uncompressed_tree(seed):
    for example in draw_examples(seed=[51, seed], count=NUM_EXAMPLES):
        policy, expected = check_against_plain_program(example)
        assert policy.cost() == expected


@pytest.mark.parametrize("seed", range(4))
def test_theorem_2_cost_is_at_most_length_times_the_best(seed):
    for example in draw_examples(seed=[52, seed], count=50, most=7, most_k=3):
        cells, height, k = example
        best, _ = best_partition(as_trajectories(cells), k, height, "semi-quadrant")
        cost = solve(example).cost()
        assert best <= cost <= cells.shape[1] * best


def test_one_instant_is_solved_to_the_optimum():
    for example in draw_examples(seed=53, count=60, most=7, most_k=3, length=1):
        best, _ = best_partition(
            as_trajectories(example.cells), example.k, example.height, "semi-quadrant"
        )
        assert solve(example).cost() == best


@needs_jit
@pytest.mark.parametrize("k", [2, 3, None, 2000])
@pytest.mark.parametrize("name", ZOO)
def test_zoo(name, k):
    example = ZOO[name]
    n = len(example.cells)
    example = example._replace(k=example.k if k is None else min(k, n))
    quad, mbr = solve(example), solve(example, "mbr", threads=2)
    check_policy(example, quad)
    check_policy(example, mbr)
    check_boxes_inside(quad, mbr)
    if example.k == n:
        assert quad.num_bundles == 1


@needs_jit
@pytest.mark.parametrize("k", [2, *(pytest.param(k, marks=pytest.mark.slow) for k in (3, 5))])
@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("long_and_high", 8),
        ("long_near_duplicates", 9),
        ("one_instant_high", 40),
        ("far_outlier", 31),
    ],
)
def test_deep_trees_against_the_plain_program(name, n, k):
    example = ZOO[name]
    check_against_plain_program(Example(example.cells[-n:], example.height, k))


def test_all_identical_stay_in_their_cells():
    cells = repeat([[5, 2], [7, 7], [0, 0]], 23)
    for k in (2, 22, 23):
        policy = solve(Example(cells, 3, k))
        assert policy.cloaks.tolist() == [[[5, 2, 6, 3], [7, 7, 8, 8], [0, 0, 1, 1]]]
        assert policy.cost() == 23 * 3


def test_a_line_is_cut_into_pairs():
    policy = solve(ZOO["line_y"]._replace(k=2))
    assert policy.sizes.tolist() == [2] * 32
    # A quadrant of two cells a side is halved in x first: this half holds two neighbours in y.
    assert set(map(tuple, (policy.cloaks[:, 0, 2:] - policy.cloaks[:, 0, :2]).tolist())) == {(1, 2)}


def test_one_far_outlier_takes_k_minus_1_along():
    policy = solve(ZOO["far_outlier"])
    assert sorted(policy.sizes.tolist()) == [5, 26]
    with_outlier = policy.bundle[-1]
    assert policy.sizes[with_outlier] == 5
    assert policy.cost() == 26 * 2 + 5 * 2 * 256**2


def test_where_the_root_must_take_everybody():
    # k + 1 that cannot be split: one bundle, and its box.
    cells = np.array([[[0, 0]], [[0, 0]], [[0, 0]], [[3, 3]]], np.uint32)
    assert solve(Example(cells, 2, 3)).cost() == 4 * 16
    assert solve(Example(cells[:3], 2, 3)).cost() == 3


def bundles_as_sets(cells, policy):
    """Each bundle's cloaks and the multiset of its members' trajectories."""
    return Counter(
        (policy.cloaks[number].tobytes(), tuple(sorted(t.tobytes() for t in cells[members])))
        for number in range(policy.num_bundles)
        for members in [policy.bundle == number]
    )


@needs_jit
@pytest.mark.parametrize("name", ZOO)
def test_order_of_rows_decides_only_among_identical_trajectories(name):
    example = ZOO[name]
    order = np.random.default_rng(54).permutation(len(example.cells))
    permuted = example._replace(cells=example.cells[order])
    policy, again = solve(example), solve(permuted)
    assert np.array_equal(again.cloaks, policy.cloaks)
    layout = build_layout(example.cells.shape[1], example.height)
    # Place by place in key order, equal keys in row order, the bundles are the same.
    place = sort_keys(example.cells, layout, 1).order
    place_again = sort_keys(permuted.cells, layout, 1).order
    assert np.array_equal(example.cells[place], permuted.cells[place_again])
    assert np.array_equal(policy.bundle[place], again.bundle[place_again])


@needs_jit
@pytest.mark.parametrize("cloak", ["quad", "mbr"])
@pytest.mark.parametrize("name", ZOO)
def test_any_number_of_threads_gives_the_same_arrays(name, cloak):
    example = ZOO[name]
    one = solve(example, cloak, threads=1)
    for threads in (2, 3, 7):
        many = solve(example, cloak, threads)
        assert np.array_equal(many.bundle, one.bundle)
        assert np.array_equal(many.cloaks, one.cloaks)


@needs_jit
def test_many_trajectories_with_any_number_of_threads():
    example = Example(draw_walks(np.random.default_rng(55), 40_000, 6, 9), 9, 10)
    one = solve(example)
    check_policy(example, one)
    many = solve(example, threads=4)
    assert np.array_equal(many.bundle, one.bundle)
    assert np.array_equal(many.cloaks, one.cloaks)
