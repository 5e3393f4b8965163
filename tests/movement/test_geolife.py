import pyarrow as pa
import pytest

import trajcloak as tc
from movement.samples import HEADER, moment, plt, write

LINES = [
    "48.001250,11.500125,0,492,42000.2410185185,2014-12-27,05:47:04",
    "48.002500,11.501250,0,-777,42000.2410416667,2014-12-27,05:47:06",
    "-33.5,-70.25,0,0,42000.99999,2014-12-27,23:59:59",
]
ROWS = [
    (moment("2014-12-27T05:47:04"), 11.500125, 48.001250, 492 * 0.3048),
    (moment("2014-12-27T05:47:06"), 11.501250, 48.002500, None),
    (moment("2014-12-27T23:59:59"), -70.25, -33.5, 0.0),
]


def test_values(convert, tmp_path):
    write(tmp_path / "Data" / "009" / "Trajectory" / "20141227.plt", plt(LINES, "\r\n"))
    write(tmp_path / "Data" / "010" / "Trajectory" / "a.plt", plt(LINES[:1]))
    write(tmp_path / "Data" / "010" / "Trajectory" / "b.plt", plt(LINES[1:2]))
    write(tmp_path / "Data" / "010" / "labels.txt", "not a trajectory")
    done = convert(tmp_path / "Data")
    assert done.rows == [("009", *row) for row in ROWS] + [("010", *row) for row in ROWS[:2]]
    assert done.log == tc.movement.ConvertedLog(
        format="geolife",
        files=3,
        rows=5,
        users=2,
        skipped={},
        columns=("user_id", "time", "lon", "lat", "altitude"),
    )
    assert done.table.schema.field("time").type == pa.timestamp("us", "UTC")


def test_a_single_file_by_a_path_from_within_its_folder(convert, tmp_path, monkeypatch):
    write(tmp_path / "009" / "Trajectory" / "a.plt", plt(LINES[:1]))
    monkeypatch.chdir(tmp_path / "009" / "Trajectory")
    assert convert("a.plt").rows == [("009", *ROWS[0])]


def test_repeated_times_are_skipped_and_counted(convert, tmp_path):
    moved = "48.1,11.1,0,492,42000.1,2014-12-27,05:47:04"
    write(tmp_path / "1" / "Trajectory" / "a.plt", plt([LINES[0], moved, moved, LINES[1]]))
    write(tmp_path / "1" / "Trajectory" / "b.plt", plt([LINES[1]]))
    done = convert(tmp_path / "1")
    assert done.log.skipped == {"repeated_time": 2}
    assert done.rows == [("1", *row) for row in (ROWS[0], ROWS[1], ROWS[1])]


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_file_without_points_among_others(convert, tmp_path, end):
    write(tmp_path / "1" / "Trajectory" / "a.plt", "\n".join(HEADER) + end)
    write(tmp_path / "1" / "Trajectory" / "b.plt", plt(LINES))
    write(tmp_path / "1" / "Trajectory" / "c.plt", "")
    done = convert(tmp_path)
    assert (done.log.files, done.log.rows, done.log.skipped) == (3, 3, {})


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("480.5,11.5,0,492,42000.1,2014-12-27,05:47:05", "'lat' is out of range; expected -90"),
        ("48.5,-180.01,0,492,42000.1,2014-12-27,05:47:05", "'lon' is out of range; expected -180"),
        ("48.5,nan,0,492,42000.1,2014-12-27,05:47:05", "'lon' is out of range"),
        ("48.5,11.5,0,high,42000.1,2014-12-27,05:47:05", "field 'feet' cannot be read"),
        ("48.5,11.5,0,inf,42000.1,2014-12-27,05:47:05", "field 'feet' is not finite"),
        ("48.5,11.5,0,492,42000.1,2014-12-27,05:47", "fields 'date' and 'clock' are no moment"),
        ("48.5,11.5,0,492,42000.1,2014-02-30,05:47:05", "fields 'date' and 'clock' are no moment"),
        ("48.5,11.5,0,492,42000.1,27-Dec-14,05:47:05", "fields 'date' and 'clock' are no moment"),
        ("48.5,11.5,0,492,42000.1,2014-12-27", "has 6 fields; expected 7, separated by commas"),
    ],
)  # fmt: skip
def test_bad_lines(refuse, tmp_path, line, says):
    write(tmp_path / "1" / "Trajectory" / "a.plt", plt([LINES[0], line, LINES[1]]))
    message = refuse(tmp_path)
    assert message.startswith(f"1/Trajectory/a.plt: line 8: {says}")
    assert "11.5" not in message
    assert "48.5" not in message


@pytest.mark.parametrize("name", ["a.plt", "Points/a.plt"])
def test_a_file_whose_folder_names_nobody(refuse, tmp_path, name):
    write(tmp_path / name, plt(LINES))
    assert "no folder names its user; expected a path that ends in USER/Trajectory" in refuse(
        tmp_path
    )
