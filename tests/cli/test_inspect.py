"""``trajcloak inspect``."""

import json
import re
from pathlib import Path


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
    done = run("inspect", "log.csv", "--request", "what")
    assert done.code == 0
    assert "rows read" in done.out
    assert "269" in done.out
    assert "Proposed: --every 60s --max-gap 120s --length" in done.out
    assert "user-" not in done.out
    assert "█" in done.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv"]


def list_choices(run, *options):
    """Inspect a log with one gap; the rows of the tables by every, by max-gap and by length."""
    lines = [f"user-{u},{t},{u},1" for u in range(3) for t in (0, 1, 2, 3, 7, 8, 9, 10)]
    Path("log.csv").write_text("user_id,time,x,y\n" + "\n".join(lines))
    done = run("inspect", "log.csv", *options)
    assert "reports kept" in done.out
    return [re.findall(r"^│ (.+) │$", text, re.M) for text in done.out.split("Kept, by ")[1:]]


def test_rows_that_keep_everything_are_shown_once(run):
    """And the proposed one, which may be another."""
    _, by_gap, _ = list_choices(run)
    assert [row.count("100.0%") for row in by_gap] == [0, 0, 2]
    _, by_gap, _ = list_choices(run, "--max-gap", "10", "--length", "11")
    assert [row.count("100.0%") for row in by_gap] == [0, 0, 2, 2]
    assert by_gap[-1].split()[2] == "10"


def test_bars_are_as_long_as_the_share_of_reports(run):
    rows = [row for table in list_choices(run, "--max-gap", "2") for row in table]
    shares = [[float(share) for share in re.findall(r"([0-9.]+)%", row)] for row in rows]
    assert any(users != reports for users, reports in shares)
    for row, (_, reports) in zip(rows, shares, strict=True):
        assert row.count("█") == round(reports / 10)


def test_the_proposal_can_be_used(run, tmp_path):
    write_log(tmp_path / "log.csv")
    done = run("inspect", "log.csv", "--json")
    found = json.loads(done.out)
    assert found["ingest"]["rows"] == 269
    options = [
        f"--{name.replace('_', '-')}={found['proposed'][name]}"
        for name in ("every", "max_gap", "length")
    ]
    done = run("anonymize", "log.csv", "-o", "release", "--k", "3", "--json", *options)
    assert done.code == 0
    assert json.loads(done.out)["manifest"]["ingest"] == found["ingest"]


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
    told = " ".join(run("inspect", "dirty.csv").out.split())
    assert "row 4 is at longitude and latitude 0 (--drop null-island)" in told
    assert "row 10 is far from most others" in told
    assert "row 16 is too far from the same user's report before to be reached" in told
    found = json.loads(run("inspect", "dirty.csv", "--json").out)
    assert found["suspects"] == {"null-island": 1, "swapped": 1, "teleport": 1}
    write_log(tmp_path / "log.csv")
    assert json.loads(run("inspect", "log.csv", "--json").out)["suspects"] == {}


def test_a_plan(run, tmp_path):
    write_log(tmp_path / "log.csv")
    done = run("inspect", "log.csv", "--request", "what", "--k", "3", "--plan")
    assert done.code == 0
    table = done.out.partition("Plan")[2]
    rows = [line.replace("│", " ").split() for line in table.splitlines() if "units" in line]
    # Length, k, side and its unit, errors of counts and moves, users and sets withheld.
    assert [row[:2] for row in rows] == [["1", "3"], ["5", "3"]]
    assert [len(row) for row in rows] == [7, 8]
    assert "neighbourhoods" not in table
    found = json.loads(run("inspect", "log.csv", "--k", "3", "--plan", "--json").out)
    assert [choice["length"] for choice in found["plan"]["choices"]] == [1, 5]
    assert "plan" not in json.loads(run("inspect", "log.csv", "--json").out)
