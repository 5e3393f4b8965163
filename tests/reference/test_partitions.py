import numpy as np
import pytest

from .k_summing import solve
from .partitions import (
    all_partitions,
    best_partition,
    covering_box,
    covering_quadrant,
    covering_semi_quadrant,
    group_cost,
)
from .tree import Cloak, build_tree


def random_cases(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        height = int(rng.integers(1, 4))
        length = int(rng.integers(1, 4))
        k = int(rng.integers(2, 4))
        num_trajectories = int(rng.integers(k, 8))
        cells = rng.integers(0, 2**height, size=(num_trajectories, length, 2))
        trajectories = [[(int(x), int(y)) for x, y in trajectory] for trajectory in cells]
        yield trajectories, k, height, length


@pytest.mark.parametrize(("count", "k", "expected"), [(5, 1, 52), (4, 2, 4), (6, 3, 11), (3, 4, 0)])
def test_number_of_partitions(count, k, expected):
    partitions = list(all_partitions(range(count), k))
    assert len(partitions) == expected
    as_sets = {frozenset(frozenset(group) for group in groups) for groups in partitions}
    assert len(as_sets) == expected
    for groups in partitions:
        assert sorted(member for group in groups for member in group) == list(range(count))


def test_covers_by_hand():
    assert covering_quadrant([(5, 2)], 3) == Cloak(5, 2, 1, 1)
    assert covering_quadrant([(4, 2), (5, 3)], 3) == Cloak(4, 2, 2, 2)
    assert covering_quadrant([(3, 3), (4, 4)], 3) == Cloak(0, 0, 8, 8)
    assert covering_semi_quadrant([(4, 2), (4, 3)], 3) == Cloak(4, 2, 1, 2)
    assert covering_semi_quadrant([(4, 2), (5, 2)], 3) == Cloak(4, 2, 2, 2)
    assert covering_semi_quadrant([(4, 0), (7, 7)], 3) == Cloak(4, 0, 4, 8)
    assert covering_box([(3, 3), (4, 4)], 3) == Cloak(3, 3, 2, 2)


def test_cost_of_a_group_by_hand():
    trajectories = [[(0, 0), (3, 3)], [(0, 1), (3, 3)], [(0, 1), (0, 0)]]
    assert group_cost(trajectories, [0, 1], 2, "quadrant") == 2 * (4 + 1)
    assert group_cost(trajectories, [0, 1], 2, "semi-quadrant") == 2 * (2 + 1)
    assert group_cost(trajectories, [0, 2], 2, "box") == 2 * (2 + 16)


def test_best_partition_by_hand():
    trajectories = [[(0, 0)], [(3, 3)], [(0, 0)], [(3, 3)]]
    assert best_partition(trajectories, 2, 2, "quadrant") == (4, [[0, 2], [1, 3]])
    with pytest.raises(ValueError, match="no group of 5"):
        best_partition(trajectories, 5, 2, "quadrant")


def test_boxes_cost_at_most_semi_quadrants_and_these_at_most_quadrants():
    for trajectories, k, height, _ in random_cases(seed=10, count=20):
        box, semi, quadrant = (
            best_partition(trajectories, k, height, cover)[0]
            for cover in ("box", "semi-quadrant", "quadrant")
        )
        assert box <= semi <= quadrant


def test_theorem_2_and_lemma_5():
    for trajectories, k, height, length in random_cases(seed=11, count=30):
        best = best_partition(trajectories, k, height, "quadrant")[0]
        cost = {
            kind: solve(build_tree(trajectories, height, kind), k)[0]
            for kind in ("u", "us", "binary-instant-major", "binary-axis-major")
        }
        assert best <= cost["us"] <= cost["u"] <= length * best
        assert cost["binary-instant-major"] <= cost["us"]
        assert cost["binary-axis-major"] <= cost["u"]


def test_axis_major_tree_is_within_l_of_the_best_semi_quadrant_partition():
    for trajectories, k, height, length in random_cases(seed=12, count=30):
        best = best_partition(trajectories, k, height, "semi-quadrant")[0]
        cost = solve(build_tree(trajectories, height, "binary-axis-major"), k)[0]
        assert best <= cost <= length * best


def test_one_instant_is_solved_exactly():
    for trajectories, k, height, length in random_cases(seed=13, count=60):
        if length == 1:
            for kind, cover in (("u", "quadrant"), ("binary-axis-major", "semi-quadrant")):
                tree = build_tree(trajectories, height, kind)
                assert solve(tree, k)[0] == best_partition(trajectories, k, height, cover)[0]
