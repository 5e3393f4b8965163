"""The optimum over all quad-cloak sequences, against every partition."""

import os
import sys
from itertools import combinations

import numpy as np
import pytest

from algorithms.test_traj_anon import (
    check_boxes_inside,
    check_policy,
    exact_cost,
)
from reference.partitions import best_partition, group_cloaks, partition_cost
from reference.tree import is_masked
from trajcloak.algorithms import build_algorithm, exact
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.errors import OptionError
from zoo import (
    Example,
    as_trajectories,
    draw_examples,
    draw_uniform,
    draw_walks,
    list_groups,
    repeat,
)


def solve(example, cloak="quad"):
    cells, height, k = example
    return build_algorithm("exact").solve(cells, height, k, cloak)


@pytest.mark.parametrize(
    ("seed", "height"), [(0, 3), (1, 3), (2, 3), (3, 8), (4, 24)], ids=lambda v: str(v)
)
def test_cost_is_the_least_of_all_partitions(seed, height):
    for example in draw_examples([91, seed], 40, most=7, most_k=3, height=height):
        trajectories = as_trajectories(example.cells)
        best, _ = best_partition(trajectories, example.k, example.height, "semi-quadrant")
        policy = solve(example)
        check_policy(example, policy)
        assert exact_cost(policy) == best
        groups = list_groups(policy.bundle)
        assert partition_cost(trajectories, groups, example.height, "semi-quadrant") == best


@pytest.mark.parametrize("seed", range(3))
def test_theorem_2_on_logs_too_large_to_try_every_partition(seed):
    strictly_less = 0
    for example in draw_examples([92, seed], 100, most=14, most_k=4, height=5):
        best = exact_cost(solve(example))
        approximate = exact_cost(TrajAnon().solve(*example, "quad"))
        assert best <= approximate <= example.cells.shape[1] * best
        strictly_less += best < approximate
    assert strictly_less >= 5


def test_one_instant_is_what_the_tree_finds():
    for example in draw_examples(93, 40, most=30, length=1, height=8):
        assert exact_cost(solve(example)) == exact_cost(TrajAnon().solve(*example, "quad"))


def test_beyond_what_any_one_tree_has():
    """A cloak may be small at any instant and large at any other."""
    cells = np.array(
        [[[0, 0], [0, 0]], [[0, 0], [7, 7]], [[7, 7], [0, 7]], [[0, 7], [0, 7]]], np.uint32
    )
    policy = solve(Example(cells, 3, 2))
    assert policy.bundle.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    assert policy.cost() == 4 * (64 + 1)
    # The best of the tree keeps the first and the last in the left half of the region.
    assert TrajAnon().solve(cells, 3, 2, "quad").cost() == 2 * (32 + 32) + 2 * (64 + 64)


def test_closed_sets_are_what_smallest_cloaks_mask():
    for example in draw_examples(94, 40, most=8):
        trajectories = as_trajectories(example.cells)
        users = range(len(trajectories))
        expected = {}
        for size in range(1, len(trajectories) + 1):
            for subset in combinations(users, size):
                cloaks = group_cloaks(trajectories, subset, example.height, "semi-quadrant")
                masked = sum(1 << u for u in users if is_masked(trajectories[u], cloaks))
                expected[masked] = sum(cloak.width * cloak.height for cloak in cloaks)
        sets, areas = exact.build_closed_sets(example.cells)
        assert len(set(sets)) == len(sets)
        assert dict(zip(sets, areas, strict=True)) == expected


def test_areas_far_apart():
    """A bundle of 2^48 cells beside some of a few: right to the precision of the solver."""
    rng = np.random.default_rng(95)
    near = draw_uniform(rng, 12, 2, 4)
    far = np.full((1, 2, 2), (1 << 24) - 1, np.uint32)
    cost = exact_cost(solve(Example(np.concatenate([near, far]), 24, 2)))
    outlier = 2 * 2 * 2**48
    rest = min(exact_cost(solve(Example(np.delete(near, u, 0), 4, 2))) for u in range(12))
    assert cost >= outlier + rest
    assert cost == pytest.approx(outlier + rest, rel=1e-11)


@pytest.mark.parametrize("k", [2, 5, 6])
def test_identical_trajectories(k):
    policy = solve(Example(repeat([[1, 2], [3, 0]], 6), 2, k))
    assert policy.cost() == 12
    assert policy.sizes.min() >= k


def test_boxes_lie_inside_the_quads():
    for example in draw_examples(96, 30, most=12):
        quad, mbr = solve(example), solve(example, "mbr")
        check_policy(example, mbr)
        check_boxes_inside(quad, mbr)


def test_as_many_users_as_it_can_take():
    cells = draw_walks(np.random.default_rng(97), exact.MAX_TRAJECTORIES, 2, 8)
    check_policy(Example(cells, 8, 5), solve(Example(cells, 8, 5)))


def test_more_users_than_it_can_take():
    with pytest.raises(OptionError) as caught:
        solve(Example(np.zeros((65, 1, 2), np.uint32), 3, 2))
    assert str(caught.value) == (
        "exact was given 65 users and can take 64, since the problem is NP-complete; "
        "use another algorithm=, or a smaller log"
    )


def test_more_sequences_than_it_can_take(monkeypatch):
    cells = draw_uniform(np.random.default_rng(98), 10, 3, 4)
    num_sets = len(exact.build_closed_sets(cells)[0])
    monkeypatch.setattr(exact, "MAX_SEQUENCES", num_sets)
    solve(Example(cells, 4, 2))
    monkeypatch.setattr(exact, "MAX_SEQUENCES", num_sets - 1)
    with pytest.raises(OptionError) as caught:
        solve(Example(cells, 4, 2))
    assert str(caught.value) == (
        f"exact found more than {num_sets - 1} closed cloak sequences among 10 users and "
        f"3 instants, and can take at most that many; use another algorithm=, or a smaller log"
    )


def test_without_a_solver(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(OptionError) as caught:
        solve(Example(repeat([[0, 0]], 3), 1, 2))
    assert str(caught.value) == (
        "exact needs a solver of integer programs; install the extra 'exact' of trajcloak"
    )


def test_the_solver_does_not_print_on_standard_output(monkeypatch, capfd):
    import scipy.optimize

    milp = scipy.optimize.milp

    def print_and_solve(*args, **settings):
        os.write(1, b"a line past Python\n")
        return milp(*args, **settings)

    monkeypatch.setattr(scipy.optimize, "milp", print_and_solve)
    print("before")
    solve(Example(repeat([[0, 0]], 3), 1, 2))
    print("after")
    printed = capfd.readouterr()
    assert printed.out == "before\nafter\n"
    assert printed.err == "a line past Python\n"


def test_a_solver_that_finds_nothing(monkeypatch):
    import scipy.optimize

    def give_up(*args, **settings):
        return scipy.optimize.OptimizeResult(x=None, status=4, message="gave up")

    monkeypatch.setattr(scipy.optimize, "milp", give_up)
    with pytest.raises(AssertionError, match="ended without a solution: gave up"):
        solve(Example(repeat([[0, 0]], 3), 1, 2))


def test_what_cannot_be_finished_in_time_is_refused(monkeypatch):
    monkeypatch.setattr(exact, "MAX_SECONDS", 0.001)
    cells = draw_walks(np.random.default_rng(98), exact.MAX_TRAJECTORIES, 5, 8)
    with pytest.raises(OptionError, match=r"exact saw 64 users and \d+ closed .* could not prove"):
        build_algorithm("exact").solve(cells, 8, 3, "quad")
