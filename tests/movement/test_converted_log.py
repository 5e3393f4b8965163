"""Conversion of files to a log: what is written, and when nothing is."""

import csv

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from movement.samples import fcd, write
from runs import anonymize
from small_logs import list_tree
from trajcloak.auditor import audit_files
from trajcloak.log import read_in_memory
from trajcloak.movement import convert_log, converted_log, text_formats
from trajcloak.options import LogColumns

CABS = [f"45.5 -93.5 {second % 2} {1500000087 - second}" for second in range(6)]


@pytest.fixture
def cabs(tmp_path):
    for name in ("b", "a", "c"):
        write(tmp_path / "cabs" / f"new_{name}.txt", "\n".join(CABS) + "\n")
    return tmp_path / "cabs"


def test_csv_and_parquet_hold_the_same_rows(cabs, tmp_path):
    logs = [convert_log(cabs, tmp_path / name) for name in ("log.csv", "log.parquet")]
    assert logs[0] == logs[1]
    parquet = pq.read_table(tmp_path / "log.parquet")
    types = pyarrow.csv.ConvertOptions(column_types=parquet.schema)
    assert pyarrow.csv.read_csv(tmp_path / "log.csv", convert_options=types) == parquet
    one, other = (read_in_memory(tmp_path / name) for name in ("log.csv", "log.parquet"))
    assert one.users == other.users
    assert (one.time == other.time).all()


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_real_times_reach_a_release(cabs, tmp_path, name):
    convert_log(cabs, tmp_path / name)
    columns = LogColumns(requests=("occupied",))
    log = read_in_memory(tmp_path / name, columns)
    result = anonymize(log, k=3, every="1s", rare="keep")
    result.write(tmp_path / "release", policy=tmp_path / "policy")
    assert audit_files(tmp_path / name, tmp_path / "release", tmp_path / "policy", columns).passed
    assert pq.read_table(tmp_path / "release" / "requests.parquet").num_rows == 6


def test_small_files_do_not_make_small_row_groups(cabs, tmp_path, monkeypatch):
    convert_log(cabs, tmp_path / "one.parquet")
    assert pq.read_metadata(tmp_path / "one.parquet").num_row_groups == 1
    monkeypatch.setattr(converted_log, "ROWS_PER_GROUP", 10)
    convert_log(cabs, tmp_path / "two.parquet")
    assert pq.read_metadata(tmp_path / "two.parquet").num_row_groups == 2
    assert pq.read_table(tmp_path / "one.parquet") == pq.read_table(tmp_path / "two.parquet")


def test_progress_is_in_bytes(cabs, tmp_path):
    seen = []
    convert_log(cabs, tmp_path / "log.csv", progress=lambda *call: seen.append(call))
    size = len("\n".join(CABS)) + 1
    steps = [size, 2 * size, 3 * size, 3 * size]
    assert seen == [("converting", done, 3 * size) for done in steps]


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_bad_line_late_in_the_last_file_leaves_nothing(refuse, cabs, tmp_path, monkeypatch, name):
    monkeypatch.setattr(converted_log, "ROWS_PER_GROUP", 2)
    monkeypatch.setattr(text_formats, "BLOCK_BYTES", 64)
    write(cabs / "new_z.txt", "\n".join([*CABS, "nonsense", ""]))
    before = list_tree(tmp_path)
    with pytest.raises(tc.InputError, match=r"new_z\.txt: line 7: has 1 fields"):
        convert_log(cabs, tmp_path / name)
    assert list_tree(tmp_path) == before


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_in_the_middle_leaves_nothing(cabs, tmp_path, monkeypatch, error):
    monkeypatch.setattr(converted_log, "ROWS_PER_GROUP", 2)

    def fail_later(stage, done, total):
        if done == total:
            assert len(list(tmp_path.iterdir())) == 2
            raise error

    with pytest.raises(error):
        convert_log(cabs, tmp_path / "log.csv", progress=fail_later)
    assert list(tmp_path.iterdir()) == [cabs]


def test_existing_path_is_kept(cabs, tmp_path):
    path = write(tmp_path / "log.csv", "precious")
    with pytest.raises(tc.OutputError, match="exists already"):
        convert_log(cabs, path)
    assert path.read_text() == "precious"


def test_unknown_ending_is_refused(refuse, cabs, tmp_path):
    with pytest.raises(tc.OptionError, match=r"expected '\.parquet' or '\.csv'; rename"):
        convert_log(cabs, tmp_path / "log.json")


def test_a_file_that_may_not_be_read(refuse, cabs, monkeypatch):
    def deny(*args):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.open", deny)
    with pytest.raises(tc.InputError, match=r"new_a\.txt: cannot be opened; expected permission"):
        convert_log(cabs, cabs.parent / "log.csv")


def test_text_that_looks_like_a_formula(tmp_path):
    """A spreadsheet must not compute it, and different ids must stay different."""
    ids = ["=cmd()", "'=cmd()", "+1", "-1", "@a", "car, 7", "plain"]
    points = "\n".join(f'<vehicle id="{name}" x="1" y="2" type="=1+1"/>' for name in ids)
    source = write(tmp_path / "fcd.xml", fcd(("0", points)))
    tc.convert_log(source, tmp_path / "log.csv")
    text = (tmp_path / "log.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["user_id"] for row in rows] == [
        "'=cmd()", "''=cmd()", "'+1", "'-1", "'@a", "car, 7", "plain",
    ]  # fmt: skip
    assert {row["type"] for row in rows} == {"'=1+1"}
    tc.convert_log(source, tmp_path / "log.parquet")
    assert read_in_memory(tmp_path / "log.parquet").users.to_pylist() == sorted(ids)
    assert read_in_memory(tmp_path / "log.csv").num_users == len(ids)
