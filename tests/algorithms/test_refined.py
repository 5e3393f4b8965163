"""The refined algorithm: areas, blocks, greedy bundles, local search, guarantees."""

from collections import Counter
from itertools import chain, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.partitions import best_partition, covering_box, covering_semi_quadrant
from trajcloak.algorithms import build_algorithm
from trajcloak.algorithms.refined import LEVELS, Refined, rounds
from trajcloak.algorithms.refined.blocks import build_blocks
from trajcloak.algorithms.refined.boxes import (
    NARROW,
    NARROW_SIDE,
    SEMI_QUADRANT,
    WIDE,
    area,
    area_exchanged,
    area_with,
    area_without,
    build_points,
    empty_boxes,
    fill_box,
    pad_instants,
)
from trajcloak.algorithms.refined.divide_anew import (
    _build_tree,
    bundle_by_adaptive_tree,
    divide_anew,
)
from trajcloak.algorithms.refined.first_bundles import bundle_by_cuts, bundle_greedily
from trajcloak.algorithms.refined.improve import IMPROVE_GROUP, build_group, draw_exponential
from trajcloak.algorithms.refined.rounds import SMALL, fit_effort
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.algorithms.traj_anon.gtree import GTree
from trajcloak.progress import silent
from zoo import EFFORT, as_trajectories, build_zoo, draw_examples, draw_walks, needs_jit

ZOO = build_zoo()


def naive_area(cells, members, height, quad):
    cover = covering_semi_quadrant if quad else covering_box
    total = 0
    for instant in range(cells.shape[1]):
        points = [tuple(map(int, cells[m, instant])) for m in members]
        cloak = cover(points, height)
        total += cloak.width * cloak.height
    return total


def draw_members(rng, height):
    cells = rng.integers(0, 2**height, (12, 5, 2)).astype(np.uint32)
    if rng.random() < 0.5:
        cells[rng.integers(0, 12, 6)] = cells[0]
    return cells, list(range(8))


@pytest.mark.parametrize(
    ("shape", "height"),
    [
        *((shape, height) for shape in (WIDE, SEMI_QUADRANT) for height in (1, 3, 8, 24)),
        *((NARROW, height) for height in (1, 3, 8, 15)),
    ],
)
def test_areas_equal_those_of_the_members(height, shape):
    quad = shape == SEMI_QUADRANT
    rng = np.random.default_rng(height)
    for _ in range(25):
        cells, members = draw_members(rng, height)
        points = build_points(cells)
        boxes = empty_boxes(1, cells.shape[1])
        fill_box(boxes, 0, points, 0, len(members))
        low, high = boxes.low, boxes.high
        assert area(low, high, 0, shape) == naive_area(cells, members, height, quad)
        for coming in range(8, 12):
            expected = naive_area(cells, [*members, coming], height, quad)
            assert area_with(low, high, 0, points, coming, shape) == expected
        for leaving in members:
            rest = [m for m in members if m != leaving]
            expected = naive_area(cells, rest, height, quad)
            assert area_without(boxes, 0, points, leaving, shape) == expected
            expected = naive_area(cells, [*rest, 9], height, quad)
            assert area_exchanged(boxes, 0, points, leaving, 9, shape) == expected


def test_the_widest_narrow_box():
    low = np.zeros((1, 2, 1), np.uint32)
    high = np.full((1, 2, 1), NARROW_SIDE - 1, np.uint32)
    assert area(low, high, 0, NARROW) == NARROW_SIDE**2 == area(low, high, 0, WIDE)


@pytest.mark.parametrize("length", [1, 7, 8, 9])
def test_padding_adds_the_same_to_every_area(length):
    rng = np.random.default_rng(length)
    points = rng.integers(0, 99, (40, 2, length)).astype(np.uint32)
    padded = pad_instants(points)
    assert padded.shape[2] % 8 == 0
    for shape in (WIDE, NARROW, SEMI_QUADRANT):
        found = [
            area(p[:9].min(axis=0, keepdims=True), p[:9].max(axis=0, keepdims=True), 0, shape)
            for p in (points, padded)
        ]
        assert found[1] - found[0] == padded.shape[2] - length
    assert np.array_equal(bundle_greedily(points, 4, WIDE), bundle_greedily(padded, 4, WIDE))


def test_some_greedy_bundles_have_members_to_spare():
    points = build_points(draw_walks(np.random.default_rng(16), 300, 4, 8))
    assert np.bincount(bundle_greedily(points, 3, WIDE)).tolist().count(3) < 98
    # Where only few bundles fit, each is worth more than what could be spared.
    assert bundle_greedily(points[:12], 3, WIDE).max() == 3


def draw_group(seed, k):
    """Draw six bundles of five, the last of them left out."""
    cells = draw_walks(np.random.default_rng(seed), 30, 3, 8)
    members = np.zeros((6, 2 * k - 1), np.int64)
    members[:, :5] = np.random.default_rng(seed).permutation(30).reshape(6, 5)
    return cells, members, np.full(6, 5), np.arange(6) == 5


def list_bundles(members, sizes):
    return [row[:n].tolist() for row, n in zip(members, sizes, strict=True)]


def changed_bundles(bundles, k):
    """Try all moves between the first five bundles, and all exchanges; slow and obvious."""
    for a, b in permutations(range(6), 2):
        for i, t in enumerate(bundles[a]):
            without = bundles[a][:i] + bundles[a][i + 1 :]
            if len(without) >= k and 5 not in (a, b) and len(bundles[b]) < 2 * k - 1:
                yield a, b, without, [*bundles[b], t]
            for q, u in enumerate(bundles[b]):
                yield a, b, [*without, u], [*bundles[b][:q], *bundles[b][q + 1 :], t]


@pytest.mark.parametrize("shape", [WIDE, NARROW, SEMI_QUADRANT])
def test_a_group_is_improved_until_no_change_is_left(shape):
    k = 4
    for seed in range(3):
        cells, members, sizes, left_out = draw_group(seed, k)
        points = pad_instants(build_points(cells))
        group = build_group(points, members, sizes, left_out)
        IMPROVE_GROUP[shape](group, k, np.zeros(1), 99, 5, 9, np.array([seed], np.uint64))
        bundles = list_bundles(members, sizes)
        assert min(map(len, bundles)) >= k
        assert len(bundles[5]) == 5
        assert sorted(chain(*bundles)) == list(range(30))

        def cost(b, bundle, cells=cells):
            quad = shape == SEMI_QUADRANT
            return 0 if b == 5 else len(bundle) * naive_area(cells, bundle, 8, quad)

        for a, b, new_a, new_b in changed_bundles(bundles, k):
            assert cost(a, new_a) + cost(b, new_b) >= cost(a, bundles[a]) + cost(b, bundles[b])


def test_random_numbers_are_exponential():
    random = np.array([7], np.uint64)
    drawn = np.array([draw_exponential(random) for _ in range(5000)])
    for share in (0.1, 0.5, 0.9, 0.99):
        assert (drawn < -np.log(1 - share)).mean() == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("shape", [WIDE, NARROW, SEMI_QUADRANT])
def test_a_hot_group_keeps_its_members(shape):
    k = 4
    for seed in range(8):
        cells, members, sizes, left_out = draw_group(seed, k)
        points = pad_instants(build_points(cells))
        group = build_group(points, members, sizes, left_out)
        random = np.array([seed], np.uint64)
        assert IMPROVE_GROUP[shape](group, k, np.array([0.5, 0.1]), 3, 2, 4, random) > 0
        bundles = list_bundles(members, sizes)
        assert min(map(len, bundles)) >= k
        assert len(bundles[5]) == 5
        assert sorted(chain(*bundles)) == list(range(30))


@pytest.mark.parametrize("share", [0.5, 1 / 3, 0.75])
@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_hold_every_row_once(share, threads):
    cells = draw_walks(np.random.default_rng(3), 700, 6, 10)
    order = np.random.default_rng(4).permutation(len(cells)).astype(np.int32)
    blocks = build_blocks(build_points(cells), order, 60, share, threads)
    assert sorted(np.concatenate(blocks).tolist()) == list(range(len(cells)))
    assert max(map(len, blocks)) <= 60
    if share == 0.5:
        assert min(map(len, blocks)) >= 30


def check(example, policy, cloak):
    cells, height, k = example
    sizes = policy.sizes
    assert sizes.min() >= k
    assert (policy.bundle >= 0).all()
    for b in range(policy.num_bundles):
        inside = cells[policy.bundle == b]
        low, high = policy.cloaks[b, :, :2], policy.cloaks[b, :, 2:]
        assert (inside >= low).all()
        assert (inside < high).all()
    assert policy.cost() <= TrajAnon().solve(cells, height, k, cloak).cost()


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
@pytest.mark.parametrize(
    "effort",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "high")) for name in LEVELS],
)
@pytest.mark.parametrize("name", list(ZOO))
@needs_jit
def test_zoo(name, effort, cloak):
    example = ZOO[name]
    cells, height, k = example
    check(example, Refined(effort).solve(cells, height, k, cloak), cloak)


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
@pytest.mark.parametrize("count", [40, pytest.param(150, marks=pytest.mark.slow)])
def test_random_small_cases(cloak, count):
    for example in draw_examples(seed=71, count=count):
        cells, height, k = example
        check(example, Refined(EFFORT).solve(cells, height, k, cloak), cloak)


def test_never_below_the_best_partition():
    gaps = []
    for example in draw_examples(seed=72, count=60):
        cells, height, k = example
        if len(cells) > 7:
            continue
        best, _ = best_partition(as_trajectories(cells), k, height, "box")
        found = Refined("high").solve(cells, height, k, "mbr").cost()
        assert found >= best
        gaps.append(found / best)
    assert len(gaps) > 20
    assert np.median(gaps) == 1.0


@given(st.integers(0, 2**32 - 1))
@needs_jit
def test_order_of_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    cells = draw_walks(rng, 90, 3, 5)
    cells[rng.integers(0, 90, 20)] = cells[0]
    shuffled = rng.permutation(len(cells))

    def bundles(rows):
        policy = Refined(EFFORT).solve(rows, 5, 4, "mbr")
        found = Counter()
        for b in range(policy.num_bundles):
            found[tuple(sorted(map(bytes, rows[policy.bundle == b])))] += 1
        return found

    assert bundles(cells) == bundles(np.ascontiguousarray(cells[shuffled]))


@pytest.mark.slow
@pytest.mark.parametrize("cloak", ["mbr", "quad"])
@needs_jit
def test_threads_do_not_matter(cloak):
    cells = draw_walks(np.random.default_rng(6), 4000, 5, 12)
    one = Refined().solve(cells, 12, 10, cloak, threads=1)
    for threads in (2, 5):
        more = Refined().solve(cells, 12, 10, cloak, threads=threads)
        assert np.array_equal(one.bundle, more.bundle)


@pytest.mark.parametrize(("length", "k"), [(2, 5), (10, 10), (10, 50), (30, 50)])
def test_small_logs_are_given_fewer_rounds(length, k):
    counts = (3 * k, SMALL // 4, SMALL // 2, SMALL, 20_000)
    efforts = [fit_effort(LEVELS["normal"], count, length, k) for count in counts]
    for number in ("rounds", "divisions"):
        few, small, more, most, many = (getattr(effort, number) for effort in efforts)
        assert few == most == many, "rounds of three bundles are quick"
        assert most / 5 < small < most / 3
        assert more == most / 2
    high = LEVELS["high"]
    assert fit_effort(high, 500, length, k).rounds == fit_effort(high, 2500, length, k).rounds


@pytest.mark.parametrize("count", [500, 1200])
def test_one_group_is_improved_in_one_call(count, monkeypatch):
    made = []

    def note_call(*settings):
        made.append(settings[2])
        return 0

    monkeypatch.setattr(rounds, "IMPROVE_GROUP", dict.fromkeys((WIDE, NARROW), note_call))
    cells = draw_walks(np.random.default_rng(17), count, 10, 14)
    Refined().solve(cells, 14, 10, "mbr")
    # The heat falls to 0, within the call or from call to call.
    heats = np.concatenate(made)
    assert (np.diff(heats) <= 0).all()
    assert heats[-1] == 0.0
    assert (len(made) == 1) == (count == 500)


@pytest.mark.parametrize(
    ("k", "cost", "most"), [(10, 281_248_002_107, 1.06), (50, 2_086_284_912_650, 1.03)]
)
@needs_jit
def test_small_logs_cost_little_more_than_with_all_rounds(k, cost, most):
    """Walks without any structure gain most from rounds; ``cost`` is that of all of them."""
    logs = [draw_walks(np.random.default_rng(seed), 500, 10, 14) for seed in range(20, 36)]
    assert sum(Refined().solve(cells, 14, k, "mbr").cost() for cells in logs) <= most * cost


@pytest.mark.parametrize("k", [10, 50])
@needs_jit
def test_neither_threads_nor_the_order_of_rows_matter_in_one_group(k):
    rng = np.random.default_rng(18)
    cells = draw_walks(rng, 500, 10, 14)
    shuffled = rng.permutation(len(cells))
    one = Refined().solve(cells, 14, k, "mbr")
    more = Refined().solve(np.ascontiguousarray(cells[shuffled]), 14, k, "mbr", threads=3)
    assert np.array_equal(one.bundle[shuffled], more.bundle)


@pytest.mark.slow
@needs_jit
def test_more_effort_costs_less_and_all_less_than_the_rivals():
    cells = draw_walks(np.random.default_rng(8), 3000, 10, 14)
    costs = [Refined(e).solve(cells, 14, 20, "mbr").cost() for e in ("low", "normal", "high")]
    assert costs[0] > costs[1] > costs[2]
    assert costs[0] < build_algorithm("slow-clustering").solve(cells, 14, 20, "mbr").cost()


@pytest.mark.slow
@pytest.mark.parametrize("cloak", ["mbr", "quad"])
@needs_jit
def test_suppression_saves_more_than_its_share(cloak):
    cells = draw_walks(np.random.default_rng(9), 1500, 6, 12)
    whole = Refined(EFFORT).solve(cells, 12, 10, cloak).cost()
    budget = Refined(EFFORT, max_suppressed=0.05).solve(cells, 12, 10, cloak)
    assert 0 < budget.num_suppressed <= 75
    assert budget.cost() < 0.95 * whole
    price = 2 * whole / len(cells)
    priced = Refined(EFFORT, suppress_above=price).solve(cells, 12, 10, cloak)
    assert priced.num_suppressed > 0
    assert priced.cost() + price * priced.num_suppressed < whole


def check_suppressed(example, policy, cloak, **settings):
    """Bundles are whole, hold their members, and cost no more than the tree's."""
    cells, height, k = example
    tree = TrajAnon(**settings).solve(cells, height, k, cloak)
    price = settings.get("suppress_above", 0.0)
    assert policy.cost() + price * policy.num_suppressed <= (
        tree.cost() + price * tree.num_suppressed
    )
    assert policy.num_bundles == int(policy.bundle.max()) + 1
    if not policy.num_bundles:
        return
    assert policy.sizes.min() >= k
    for b in range(policy.num_bundles):
        inside = cells[policy.bundle == b]
        assert (inside >= policy.cloaks[b, :, :2]).all()
        assert (inside < policy.cloaks[b, :, 2:]).all()


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
@pytest.mark.parametrize(
    "share", [0.1, *(pytest.param(x, marks=pytest.mark.slow) for x in (0.0, 0.5))]
)
def test_a_budget_is_never_exceeded(share, cloak):
    for example in draw_examples(seed=74, count=60):
        cells, height, k = example
        policy = Refined(EFFORT, max_suppressed=share).solve(cells, height, k, cloak)
        assert policy.num_suppressed <= share * len(cells)
        check_suppressed(example, policy, cloak, max_suppressed=share)


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
def test_a_price_is_never_paid_twice(cloak):
    some_left_out = 0
    for number, example in enumerate(draw_examples(seed=75, count=60)):
        cells, height, k = example
        whole = Refined(EFFORT).solve(cells, height, k, cloak)
        # From a price that leaves everybody out to one that leaves out nobody.
        price = (0.5, 0.9, 1.1, 3.0)[number % 4] * whole.cost() / len(cells)
        policy = Refined(EFFORT, suppress_above=price).solve(cells, height, k, cloak)
        check_suppressed(example, policy, cloak, suppress_above=price)
        some_left_out += 0 < policy.num_suppressed < len(cells)
    assert some_left_out > 5


def test_everybody_can_be_left_out():
    cells = np.array([[[0, 0]], [[7, 7]]], np.uint32)
    policy = Refined(EFFORT, suppress_above=1.0).solve(cells, 3, 2, "mbr")
    assert policy.num_bundles == 0
    assert policy.bundle.tolist() == [-1, -1]


def test_adaptive_trees_are_g_trees_and_bundles_cost_what_they_say():
    for example in draw_examples(seed=73, count=80):
        cells, height, k = example
        points = build_points(cells)
        order = np.arange(len(cells), dtype=np.int32)
        tree = GTree(*_build_tree(points, order, k))
        assert sorted(order.tolist()) == list(range(len(cells)))
        assert tree.stop[-1] - tree.start[-1] == len(cells)
        for node in range(len(tree.start)):
            inside = order[tree.start[node] : tree.stop[node]].tolist()
            assert len(inside) >= k
            assert tree.area[node] == naive_area(cells, inside, height, quad=True)
            children = []
            child = node - 1
            while child > node - tree.below[node]:
                children.append(child)
                child -= tree.below[child]
            held = sum(int(tree.stop[c] - tree.start[c]) for c in children)
            assert held + tree.loose[node] == len(inside)
            assert all(tree.area[c] < tree.area[node] for c in children)
        bundle = bundle_by_adaptive_tree(points, k)
        assert np.bincount(bundle).min() >= k


def draw_travellers(rng, n, length, height):
    """Draw trajectories that go straight from one place to another, some of them far."""
    start, end = rng.integers(0, 1 << height, (2, n, 1, 2))
    end = start + (end - start) // rng.integers(1, 12, (n, 1, 1))
    return (start + (end - start) * np.arange(length)[:, None] // length).astype(np.uint32)


@needs_jit
def test_leaving_the_uniform_tree_pays():
    cells = draw_walks(np.random.default_rng(10), 3000, 10, 14)
    tree = TrajAnon().solve(cells, 14, 20, "quad").cost()
    assert Refined("low").solve(cells, 14, 20, "quad").cost() < 0.95 * tree
    cells = draw_travellers(np.random.default_rng(10), 3000, 10, 14)
    tree = TrajAnon().solve(cells, 14, 20, "quad").cost()
    assert Refined().solve(cells, 14, 20, "quad").cost() < 0.85 * tree


def draw_bundles(rng, count, k):
    """Draw bundles of k to 2k - 1, so bad that much can be improved."""
    sizes = []
    while count - sum(sizes) >= 2 * k:
        sizes.append(int(rng.integers(k, min(2 * k, count - sum(sizes) - k + 1))))
    sizes.append(count - sum(sizes))
    return rng.permutation(np.repeat(np.arange(len(sizes)), sizes)).astype(np.int32)


def sum_costs(cells, bundle, height, quad):
    members = [np.flatnonzero(bundle == b).tolist() for b in range(bundle.max() + 1)]
    return sum(len(inside) * naive_area(cells, inside, height, quad) for inside in members)


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
def test_dividing_anew_never_costs_more_and_keeps_k(cloak):
    rng = np.random.default_rng(11)
    cheaper = 0
    for number, example in enumerate(draw_examples(seed=76, count=120)):
        cells, height, k = example
        bundle = draw_bundles(rng, len(cells), k)
        if number // 4 % 2:
            # Hard to improve, easy to make worse.
            bundle = Refined(EFFORT).solve(cells, height, k, cloak).bundle
        before = bundle.copy()
        stages = []

        def note(*stage, stages=stages):
            stages.append(stage)

        found = divide_anew(cells, build_points(cells), bundle, k, cloak, 3, 1, note)
        assert np.array_equal(bundle, before)
        assert np.bincount(found).min() >= k
        costs = [sum_costs(cells, b, height, cloak == "quad") for b in (bundle, found)]
        assert costs[1] <= costs[0]
        assert [done for _, done, _ in stages] == [0, 1, 2, 3]
        assert f"at {100 * costs[1] / costs[0]:.1f}%" in stages[-1][0]
        cheaper += costs[1] < costs[0]
    assert cheaper > 20


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
@needs_jit
def test_dividing_anew_takes_neighbours_together(cloak):
    # Far more bundles than a group has: numbers stay dense, and every round finds something.
    cells = draw_walks(np.random.default_rng(12), 2000, 3, 12)
    bundle = TrajAnon().solve(cells, 12, 5, "quad").bundle
    costs = []
    for number in (0, 1, 4):
        found = divide_anew(cells, build_points(cells), bundle, 5, cloak, number, 2, silent)
        assert np.bincount(found).min() >= 5
        costs.append(sum_costs(cells, found, 12, cloak == "quad"))
    assert costs[0] > costs[1] > costs[2]


def cheapest_cut(cells, k):
    """Try all cuts of two bundles' worth of trajectories; slow and obvious."""
    best = np.inf
    for instant in range(cells.shape[1]):
        for axis in range(2):
            order = np.argsort(cells[:, instant, axis], kind="stable").tolist()
            for cut in range(k, len(cells) - k + 1):
                sides = (order[:cut], order[cut:])
                cost = sum(len(side) * naive_area(cells, side, 5, quad=False) for side in sides)
                best = min(best, cost)
    return best


def test_one_cut_is_the_cheapest_of_all():
    rng = np.random.default_rng(13)
    for _ in range(40):
        k = int(rng.integers(2, 6))
        count = int(rng.integers(2 * k, 3 * k))
        cells = rng.integers(0, 32, (count, 3, 2)).astype(np.uint32)
        bundle = bundle_by_cuts(build_points(cells), k, WIDE)
        assert bundle.max() == 1
        assert sum_costs(cells, bundle, 5, quad=False) == cheapest_cut(cells, k)


@pytest.mark.parametrize("k", [1, 2, 7])
def test_cuts_leave_bundles_of_k_to_2k_however_the_trajectories_lie(k):
    rng = np.random.default_rng(14)
    line = np.arange(300, dtype=np.uint32)[:, None, None] * np.ones((1, 2, 2), np.uint32)
    outlier = np.zeros((300, 2, 2), np.uint32)
    outlier[0] = 2**24 - 1
    growing = np.minimum(2 ** np.minimum(line, 23), 2**24 - 1).astype(np.uint32)
    for cells in (line, outlier, growing, rng.integers(0, 9, (300, 2, 2)).astype(np.uint32)):
        sizes = np.bincount(bundle_by_cuts(build_points(cells), k, WIDE))
        assert sizes.min() >= k
        assert sizes.max() < 2 * k


@pytest.mark.slow
@needs_jit
def test_short_trajectories_are_cut():
    cells = draw_walks(np.random.default_rng(15), 3000, 1, 14)
    ours = Refined().solve(cells, 14, 20, "mbr").cost()
    assert ours < 0.75 * build_algorithm("slow-clustering").solve(cells, 14, 20, "mbr").cost()
    assert ours < 1.02 * Refined("high").solve(cells, 14, 20, "mbr").cost()


def test_ties_are_cut_in_order_of_rows():
    points = np.zeros((100, 2, 3), np.uint32)
    blocks = build_blocks(points, np.arange(100, dtype=np.int32), 30, 0.5, 1)
    assert sorted(block.tolist() for block in blocks) == [
        list(range(start, start + 25)) for start in range(0, 100, 25)
    ]
