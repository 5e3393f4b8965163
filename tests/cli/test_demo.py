"""The demonstration: everything in one go, in plain words."""

import json
import re
import shlex

import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from cli.terminal import show_on_terminal
from small_logs import list_tree
from trajcloak.attackers.candidate_sets import ATTACKERS
from trajcloak.auditor import audit_files
from trajcloak.cli import demo
from trajcloak.options import LogColumns
from trajcloak.release.reading import read_manifest

pytestmark = pytest.mark.slow

SMALL = ("--users", 400, "--k", 10)


def test_demo_tells_what_was_hidden_from_whom(run, tmp_path):
    done = run("demo", "-o", "shown", *SMALL)
    assert done.code == 0
    assert done.err == ""
    folder = tmp_path / "shown"
    assert sorted(path.name for path in folder.iterdir()) == [
        "log.parquet",
        "policy.parquet",
        "release",
        "report.html",
    ]
    manifest = read_manifest(folder / "release")
    log = pq.read_table(folder / "log.parquet")
    requests = log.num_rows - log["category"].null_count
    assert max(map(len, done.out.splitlines())) <= 80
    words = " ".join(done.out.split())
    assert f"400 people moved through a city for 30 minutes and sent {requests:,} requests" in words
    assert "Release: shown/release" in words
    assert "One person is left: found." in words
    assert "In bundles every request keeps at least 10 suspects, whoever attacks." in words
    assert "shown/policy.parquet private" in words
    assert "shown/release public" in words
    assert "Passed: at least 10 possible senders for every request" in words
    assert f"where every one of the {manifest['users']} people was at every minute" in words
    assert "still cannot tell who sent a request" in words
    assert "at least 10 people fit equally well" in words
    assert re.search(r"withheld │ [\d,]+ requests, 0 people", words)
    assert "shown/report.html private all of this on a page" in words
    assert done.out.rstrip().endswith("Open in a browser: shown/report.html")
    assert " km" in words.split("Areas are coarse")[1]
    page = (folder / "report.html").read_text()
    assert "What each attacker learns" in page
    assert "all 13 checks passed" in page, "as many as on the console"
    assert "units" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert manifest["users"] == 400
    assert manifest["smallest_bundle"] >= 10
    columns = LogColumns(requests=("category", "detail"))
    assert audit_files(
        folder / "log.parquet", folder / "release", folder / "policy.parquet", columns
    )


def test_demo_by_hand(run, tmp_path, monkeypatch):
    """The commands that the demo shows make the same release, and the same figures.

    They can be pasted whatever the width of the terminal.
    """
    with monkeypatch.context() as narrow:
        narrow.setattr(demo.out, "width", 40)
        done = run("demo", *SMALL, "--seed", 5)
    figures = json.loads(run("demo", "-o", "again", *SMALL, "--seed", 5, "--json").out)
    shown = done.out.split("The same by hand:")[1].replace("\\\n", " ")
    commands = re.findall(r"^ +trajcloak (.+)$", shown, re.MULTILINE)
    assert [command.split()[0] for command in commands] == [
        "generate", "anonymize", "audit", "attack", "utility", "report",
    ]  # fmt: skip
    told = {}
    for command in commands:
        done = run(*shlex.split(command), "--json")
        assert done.code == 0
        told[command.split()[0]] = json.loads(done.out)
    assert told["utility"]["results"] == figures["utility"]
    assert told["audit"] == figures["audit"]
    made = list_tree(tmp_path / "trajcloak-demo")
    assert {name: content for name, content in list_tree(tmp_path).items() if name in made} == made


def test_demo_for_machines(run):
    done = run("demo", "-o", "shown", *SMALL, "--json")
    told = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert [told[name] for name in ("log", "release", "policy", "report")] == [
        "shown/log.parquet",
        "shown/release",
        "shown/policy.parquet",
        "shown/report.html",
    ]
    assert told["manifest"] == read_manifest("shown/release")
    assert told["audit"]["passed"] is True
    assert told["seconds"] > 0
    found = {(row["policy"], row["attacker"]): row for row in told["attack"]}
    assert found["bulk-dp", "tp-aware"]["identified"] > 0
    assert found["refined", "tp-aware"]["breaches"] == 0
    assert [row["question"] for row in told["utility"]] == ["count", "moves", "requests"]
    assert {row["within"] for row in told["utility"]} == {1}


def test_every_attacker_and_question_is_explained():
    assert tuple(demo.KNOWLEDGE) == ATTACKERS
    assert set(demo.QUESTIONS) == {"count", "moves", "requests"}


def test_demo_where_nobody_is_found(run):
    done = run("demo", "--users", 30, "--k", 30)
    assert done.code == 0
    assert "In this log nobody is found in this way" in done.out
    assert "found." not in done.out
    assert "No request is published in bundles" in done.out
    assert "suspects" not in done.out


def test_demo_never_overwrites(run, tmp_path):
    (tmp_path / "shown").mkdir()
    done = run("demo", "-o", "shown", *SMALL)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: shown: exists already; expected a new path")
    assert list_tree(tmp_path) == {"shown": b""}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--k", 1), "k is 1; expected"),
        (
            ("--users", 5, "--k", 6),
            "users is 5; expected at least k = 6; pass more --users, or a lower --k",
        ),
        (("--users", 0), "users is 0; expected"),
    ],
)
def test_demo_refuses(run, tmp_path, args, says):
    done = run("demo", *args)
    assert done.code == 2
    assert "Release" not in done.out
    assert done.err.startswith(f"Error: {says}")
    assert list_tree(tmp_path) == {}


def test_demo_fails_with_the_audit(run, monkeypatch):
    check = tc.auditor.Check("at least k users", False, 1, "1 bundle with fewer than 10 users")
    report = tc.auditor.AuditReport(10, (check,))
    monkeypatch.setattr("trajcloak.auditor.audit_files", lambda *args, **options: report)
    done = run("demo", "-o", "shown", *SMALL)
    assert done.code == 3
    assert "Do not publish this release." in done.out
    assert "What was hidden" not in done.out


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]")


def test_demo_on_a_terminal(tmp_path):
    shown = show_on_terminal("demo", "-o", tmp_path / "shown", *SMALL)
    for stage in ("preparing routes", "reading log", "attacking", "asking", "audit"):
        assert stage in shown
    assert COLOUR.search(shown)
    assert shown.index("1. A log") < shown.index("reading log") < shown.index("6. An audit")


def test_demo_without_colours(tmp_path):
    shown = show_on_terminal("demo", "-o", tmp_path / "shown", *SMALL, NO_COLOR="1")
    assert "6. An audit" in shown
    assert not COLOUR.search(shown)
