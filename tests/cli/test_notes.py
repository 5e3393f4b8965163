"""What is probably meant otherwise is noticed, and said on standard error."""

import json
from pathlib import Path

ROWS = range(20)


def write(header, *columns):
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    Path("log.csv").write_text("\n".join([header, *lines]) + "\n")


def test_whole_numbers_that_look_like_times(run):
    users, times = [f"u{i % 5}" for i in ROWS], [1_714_550_400 + 60 * (i // 5) for i in ROWS]
    write("uid,ts,x,y", users, times, ROWS, ROWS)
    done = run("anonymize", "log.csv", "-o", "release", "--k", 2, "--every", "60s")
    assert done.code == 2
    note, error = done.err.splitlines()
    assert note.startswith("Note: column 'ts' holds whole numbers that look like times since 1970")
    assert note.endswith("pass --time-unit=s")
    assert error.startswith("Error: every is '60s'; the log has integer instants")
    done = run("anonymize", "log.csv", "-o", "release", "--k", 2, "--time-unit", "s", "--json")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert told["manifest"]["parameters"]["origin"] == "2024-05-01T08:00:00.000000Z"
    assert told["columns"] == {"user": "uid", "time": "ts", "place": "x and y (planar)"}


def test_parts_as_large_as_bundles(run):
    write("uid,t,x,y", [f"u{i % 5}" for i in ROWS], [i // 5 for i in ROWS], ROWS, ROWS)
    for settings, is_noted in (((), False), (("--members", 4), True), (("--members", 5), False)):
        asked = "--k", 3, "--parts", 4 if settings else 2, *settings
        done = run("anonymize", "log.csv", "-o", f"release-{settings}", *asked)
        assert done.code == 0
        assert done.err.count("Note: parts of 4 users are as large as bundles must be") == is_noted


def test_degrees_in_planar_columns(run):
    users = [f"u{i % 5}" for i in ROWS]
    places = [[f"{base}{i:02d}7" for i in ROWS] for base in (13.4, 52.5)]
    write("uid,t,x,y", users, [i // 5 for i in ROWS], *places)
    done = run("anonymize", "log.csv", "-o", "planar", "--k", 2)
    assert done.code == 0
    assert "Note: columns 'x' and 'y' look like longitude and latitude in degrees" in done.err
    assert "pass --lon=x --lat=y" in done.err
    done = run("anonymize", "log.csv", "-o", "release", "--k", 2, "--lon=x", "--lat=y")
    assert (done.code, done.err) == (0, "")
    assert "x and y (degrees)" in done.out
