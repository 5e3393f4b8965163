import pyarrow as pa
import pytest

import trajcloak as tc
from movement.samples import moment, write

LINES = [
    "45.25134 -93.25488 0 1500000087",
    "45.25136 -93.25527 1 1500000059",
    "-12.5 170 1 1000000000",
]
ROWS = [
    (moment("2017-07-14T02:41:27"), -93.25488, 45.25134, False),
    (moment("2017-07-14T02:40:59"), -93.25527, 45.25136, True),
    (moment("2001-09-09T01:46:40"), 170.0, -12.5, True),
]


def test_values(convert, tmp_path):
    write(tmp_path / "in" / "new_ab12.txt", "\n".join(LINES) + "\n")
    write(tmp_path / "in" / "new_cd34.txt.gz", LINES[0] + "\n")
    write(tmp_path / "in" / "_cabs.txt", '<cab id="ab12" updates="3"/>')
    write(tmp_path / "in" / "README", "about the data")
    done = convert(tmp_path / "in")
    assert done.rows == [("ab12", *row) for row in ROWS] + [("cd34", *ROWS[0])]
    assert done.log == tc.movement.ConvertedLog(
        format="cabs",
        files=2,
        rows=4,
        users=2,
        skipped={},
        columns=("user_id", "time", "lon", "lat", "occupied"),
    )
    types = done.table.schema
    assert types.field("time").type == pa.timestamp("us", "UTC")
    assert types.field("occupied").type == pa.bool_()


def test_any_name_if_the_format_is_told(convert, tmp_path):
    write(tmp_path / "cab7.dat", LINES[0])
    assert convert(tmp_path / "cab7.dat", format="cabs").rows == [("cab7", *ROWS[0])]


def test_repeated_times_are_skipped_and_counted(convert, tmp_path):
    again = LINES[0].replace("45.25", "45.26")
    write(tmp_path / "new_a.txt", "\n".join([LINES[0], again, LINES[1], LINES[0]]))
    done = convert(tmp_path / "new_a.txt")
    assert done.log.skipped == {"repeated_time": 1}
    assert done.rows == [("a", *ROWS[0]), ("a", *ROWS[1]), ("a", *ROWS[0])]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("145.5 -93.25 0 1500000087", "'lat' is out of range; expected -90..90 degrees (are"),
        ("45.5 -193.25 0 1500000087", "'lon' is out of range; expected -180..180 degrees (are"),
        ("45.5 -93.25 2 1500000087", "field 'occupied' is neither 0 nor 1"),
        ("45.5 -93.25 0 150000008", "field 'time' has not ten digits; expected seconds"),
        ("45.5 -93.25 0 1500000087000", "field 'time' has not ten digits; expected seconds"),
        ("45.5 -93.25 0 1500000087.5", "field 'time' cannot be read; expected a whole number"),
        ("45.5 -93.25 yes 1500000087", "field 'occupied' cannot be read; expected a whole"),
        ("45.5  -93.25 0 1500000087", "has 5 fields; expected 4, separated by single spaces: lat"),
        ("45.5 -93.25 0", "has 3 fields; expected 4"),
    ],
)
def test_bad_lines(refuse, tmp_path, line, says):
    file = write(tmp_path / "new_a.txt", "\n".join([*LINES, line, *LINES]) + "\n")
    message = refuse(file)
    assert message.startswith(f"new_a.txt: line 4: {says}")
    assert "93.25" not in message
    assert "45.5" not in message


def test_a_cut_off_time_is_not_taken_for_another_time(convert, tmp_path):
    done = convert(write(tmp_path / "new_a.txt", "\n".join(LINES[:2])[:-1]))
    assert done.rows == [("a", *ROWS[0])]
    assert done.log.skipped == {"cut_off": 1}


def test_two_files_of_one_name(refuse, tmp_path):
    for folder in ("1", "2"):
        write(tmp_path / folder / "new_a.txt", LINES[0])
    message = refuse(tmp_path)
    assert message.startswith("2/new_a.txt: names the same user as 1/new_a.txt; expected one")


def test_a_file_that_names_nobody(refuse, tmp_path):
    assert "its name has nothing between 'new_' and" in refuse(
        write(tmp_path / "new_.txt", LINES[0])
    )
