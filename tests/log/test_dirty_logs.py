"""A test for each row of ``docs/dirty-logs.md``.

Each log ends in a release that the audit passes, or in a message that names the row.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import trajcloak as tc
from runs import anonymize
from trajcloak.auditor import audit_files
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns

HEADER = "user_id,time,lon,lat,what"
DIRTY = (Path(__file__).parents[2] / "docs" / "dirty-logs.md").read_text(encoding="utf-8")


def base(num_users=5, num_times=6, seed=0, step=60):
    rng = np.random.default_rng(seed)
    return [
        [f"user-{u}", str(np.datetime64("2024-05-01T08:00:00") + step * i),
         f"{13.4 + rng.random() / 100:.6f}", f"{52.5 + rng.random() / 100:.6f}",
         f"w{rng.integers(3)}"]
        for u in range(num_users) for i in range(num_times)
    ]  # fmt: skip


def write(folder, rows, header=HEADER, delimiter=",", name="log.csv"):
    lines = [header.replace(",", delimiter), *(delimiter.join(row) for row in rows)]
    path = folder / name
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    return path


def attempt(folder, log, reading=None, **options):
    """Anonymize and audit; returns the release."""
    columns = LogColumns(requests=("what",), **(reading or {}))
    result = anonymize(read_in_memory(log, columns, threads=1), 2, threads=1, **options)
    result.write(folder / "release", folder / "policy.parquet")
    named = {name: (reading or {}).get(name) for name in ("lon", "lat", "x", "y")}
    report = audit_files(log, folder / "release", folder / "policy.parquet", LogColumns(**named))
    failed = {check.name: check.detail for check in report.checks if not check.passed}
    assert not failed, failed
    return result


def spoil(**changes):
    """Change a cell of row 4."""
    rows = base()
    for name, value in changes.items():
        rows[3][HEADER.split(",").index(name)] = value
    return rows


REFUSED = {
    "two places of a user at one time": (spoil(time="2024-05-01T08:00:00"), "rows 1 and 4"),
    "empty user, time or coordinate": (spoil(lat=""), "row 4: column 'lat' is empty"),
    "a coordinate that is not finite": (spoil(lon="nan"), "row 4: column 'lon' is not a finite"),
    "degrees out of range, swapped axes": (spoil(lat="113.4"), "row 4: column 'lat' is out of"),
    "text where a number is expected": (spoil(lon="east"), "row 4: column 'lon' cannot be read"),
    "a row with too many or too few cells": (spoil(what="a,b"), "row 4: 6 cells"),
    "bytes that are not UTF-8": (spoil(user_id="\udcff"), "row 4: column 'user_id' cannot be"),
    "a request of CSV with a line break, as a quote that is not closed makes": (
        [*spoil(what='"a'), *([["user-0", "x", "1", "2", 'b"']])],
        "row 4: column 'what' holds a line break",
    ),
    "times with and without a zone in one log": (
        spoil(time="2024-05-01T08:03:00Z"),
        "row 4: column 'time' cannot be read",
    ),
    "irregular times": (
        [[u, str(np.datetime64(t) + 7 * i * i), *rest] for i, (u, t, *rest) in enumerate(base())],
        "pass every=",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(tmp_path, what):
    assert f"| {what} | refused" in DIRTY
    rows, message = REFUSED[what]
    with pytest.raises(tc.InputError, match=re.escape(message)) as caught:
        attempt(tmp_path, write(tmp_path, rows))
    assert "user-" not in str(caught.value)
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize(
    ("what", "place"),
    [("rows at 0, 0", ("0", "0")), ("a few rows far from all others", ("50.1", "-20.5"))],
)
def test_far_rows_are_refused_or_clipped(tmp_path, what, place):
    assert f"| {what} | refused" in DIRTY
    rows = base(num_users=40)
    rows[3][2:4] = place
    log = write(tmp_path, rows)
    with pytest.raises(tc.InputError, match=r"log.csv: row 4 is far from all others"):
        attempt(tmp_path, log)
    result = attempt(tmp_path, log, {"clip": (13.0, 52.0, 14.0, 53.0)})
    assert result.manifest["ingest"]["dropped"]["clip"] == 1


@pytest.mark.filterwarnings("ignore::trajcloak.errors.TrajcloakWarning")
def test_coordinates_beyond_reach_are_refused(tmp_path):
    rows = spoil(lon="-1e101")
    log = write(tmp_path, rows, header="user_id,time,x,y,what")
    with pytest.raises(tc.InputError, match=r"log.csv: row 4 is beyond 1e\+100; .* clip="):
        attempt(tmp_path, log)
    attempt(tmp_path, log, {"clip": (0.0, 0.0, 90.0, 90.0)})


ACCEPTED = {
    "rows in any order": lambda rows: rows[::-1],
    "the same row twice": lambda rows: rows + rows[:3],
    "several requests of a user at a time": lambda rows: [*rows, [*rows[0][:4], "more"]],
    "ids with blanks, quotes, commas, any script": lambda rows: [
        ['"' + row[0].replace("user", '""ü, 用户 ') + '"', *row[1:]] for row in rows
    ],
    "ids such as `007` beside `7`": lambda rows: [
        [{"user-0": "007", "user-1": "7"}.get(row[0], row[0]), *row[1:]] for row in rows
    ],
    "gaps up to `--max-gap`": lambda rows: rows[:2] + rows[3:],
    "longer gaps": lambda rows: rows[:2] + rows[4:],
    "times without a zone": lambda rows: rows,
}

REPEATED = ("the same row twice", "several requests of a user at a time")
"""Who knows that everybody reports once a minute sees that these rows are more."""


@pytest.mark.parametrize("what", ACCEPTED)
def test_what_is_taken(tmp_path, what):
    assert f"| {what} |" in DIRTY
    rows = ACCEPTED[what](base())
    log = write(tmp_path, rows)
    if what in REPEATED:
        with pytest.raises(tc.InputError, match="times between two reports do not fit"):
            attempt(tmp_path, log)
    result = attempt(tmp_path, log, rows_alike=what in REPEATED)
    ingest = result.manifest["ingest"]
    assert (ingest["rows"], ingest["users"]) == (len(rows), 5)
    assert ingest["repeated"] == len(rows) - len({tuple(row[:2]) for row in rows})
    assert ingest["user_instants"]["interpolated"] == (what == "gaps up to `--max-gap`")
    left_out = result.figures["user_windows"]["missing_location"]
    assert left_out == (what == "longer gaps")


def test_every_row_of_the_tables_has_a_test():
    """Tests that are not in this file are in the files named here."""
    elsewhere = {
        "test_clean.py": ["swapped axes, in range", "rows outside the area", "a report too far",
                          "coordinates of a national", "degrees of another", "feet, or a system",
                          "a log across", "a log around"],
        "test_clock.py": ["requests before the first", "a local time that comes",
                          "a local time that is"],
        "test_grid.py": ["a time far from", "times before the year 1"],
        "test_lines.py": ["a line of JSON lines"],
        "test_types.py": ["structs", "objects in JSON lines", "lists and maps",
                          "values of an Arrow"],
        "test_formats.py": ["semicolons", "`.gz`", "names in capitals", "folders of folders",
                            "hidden files", "Arrow, Feather", "values of several types"],
        "test_same_bytes.py": ["a log larger than memory"],
        "test_files.py": ["an empty or damaged", "a column that is missing"],
        "test_recognition.py": ["whole numbers that are times", "times such as",
                                "degrees in columns", "decimal commas",
                                "columns of other usual names"],
    }  # fmt: skip
    here = [*REFUSED, *ACCEPTED, "a few rows", "rows at 0, 0", "coordinates beyond"]
    known = here + [name for names in elsewhere.values() for name in names]
    for line in DIRTY.splitlines():
        if line.startswith("| ") and not line.startswith("| what"):
            assert any(line.startswith(f"| {name}") for name in known), line
