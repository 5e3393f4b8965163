"""Messages about bad rows: file and row, shape of the value, how many, every kind in one pass."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from runs import anonymize
from trajcloak.errors import RefusedLogError
from trajcloak.log import read_in_memory
from trajcloak.log.bad_rows import BadRows, FileRows, SomeRows, Trouble, describe_shape
from trajcloak.options import LogColumns

HEADER = "user_id,time,lon,lat,what"
NUM_ROWS = 40


def build_lines():
    return [f"user-{i % 4},{i // 4},13.{i:03d}5,52.5,bar" for i in range(NUM_ROWS)]


def write(path, lines, header=HEADER):
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def spoil(lines):
    """Spoil rows in every way; returns the messages that are expected."""
    lines[2] = "user-2,0,,52.5,bar"
    lines[5] = "user-1,1,13.1,Baker St 221b,bar"
    lines[7] = "user-3,1,13.1,N/A,bar"
    lines[11] = "user-3,2,13.1"
    lines[13] = "user-1,soon,13.1,52.5,bar"
    lines[17] = "user-1,4,nan,52.5,bar"
    lines[19] = "user-3,4,213.1,52.5,bar"
    lines[22] = ",5,13.1,52.5,bar"
    lines[23] = "user-3,5,,52.5,bar"
    return [
        "2 rows (3, 24): column 'lon' is empty; expected a value in every row; fill or remove such "
        "rows, or drop them with --drop=empty",
        "2 rows (6, 8): column 'lat' cannot be read (it looks like 'aaaaa aa 999a'); expected a "
        "number; correct or remove the row",
        "row 12: 3 cells; expected 5, as in the header; add or remove separators, or quote values "
        "that hold one",
        "row 14: column 'time' cannot be read (it looks like 'aaaa'); expected a whole number, as "
        "in the first row; correct or remove the row",
        "row 18: column 'lon' is not a finite number (it looks like 'nan'); expected a coordinate; "
        "correct or remove the row, or pass --drop=out-of-range",
        "row 20: column 'lon' is out of range (it looks like '999.9'); expected -180..180 degrees; "
        "are longitude and latitude swapped? pass --lon and --lat, or --x and --y for planar "
        "coordinates; or --drop=out-of-range",
        "row 23: column 'user_id' is empty; expected a value in every row; fill or remove such "
        "rows, or drop them with --drop=empty",
    ]


def test_every_kind_is_told_in_one_pass(tmp_path):
    lines = build_lines()
    expected = spoil(lines)
    log = write(tmp_path / "log.csv", lines)
    with pytest.raises(RefusedLogError) as caught:
        read_in_memory(log, LogColumns(requests=("what",)))
    assert caught.value.reasons == [f"{log}: {reason}" for reason in expected]
    assert str(caught.value).startswith("the log is refused for 7 reasons: (1) ")
    assert all(reason in caught.value.with_options for reason in expected)
    assert 'drop them with drop="empty". (2)' in str(caught.value)


@pytest.mark.parametrize("memory", [None, "1GiB"])
def test_rows_are_numbered_in_their_file(tmp_path, memory):
    """On every engine; in chunks and pieces, too."""
    folder = tmp_path / "logs"
    folder.mkdir()
    good, bad = build_lines(), build_lines()
    expected = spoil(bad)
    names = HEADER.split(",")
    table = pa.table(
        [pa.array(column) for column in zip(*(g.split(",") for g in good), strict=True)], names
    )
    table = table.set_column(1, "time", table["time"].cast(pa.int64()))
    for axis in (2, 3):
        table = table.set_column(axis, names[axis], table[names[axis]].cast(pa.float64()))
    pq.write_table(table, folder / "a.parquet")
    write(folder / "b.csv", bad)
    write(folder / "c.csv", good)
    with pytest.raises(RefusedLogError) as caught:
        anonymize(folder, 2, columns=LogColumns(requests=("what",)), memory=memory, rows_alike=True)
    read = [reason for reason in caught.value.reasons if "same user and time" not in reason]
    number = re.compile(r"rows \((\d+), (\d+)\)")
    labelled = [
        number.sub(rf"rows ({folder}/b.csv: \1, \2)", reason)
        if number.search(reason)
        else f"{folder}/b.csv: {reason}"
        for reason in expected
    ]
    assert read == labelled


def test_good_rows_between_bad_ones_are_still_judged(tmp_path):
    """What contradicts itself is found although other rows cannot be read."""
    lines = build_lines()
    lines[3] = "user-3,0,here,52.5,bar"
    lines.append("user-0,0,13.9,52.5,bar")
    log = write(tmp_path / "log.csv", lines)
    with pytest.raises(RefusedLogError) as caught:
        anonymize(log, 2, columns=LogColumns(requests=("what",)))
    first, second, *_ = caught.value.reasons
    assert "row 4: column 'lon' cannot be read" in first
    assert "rows 1 and 41: the same user and time with different places" in second


def test_bad_lines_of_json(tmp_path):
    lines = [f'{{"user_id": "u{i}", "time": {i}, "x": 1.5, "y": 2.5}}' for i in range(9)]
    lines[2] = lines[5] = "{"
    lines[7] = '{"user_id": "u", "time": "soon", "x": 1.5, "y": 2.5}'
    lines[8] = '{"user_id": "u", "time": 1, "y": 2.5}'
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    with pytest.raises(RefusedLogError) as caught:
        read_in_memory(tmp_path / "log.jsonl")
    told = [reason.split("log.jsonl: ")[1].split(";")[0] for reason in caught.value.reasons]
    assert told == [
        "2 rows (3, 6): no JSON object",
        "row 8: field 'time' is of another type than in the first rows",
        "row 9: column 'x' is empty",
    ]


def test_columns_are_listed_in_messages(tmp_path):
    log = write(tmp_path / "log.csv", ["a,0,1,2"], "usr_id,time,x,y")
    with pytest.raises(tc.InputError) as caught:
        read_in_memory(log)
    assert (
        "log.csv: there is no column 'user_id' among usr_id, time, x, y (did you mean 'usr_id'?); "
        in str(caught.value)
    )
    with pytest.raises(tc.InputError, match=r"no column 'wat' among .* \(did you mean 'what'\?\)"):
        read_in_memory(write(log, build_lines()), LogColumns(requests=("wat",)))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("zebra-4711", "aaaaa-9999"),
        ("52.5201", "99.9999"),
        ("Zoë 7", "aaa 9"),
        (" NULL ", "NULL"),
        ("x" * 50, "a" * 40 + "..."),
        ("", ""),
    ],
)
def test_shapes(text, shape):
    assert describe_shape(text) == shape


def test_names_of_rows():
    files = FileRows(("a.csv", "b.csv"), (0, 10))
    assert [files.name_row(n) for n in (1, 10, 11)] == [
        "a.csv: row 1",
        "a.csv: row 10",
        "b.csv: row 1",
    ]
    assert files.name_two(2, 3) == "a.csv: rows 2 and 3"
    assert files.name_two(2, 13) == "a.csv: row 2 and b.csv: row 3"
    assert FileRows().name_two(2, 3) == "rows 2 and 3"
    numbers = pa.array([12, 1, 20, 4]).to_numpy()
    assert str(SomeRows([numbers], files)) == "4 rows (a.csv: 1, 4; b.csv: 2, 10) are"
    assert str(SomeRows([numbers[:1], numbers[:0]], files)) == "b.csv: row 2 is"


def test_rows_of_several_readers_add_up():
    trouble = Trouble("column 'x' is empty", "a value", "fill it")
    parts = []
    for label, start, rows in (("b.csv", 10, [11, 12]), ("a.csv", 0, [3])):
        part = BadRows()
        part.start_file(label, start)
        part.add(trouble, pa.array(rows).to_numpy())
        parts.append(part)
    total = BadRows()
    for part in parts:
        total.merge(part)
    assert total.explain() == [
        "3 rows (a.csv: 4; b.csv: 2, 3): column 'x' is empty; expected a value; fill it"
    ]
