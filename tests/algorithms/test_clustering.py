"""Fast and slow clustering against naive versions that scan everybody at every step."""

import math

import numpy as np
import pytest

from algorithms.test_traj_anon import check_policy
from reference import clustering as naive
from trajcloak.algorithms import build_algorithm
from trajcloak.algorithms.clustering import (
    CHUNK,
    CLUSTERS_PER_CALL,
    build_columns,
    cost_with,
    costs_with_each,
    start_box,
)
from zoo import (
    Example,
    as_keys,
    as_trajectories,
    build_zoo,
    draw_clustered,
    draw_examples,
    draw_uniform,
    needs_jit,
    repeat,
)

ZOO = build_zoo()
NAIVE = {False: naive.cluster_fast, True: naive.cluster_slow}
either = pytest.mark.parametrize("slow", [False, True], ids=["fast", "slow"])


def solve(example, slow, seed=0, cloak="mbr", **settings):
    cells, height, k = example
    algorithm = build_algorithm("slow-clustering" if slow else "fast-clustering", seed=seed)
    return algorithm.solve(cells, height, k, cloak, **settings)


def sort_naively(cells, height):
    """Rows in the order of their trajectories, equal ones by row."""
    keys = as_keys(cells, height)
    return sorted(range(len(cells)), key=lambda row: (keys[row], row))


def check_against_naive(example, slow, seed):
    """The same clusters, numbered in the order in which they were grown."""
    order = sort_naively(example.cells, example.height)
    centres = np.random.default_rng(seed).permutation(len(order)).tolist()
    trajectories = as_trajectories(example.cells[order])
    expected = NAIVE[slow](trajectories, example.k, centres)
    policy = solve(example, slow, seed)
    check_policy(example, policy)
    bundle = policy.bundle[order]
    actual = [np.flatnonzero(bundle == number).tolist() for number in range(policy.num_bundles)]
    assert actual == [sorted(cluster) for cluster in expected]
    assert policy.cost() == naive.cost(trajectories, expected)
    assert policy.num_bundles == len(example.cells) // example.k


@either
@pytest.mark.parametrize("seed", range(4))
def test_clusters_are_those_of_a_full_scan(slow, seed):
    for number, example in enumerate(draw_examples([61, seed], 60, most=20)):
        check_against_naive(example, slow, seed=100 * seed + number)


@either
def test_large_clusters_are_those_of_a_full_scan(slow):
    """Many candidates, so that many bounds in the heap are out of date."""
    for number, example in enumerate(draw_examples(62, 40, most=40, most_k=14, length=3, height=4)):
        check_against_naive(example, slow, number)


@either
def test_more_instants_than_are_multiplied_at_once(slow):
    for number, example in enumerate(draw_examples(63, 60, most=14, length=3 * CHUNK, height=24)):
        check_against_naive(example, slow, number)


@needs_jit
@either
def test_more_clusters_than_are_grown_in_one_call(slow):
    n = 2 * (CLUSTERS_PER_CALL + 20) + 1
    cells = draw_clustered(np.random.default_rng(64), n, 2, 8, spread=30, centres=9)
    check_against_naive(Example(cells, 8, 2), slow, 5)


@either
def test_the_far_ends_of_the_finest_grid(slow):
    """Areas of 2^48 at 40 instants: their product is far beyond a float."""
    far = (1 << 24) - 1
    corners = np.array([[0, 0], [far, far], [0, far], [far, 0]], np.uint32)
    rng = np.random.default_rng(65)
    cells = corners[rng.integers(0, 4, size=(11, 40))]
    check_against_naive(Example(cells, 24, 3), slow, 1)


@pytest.mark.parametrize("length", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, 70])
def test_costs_are_sums_of_logarithms(length):
    rng = np.random.default_rng(length)
    cells = draw_uniform(rng, 30, length, 24)
    cells[1] = (1 << 24) - 1 - cells[0]
    cells[2], cells[3] = 0, (1 << 24) - 1
    columns = build_columns(cells)
    trajectories = as_trajectories(cells)
    for centre in (0, 2):
        box = np.empty((2 * length, 2), np.float32)
        start_box(columns, centre, box)
        costs = np.full(30, np.nan)
        costs_with_each(columns, 30, box, np.empty(30), costs)
        for other in range(30):
            expected = math.log2(naive.area_product(trajectories, [centre, other]))
            assert costs[other] == pytest.approx(expected, rel=1e-12, abs=1e-9)
            assert cost_with(columns, other, box) == costs[other]
    assert costs[3] == 48 * length


def clusters_of(policy):
    """Rows of each bundle, in the order of the bundles."""
    return [np.flatnonzero(policy.bundle == b).tolist() for b in range(policy.num_bundles)]


def find_seed(n, first):
    """A seed with which a given trajectory is the first centre."""
    return next(s for s in range(1000) if np.random.default_rng(s).permutation(n)[0] == first)


def test_fast_and_slow_by_hand():
    cells = np.array([[[x, 0]] for x in (0, 4, 7, 8, 14, 15)], np.uint32)
    example = Example(cells, 4, 3)
    seed = find_seed(6, first=1)
    # With the centre at 4, rectangles end at 0, 7, 8 and are 5, 4, 5 cells long: fast takes 7
    # and, of two that tie, the first. Slow has 4..7 by then, where 0 adds four cells and 8 one.
    assert clusters_of(solve(example, False, seed)) == [[0, 1, 2], [3, 4, 5]]
    assert clusters_of(solve(example, True, seed)) == [[1, 2, 3], [0, 4, 5]]
    # One row up, the rectangle to the first is 5 by 2.
    cells[0, 0, 1] = 1
    assert clusters_of(solve(example, False, seed)) == [[1, 2, 3], [0, 4, 5]]


@either
def test_leftovers_join_the_cluster_whose_cost_they_raise_least(slow):
    # Clusters 0..2 and 12..15. The cell at 5 doubles the first. Then 9 makes 10 cells of 6, or 7
    # of 4, which is the larger factor, though it adds fewer cells.
    cells = np.array([[[x, 3]] for x in (0, 1, 2, 5, 9, 12, 14, 15)], np.uint32)
    example = Example(cells, 4, 3)
    grown = next(
        s for s in range(1000) if np.random.default_rng(s).permutation(8).tolist()[:2] == [0, 7]
    )
    assert clusters_of(solve(example, slow, grown)) == [[0, 1, 2, 3, 4], [5, 6, 7]]
    for seed in range(20):
        check_against_naive(example, slow, seed)


@either
def test_a_leftover_inside_several_clusters_joins_the_first(slow):
    """Rounding decides nothing: it raises the cost of neither box."""
    square = [[0, 0], [6, 6]]
    other = [[0, 6], [6, 0]]
    cells = np.array([[p] * 3 for p in [*square, *other, [3, 3]]], np.uint32)
    for seed in range(20):
        check_against_naive(Example(cells, 3, 2), slow, seed)


@either
def test_identical_trajectories(slow):
    policy = solve(Example(repeat([[1, 2], [3, 0]], 11), 2, 3), slow)
    assert policy.num_bundles == 3
    assert policy.cost() == 22


@either
def test_the_seed_decides(slow):
    example = ZOO["walks"]._replace(cells=ZOO["walks"].cells[:200])
    first = solve(example, slow, seed=7)
    assert np.array_equal(solve(example, slow, seed=7).bundle, first.bundle)
    assert not np.array_equal(solve(example, slow, seed=8).bundle, first.bundle)


@either
def test_progress_ends_where_it_should(slow):
    calls = []
    solve(ZOO["duplicates_below_k"], slow, progress=lambda *c: calls.append(c))
    assert calls[0] == ("clustering", 0, 225)
    assert calls[-1] == ("clustering", 225, 225)
    assert [done for _, done, _ in calls] == [0, 64, 128, 192, 225]
