"""``trajcloak utility``: what it prints, and its exit codes."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from cli.conftest import REQUESTS
from trajcloak import utility
from trajcloak.cli.utility import print_utility

BAD = utility.Utility("count", 10, 0.5, 0.25, 1234.5, 0.9, 0.25)
GOOD = utility.Utility("moves", 1000, 0.125, 0.0, 2.0, 1.0, 0.0)


def test_for_machines(run, made):
    args = "utility", made / "log.parquet", made / "release", "--policy", made / "policy.parquet"
    done = run(*args, "--queries", 10, "--json")
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    results, areas = answer["results"], answer["areas"]
    assert areas["own"] == pytest.approx(areas["union"], rel=1e-12)
    assert [result["question"] for result in results] == ["count", "moves", "requests"]
    assert all((result["queries"], result["within"]) == (10, 1) for result in results)
    # The attributes of the release are the default; time options may be repeated.
    again = run(
        *args, "--queries", 10, "--json", *REQUESTS, "--every", "1m", "--threads", 1
    )  # fmt: skip
    assert again.out == done.out


def test_the_table(capsys):
    print_utility([BAD, GOOD])
    printed = capsys.readouterr().out
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in printed.splitlines()
        if line.startswith("│")
    ]
    assert rows == [
        ["count", "10", "50.0%", "25.0%", "123,450%", "90.0%", "25.0%"],
        ["moves", "1,000", "12.5%", "0.0%", "200%", "100.0%", "0.0%"],
    ]


@pytest.mark.parametrize(("results", "code"), [([GOOD], 0), ([GOOD, BAD], 3)])
def test_a_true_answer_outside_its_bounds_is_a_breach(run, made, monkeypatch, results, code):
    monkeypatch.setattr(utility, "measure_answers", lambda *_, **__: results)
    policy = made / "policy.parquet"
    done = run("utility", made / "log.parquet", made / "release", "--policy", policy, "--json")
    assert done.code == code
    assert ("Note: a true answer is not within its bounds" in done.err) == bool(code)
    assert json.loads(done.out)["results"] == [asdict(result) for result in results]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--queries", "0"], "queries is 0; expected a whole number of at least 1"),
        (["--every", "30s"], "the release was made with every = 60s"),
        (["--user", "nobody"], "column 'nobody'"),
    ],
)
def test_bad_input(run, made, args, message):
    policy = made / "policy.parquet"
    done = run("utility", made / "log.parquet", made / "release", "--policy", policy, *args)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_rows_that_the_release_dropped_are_dropped(run):
    rows = [f"u{u},{t},{u + t},{u}" for u in range(8) for t in range(6)]
    Path("log.csv").write_text("\n".join(["user_id,time,x,y", *rows, "u0,0,7,7"]))
    settings = "--k", 2, "--drop", "conflict", "--missing", "hold"
    made = run("anonymize", "log.csv", "-o", "release", "--policy", "policy.parquet", *settings)
    assert made.code == 0
    done = run("utility", "log.csv", "release", "--policy", "policy.parquet", "--queries", 5)
    assert (done.code, done.err) == (0, "")
