"""Who is left out, against the plain program with a price and the lower hull of its costs."""

import math
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

from algorithms.test_gtree import build
from algorithms.test_traj_anon import nodes_of_bundles
from reference import k_summing
from reference.tree import build_tree
from trajcloak.algorithms import build_algorithm
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.algorithms.traj_anon.assign import assign_bundles
from trajcloak.algorithms.traj_anon.solve import solve_configuration, solve_rows
from trajcloak.algorithms.traj_anon.suppression import (
    suppress_above,
    suppress_at_most,
    suppress_nobody,
)
from zoo import Example, as_trajectories, build_zoo, draw_examples, draw_walks, needs_jit, repeat

ZOO = build_zoo()
PRICES = (0.5, 1, 1.5, 2, 3, 4, 6.25, 8, 13, 21.5, 64, 200, 1e4)


def solve(example, **settings):
    cells, height, k = example
    return TrajAnon(**settings).solve(cells, height, k, "quad")


def build_slow(example):
    return build_tree(as_trajectories(example.cells), example.height, "binary-axis-major")


def hull_of(row):
    """Corners of the lower hull of a row: numbers left out that are best at some price."""
    left_out = 0
    hull = [(0, row[0])]
    while any(u > left_out for u in row):
        # The next to win while the price falls; of equals the farthest.
        slopes = {
            u: Fraction(row[left_out] - cost, u - left_out)
            for u, cost in row.items()
            if u > left_out
        }
        left_out = max(slopes, key=lambda u: (slopes[u], u))
        hull.append((left_out, row[left_out]))
    return hull


def all_turning_prices(tree, rows):
    """Every price at which a choice can change, and the floats right below and above it."""
    prices = set(tree.area.tolist())
    for first, stop in pairwise(rows.first):
        row = [(u, cost) for u, cost in enumerate(rows.cost[first:stop]) if cost < math.inf]
        for (u, cost), (more, less) in combinations(row, 2):
            if cost > less:
                prices.add(float((cost - less) / (more - u)))
    return sorted(
        near for p in prices for near in (np.nextafter(p, 0), p, np.nextafter(p, math.inf))
    )


def num_left_out(tree, top):
    kept = (tree.stop - tree.start)[top >= 0].sum() - top[top >= 0].sum()
    return int(tree.stop[-1] - kept)


def cost_below(rows, top):
    return sum(rows.cost[rows.first[node] + top[node]] for node in np.flatnonzero(top >= 0))


@pytest.mark.parametrize("seed", range(3))
def test_a_price_gives_the_total_of_the_plain_program(seed):
    for example in draw_examples(seed=[31, seed], count=40):
        slow = build_slow(example)
        for price in PRICES:
            policy = solve(example, suppress_above=price)
            expected, _ = k_summing.solve_with_suppression(slow, example.k, price)
            assert policy.cost() + price * policy.num_suppressed == expected
            configuration = k_summing.configuration_of(slow, nodes_of_bundles(slow, policy))
            assert k_summing.is_k_summing(slow, configuration, example.k)
            assert k_summing.configuration_cost(slow, configuration) == policy.cost()
            assert configuration[slow.root.number] == policy.num_suppressed


def test_number_left_out_where_prices_do_not_tie():
    # Costs are whole numbers, so no two choices are equally good at such a price.
    for example in draw_examples(seed=32, count=60):
        slow = build_slow(example)
        root_row = k_summing.cost_rows(slow, example.k)[slow.root.number]
        for whole in (0, 1, 2, 3, 5, 7, 11, 19, 40, 100):
            price = whole + 0.2890625
            expected = min(root_row, key=lambda u: root_row[u] + Fraction(price) * u)
            assert solve(example, suppress_above=price).num_suppressed == expected


@pytest.mark.parametrize("seed", range(3))
def test_a_budget_gives_an_optimum_that_no_price_within_it_beats(seed):
    for example in draw_examples(seed=[33, seed], count=40, most=14):
        n = len(example.cells)
        slow = build_slow(example)
        hull = hull_of(k_summing.cost_rows(slow, example.k)[slow.root.number])
        keys, tree = build(example)
        rows = solve_rows(tree, example.k, 1)
        for budget in range(n + 1):
            top = suppress_at_most(tree, rows, budget)
            passed_up = solve_configuration(tree, rows, example.k, top)
            bundle, node = assign_bundles(tree, keys.order, passed_up)
            left_out = int((bundle < 0).sum())
            cost = (np.bincount(bundle[bundle >= 0], minlength=len(node)) * tree.area[node]).sum()
            # On the hull, and past the last corner that is within the budget.
            before = max(corner for corner in hull if corner[0] <= budget)
            assert before[0] <= left_out <= budget
            if left_out == before[0]:
                assert cost == before[1]
            else:
                after = min(corner for corner in hull if corner[0] > budget)
                slope = Fraction(before[1] - after[1], after[0] - before[0])
                assert Fraction(cost) == before[1] - slope * (left_out - before[0])


@pytest.mark.parametrize("seed", range(2))
def test_no_price_within_the_budget_is_cheaper(seed):
    for example in draw_examples(seed=[37, seed], count=40, most=30):
        _, tree = build(example)
        rows = solve_rows(tree, example.k, 1)
        prices = all_turning_prices(tree, rows)
        tops = [suppress_above(tree, rows, price) for price in prices]
        counts = [num_left_out(tree, top) for top in tops]
        assert counts == sorted(counts, reverse=True)
        costs = [cost_below(rows, top) for top in tops]
        for budget in range(len(example.cells) + 1):
            top = suppress_at_most(tree, rows, budget)
            assert num_left_out(tree, top) <= budget
            within = [cost for cost, count in zip(costs, counts, strict=True) if count <= budget]
            assert cost_below(rows, top) <= min(within)


@pytest.mark.parametrize("name", ["walks", "one_instant_high", "far_outlier", "duplicates_below_k"])
@needs_jit
def test_number_left_out_never_grows_with_the_price(name):
    _, tree = build(ZOO[name])
    rows = solve_rows(tree, ZOO[name].k, 1)
    areas = np.unique(tree.area)
    prices = np.unique(
        np.concatenate(
            [
                areas,
                np.nextafter(areas, 0),
                np.nextafter(areas, np.inf),
                np.geomspace(0.01, 1e20, 500),
            ]
        )
    )
    before = int(tree.stop[-1])
    for price in prices:
        top = suppress_above(tree, rows, float(price))
        now = num_left_out(tree, top)
        assert now <= before
        before = now
    assert before == 0


@needs_jit
@pytest.mark.parametrize("share", [0.001, 0.01, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("name", ["walks", "one_instant_high", "thousands_of_duplicates"])
def test_a_budget_is_kept_and_never_raises_the_cost(name, share):
    example = ZOO[name]
    policy = solve(example, max_suppressed=share)
    assert policy.num_suppressed <= share * len(example.cells)
    assert policy.num_bundles == 0 or policy.sizes.min() >= example.k
    assert policy.cost() <= solve(example).cost()


@pytest.mark.parametrize("share", [0.1, 0.25, 0.34, 0.5, 0.77])
def test_a_share_is_rounded_down(share):
    for example in draw_examples(seed=38, count=40):
        policy = solve(example, max_suppressed=share)
        assert policy.num_suppressed <= share * len(example.cells)


@needs_jit
def test_a_larger_budget_costs_no_more():
    example = ZOO["walks"]
    policies = [solve(example, max_suppressed=share) for share in np.linspace(0, 1, 21)]
    costs = [policy.cost() for policy in policies]
    left_out = [policy.num_suppressed for policy in policies]
    assert costs == sorted(costs, reverse=True)
    assert left_out == sorted(left_out)
    assert left_out[0] == 0
    assert left_out[-1] == len(example.cells)


def examples_to_leave_alone():
    yield from draw_examples(seed=34, count=40)
    for name in ("far_outlier", "identical", "n_is_k", "every_cell", "line_x"):
        yield ZOO[name]


@pytest.mark.parametrize(
    "settings", [{"max_suppressed": 0.0}, {"suppress_above": 1e300}, {"suppress_above": math.inf}]
)
def test_budget_zero_and_endless_price_suppress_nobody(settings):
    for example in examples_to_leave_alone():
        expected = solve(example)
        actual = solve(example, **settings)
        assert np.array_equal(actual.bundle, expected.bundle)
        assert np.array_equal(actual.cloaks, expected.cloaks)
        assert actual.num_suppressed == 0


@needs_jit
@pytest.mark.parametrize("name", ZOO)
def test_budget_zero_in_the_zoo(name):
    expected = solve(ZOO[name])
    actual = solve(ZOO[name], max_suppressed=0.0)
    assert np.array_equal(actual.bundle, expected.bundle)
    assert np.array_equal(actual.cloaks, expected.cloaks)


@pytest.mark.parametrize("cloak", ["quad", "mbr"])
def test_a_price_below_the_least_area_leaves_everybody_out(cloak):
    cells, height, k = ZOO["every_cell"]
    policy = TrajAnon(suppress_above=0.5).solve(cells, height, k, cloak)
    assert policy.num_suppressed == len(cells)
    assert policy.num_bundles == 0
    assert policy.cloaks.shape == (0, 1, 4)
    assert policy.cost() == 0


def test_the_outlier_is_left_out_and_costs_nothing_more():
    example = ZOO["far_outlier"]
    policy = solve(example, max_suppressed=1 / 31)
    assert policy.bundle.tolist() == [0] * 30 + [-1]
    assert policy.cost() == 30 * 2


def test_a_price_equal_to_the_area_leaves_the_bundle_out():
    cells = repeat([[3, 3]], 6)
    assert solve(Example(cells, 2, 2), suppress_above=1.0).num_suppressed == 6
    assert solve(Example(cells, 2, 2), suppress_above=np.nextafter(1.0, 2)).num_suppressed == 0


def test_whom_to_leave_out_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(35)
    example = Example(draw_walks(rng, 90, 3, 4), 4, 4)
    for settings in ({"max_suppressed": 0.2}, {"suppress_above": 30.0}):
        policy = solve(example, **settings)
        assert policy.num_suppressed > 0
        expected = sorted(map(repr, example.cells[policy.bundle < 0].tolist()))
        order = rng.permutation(len(example.cells))
        again = solve(example._replace(cells=example.cells[order]), **settings)
        assert sorted(map(repr, example.cells[order][again.bundle < 0].tolist())) == expected


def test_nobody_is_the_default():
    for example in draw_examples(seed=36, count=10):
        _, tree = build(example)
        assert suppress_nobody(tree).tolist() == [-1] * (len(tree.start) - 1) + [0]
        assert solve(example).num_suppressed == 0


def test_settings_reach_the_algorithm():
    assert build_algorithm("traj-anon", max_suppressed=0.25) == TrajAnon(max_suppressed=0.25)
    assert build_algorithm("traj-anon", suppress_above=7.0) == TrajAnon(suppress_above=7.0)
