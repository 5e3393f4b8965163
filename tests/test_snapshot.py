"""Policies for one instant: the optimum, and the tightest cloak around k users."""

import numpy as np
import pytest

from reference import k_summing
from reference.attacks import is_inside, k_inside
from reference.partitions import best_partition
from reference.tree import Cloak, build_tree
from trajcloak.cloaks import compute_areas
from trajcloak.snapshot import BULK_DP, K_INSIDE, SNAPSHOT_POLICIES, solve_snapshot
from zoo import Example, as_trajectories, build_zoo, draw_examples, draw_uniform, needs_jit, repeat

ZOO = build_zoo()
each_policy = pytest.mark.parametrize("policy", SNAPSHOT_POLICIES)


def solve(example, policy, threads=1):
    return solve_snapshot(example.cells[:, 0], example.height, example.k, policy, threads)


def cloaks_of(snapshot):
    """The cloak of each user, as the slow twin has it."""
    regions = [Cloak(x0, y0, x1 - x0, y1 - y0) for ((x0, y0, x1, y1),) in snapshot.cloaks.tolist()]
    assert len(set(regions)) == len(regions)
    return [regions[number] for number in snapshot.cloak.tolist()]


def check_ranges(cells, snapshot):
    """Everybody is in a cloak, every cloak is somebody's, and ranges hold who is inside."""
    places = cells[:, 0].tolist()
    assert sorted(set(snapshot.cloak.tolist())) == list(range(len(snapshot.cloaks)))
    assert sorted(snapshot.order.tolist()) == list(range(len(cells)))
    for user, cloak in enumerate(cloaks_of(snapshot)):
        number = snapshot.cloak[user]
        held = snapshot.order[snapshot.start[number] : snapshot.stop[number]].tolist()
        assert user in held
        inside = [u for u, place in enumerate(places) if is_inside(place, cloak)]
        assert sorted(held) == inside


@pytest.mark.parametrize("seed", range(3))
def test_bulk_dp_is_the_optimum_of_the_snapshot(seed):
    for example in draw_examples([121, seed], 60, most=25, length=1, height=4):
        snapshot = solve(example, BULK_DP)
        slow = build_tree(as_trajectories(example.cells), example.height, "binary-axis-major")
        expected, _ = k_summing.solve(slow, example.k)
        cloaks = cloaks_of(snapshot)
        assert sum(cloak.width * cloak.height for cloak in cloaks) == expected
        # Policy-aware: k users are mapped to every cloak.
        assert np.bincount(snapshot.cloak).min() >= example.k
        check_ranges(example.cells, snapshot)


def test_bulk_dp_is_the_best_partition():
    for example in draw_examples(122, 60, most=7, most_k=3, length=1):
        best, _ = best_partition(
            as_trajectories(example.cells), example.k, example.height, "semi-quadrant"
        )
        snapshot = solve(example, BULK_DP)
        assert compute_areas(snapshot.cloaks)[snapshot.cloak].sum() == best


@pytest.mark.parametrize("seed", range(3))
def test_k_inside_is_the_tightest_cloak_with_k_users(seed):
    breached = 0
    for example in draw_examples([123, seed], 60, most=25, length=1, height=4):
        snapshot = solve(example, K_INSIDE)
        places = example.cells[:, 0].tolist()
        assert cloaks_of(snapshot) == k_inside(places, example.height, example.k)
        assert (snapshot.stop - snapshot.start).min() >= example.k
        check_ranges(example.cells, snapshot)
        breached += np.bincount(snapshot.cloak).min() < example.k
    # Safe against those who do not know the policy, and only against them.
    assert breached >= 10


def test_k_inside_never_costs_more_than_bulk_dp():
    for example in draw_examples(124, 80, most=30, length=1, height=5):
        cost = {
            policy: compute_areas(s.cloaks)[s.cloak].sum()
            for policy in SNAPSHOT_POLICIES
            for s in [solve(example, policy)]
        }
        assert cost[K_INSIDE] <= cost[BULK_DP]


def test_the_lonely_user_of_k_inside():
    """Three users in one cell, one far away: the cloak of that one is the region, theirs alone."""
    cells = np.concatenate([repeat([[0, 0]], 3), repeat([[7, 7]], 1)])
    snapshot = solve(Example(cells, 3, 2), K_INSIDE)
    assert cloaks_of(snapshot) == [Cloak(0, 0, 1, 1)] * 3 + [Cloak(0, 0, 8, 8)]
    optimum = solve(Example(cells, 3, 2), BULK_DP)
    assert sorted(np.bincount(optimum.cloak).tolist()) == [2, 2]


@needs_jit
@each_policy
@pytest.mark.parametrize("name", ["one_instant_high", "line_y", "every_cell", "identical_k"])
def test_zoo(name, policy):
    example = ZOO[name]
    snapshot = solve(example, policy, threads=2)
    check_ranges(example.cells, snapshot)
    assert (snapshot.stop - snapshot.start).min() >= example.k


@needs_jit
@each_policy
def test_threads_change_nothing(policy):
    example = Example(draw_uniform(np.random.default_rng(125), 5000, 1, 9), 9, 10)
    one, many = solve(example, policy), solve(example, policy, threads=4)
    for field in ("cloak", "cloaks", "order", "start", "stop"):
        assert np.array_equal(getattr(one, field), getattr(many, field))


@each_policy
def test_one_instant_of_many_is_taken_as_it_lies_in_memory(policy):
    """A snapshot is a slice of trajectories, and not contiguous in memory."""
    cells = draw_uniform(np.random.default_rng(126), 50, 4, 6)
    apart = solve_snapshot(cells[:, 2].copy(), 6, 3, policy)
    cut_out = solve_snapshot(cells[:, 2], 6, 3, policy)
    assert np.array_equal(apart.cloak, cut_out.cloak)
    assert np.array_equal(apart.cloaks, cut_out.cloaks)
