"""``trajcloak compare``: what it prints, and what it refuses."""

import json
import re

import pytest

from cli.conftest import REQUESTS
from trajcloak.cli.compare import print_comparisons
from trajcloak.comparison import Comparison
from trajcloak.quantities import Unit, show_number

NEEDED = {
    "algorithm", "cost_mbr", "cost_quad", "seconds", "bundles", "smallest_bundle",
    "largest_bundle", "status",
}  # fmt: skip


def test_for_machines(run, made):
    done = run(
        "compare", made / "log.parquet", "--k", 5, *REQUESTS, "--algorithms", "traj-anon, exact",
        "--time-limit", 60, "--threads", 1, "--json",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert list(told) == ["results"]
    ours, optimum = told["results"]
    for result, name in ((ours, "traj-anon"), (optimum, "exact")):
        assert set(result) >= NEEDED
        assert (result["algorithm"], result["status"]) == (name, "ok")
        assert 5 <= result["smallest_bundle"] <= result["largest_bundle"] <= 60
        assert 1 <= result["bundles"] <= 12
        assert result["cost_mbr"] <= result["cost_quad"]
        assert result["seconds"] >= 0
    assert optimum["cost_quad"] <= ours["cost_quad"] <= 4 * optimum["cost_quad"]
    assert optimum["within_quad"] == 1


def test_what_is_refused_is_a_result_too(run, tmp_path):
    run("generate", "-o", "log.parquet", "--users", 65, "--length", 1, "--junctions", 2000)
    done = run("compare", "log.parquet", "--k", 5, "--algorithms", "exact", "--json")
    assert done.code == 0
    (result,) = json.loads(done.out)["results"]
    assert result["status"].startswith("refused: exact was given 65 users and can take 64")
    assert all(result[name] is None for name in NEEDED - {"algorithm", "status", "seconds"})


RESULTS = [
    Comparison("slow-clustering", "ok", 12.345, 2e6, 8e6, 2.5, 12, 5, 1234, 7.5),
    Comparison("traj-anon:us", "ok", 0.5, 4e6, 4e6, 1.25, 10, 6, 9, 8.5),
    Comparison("hilbert-clustering", "out of time", 60.0),
    Comparison("exact", "refused: install the extra [exact] of trajcloak", 0.0),
]


def rows_of(printed):
    return [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in printed.splitlines()
        if line.startswith("│")
    ]


def test_the_tables(capsys):
    print_comparisons(RESULTS, Unit(in_metres=True))
    printed = capsys.readouterr().out
    assert rows_of(printed) == [
        ["slow-clustering", "2", "1.00", "8", "2.00", "<= 2.50"],
        ["traj-anon:us", "4", "2.00", "4", "1.00", "<= 1.25"],
        ["slow-clustering", "12.35", "12", "5", "1,234", "7.5\xa0m"],
        ["traj-anon:us", "0.50", "10", "6", "9", "8.5\xa0m"],
    ]
    assert "mbr, km²" in printed
    text = " ".join(printed.split())
    assert "hilbert-clustering: out of time" in text
    # Square brackets are no markup here.
    assert "exact: refused: install the extra [exact] of trajcloak" in text


def test_areas_of_parts_have_a_table_of_their_own(run, made):
    args = ("compare", made / "log.parquet", "--k", 10, "--parts", 5, "--algorithms", "traj-anon")
    (told,) = json.loads(run(*args, "--json").out)["results"]
    own, union, whole = told["cost_parts"], told["cost_union"], told["cost_mbr"]
    assert 0 < own < union <= whole
    shown = [show_number(own), f"{own / whole:.2f}", show_number(union), f"{union / whole:.2f}"]
    assert rows_of(run(*args).out)[-1] == ["traj-anon", *shown]


def test_a_defect_is_told_and_its_figures_shown(capsys):
    defect = Comparison(
        "best", "defect: a bundle of 1 users, fewer than 5", 1.0, 1.0, 1.0, 1.0, 3, 1, 3, 1.0
    )
    print_comparisons([defect], Unit(in_metres=True))
    printed = capsys.readouterr().out
    assert "best: defect: a bundle of 1 users, fewer than 5" in " ".join(printed.split())
    assert len(rows_of(printed)) == 2


def test_nothing_done_in_time(capsys):
    print_comparisons([Comparison("exact", "out of time", 1.0)], Unit(in_metres=True))
    printed = capsys.readouterr().out
    assert rows_of(printed) == []
    assert "exact: out of time" in printed


def test_on_a_terminal_nothing_but_tables(run, made):
    done = run("compare", made / "log.parquet", "--k", 5, "--algorithms", "baseline")
    assert (done.code, done.err) == (0, "")
    assert [row[0] for row in rows_of(done.out)] == ["baseline", "baseline"]
    assert re.search(r"times the best possible quad cost", done.out)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--k", "1"], "k is 1; expected a whole number of at least 2"),
        (["--k", "61"], "no window has k = 61 users"),
        (["--k", "4", "--algorithms", "best"], "algorithm is 'best'; expected one of"),
        (["--k", "4", "--algorithms", ""], "algorithm is ''; expected one of"),
        (["--k", "4", "--algorithms", "traj-anon,[red]"], "algorithm is '[red]'"),
        (["--k", "4", "--algorithms", "traj-anon:v"], "tree is 'v'; expected one of"),
        (["--k", "4", "--seed", "-1"], "seed is -1; expected"),
        (["--k", "4", "--time-limit", "0"], "time_limit is 0.0; expected"),
        (["--k", "4", "--time-limit", "nan"], "time_limit is nan; expected"),
        (["--k", "4", "--threads", "0"], "--threads"),
        ([], "Missing option '--k'"),
    ],
    ids=str,
)
def test_bad_usage(run, made, args, message):
    done = run("compare", made / "log.parquet", *args)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert "Traceback" not in done.err
