"""What is drawn from result files, and how what was not measured is marked."""

import json
import sys

import pytest

from benchmarks import child
from experiments import plot

STAGES = {stage: 1.0 for stages, _, _ in plot.PHASES.values() for stage in stages}


def result(experiment, algorithm, users, *, length=30, k=50, status="ok", seconds=1.0, cost=1.0):
    point = {"experiment": experiment, "algorithm": algorithm, "users": users}
    point |= {"length": length, "k": k, "limit": 60, "status": status}
    if status == "ok":
        point |= {"seconds": [seconds], "cost": cost, "stages": STAGES}
    return point


def quadratic():
    """Return points that take (users / 1000)² seconds and cost users³, up to 4000 users."""
    measured = [
        result("clustering", "slow-clustering", n, seconds=(n / 1000) ** 2, cost=float(n) ** 3)
        for n in (1000, 2000, 4000)
    ]
    late = [
        result("clustering", "slow-clustering", n, status="out of time") for n in (8000, 16_000)
    ]
    return measured, late


def made_up():
    measured, late = quadratic()
    results = [*measured, *late]
    results += [result("clustering", "traj-anon", n, seconds=n / 1e6) for n in (1000, 16_000)]
    results += [result("phases", "traj-anon", n, length=m) for n in (10, 20) for m in (10, 30)]
    results += [result("hilbert", "hilbert-clustering", n, cost=n) for n in (10, 20)]
    results += [result("k", "refined", 10, k=k, cost=k) for k in (5, 10)]
    results += [result("length", "refined", 10, length=m, cost=m) for m in (1, 6)]
    return results


def lines_of(figure):
    return figure.axes[0].get_lines()


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_every_figure_is_drawn_from_files_alone(tmp_path, monkeypatch, capsys, ending):
    for i, one in enumerate(made_up()):
        (tmp_path / f"{i}.json").write_text(json.dumps(one))
    figures = tmp_path / "figures"
    arguments = ["plot", str(tmp_path), "-o", str(figures), "--format", ending]
    monkeypatch.setattr(sys, "argv", arguments)
    plot.main()
    assert {path.name for path in figures.iterdir()} == {
        f"{name}.{ending}" for name in plot.FIGURES
    }
    assert capsys.readouterr().out.count(": drawn") == len(plot.FIGURES)
    first = {path: path.read_bytes() for path in figures.iterdir()}
    plot.main()
    assert {path: path.read_bytes() for path in figures.iterdir()} == first


def test_every_stage_that_is_measured_is_in_one_phase():
    drawn = [stage for stages, _, _ in plot.PHASES.values() for stage in stages]
    assert sorted(drawn) == sorted([*child.TIMED, child.MANIFEST, child.WRITING])


def test_extrapolation_is_the_power_law_of_the_last_three_points():
    assert plot.extrapolate([1, 2, 4], [1, 4, 16], [8, 16]) == pytest.approx([64, 256])
    assert plot.extrapolate([1, 2, 4, 8], [900, 4, 16, 64], [16]) == pytest.approx([256])
    # Three points off the line: the slope and mean of the logarithms, by hand.
    assert plot.extrapolate([1, 2, 4], [1, 8, 16], [8]) == pytest.approx([2 ** (19 / 3)])


def test_nothing_is_extrapolated_from_one_point():
    assert plot.extrapolate([1], [1], [2]) == []


def test_what_ran_out_of_time_is_drawn_hollow_dashed_and_said():
    measured, late = quadratic()
    figure = plot.draw_time([*measured, *late])
    solid, dashed = lines_of(figure)
    assert list(solid.get_xdata()) == [1000, 2000, 4000]
    assert list(solid.get_ydata()) == [1, 4, 16]
    assert solid.get_markerfacecolor() != "white"
    assert list(dashed.get_xdata()) == [4000, 8000, 16_000]
    assert list(dashed.get_ydata()) == pytest.approx([16, 64, 256])
    assert dashed.get_markerfacecolor() == "white"
    assert dashed.get_linestyle() == "--"
    assert dashed.get_markevery() == slice(1, None), "the first is measured, and drawn so"
    assert legend_of(figure) == ["slow-clustering", plot.EXTRAPOLATED]


def test_extrapolated_time_is_no_less_than_the_limit_and_cost_is_as_fitted():
    measured, late = quadratic()
    for one in late:
        one["limit"] = 100
    _, dashed = lines_of(plot.draw_time([*measured, *late]))
    assert list(dashed.get_ydata()) == pytest.approx([16, 100, 256])
    _, dashed = lines_of(plot.draw_cost([*measured, *late]))
    assert list(dashed.get_ydata()) == pytest.approx([4000.0**3, 8000.0**3, 16_000.0**3])


def test_nothing_is_marked_where_all_was_measured():
    figure = plot.draw_time(quadratic()[0])
    assert len(lines_of(figure)) == 1
    assert legend_of(figure) == ["slow-clustering"]


def test_too_little_to_extrapolate_is_said():
    measured, late = quadratic()
    figure = plot.draw_time([measured[0], *late])
    assert len(lines_of(figure)) == 1
    assert legend_of(figure) == ["slow-clustering (out of time from 8k)"]


def test_time_is_the_median_of_the_runs():
    assert plot.seconds({"seconds": [9.0, 1.0, 2.0]}) == 2.0


def test_phases_fill_their_bars():
    figure = plot.draw_phases([r for r in made_up() if r["experiment"] == "phases"])
    for axes in figure.axes:
        assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(200)


def test_no_results_are_told(tmp_path):
    with pytest.raises(SystemExit, match=r"no results; expected files \*.json; run `make exp"):
        plot.read_results(tmp_path)


def test_a_figure_without_results_is_told(tmp_path, capsys):
    late = quadratic()[1]
    plot.draw_all([result("k", "refined", 10), *late], tmp_path, "png")
    assert [path.name for path in tmp_path.iterdir()] == ["cost-by-k.png"]
    assert "figure-11-cost: nothing measured, not drawn" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "text"), [(500, "500"), (2000, "2k"), (1_500_000, "1.5M"), (10_000, "10k")]
)
def test_short_numbers(number, text):
    assert plot.short(number) == text
