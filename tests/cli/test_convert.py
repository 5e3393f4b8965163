"""``trajcloak convert``: what it writes, prints and refuses."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from small_logs import list_tree

CABS = [f"45.5 -93.5 {second % 2} {1500000087 - second // 2}" for second in range(6)]


@pytest.fixture
def cabs(tmp_path) -> Path:
    (tmp_path / "cabs").mkdir()
    for name in ("a", "b"):
        (tmp_path / "cabs" / f"new_{name}.txt").write_text("\n".join(CABS) + "\n45.5")
    return tmp_path / "cabs"


def test_the_table(run, cabs):
    done = run("convert", cabs, "-o", "log.csv")
    assert (done.code, done.err) == (0, "")
    assert "Log: log.csv" in done.out
    facts = dict(re.findall(r"^│ +(.+?) +│ +(.+?) │$", done.out, re.MULTILINE))
    assert facts == {
        "format": "cabs",
        "files": "2",
        "users": "2",
        "rows": "6",
        "points skipped": "8",
        "repeated time": "6",
        "cut off": "2",
        "columns": "user_id, time, lon, lat, occupied",
    }


def test_for_machines(run, cabs):
    done = run("convert", cabs, "-o", "log.parquet", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {
        "log": "log.parquet",
        "format": "cabs",
        "files": 2,
        "rows": 6,
        "users": 2,
        "skipped": {"repeated_time": 6, "cut_off": 2},
        "columns": ["user_id", "time", "lon", "lat", "occupied"],
    }
    assert pq.read_metadata("log.parquet").num_rows == 6


def test_several_sources_and_a_format(run, cabs):
    for name in ("a", "b"):
        (cabs / f"new_{name}.txt").rename(cabs / f"{name}.txt")
    args = ("convert", cabs / "a.txt", cabs / "b.txt", "-o", "log.csv")
    done = run(*args)
    assert (done.code, done.out) == (2, "")
    assert "do not tell their format; expected to be told one of brinkhoff" in done.err
    assert run(*args, "--format", "cabs").code == 0


def test_a_glob(run, cabs):
    assert run("convert", "cabs/new_?.txt", "-o", "log.csv").code == 0


def test_geographic(run, tmp_path):
    (tmp_path / "fcd.xml").write_text(
        '<fcd-export><timestep time="0"><vehicle id="v" x="1" y="2"/></timestep></fcd-export>'
    )
    done = run("convert", "fcd.xml", "-o", "log.csv", "--geographic", "--json")
    assert json.loads(done.out)["columns"][2:4] == ["lon", "lat"]


def test_what_is_converted_can_be_anonymized(run, cabs):
    assert run("convert", cabs, "-o", "log.parquet").code == 0
    done = run("anonymize", "log.parquet", "-o", "release", "--k", 2, "--request", "occupied")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere", "-o", "log.csv"], "nowhere: nothing found"),
        (["cabs", "-o", "log.json"], "expected '.parquet' or '.csv'"),
        (["cabs", "-o", "log.csv", "--format", "nmea"], "Invalid value for '--format'"),
        (["cabs", "-o", "log.csv", "--format", "gpx"], "no files of the format 'gpx' found"),
        (["cabs", "-o", "log.csv", "--geographic"], "geographic is asked for with format 'cabs'"),
        (["cabs"], "Missing option '-o'"),
        (["-o", "log.csv"], "Missing argument 'SOURCE...'"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("cabs")
def test_bad_usage(run, tmp_path, args, message):
    before = list_tree(tmp_path)
    done = run("convert", *args)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert list_tree(tmp_path) == before


def test_a_bad_line(run, cabs, tmp_path):
    (cabs / "new_b.txt").write_text("\n".join([*CABS, "4711.5 0 0 0", ""]))
    before = list_tree(tmp_path)
    done = run("convert", "cabs", "-o", "log.csv")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: cabs/new_b.txt: line 7: 'lat' is out of range; expected")
    assert "4711" not in done.err
    assert list_tree(tmp_path) == before
