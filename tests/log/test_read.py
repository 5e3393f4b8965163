"""Rows of a log: users, times and places, from CSV and Parquet."""

import datetime
import decimal
from math import gcd

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from trajcloak.log import files as log_files
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns, Options

SECOND = 10**6
MOMENT = datetime.datetime(2024, 5, 6, 8, 0, 0)
MICROS = 1_714_982_400 * SECOND
UTC = datetime.UTC


def write_csv(folder, text):
    path = folder / "log.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def write_parquet(folder, name="log", **columns):
    n = len(next(iter(columns.values())))
    defaults = {"user_id": ["u"] * n, "time": list(range(n)), "x": [1.0] * n, "y": [1.0] * n}
    path = folder / f"{name}.parquet"
    pq.write_table(pa.table(defaults | columns), path)
    return path


def users_of_rows(log):
    return [log.users[number].as_py() for number in log.user.tolist()]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_planar_log(tmp_path, kind):
    table = pa.table(
        {"user_id": ["b", "a", "b"], "time": [3, 3, 5], "x": [1.5, -2.0, 0.0], "y": [4.0, 5.0, 6.5]}
    )
    path = tmp_path / f"log.{kind}"
    (pa.csv.write_csv if kind == "csv" else pq.write_table)(table, path)
    log = read_in_memory(path)
    assert log.users.to_pylist() == ["a", "b"]
    assert log.user.tolist() == [1, 0, 1]
    assert log.time.tolist() == [3, 3, 5]
    assert (log.x.tolist(), log.y.tolist()) == ([1.5, -2.0, 0.0], [4.0, 5.0, 6.5])
    assert (log.num_rows, log.num_users) == (3, 2)
    assert not log.geographic
    assert not log.has_timestamps
    assert log.zone is None
    assert log.step == 2
    assert log.time_range == (3, 5)
    assert log.bounds == (-2.0, 4.0, 1.5, 6.5)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_log_of_longitudes_and_latitudes(tmp_path, kind):
    table = pa.table(
        {"user_id": [1, 2], "time": [0, 0], "lat": [52.5, -90.0], "lon": [13.4, -180.0]}
    )
    path = tmp_path / f"log.{kind}"
    (pa.csv.write_csv if kind == "csv" else pq.write_table)(table, path)
    log = read_in_memory(path)
    assert log.geographic
    assert (log.x.tolist(), log.y.tolist()) == ([13.4, -180.0], [52.5, -90.0])


def test_other_names_of_columns(tmp_path):
    path = write_csv(tmp_path, "when,who,east,north,lon,lat\n4,ann,1,2,13.4,52.5\n")
    planar = read_in_memory(path, LogColumns(user="who", time="when", x="east", y="north"))
    assert (planar.users.to_pylist(), planar.time.tolist()) == (["ann"], [4])
    assert (planar.geographic, planar.x.tolist(), planar.y.tolist()) == (False, [1], [2])
    found = read_in_memory(path, LogColumns(user="who", time="when"))
    assert (found.geographic, found.x.tolist(), found.y.tolist()) == (True, [13.4], [52.5])
    degrees = read_in_memory(path, LogColumns(user="who", time="when", lon="east", lat="north"))
    assert (degrees.geographic, degrees.x.tolist()) == (True, [1])


def test_both_pairs_of_coordinates_must_be_told_apart(tmp_path):
    path = write_csv(tmp_path, "user_id,time,x,y,lon,lat\nu,0,1,2,13.4,52.5\n")
    with pytest.raises(tc.OptionError, match=r"has both lon/lat and x/y columns; expected to be"):
        read_in_memory(path)
    assert read_in_memory(path, LogColumns(x="x", y="y")).x.tolist() == [1]
    assert read_in_memory(path, LogColumns(lon="lon", lat="lat")).x.tolist() == [13.4]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["7", "007"], ["007", "7"]),
        (["10", "9", "-3", "0"], [-3, 0, 9, 10]),
        (["10", "9", "x"], ["10", "9", "x"]),
        (["+7", "7"], ["+7", "7"]),
        (["-0", "0"], ["-0", "0"]),
        (["1.0", "2"], ["1.0", "2"]),
        ([" 7", "7"], [" 7", "7"]),
        (["9" * 18, "1"], [1, 10**18 - 1]),
        (["9" * 30, "1"], ["1", "9" * 30]),
        (["NA", "null", "nan"], ["NA", "nan", "null"]),
    ],
    ids=lambda ids: "/".join(map(str, ids)),
)
def test_ids_of_csv_are_integers_only_if_all_are_in_plain_notation(tmp_path, given, expected):
    lines = "".join(f"{user},{i},1,1\n" for i, user in enumerate(given))
    log = read_in_memory(write_csv(tmp_path, "user_id,time,x,y\n" + lines))
    assert log.users.to_pylist() == expected
    assert list(map(str, users_of_rows(log))) == given


@pytest.mark.parametrize(
    "column",
    [
        pa.array([3, -1, 3], pa.int8()),
        pa.array([3, 1, 3], pa.uint64()),
        pa.array([2**62, -(2**62), 0]),
        pa.array(["b", "a", "b"]),
        pa.array(["b", "a", ""], pa.large_string()),
        pa.array(["é", "z", "😀"], pa.string_view()),
        pa.array(["b", "a", "b"]).dictionary_encode(),
        pa.array([7, 6, 7]).dictionary_encode(),
        pa.array(["007", "7", "07"]),
        pa.array(["10", "9", "10"]),
    ],
    ids=lambda column: f"{column.type}{column.to_pylist()}",
)
def test_ids_of_parquet_are_kept(tmp_path, column):
    log = read_in_memory(write_parquet(tmp_path, user_id=column))
    assert users_of_rows(log) == column.to_pylist()
    distinct = set(column.to_pylist())
    key = (lambda user: user.encode()) if isinstance(column[0].as_py(), str) else None
    assert log.users.to_pylist() == sorted(distinct, key=key)


@pytest.mark.parametrize("seed", range(6))
def test_many_ids_of_any_kind_are_told_apart(tmp_path, seed, monkeypatch):
    """More ids than the first hash table holds, in several batches."""
    monkeypatch.setattr(log_files, "BATCH_ROWS", 5000)
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 9000, size=20_000)
    as_text = seed % 2 == 0
    ids = [f"user-{number:x}" * (1 + number % 3) for number in numbers.tolist()]
    column = pa.array(ids) if as_text else pa.array(numbers * (2**40 + 1) - 2**50)
    log = read_in_memory(write_parquet(tmp_path, user_id=column))
    assert log.users.take(pa.array(log.user)).to_pylist() == column.to_pylist()
    assert log.num_users == len(column.unique())


def test_ids_of_several_files(tmp_path):
    first = write_parquet(tmp_path, "a", user_id=pa.array([7, 5], pa.int16()))
    csv = write_csv(tmp_path, "user_id,time,x,y\n7,9,1,1\n60,9,1,1\n")
    log = read_in_memory([first, csv])
    assert users_of_rows(log) == [7, 5, 7, 60]
    assert read_in_memory([csv, first]).users.to_pylist() == [5, 7, 60]
    text = write_parquet(tmp_path, "b", user_id=["7", "x"])
    assert users_of_rows(read_in_memory([csv, text])) == ["7", "60", "7", "x"]


@pytest.mark.parametrize("order", [1, -1])
def test_ids_that_are_numbers_in_one_file_and_text_in_another(tmp_path, order):
    number = write_parquet(tmp_path, "a", user_id=[7])
    with pytest.raises(tc.InputError, match="numbers in one file and text in another; expected"):
        read_in_memory([number, write_parquet(tmp_path, "b", user_id=["7"])][::order])
    with pytest.raises(tc.InputError, match="numbers in one file and text in another; expected"):
        read_in_memory([number, write_csv(tmp_path, "user_id,time,x,y\n007,9,1,1\n")][::order])


@pytest.mark.parametrize(
    ("column", "expected", "zone"),
    [
        (pa.array([MOMENT], pa.timestamp("s")), MICROS, None),
        (pa.array([MOMENT], pa.timestamp("ms")), MICROS, None),
        (pa.array([MOMENT], pa.timestamp("us")), MICROS, None),
        (pa.array([MICROS * 1000 + 999], pa.timestamp("ns")), MICROS, None),
        (pa.array([MICROS], pa.timestamp("us", "UTC")), MICROS, "UTC"),
        (pa.array([MICROS], pa.timestamp("us", "Europe/Berlin")), MICROS, "UTC"),
        (pa.array([MICROS // SECOND], pa.timestamp("s", "-03:00")), MICROS, "UTC"),
        (pa.array([MOMENT.date()], pa.date32()), MICROS - 8 * 3600 * SECOND, None),
        (pa.array([MOMENT.date()], pa.date64()), MICROS - 8 * 3600 * SECOND, None),
        (pa.array(["2024-05-06T08:00:00"]), MICROS, None),
        (pa.array(["2024-05-06 08:00"]).dictionary_encode(), MICROS, None),
        (pa.array(["2024-05-06T10:00:00.5+02:00"]), MICROS + SECOND // 2, "UTC"),
        (pa.array(["2024-05-06T08:00:00Z"], pa.large_string()), MICROS, "UTC"),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_moments_of_parquet(tmp_path, column, expected, zone):
    log = read_in_memory(write_parquet(tmp_path, time=column))
    assert (log.time.tolist(), log.has_timestamps, log.zone) == ([expected], True, zone)


@pytest.mark.parametrize(
    "column",
    [pa.array([4, 1], pa.int8()), pa.array([4, 1], pa.uint64()), pa.array([2**61, -(2**60)])],
    ids=str,
)
def test_instants_of_parquet(tmp_path, column):
    log = read_in_memory(write_parquet(tmp_path, time=column))
    assert (log.time.tolist(), log.has_timestamps) == (column.to_pylist(), False)


@pytest.mark.parametrize(
    ("texts", "expected", "zone"),
    [
        (["2024-05-06T08:00:00", "2024-05-06T08:00:10"], [0, 10], None),
        (["2024-05-06 08:00:00", "2024-05-06 08:00:00.250000"], [0, 0.25], None),
        (["2024-05-06 08:00", "2024-05-06 08:01"], [0, 60], None),
        (["2024-05-06", "2024-05-07"], [-8 * 3600, 16 * 3600], None),
        (["2024-05-06T08:00:00Z", "2024-05-06T10:00:10+02:00"], [0, 10], "UTC"),
        (["2024-05-06 03:00:00-0500", "2024-05-06 08:00:10Z"], [0, 10], "UTC"),
    ],
    ids=lambda value: str(value),
)
def test_moments_of_csv(tmp_path, texts, expected, zone):
    lines = "".join(f"u,{text},1,1\n" for text in texts)
    log = read_in_memory(write_csv(tmp_path, "user_id,time,x,y\n" + lines))
    assert log.time.tolist() == [MICROS + int(seconds * SECOND) for seconds in expected]
    assert (log.has_timestamps, log.zone) == (True, zone)


def test_instants_of_csv(tmp_path):
    log = read_in_memory(write_csv(tmp_path, "user_id,time,x,y\nu,-5,1,1\nu,1714982400,1,1\n"))
    assert (log.time.tolist(), log.has_timestamps) == ([-5, 1_714_982_400], False)


def test_times_of_several_files(tmp_path):
    csv = write_csv(tmp_path, "user_id,time,x,y\nu,2024-05-06T08:00:10,1,1\n")
    parquet = write_parquet(tmp_path, time=pa.array([MOMENT], pa.timestamp("s")))
    assert read_in_memory([csv, parquet]).time.tolist() == [MICROS + 10 * SECOND, MICROS]
    for other, kinds in (
        (pa.array([3]), "timestamps without a zone, whole numbers"),
        (pa.array([MOMENT], pa.timestamp("s", "UTC")), "timestamps with a zone, .* without a zone"),
        (pa.array(["2024-05-06T08:00:00Z"]), "timestamps with a zone, .* without a zone"),
    ):
        with pytest.raises(tc.InputError, match=rf"times of different kinds \({kinds}\)"):
            read_in_memory([csv, write_parquet(tmp_path, "other", time=other)])


def test_times_in_a_wrong_unit_do_not_wrap_around(tmp_path):
    wrong = pa.array([MICROS], pa.timestamp("s"))
    with pytest.raises(tc.InputError, match=r"row 1: column 'time' cannot be read as timestamp"):
        read_in_memory(write_parquet(tmp_path, time=wrong))
    with pytest.raises(tc.InputError, match=r"spans more than 2\^62 units of time; expected"):
        read_in_memory(write_parquet(tmp_path, time=[-(2**63), 2**63 - 1]))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, -2], pa.int8()),
        pa.array([1.5, -2], pa.float32()),
        pa.array([1.5, -2], pa.float16()),
        pa.array([decimal.Decimal("1.5"), decimal.Decimal("-2")]),
    ],
    ids=lambda column: str(column.type),
)
def test_coordinates_of_any_number_type(tmp_path, column):
    log = read_in_memory(write_parquet(tmp_path, x=column))
    assert log.x.tolist() == [float(value) for value in column.to_pylist()]


def test_csv_of_many_forms(tmp_path):
    plain = "user_id,time,x,y\nu,0,1.5,2\nv,1,-1e3,4\n"
    for text in (
        plain,
        "\ufeff" + plain,
        plain.replace("\n", "\r\n"),
        plain.replace("v,1", "\nv,1") + "\n\n",
        plain.replace(",", ", ").replace("time", "time").replace(" time, x, y", "time,x,y"),
        plain.replace("u,", '"u",').replace("1.5", '"1.5"'),
        plain.rstrip("\n"),
    ):
        log = read_in_memory(write_csv(tmp_path, text))
        assert users_of_rows(log) == ["u", "v"]
        assert (log.time.tolist(), log.x.tolist()) == ([0, 1], [1.5, -1000.0])


def test_quoted_ids_may_hold_separators_and_line_ends(tmp_path):
    log = read_in_memory(write_csv(tmp_path, 'user_id,time,x,y\n"a,b",0,1,1\n"c\nd",0,1,1\n'))
    assert users_of_rows(log) == ["a,b", "c\nd"]


@pytest.mark.parametrize("seed", range(10))
def test_step_range_and_bounds_over_batches(tmp_path, seed, monkeypatch):
    monkeypatch.setattr(log_files, "BATCH_ROWS", 4)
    rng = np.random.default_rng(seed)
    time = rng.integers(-50, 50, size=13) * int(rng.choice([1, 6, 35])) + 3
    x, y = rng.normal(size=(2, 13)) * 1e6
    log = read_in_memory(write_parquet(tmp_path, time=time, x=x, y=y))
    times = time.tolist()
    assert log.step == gcd(*(t - times[0] for t in times))
    assert log.time_range == (min(times), max(times))
    assert log.bounds == (x.min(), y.min(), x.max(), y.max())


def test_threads_do_not_change_what_is_read(tmp_path):
    rng = np.random.default_rng(5)
    users = [f"u{number}" for number in rng.integers(0, 50, size=500)]
    path = write_parquet(tmp_path, user_id=users)
    logs = [read_in_memory(path, threads=threads) for threads in (1, 2, 5)]
    for log in logs:
        assert users_of_rows(log) == users
        assert log.users.equals(logs[0].users)


def test_progress_ends_with_all_rows(tmp_path):
    heard = []
    read_in_memory(write_parquet(tmp_path, x=[1.0] * 7), progress=lambda *call: heard.append(call))
    assert heard[-1] == ("reading log", 7, 7)
    assert all(done <= total for _, done, total in heard)


def test_files_without_rows_are_named_as_they_were_given(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("user_id,time,x,y\n")
    with pytest.raises(tc.InputError) as caught:
        read_in_memory([tmp_path / "a.csv", str(tmp_path / "b.csv")])
    assert str(caught.value).startswith(f"{tmp_path}/a.csv, {tmp_path}/b.csv: the log has no rows")


@pytest.mark.parametrize("name", ["Factory", "posixrules", "Mars/Phobos", "", "/etc/passwd"])
def test_zones_that_not_all_readers_know_are_refused(name):
    with pytest.raises(tc.OptionError, match="expected the name of a time zone"):
        LogColumns(tz=name)


def test_seeds_fit_a_signed_word():
    assert Options(k=2, seed=2**63 - 1).seed == 2**63 - 1
    for seed in (-1, 2**63, 1.5, True):
        with pytest.raises(tc.OptionError, match="expected a whole number from 0 to"):
            Options(k=2, seed=seed)
