"""``trajcloak inspect``."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest


def write_log(path):
    rows = [
        f"user-{u},2024-05-01T08:{m:02d}:{7 * u % 60:02d},{u},{m},a"
        for u in range(9)
        for m in range(30)
        if (u, m) != (3, 11)
    ]
    path.write_text("user_id,time,x,y,what\n" + "\n".join(rows))


def test_a_report_and_a_proposal(run, tmp_path):
    write_log(tmp_path / "log.csv")
    done = run("inspect", "log.csv", "--request", "what", "--k", 3)
    assert done.code == 0
    assert "rows read" in done.out
    assert "269" in done.out
    assert "Proposed: instants of 60s, gaps of up to 2min, windows of" in done.out
    assert re.search(r"\d% of the locations would be interpolated", " ".join(done.out.split()))
    assert "user-" not in done.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv"]


def list_choices(run, *options):
    """Inspect a log with one gap; the rows of the tables by every, by max-gap and by length."""
    lines = [f"user-{u},{t},{u},1" for u in range(3) for t in (0, 1, 2, 3, 7, 8, 9, 10)]
    Path("log.csv").write_text("user_id,time,x,y\n" + "\n".join(lines))
    # Of two inputs no set of requests is withheld, and none is counted.
    Path("sent.csv").write_text("user_id,time,what\nuser-1,1,bar\n")
    done = run("inspect", "log.csv", "--request-log", "sent.csv", "--k", 2, *options)
    return [re.findall(r"^│ (.+) │$", text, re.M) for text in done.out.split("Kept, by ")[1:]]


def test_rows_that_keep_everything_are_shown_once(run):
    """And the proposed one, which may be another."""
    _, by_gap, _ = list_choices(run)
    assert [row.count("100.0%") for row in by_gap] == [0, 0, 2]
    _, by_gap, _ = list_choices(run, "--max-gap", "10", "--length", "11")
    assert [row.count("100.0%") for row in by_gap] == [0, 0, 2, 2]
    assert by_gap[-1].split()[2] == "10"


@pytest.mark.parametrize("options", [(), ("--request", "what"), ("--every", "2min")])
def test_the_command_can_be_copied(run, tmp_path, options):
    write_log(tmp_path / "log.csv")
    done = run("inspect", "log.csv", "--k", 3, "--json", *options)
    found = json.loads(done.out)
    assert done.code == 0
    assert found["refusals"] == []
    command = shlex.split(found["command"])
    assert command[:3] == ["trajcloak", "anonymize", "log.csv"]
    shown = run("inspect", "log.csv", "--k", 3, *options).out
    assert shown.splitlines()[-1] == found["command"]
    done = run(*command[1:], "--json")
    assert done.code == 0
    manifest = json.loads(done.out)["manifest"]
    assert manifest["ingest"] == found["ingest"]
    assert manifest["parameters"]["requests"] == (["what"] if "what" in options else [])
    assert Path("policy.parquet").exists()


def test_the_command_has_all_options_that_were_given(run):
    lines = [f"u{u};{1_700_000_000 + 60 * t};{u},5;{t},5;a" for u in range(5) for t in range(6)]
    Path("my log.csv").write_text("\n".join(["who;when;a b;y;what", *lines]))
    given = [
        "--user", "who", "--time", "when", "--x", "a b", "--y", "y", "--request", "what",
        "--time-unit", "s", "--delimiter", ";", "--clip", "0,0,99,99", "--drop", "empty",
        "--drop", "conflict", "--rows-alike", "--region", "-5,-5,60",
    ]  # fmt: skip
    found = json.loads(run("inspect", "my log.csv", "--k", 2, "--json", *given).out)
    command = shlex.split(found["command"])
    assert "my log.csv" in command
    pairs = [tuple(command[i : i + 2]) for i in range(len(command))]
    for name, value in [
        ("--user", "who"),
        ("--x", "a b"),
        ("--time-unit", "s"),
        ("--delimiter", ";"),
        ("--clip", "0.0,0.0,99.0,99.0"),
        ("--drop", "empty"),
        ("--drop", "conflict"),
        ("--region", "-5.0,-5.0,60.0"),
    ]:
        assert (name, value) in pairs
    assert "--rows-alike" in command
    assert found["columns"]["place"] == "a b and y (planar, decimal commas)"
    assert run(*command[1:]).code == 0


def test_columns_that_could_be_published_are_named(run, tmp_path):
    write_log(tmp_path / "log.csv")
    told = " ".join(run("inspect", "log.csv", "--k", 3).out.split())
    assert "Columns that could be, with --request: what." in told
    assert "Columns that could be" not in run("inspect", "log.csv", "--request", "what").out


def test_what_anonymize_refuses_is_refused(run, tmp_path):
    """All of it in one run, and the same by both commands."""
    lines = [
        f"u{u},2024-05-01T08:{m:02d}:00,13.{u}{m:02d}5,52.5{u}5,a"
        for u in range(9)
        for m in range(30)
    ]
    lines[3] = "u0,2024-05-01T08:03:00,0,0,a"
    lines[40] = ",2024-05-01T08:10:00,13.1105,52.515,a"
    lines[50] = "u1,2024-05-01T08:20:00,13.1205,here,a"
    lines.append("u2,2024-05-01T08:04:00,13.3,52.525,a")
    lines.append("u2,2024-05-01T08:04:07,13.2045,52.525,a")
    (tmp_path / "log.csv").write_text("\n".join(["user_id,time,lon,lat,what", *lines]))
    inspected = run("inspect", "log.csv", "--k", 3, "--request", "what", "--every", "60s")
    asked = ("-o", "release", "--k", 3, "--request", "what", "--every", "60s")
    refused = run("anonymize", "log.csv", *asked)
    assert inspected.code == refused.code == 2
    assert "To anonymize" not in inspected.out
    assert inspected.err == refused.err
    for part in (
        "the log is refused for 5 reasons:",
        "log.csv: row 41: column 'user_id' is empty; ",
        "log.csv: row 51: column 'lat' cannot be read (it looks like 'aaaa'); ",
        "log.csv: row 4 is far from all others, at longitude and latitude 0; ",
        "log.csv: rows 65 and 271: the same user and time with different places",
        "times between two reports do not fit",
        "--drop=empty", "--drop=null-island", "--drop=conflict", "--rows-alike",
    ):  # fmt: skip
        assert part in refused.err, part
    assert json.loads(run("inspect", "log.csv", "--k", 3, "--json").out)["command"] is None


def test_a_log_with_too_few_users(run, tmp_path):
    write_log(tmp_path / "log.csv")
    for command in (("inspect",), ("anonymize", "-o", "release", "--length", 30, "--every", "60s")):
        done = run(*command, "log.csv", "--k", 10)
        assert done.code == 2
        assert "the log has 9 users; expected at least 10 for a bundle; lower --k" in done.err


def test_repeated_times_with_one_place_only(run):
    lines = [f"u{u},{t},{u},{t}" for u in range(9) for t in range(9)]
    Path("log.csv").write_text("\n".join(["user_id,time,x,y", *lines, lines[0], "u1,1,7,7"]))
    done = run("inspect", "log.csv", "--k", 3)
    assert re.search(r"rows that repeat a time +│ +1 │", done.out)
    assert "(1 such pairs in the log)" in done.err


def test_a_log_that_cannot_be_published_usefully(run):
    """Everybody reports at their own time, far apart."""
    rng = np.random.default_rng(1)
    days = np.sort(rng.integers(0, 700 * 86400, (12, 20)), axis=1)
    lines = [
        f"u{u},{np.datetime64('2024-01-01') + np.timedelta64(int(t), 's')},{u}.125,{t % 97}.125"
        for u in range(12)
        for t in days[u]
    ]
    Path("log.csv").write_text("\n".join(["user_id,time,x,y", *lines]))
    found = json.loads(run("inspect", "log.csv", "--k", 2, "--json").out)
    assert found["doubts"]
    told = " ".join(run("inspect", "log.csv", "--k", 2).out.split())
    assert "This log can hardly be published usefully with these settings: - " in told


def test_values_that_cannot_be_used(run, tmp_path):
    write_log(tmp_path / "log.csv")
    assert "--every" in run("inspect", "log.csv", "--every", "soon").err
    assert run("inspect", "log.csv", "--length", "0").code == 2
    assert run("inspect", "none.csv").code == 2


def test_rows_that_are_probably_wrong_are_named(run, tmp_path):
    lines = ["user_id,time,lon,lat"]
    lines += [f"u{u},2024-05-01T08:0{i}:00,13.{u}{i},52.5{u}" for u in range(6) for i in range(6)]
    lines[4] = "u0,2024-05-01T08:03:00,0,0"
    lines[10] = "u1,2024-05-01T08:03:00,52.51,13.13"
    lines[16] = "u2,2024-05-01T08:03:00,15.1,52.5"
    (tmp_path / "dirty.csv").write_text("\n".join(lines))
    done = run("inspect", "dirty.csv", "--k", 2)
    told = " ".join(done.out.split())
    assert "row 16 is too far from the same user's report before to be reached" in told
    # Those that are refused are named there.
    assert "row 4 is far from all others, at longitude and latitude 0" in done.err
    assert "row 10 is far from most others" in done.err
    assert "row 4 is" not in told
    found = json.loads(run("inspect", "dirty.csv", "--json").out)
    assert found["suspects"] == {"null-island": 1, "swapped": 1, "teleport": 1}
    write_log(tmp_path / "log.csv")
    assert json.loads(run("inspect", "log.csv", "--json").out)["suspects"] == {}


@pytest.mark.slow
def test_a_plan(run, tmp_path):
    write_log(tmp_path / "log.csv")
    done = run("inspect", "log.csv", "--request", "what", "--k", "3", "--plan")
    assert done.code == 0
    table = done.out.partition("Plan")[2]
    rows = [line.replace("│", " ").split() for line in table.splitlines() if "units" in line]
    assert re.findall(r"length: (\d+)", table) == ["1", "5"]
    # k, side and its unit, errors of counts and moves, users and sets withheld.
    assert [row[0] for row in rows] == ["3", "3"]
    assert [len(row) for row in rows] == [6, 7]
    assert "neighbourhoods" not in table
    found = json.loads(run("inspect", "log.csv", "--k", "3", "--plan", "--json").out)
    assert [choice["length"] for choice in found["plan"]["choices"]] == [1, 5]
    assert "plan" not in json.loads(run("inspect", "log.csv", "--json").out)
