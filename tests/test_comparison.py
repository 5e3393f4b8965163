"""Comparison of algorithms: what is recomputed, which defects are found, and the proven bound."""

import math
import sys

import numpy as np
import pytest

import trajcloak as tc
from reference.partitions import COVERS, partition_cost
from small_logs import UNIT_CELLS, Row, read_rows
from trajcloak import comparison
from trajcloak.algorithms import Policy, build_algorithm
from trajcloak.comparison import Comparison, bound_optimum, compare_algorithms
from trajcloak.options import ALGORITHMS, Options
from zoo import (
    as_trajectories,
    draw_clustered,
    draw_examples,
    draw_uniform,
    draw_walks,
    list_groups,
    needs_jit,
)


def measure(windows, bundles, height, cell):
    """Recompute what is compared, without the library."""
    cost = dict.fromkeys(("box", "semi-quadrant"), 0)
    sizes, areas = [], []
    for cells, bundle in zip(windows, bundles, strict=True):
        trajectories, groups = as_trajectories(cells), list_groups(bundle)
        for cover in cost:
            cost[cover] += partition_cost(trajectories, groups, height, cover)
        sizes += map(len, groups)
        for group in groups:
            for instant in range(cells.shape[1]):
                box = COVERS["box"]([trajectories[u][instant] for u in group], height)
                areas.append(box.width * box.height)
    areas.sort()
    middle = (areas[(len(areas) - 1) // 2] + areas[len(areas) // 2]) / 2
    return {
        "cost_mbr": cost["box"] * cell**2,
        "cost_quad": cost["semi-quadrant"] * cell**2,
        "bundles": len(sizes),
        "smallest_bundle": min(sizes),
        "largest_bundle": max(sizes),
        "median_side": math.sqrt(middle) * cell,
    }


def judge(windows, bundles, *, k=2, cell=1.0, least=1.0):
    none = np.empty((0, 0, 4), np.uint32)
    policies = [Policy(np.array(bundle, np.int32), none) for bundle in bundles]
    return comparison._judge("some", 1.5, windows, policies, Options(k), cell, least, threads=1)


def fields_of(result, names):
    return {name: getattr(result, name) for name in names}


def test_what_the_referee_measures_is_recomputed():
    rng = np.random.default_rng(141)
    for example in draw_examples(142, 60, most=20):
        cells, height, _ = example
        windows = [cells, draw_clustered(rng, 9, 3, height)]
        bundles = []
        for window in windows:
            num_bundles = int(rng.integers(1, len(window) + 1))
            bundle = rng.integers(0, num_bundles, size=len(window))
            bundle[:num_bundles] = np.arange(num_bundles)
            bundles.append(bundle)
        expected = measure(windows, bundles, height, cell=0.75)
        result = judge(windows, bundles, cell=0.75, least=13.0)
        assert fields_of(result, expected) == pytest.approx(expected, rel=1e-12)
        assert result.within_quad == pytest.approx(expected["cost_quad"] / 0.75**2 / 13, rel=1e-12)
        assert (result.algorithm, result.seconds) == ("some", 1.5)


def test_a_bundle_below_k_is_a_defect():
    cells = draw_uniform(np.random.default_rng(143), 6, 2, 4)
    assert judge([cells], [[0, 0, 0, 1, 1, 1]], k=3).status == "ok"
    result = judge([cells], [[0, 0, 0, 0, 1, 1]], k=3)
    assert result.status == "defect: a bundle of 2 users, fewer than 3"
    assert result.smallest_bundle == 2
    # Also where only one window has it, and where a number is left out.
    both = judge([cells, cells], [[0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1]], k=3)
    assert both.status == "defect: a bundle of 1 users, fewer than 3"
    assert judge([cells], [[0, 0, 0, 2, 2, 2]], k=3).status.startswith("defect: a bundle of 0")


@pytest.mark.parametrize("seed", range(2))
def test_the_bound_is_below_the_optimum(seed):
    """So the proven ratio is at least the true one, for every algorithm."""
    tight = 0
    for example in draw_examples([144, seed], 100, most=11, most_k=4, height=4):
        cells, height, k = example
        best = build_algorithm("exact").solve(cells, height, k, "quad").cost()
        least = bound_optimum(cells, height, k, threads=1)
        assert 0 < least <= best <= cells.shape[1] * least
        tight += least == best
        for name in ("traj-anon", "baseline", "slow-clustering"):
            bundle = build_algorithm(name).solve(cells, height, k, "quad").bundle
            result = judge([cells], [bundle], k=k, least=least)
            assert result.within_quad >= result.cost_quad / best >= 1
    assert 5 <= tight < 100


def test_the_bound_takes_the_better_of_two():
    # All in one cell at every instant: both are the optimum.
    assert bound_optimum(np.zeros((5, 3, 2), np.uint32), 3, 2, 1) == 15
    # Each is with one user at one instant and with another at the next. Two in a cell at each
    # instant: 1 + 1. But the tree has nothing below half of the region and all of it: 32 + 64.
    cells = np.array([[[x, 0], [y, 0]] for x in (0, 7) for y in (0, 7)], np.uint32)
    assert bound_optimum(cells, 3, 2, 1) == 4 * (32 + 64) / 2
    # One instant: the tree is the optimum, and here above what each user alone would need.
    cells = np.array([[[0, 0]], [[0, 0]], [[0, 0]], [[7, 7]]], np.uint32)
    assert bound_optimum(cells, 3, 2, 1) == 2 + 2 * 64


def test_the_optimum_replaces_its_bound_where_it_was_found():
    results = [
        Comparison("traj-anon", "ok", 1.0, 5.0, 12.0, 1.9),
        Comparison("exact", "ok", 1.0, 4.0, 8.0, 1.2),
        Comparison("slow-clustering", "out of time", 1.0),
    ]
    within = [r.within_quad for r in comparison._relate_to_optimum(results)]
    assert within == [1.5, 1.0, None]
    refused = [results[0], Comparison("exact", "refused: too large")]
    assert comparison._relate_to_optimum(refused) == refused


def walk_rows(num_users, length, seed=145):
    cells = draw_walks(np.random.default_rng(seed), num_users, length, 4)
    return [
        Row(f"secret-{user}", instant, int(x), int(y), "r")
        for user, trajectory in enumerate(cells)
        for instant, (x, y) in enumerate(trajectory)
    ]


def windows_of(rows, length):
    """Cells of each window, with the layout of :data:`UNIT_CELLS`."""
    users = sorted({row.user for row in rows})
    cells = np.zeros((len(users), max(row.time for row in rows) + 1, 2), np.uint32)
    for row in rows:
        cells[users.index(row.user), row.time] = row.x, row.y
    return [cells[:, i : i + length] for i in range(0, cells.shape[1], length)]


@pytest.mark.slow
@needs_jit
def test_compare_every_algorithm_on_a_log():
    rows = walk_rows(40, 4)
    names = [*ALGORITHMS, "traj-anon:u"]
    calls = []
    results = compare_algorithms(
        read_rows(rows),
        3,
        names,
        seed=5,
        length=2,
        threads=1,
        progress=lambda *call: calls.append(call),
        **UNIT_CELLS,
    )
    assert [result.algorithm for result in results] == names
    assert {result.status for result in results} == {"ok"}
    assert [call for call in calls if call[0] == "comparing"] == [
        ("comparing", i, len(names)) for i in range(len(names) + 1)
    ]
    windows = [np.ascontiguousarray(cells) for cells in windows_of(rows, 2)]
    best = next(r.cost_quad for r in results if r.algorithm == "exact")
    for result in results:
        name, _, tree = result.algorithm.partition(":")
        solver = build_algorithm(name, seed=5, tree=tree or "usb")
        bundles = [solver.solve(cells, 4, 3, "mbr").bundle for cells in windows]
        expected = measure(windows, bundles, 4, cell=1.0)
        assert fields_of(result, expected) == pytest.approx(expected, rel=1e-12), name
        assert result.within_quad == pytest.approx(result.cost_quad / best, rel=1e-12)
        assert result.seconds >= 0


@needs_jit
def test_out_of_time():
    (result,) = compare_algorithms(
        read_rows(walk_rows(3000, 2)),
        50,
        ["slow-clustering"],
        time_limit=0.001,
        threads=1,
        **UNIT_CELLS,
    )
    assert result == Comparison("slow-clustering", "out of time", result.seconds)
    assert result.seconds >= 0.001


def _run(algorithm, *trajectories):
    return comparison._run(None, algorithm, trajectories, 3, Options(k=2), 1)


@needs_jit
def test_refused():
    seconds, outcome = _run("exact", draw_uniform(np.random.default_rng(146), 65, 1, 3))
    assert outcome == (
        "refused: exact was given 65 users and can take 64, since the problem is NP-complete; "
        "use another --algorithm, or a smaller log"
    )
    assert seconds >= 0


@needs_jit
def test_refused_without_a_solver(tmp_path, monkeypatch, capfd):
    """Reported like any other refusal, although it occurs before the clock starts."""
    package = tmp_path / "without" / "scipy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('not installed')\n")
    monkeypatch.setattr(sys, "path", [str(package.parent), *sys.path])
    _, outcome = _run("exact", np.zeros((4, 1, 2), np.uint32))
    assert outcome == (
        "refused: exact needs a solver of integer programs; install the extra 'exact' of trajcloak"
    )
    assert capfd.readouterr().err == ""


@needs_jit
def test_a_process_that_dies_is_reported(capfd):
    seconds, outcome = _run("traj-anon", None)
    assert (seconds, outcome) == (0.0, "failed: the process ended with exit code 1")
    assert "NoneType" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("algorithms", "options", "message"),
    [
        (["best"], {}, "algorithm is 'best'; expected one of"),
        (["traj-anon:best"], {}, "tree is 'best'; expected one of"),
        (["baseline:us"], {}, "algorithm 'baseline' is given the variant 'us', and has none"),
        (["traj-anon"], {"k": 1}, "k is 1; expected a whole number of at least 2"),
        (["traj-anon"], {"seed": -1}, "seed is -1"),
        (["traj-anon"], {"time_limit": 0.0}, "time_limit is 0.0; expected"),
        (["traj-anon"], {"time_limit": -1.0}, "time_limit is -1.0; expected"),
        (["traj-anon"], {"time_limit": math.nan}, "time_limit is nan; expected"),
        (["traj-anon"], {"height": 99, "region": None}, "height is 99"),
    ],
    ids=str,
)
def test_bad_options(algorithms, options, message):
    """Refused before anything runs."""
    with pytest.raises(tc.OptionError, match=message):
        compare_algorithms(
            read_rows(walk_rows(5, 1)), algorithms=algorithms, **{"k": 2, **UNIT_CELLS, **options}
        )


def test_too_few_users():
    with pytest.raises(tc.NotEnoughUsersError, match="no window has k = 6 users"):
        compare_algorithms(read_rows(walk_rows(5, 1)), 6, ["traj-anon"], **UNIT_CELLS)


@pytest.mark.parametrize("per", ["window", "instant"])
def test_parts_are_measured_by_their_own_area_and_by_their_union(per):
    """Two pairs that cross: apart at both ends, in the same cells in the middle."""
    ways = {"a": (0, 4, 8), "b": (1, 5, 9), "c": (9, 5, 1), "d": (8, 4, 0)}
    rows = [Row(user, i, x, 3) for user, way in ways.items() for i, x in enumerate(way)]
    options = {"parts": 2, "parts_per": per, "rows_alike": True, "threads": 1, **UNIT_CELLS}
    (result,) = compare_algorithms(read_rows(rows), 4, ["slow-clustering"], **options)
    # One box of 10, 2 and 10 cells for four users, or each pair in a box of 2; in the middle two
    # are in each cell, and may be a part there, if only for that instant.
    assert result.cost_mbr == 4 * (10 + 2 + 10)
    assert result.cost_parts == 4 * (2 + (2 if per == "window" else 1) + 2)
    assert result.cost_union == 4 * (4 + 2 + 4)
    (whole,) = compare_algorithms(
        read_rows(rows), 4, ["slow-clustering"], rows_alike=True, **UNIT_CELLS
    )
    assert whole.cost_parts is whole.cost_union is None
