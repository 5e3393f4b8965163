import pyarrow as pa
import pytest

import trajcloak as tc
from movement.samples import write
from runs import anonymize
from small_logs import UNIT_CELLS, list_tree
from trajcloak.auditor import audit_files
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns

LINES = [
    "newpoint\t0\t1\t1\t0\t3.0\t4.0\t250.5\t12\t19",
    "newpoint\t7\t1\t5\t0\t1.25\t-2.5\t1.2506249999999999E2\t3\t4",
    "point\t0\t2\t1\t1\t3.5\t4.75\t500.0\t12\t19",
    "disappearpoint\t7\t2\t5\t2\t9.0\t8.0\t0.0\t9\t8",
]
ROWS = [
    (0, 0, 3.0, 4.0, 1, 250.5),
    (7, 0, 1.25, -2.5, 5, 125.06249999999999),
    (0, 1, 3.5, 4.75, 1, 500.0),
    (7, 2, 9.0, 8.0, 5, 0.0),
]


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "in" / "run.txt", "".join(line + "\n" for line in LINES))


def test_values(convert, file):
    done = convert(file, format="brinkhoff")
    assert done.rows == ROWS
    assert done.log == tc.movement.ConvertedLog(
        format="brinkhoff",
        files=1,
        rows=4,
        users=2,
        skipped={},
        columns=("user_id", "time", "x", "y", "class", "speed"),
    )
    whole, number = pa.int64(), pa.float64()
    assert done.table.schema.types == [whole, whole, number, number, whole, number]


def test_parts_of_one_run_are_one_log(convert, tmp_path):
    write(tmp_path / "in" / "1.txt", LINES[0] + "\n" + LINES[1])
    write(tmp_path / "in" / "2.dat.gz", "\n".join(LINES[2:]))
    done = convert(tmp_path / "in", format="brinkhoff")
    assert done.rows == ROWS
    assert (done.log.files, done.log.users) == (2, 2)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("walk\t7\t2\t5\t2\t9\t8\t0\t9\t8", "field 'action' is not known; expected one of new"),
        ("point\t7\t2\t5\t2\t9\t8\t0\t9", "has 9 fields; expected 10, separated by tabs: act"),
        ("point 7 2 5 2 9 8 0 9 8", "has 1 fields; expected 10"),
        ("point\tsecret\t2\t5\t2\t9\t8\t0\t9\t8", "field 'id' cannot be read; expected a whole"),
        ("point\t7\t2\t5\t2.5\t9\t8\t0\t9\t8", "field 'time' cannot be read; expected a whole"),
        ("point\t7\t2\t5\t2\t4711,5\t8\t0\t9\t8", "field 'x' cannot be read; expected a number"),
        ("point\t7\t2\t5\t2\t9\t\t0\t9\t8", "field 'y' cannot be read; expected a number"),
        ("point\t7\t2\t5\t2\t9\tinf\t0\t9\t8", "'y' is not finite; expected a coordinate"),
        ("point\t7\t2\t5\t2\t9\t8\tnan\t9\t8", "field 'speed' is not finite; expected a number"),
        ("point\t7\t2\t\t2\t9\t8\t1\t9\t8", "field 'class' cannot be read; expected a whole"),
    ],
)  # fmt: skip
def test_bad_lines(refuse, tmp_path, line, says):
    lines = [LINES[0], "", *LINES[1:3], line, LINES[3]]
    file = write(tmp_path / "run.txt", "\n".join(lines) + "\n")
    message = refuse(file, format="brinkhoff")
    assert message.startswith(f"run.txt: line 5: {says}")
    assert message.endswith("; correct or remove the line, or pass another format=")
    assert "secret" not in message
    assert "4711" not in message


def test_from_the_generator_to_a_release(tmp_path):
    lines = [
        f"{'point' if time else 'newpoint'}\t{user}\t{time + 1}\t{user % 2}\t{time}"
        f"\t{float(user)}\t{float(time)}\t1.5\t0\t0\n"
        for time in range(3)
        for user in range(9)
    ]
    write(tmp_path / "run.txt", "".join(lines))
    for name in ("log.csv", "log.parquet"):
        tc.convert_log(tmp_path / "run.txt", tmp_path / name, format="brinkhoff")
        columns = LogColumns(requests=("class", "speed"))
        log = read_in_memory(tmp_path / name, columns)
        assert log.users.to_pylist() == list(range(9))
        assert (log.num_rows, log.has_timestamps, log.geographic) == (27, False, False)
        result = anonymize(log, k=3, **UNIT_CELLS)
        release, policy = tmp_path / f"{name}-release", tmp_path / f"{name}-policy"
        result.write(release, policy=policy)
        assert audit_files(tmp_path / name, release, policy, columns).passed
    assert list_tree(tmp_path / "log.csv-release") == list_tree(tmp_path / "log.parquet-release")
