"""The best policy of the first snapshot, kept for all instants."""

import numpy as np
import pytest

from algorithms.test_traj_anon import (
    bundles_as_sets,
    check_policy,
    exact_cost,
)
from reference import k_summing
from reference.partitions import best_partition, group_cloaks
from reference.tree import build_tree
from trajcloak.algorithms import build_algorithm
from zoo import (
    Example,
    as_trajectories,
    build_zoo,
    draw_examples,
    draw_uniform,
    list_groups,
    repeat,
)

ZOO = build_zoo()
COVERS = {"mbr": "box", "quad": "semi-quadrant"}


def solve(example, cloak="quad", threads=1):
    cells, height, k = example
    return build_algorithm("baseline").solve(cells, height, k, cloak, threads=threads)


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_an_optimum_of_the_first_snapshot(seed):
    for example in draw_examples([81, seed], 80, most=14):
        first = example.cells[:, :1]
        slow = build_tree(as_trajectories(first), example.height, "binary-axis-major")
        expected, _ = k_summing.solve(slow, example.k)
        policy = solve(example)
        check_policy(example, policy)
        groups = list_groups(policy.bundle)
        paid = sum(
            len(group)
            * sum(
                cloak.width * cloak.height
                for cloak in group_cloaks(
                    as_trajectories(first), group, example.height, "semi-quadrant"
                )
            )
            for group in groups
        )
        assert paid == expected


def test_one_instant_is_the_optimum():
    for example in draw_examples(82, 60, most=7, most_k=3, length=1):
        best, _ = best_partition(
            as_trajectories(example.cells), example.k, example.height, "semi-quadrant"
        )
        assert exact_cost(solve(example)) == best


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
def test_cloaks_are_the_smallest_around_the_groups(cloak):
    for example in draw_examples(83, 60, most=20):
        policy = solve(example, cloak)
        trajectories = as_trajectories(example.cells)
        for number, group in enumerate(list_groups(policy.bundle)):
            expected = group_cloaks(trajectories, group, example.height, COVERS[cloak])
            assert policy.cloaks[number].tolist() == [
                [c.x0, c.y0, c.x0 + c.width, c.y0 + c.height] for c in expected
            ]


def test_later_instants_do_not_matter():
    rng = np.random.default_rng(84)
    for _ in range(40):
        cells = draw_uniform(rng, 30, 4, 8)
        if len(np.unique(cells[:, 0], axis=0)) < 30:
            continue
        other = np.concatenate([cells[:, :1], draw_uniform(rng, 30, 3, 8)], axis=1)
        expected, actual = (
            {tuple(group) for group in list_groups(solve(Example(c, 8, 3)).bundle)}
            for c in (cells, other)
        )
        assert actual == expected


def test_equal_first_locations_are_told_apart_by_what_follows():
    later = np.array([[x] for x in [[0, 0], [7, 7], [0, 0], [7, 7], [0, 1], [7, 6]]], np.uint32)
    cells = np.concatenate([repeat([[2, 2]], 6), later], axis=1)
    # All six fit one cell at first, so they are one bundle there, whatever follows.
    assert solve(Example(cells, 3, 2)).sizes.tolist() == [6]
    # Where one must go up with another, it is one of a kind and not one of a row.
    cells = np.concatenate([cells, [[[3, 3], [0, 0]]]]).astype(np.uint32)
    expected = bundles_as_sets(cells, solve(Example(cells, 3, 2)))
    for shift in range(1, 7):
        turned = np.roll(cells, shift, axis=0)
        assert bundles_as_sets(turned, solve(Example(turned, 3, 2))) == expected
