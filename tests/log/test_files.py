"""Which files make up a log, and which of their columns are read."""

import errno
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from trajcloak.log import csv_text, read_in_memory
from trajcloak.log import files as log_files
from trajcloak.log.file_columns import read_columns
from trajcloak.log.files import list_files, stream_batches
from trajcloak.log.formats import WantedColumns
from trajcloak.options import LogColumns

HEADER = "user_id,time,x,y\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with files that were not written in the order of their names."""
    (tmp_path / "b.csv").write_text(HEADER + "u2,1,3,4\n")
    (tmp_path / "a.csv").write_text(HEADER + "u1,0,1,2\n")
    write_parquet(tmp_path / "c.parquet", ["u3"], [2])
    (tmp_path / "notes.txt").write_text("not a log")
    return tmp_path


def write_parquet(path: Path, users, times, **more):
    n = len(users)
    pq.write_table(
        pa.table({"user_id": users, "time": times, "x": [5.0] * n, "y": [6.0] * n, **more}), path
    )
    return path


def test_a_file(folder):
    assert list_files(folder / "b.csv") == [folder / "b.csv"]
    assert list_files(str(folder / "c.parquet")) == [folder / "c.parquet"]


def test_a_folder_has_its_csv_and_parquet_files_in_order_of_names(folder):
    assert [file.name for file in list_files(folder)] == ["a.csv", "b.csv", "c.parquet"]
    assert list_files(str(folder)) == list_files(folder)


def test_a_folder_that_is_named_like_a_file(tmp_path):
    (tmp_path / "log.parquet").mkdir()
    part = write_parquet(tmp_path / "log.parquet" / "part-0.parquet", ["u"], [0])
    assert list_files(tmp_path / "log.parquet") == [part]


def test_a_glob_is_in_order_of_names(folder):
    assert [file.name for file in list_files(str(folder / "*.csv"))] == ["a.csv", "b.csv"]
    assert [file.name for file in list_files(folder / "[bc].*")] == ["b.csv", "c.parquet"]


def test_a_file_whose_name_looks_like_a_glob(tmp_path):
    (tmp_path / "log[1].csv").write_text(HEADER + "u,0,1,2\n")
    assert list_files(tmp_path / "log[1].csv") == [tmp_path / "log[1].csv"]


def test_a_list_keeps_its_order(folder):
    chosen = [folder / "c.parquet", str(folder / "*.csv")]
    assert [file.name for file in list_files(chosen)] == ["c.parquet", "a.csv", "b.csv"]


@pytest.mark.parametrize("source", ["missing.csv", "*.csv", "empty"])
def test_nothing_found(tmp_path, source):
    (tmp_path / "empty").mkdir()
    with pytest.raises(tc.InputError, match=r"no log found; expected .*; check the path"):
        list_files(tmp_path / source)


def test_nothing_given():
    with pytest.raises(tc.InputError, match="no log is given; expected"):
        list_files([])


def test_another_kind_of_file(folder):
    with pytest.raises(tc.InputError, match=r"notes\.txt: unknown kind of file; expected"):
        list_files(folder / "notes.txt")


def test_rows_are_those_of_all_files_in_order(folder):
    for source in (folder, str(folder / "*.[cp]*"), [folder / "[ab].csv", folder / "c.parquet"]):
        log = read_in_memory(source)
        assert log.users.to_pylist() == ["u1", "u2", "u3"]
        assert log.time.tolist() == [0, 1, 2]
        assert log.x.tolist() == [1, 3, 5]
        assert log.y.tolist() == [2, 4, 6]


def test_columns_may_stand_in_any_order_and_differ_between_files(tmp_path):
    (tmp_path / "a.csv").write_text("y,extra,time,x,user_id\n2,?,0,1,u1\n")
    (tmp_path / "b.csv").write_text("x,y,user_id,time\n3,4,u2,1\n")
    table = pa.table({"time": [2], "y": [6.0], "user_id": ["u3"], "more": [[1]], "x": [5.0]})
    pq.write_table(table, tmp_path / "c.parquet")
    log = read_in_memory(tmp_path)
    assert log.users.to_pylist() == ["u1", "u2", "u3"]
    assert [log.time.tolist(), log.x.tolist(), log.y.tolist()] == [[0, 1, 2], [1, 3, 5], [2, 4, 6]]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_is_missing_in_a_later_file(tmp_path, suffix):
    write_parquet(tmp_path / "a.parquet", ["u"], [0])
    late = tmp_path / f"b{suffix}"
    if suffix == ".csv":
        late.write_text("user_id,when,x,y\nu,1,1,1\n")
    else:
        pq.write_table(pa.table({"user_id": ["u"], "when": [1], "x": [1.0], "y": [1.0]}), late)
    with pytest.raises(tc.InputError, match=rf"b\{suffix}: there is no column 'time'"):
        read_in_memory(tmp_path)


def test_a_column_that_stands_twice(tmp_path):
    (tmp_path / "log.csv").write_text("user_id,time,x,y,x\nu,0,1,2,3\n")
    with pytest.raises(tc.InputError, match="there are several columns 'x'"):
        read_in_memory(tmp_path)


def test_files_with_different_places_are_not_mixed(tmp_path):
    (tmp_path / "a.csv").write_text("user_id,time,lon,lat\nu,0,13.4,52.5\n")
    (tmp_path / "b.csv").write_text("user_id,time,x,y\nu,1,13.4,52.5\n")
    with pytest.raises(
        tc.InputError,
        match=r"b\.csv: there are no columns 'lon' and 'lat' among user_id, time, x, y;",
    ):
        read_in_memory(tmp_path)


@pytest.mark.parametrize(
    "columns",
    [
        LogColumns(requests=("lon",)),
        LogColumns(requests=("lat",)),
        LogColumns(lon="lat", lat="lat"),
        LogColumns(user="time"),
        LogColumns(user="lon"),
    ],
    ids=["lon", "lat", "one column twice", "user is time", "user is place"],
)
def test_a_place_found_by_its_name_cannot_be_published(tmp_path, columns):
    (tmp_path / "log.csv").write_text("user_id,time,lon,lat\nu,0,13.4,52.5\n")
    with pytest.raises(
        tc.OptionError,
        match=r"is to hold two of user, time, place|also holds the user, time or place",
    ):
        read_in_memory(tmp_path, columns)


def test_names_of_a_csv_file_with_bad_rows(tmp_path):
    (tmp_path / "log.csv").write_text("a,b\n1\n1,2,3\n")
    assert read_columns(tmp_path / "log.csv").names == ["a", "b"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"u\xff,1,5,6,7", "row 3: 5 cells; expected 4"),
        (b"u\xff,1,5,6", r"row 3: column 'user_id' cannot be read \(.*\); expected text in UTF-8"),
        (b"u,2024,5,6", "row 3: column 'zeitpunkt \u00fc' cannot be read"),
    ],
)
def test_bad_rows_of_csv_that_are_not_ascii(tmp_path, row, message, capfd):
    """Arrow itself would print a traceback about the first such row."""
    names = "user_id,zeitpunkt \u00fc,x,y\n".encode()
    rows = [f"\u00fc{i},2024-05-01T08:00:0{i},5,6".encode() for i in range(2)]
    (tmp_path / "log.csv").write_bytes(names + b"\n".join([*rows, row, *rows]))
    with pytest.raises(tc.InputError, match=message):
        read_in_memory(tmp_path, LogColumns(time="zeitpunkt \u00fc"))
    assert capfd.readouterr().err == ""


NAMED = LogColumns(user="user_id", time="time", x="x", y="y")


def test_batches_are_small_and_rows_keep_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(log_files, "BATCH_ROWS", 3)
    monkeypatch.setattr(csv_text, "TEXT_BLOCK_BYTES", 64)
    write_parquet(tmp_path / "a.parquet", [f"u{i}" for i in range(10)], list(range(10)))
    lines = [f"u{i},{i},5,6" for i in range(10, 40)]
    (tmp_path / "b.csv").write_text(HEADER + "\n".join(lines) + "\n")
    sizes = [batch.num_rows for batch in stream_batches(list_files(tmp_path), NAMED)]
    assert sum(sizes) == 40
    assert max(sizes) < 10
    log = read_in_memory(tmp_path)
    assert log.time.tolist() == list(range(40))
    assert [log.users[i].as_py() for i in log.user.tolist()] == [f"u{i}" for i in range(40)]

    lines[25] = "u35,35,what,6"
    (tmp_path / "b.csv").write_text(HEADER + "\n".join(lines) + "\n")
    with pytest.raises(tc.InputError, match=r"b\.csv: row 26: column 'x' cannot be read"):
        read_in_memory(tmp_path)
    lines[25] = "u35,35,6"
    (tmp_path / "b.csv").write_text(HEADER + "\n".join(lines) + "\n")
    with pytest.raises(tc.InputError, match=r"b\.csv: row 26: 3 cells; expected 4"):
        read_in_memory(tmp_path)


def test_a_reader_that_is_given_up_leaves_no_thread_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(log_files, "BATCH_ROWS", 1)
    write_parquet(tmp_path / "a.parquet", ["u"] * 20, list(range(20)))
    before = threading.active_count()
    batches = stream_batches([tmp_path / "a.parquet"], NAMED)
    next(batches)
    batches.close()
    assert threading.active_count() == before


def test_folders_that_cannot_be_opened(tmp_path, monkeypatch):
    with pytest.raises(tc.InputError, match=r"x\.csv: cannot be opened \(File name too long\)"):
        read_in_memory(tmp_path / f"{'x' * 300}.csv")
    for place in (tmp_path, tmp_path / "inside"):
        place.mkdir(exist_ok=True)
        write_parquet(place / "a.parquet", ["u"], [1])
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("inside"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(tc.InputError, match=r"inside: cannot be opened \(Permission denied\)"):
        read_in_memory(tmp_path)


@pytest.mark.parametrize("source", [b"log", {"user_id": [1]}, 7], ids=["bytes", "dict", "number"])
def test_what_is_no_path_is_refused(source):
    with pytest.raises(tc.OptionError, match=r"the log is given as .*; expected paths of files"):
        read_in_memory(source)


def test_another_delimiter_is_suggested_only_where_it_would_help(tmp_path):
    pq.write_table(pa.table({"day": [1], "box": ["a"]}), tmp_path / "log.parquet")
    with pytest.raises(tc.InputError, match="no columns") as caught:
        read_in_memory(tmp_path / "log.parquet")
    assert "delimiter=" not in str(caught.value)


def test_the_first_time_tells_the_type_however_late_it_is(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    path.write_text("time,user_id,x,y\n,1,2.5,3\n2024-05-01T10:00,2,2.5,3\n2024-05-02,3,2.5,3")
    wanted = WantedColumns("user_id", "time", ("x", "y"))
    for num_rows in range(1, 4):
        monkeypatch.setattr(csv_text, "GUESSED_ROWS", num_rows)
        types = csv_text.guess_types(path, wanted, ["time", "user_id", "x", "y"]).types
        assert types["time"] == pa.timestamp("us"), num_rows
