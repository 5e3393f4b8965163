"""``trajcloak attack``: what it prints, and what it refuses."""

import json
import re

import numpy as np
import pytest

from cli.conftest import REQUESTS
from small_logs import Row, write_parquet
from trajcloak.attackers import ATTACKERS
from trajcloak.options import ALGORITHMS
from zoo import draw_walks

FIELDS = ["policy", "attacker", "requests", "breaches", "smallest_candidate_set", "identified"]
POLICIES = ["k-inside", "bulk-dp", "traj-anon"]


@pytest.fixture
def log(tmp_path):
    """Sixty users on a walk of five instants, with a request in half of the rows."""
    rng = np.random.default_rng(151)
    rows = [
        Row(f"secret-{user:03d}", instant, x, y, "r" if rng.random() < 0.5 else None)
        for user, trajectory in enumerate(draw_walks(rng, 60, 5, 8).tolist())
        for instant, (x, y) in enumerate(trajectory)
    ]
    return write_parquet(tmp_path / "log.parquet", rows)


def test_for_machines(run, log):
    done = run("attack", log, "--k", 4, "--request", "what", "--json")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert list(told) == ["results"]
    assert [list(result) for result in told["results"]] == [FIELDS] * 18
    assert [(r["policy"], r["attacker"]) for r in told["results"]] == [
        (policy, attacker) for policy in POLICIES for attacker in ATTACKERS
    ]
    for result in told["results"]:
        assert 0 < result["requests"] < 300
        if result["policy"] == "traj-anon":
            assert (result["breaches"], result["identified"]) == (0, 0)
            assert result["smallest_candidate_set"] >= 4
    broken = told["results"][POLICIES.index("bulk-dp") * 6 + ATTACKERS.index("tp-aware")]
    assert broken["identified"] > 0
    assert broken["smallest_candidate_set"] == 1


def test_the_table(run, log):
    done = run("attack", log, "--k", 4, "--request", "what")
    assert (done.code, done.err) == (0, "")
    assert "What attackers learn (k = 4)" in done.out
    rows = re.findall(r"^│ ([\w-]+) +│ +([\d,]+) │ +([\d,]+) │", done.out, re.M)
    assert re.findall(r"policy: ([\w-]+)", done.out) == POLICIES
    assert [attacker for attacker, *_ in rows] == list(ATTACKERS) * 3
    for_machines = json.loads(run("attack", log, "--k", 4, "--request", "what", "--json").out)
    assert [(int(requests), int(breaches)) for *_, requests, breaches in rows] == [
        (result["requests"], result["breaches"]) for result in for_machines["results"]
    ]
    assert "step by step" not in done.out
    assert "…" not in done.out


def test_without_request_every_row_is_one(run, log):
    results = json.loads(run("attack", log, "--k", 4, "--json").out)["results"]
    assert {r["requests"] for r in results if r["policy"] != "traj-anon"} == {300}


def test_who_links_windows_is_kept_out_on_demand(run, tmp_path):
    """Everybody asks for the same in all windows, in company that changes."""
    rng = np.random.default_rng(152)
    rows = [
        Row(f"u{user}", window, place // 6, 0, f"r{user % 12}")
        for window in range(4)
        for user, place in enumerate(rng.permutation(24).tolist())
    ]
    log = write_parquet(tmp_path / "log.parquet", rows)
    args = ("attack", log, "--k", 4, "--request", "what", "--length", 1, "--json")
    found = json.loads(run(*args).out)["results"][-1]
    assert (found["attacker"], found["policy"]) == ("linking", "traj-anon")
    assert found["breaches"] > 0
    found = json.loads(run(*args, "--link-safe").out)["results"][-1]
    assert found["requests"] > found["breaches"] == 0


def test_one_breach_step_by_step(run, log):
    done = run("attack", log, "--k", 4, "--request", "what", "--example")
    assert done.code == 0
    story = done.out.partition("One breach, step by step.")[2]
    text = " ".join(story.split())
    assert "Policy bulk-dp, attacker tp-aware." in text
    steps = re.findall(r"instant (\d+): the cloak fits (\d+) users; (\d+) of them fit all", text)
    assert len(steps) >= 2
    assert all(int(fitting) >= 4 for _, fitting, _ in steps)
    assert int(steps[-1][2]) == 1
    assert "The sender is identified." in text
    (candidates,) = re.findall(
        r"In bundles of traj-anon the same requests have (\d+) possible senders each", text
    )
    assert int(candidates) >= 4
    assert "secret" not in done.out + done.err


def test_no_breach_to_show(run, tmp_path):
    rows = [Row(f"u{u}", t, u // 4, 0, "r") for u in range(12) for t in range(3)]
    log = write_parquet(tmp_path / "still.parquet", rows)
    done = run("attack", log, "--k", 4, "--request", "what", "--example")
    assert done.code == 0
    assert "nothing to show" in done.out


def test_other_algorithms_and_options(run, made):
    names = [name for name in ALGORITHMS if name != "exact"]
    done = run(
        "attack", made / "log.parquet", "--k", 3, *REQUESTS, "--algorithms", ", ".join(names),
        "--length", 2, "--height", 9, "--seed", 3, "--threads", 1, "--json",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    results = json.loads(done.out)["results"]
    assert [r["policy"] for r in results[::6]] == ["k-inside", "bulk-dp", *names]
    ours = [r for r in results if r["policy"] in names and r["attacker"] != "linking"]
    assert all(r["breaches"] == 0 for r in ours)


def test_long_names_are_folded_and_not_cut_off(run, log):
    done = run("attack", log, "--k", 4, "--algorithms", "hilbert-clustering")
    assert "…" not in done.out
    assert "policy: hilbert-clustering" in done.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--k", "1"], "k is 1; expected a whole number of at least 2"),
        (["--k", "61"], "the log has 60 users; expected at least 61"),
        (["--k", "4", "--algorithms", "best"], "algorithm is 'best'; expected one of"),
        (["--k", "4", "--algorithms", "traj-anon,"], "algorithm is ''; expected one of"),
        (["--k", "4", "--algorithms", "fast-clustering", "--seed", "-1"], "seed is -1; expected"),
        (["--k", "4", "--request", "nothing"], "nothing"),
        (["--k", "4", "--length", "0"], "'--length': 0 is not in the range"),
        (["--k", "4", "--height", "0"], "height is 0"),
        (["--k", "few"], "Invalid value for '--k'"),
        ([], "Missing option '--k'"),
    ],
    ids=str,
)
def test_bad_usage(run, log, args, message):
    done = run("attack", log, *args)
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert "Traceback" not in done.err


def test_no_such_log(run):
    done = run("attack", "nowhere.parquet", "--k", 2)
    assert (done.code, done.out) == (2, "")
    assert "nowhere.parquet" in done.err
