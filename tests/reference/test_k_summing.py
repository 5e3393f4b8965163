from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from .k_summing import (
    anonymized,
    configuration_cost,
    configuration_of,
    cost_rows,
    is_complete,
    is_configuration,
    is_k_summing,
    solve,
    solve_with_suppression,
)
from .tree import SPLITS, build_tree

THREE_AND_ONE = [[(0, 0)], [(0, 0)], [(0, 0)], [(1, 1)]]


def clustered_trajectories(rng, count, length, height):
    """Draw trajectories around a few centres, some of them equal."""
    side = 2**height
    centres = rng.integers(0, side, size=(3, length, 2))
    noise = rng.integers(-1, 2, size=(count, length, 2))
    cells = np.clip(centres[rng.integers(0, 3, size=count)] + noise, 0, side - 1)
    return [[(int(x), int(y)) for x, y in trajectory] for trajectory in cells]


def random_trees(seed, count, kinds=tuple(SPLITS)):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        height = int(rng.integers(1, 4))
        length = int(rng.integers(1, 4))
        num_trajectories = int(rng.integers(4, 15))
        k = int(rng.integers(2, 5))
        trajectories = clustered_trajectories(rng, num_trajectories, length, height)
        for kind in kinds:
            yield build_tree(trajectories, height, kind), k


def all_assignments(tree, suppression=False):
    """Yield every assignment of each trajectory to a node that masks it."""
    choices = [
        [node.number for node in tree.nodes if trajectory in node.masked]
        + ([None] if suppression else [])
        for trajectory in range(len(tree.trajectories))
    ]
    yield from product(*choices)


def is_k_anonymous(assignment, k):
    used = [number for number in assignment if number is not None]
    return all(used.count(number) >= k for number in used)


def test_two_pairs_stay_in_their_cells():
    tree = build_tree([[(0, 0)], [(0, 0)], [(1, 1)], [(1, 1)]], 1, "binary-axis-major")
    cost, configuration = solve(tree, 2)
    assert cost == 4
    assert is_k_summing(tree, configuration, 2)
    assert is_complete(tree, configuration)


def test_the_odd_one_out_takes_a_companion_to_the_root():
    tree = build_tree(THREE_AND_ONE, 1, "binary-axis-major")
    cost, configuration = solve(tree, 2)
    assert cost == 2 * 1 + 2 * 4
    used = [(node.area, anonymized(node, configuration)) for node in tree.nodes]
    assert [pair for pair in used if pair[1] > 0] == [(4, 2), (1, 2)]


def test_semi_quadrants_are_cheaper_than_quadrants():
    trajectories = [[(0, 0)], [(0, 1)], [(1, 0)], [(1, 1)]]
    assert solve(build_tree(trajectories, 1, "us"), 2)[0] == 4 * 4
    assert solve(build_tree(trajectories, 1, "binary-axis-major"), 2)[0] == 4 * 2


def test_the_letter_of_algorithm_1_would_break_definition_5():
    tree = build_tree(THREE_AND_ONE, 1, "binary-axis-major")
    k = 2
    alone = {node.number: int(3 in node.masked) for node in tree.nodes}
    alone[tree.root.number] = 0
    for node in tree.nodes:  # each value is in F(m) of line 19
        assert alone[node.number] in {*range(node.d - k + 1), node.d}
    assert anonymized(tree.root, alone) == 1
    assert not is_k_summing(tree, alone, k)
    assert configuration_cost(tree, alone) == 7 < solve(tree, k)[0] == 10


@pytest.mark.parametrize("kind", SPLITS)
def test_cost_is_the_minimum_over_all_k_anonymous_assignments(kind):
    rng = np.random.default_rng(5)
    for _ in range(4):
        trajectories = clustered_trajectories(rng, 5, 1, 1)
        tree = build_tree(trajectories, 1, kind)
        areas = [node.area for node in tree.nodes]
        complete = min(
            sum(areas[number] for number in assignment)
            for assignment in all_assignments(tree)
            if is_k_anonymous(assignment, 2)
        )
        assert solve(tree, 2)[0] == complete
        for price in (0, 1, Fraction(3, 2), 3, 5):
            partial = min(
                sum(price if number is None else areas[number] for number in assignment)
                for assignment in all_assignments(tree, suppression=True)
                if is_k_anonymous(assignment, 2)
            )
            assert solve_with_suppression(tree, 2, price)[0] == partial


def test_lemma_2_and_4_on_all_assignments_of_a_tiny_tree():
    tree = build_tree([[(0, 0)], [(0, 1)], [(1, 1)], [(1, 1)]], 1, "binary-axis-major")
    for assignment in all_assignments(tree):
        configuration = configuration_of(tree, assignment)
        assert is_configuration(tree, configuration)
        assert is_complete(tree, configuration)
        assert is_k_summing(tree, configuration, 2) == is_k_anonymous(assignment, 2)
        cost = sum(tree.nodes[number].area for number in assignment)
        assert configuration_cost(tree, configuration) == cost
        for node in tree.nodes:
            assert anonymized(node, configuration) == assignment.count(node.number)


def test_solutions_are_k_summing_and_cost_what_they_say():
    for tree, k in random_trees(seed=6, count=15):
        cost, configuration = solve(tree, k)
        assert is_k_summing(tree, configuration, k)
        assert is_complete(tree, configuration)
        assert configuration_cost(tree, configuration) == cost
        assert cost_rows(tree, k)[tree.root.number][0] == cost


def test_no_optimum_passes_up_more_than_2k_minus_2():
    reached = set()
    for tree, k in random_trees(seed=7, count=40):
        _, configuration = solve(tree, k)
        largest = max(configuration[node.number] for node in tree.nodes[1:])
        assert largest <= 2 * k - 2
        reached.add((k, largest))
    assert any(largest > k - 1 for k, largest in reached)


def test_2k_minus_2_is_passed_up_where_nothing_less_will_do():
    # Bundles of 2k-1 = 3 at the root: the pair in one cell passes both up.
    tree = build_tree([[(0, 0)], [(0, 0)], [(1, 1)]], 1, "us")
    _, configuration = solve(tree, 2)
    assert sorted(configuration.values()) == [0, 1, 2]


def test_no_optimum_uses_a_node_with_one_non_empty_child():
    for tree, k in random_trees(seed=8, count=20):
        _, configuration = solve(tree, k)
        for node in tree.nodes:
            if not node.is_leaf and len(node.children) == 1:
                assert anonymized(node, configuration) == 0


def test_suppression_splits_into_independent_choices_below_the_price():
    for tree, k in random_trees(seed=9, count=15):
        rows = cost_rows(tree, k)
        for price in (0, 1, 3, 7, Fraction(33, 2), 40, 1000):
            closed_form = price * sum(node.d for node in tree.nodes if node.is_leaf)
            for node in tree.nodes:
                is_maximal = node.parent is None or node.parent.area >= price
                if node.area < price and is_maximal:
                    row = rows[node.number]
                    best, passed_up = min((cost + price * u, u) for u, cost in row.items())
                    assert passed_up <= k - 1
                    closed_form += best - price * node.d
            total, configuration = solve_with_suppression(tree, k, price)
            assert total == closed_form
            suppressed = configuration[tree.root.number]
            assert is_k_summing(tree, configuration, k)
            assert configuration_cost(tree, configuration) + price * suppressed == total


def test_a_high_price_suppresses_nobody_and_price_zero_everybody():
    tree = build_tree(THREE_AND_ONE, 1, "binary-axis-major")
    total, configuration = solve_with_suppression(tree, 2, 100)
    assert total == solve(tree, 2)[0]
    assert is_complete(tree, configuration)
    assert solve_with_suppression(tree, 2, 0)[0] == 0
    # At 3 each, it is best to keep the three and suppress the odd one out.
    total, configuration = solve_with_suppression(tree, 2, 3)
    assert total == 3 * 1 + 3
    assert configuration[tree.root.number] == 1


def test_too_few_trajectories():
    tree = build_tree([[(0, 0)], [(0, 0)]], 1, "u")
    with pytest.raises(ValueError, match="no complete 3-summing"):
        solve(tree, 3)
    assert solve_with_suppression(tree, 3, 10)[0] == 20


def test_an_assignment_to_a_node_that_does_not_mask_is_refused():
    tree = build_tree(THREE_AND_ONE, 1, "us")
    elsewhere = next(node.number for node in tree.nodes if node.masked == [3])
    with pytest.raises(ValueError, match="does not mask"):
        configuration_of(tree, [elsewhere, 0, 0, 0])


def test_what_is_no_configuration():
    tree = build_tree(THREE_AND_ONE, 1, "us")
    _, good = solve(tree, 2)
    assert is_configuration(tree, good)
    assert not is_configuration(tree, {})
    assert not is_configuration(tree, good | {tree.root.number: -1})
    assert not is_configuration(tree, good | {tree.root.number: 5})
