"""Windows that follow the clock, time zones, and what falls outside."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from runs import anonymize
from trajcloak.auditor import audit_files
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns
from trajcloak.trajectories.grid import parse_hours


def write_days(path, *, days=3, zone=None, step=15, users=4, begin=datetime(2024, 5, 1)):
    """Write users with a report and a request every ``step`` minutes of some days."""
    times = [begin + timedelta(minutes=m) for m in range(0, days * 24 * 60, step)]
    rows = [
        (f"user-{u}", t, float(u), float(t.hour), f"{t:%d %H:%M}")
        for u in range(users)
        for t in times
    ]
    columns = dict(zip(("user_id", "time", "x", "y", "what"), zip(*rows, strict=True), strict=True))
    columns["time"] = pa.array(columns["time"], pa.timestamp("us", zone))
    pq.write_table(pa.table(columns), path)
    return path


def run(folder, log, *, tz=None, **options):
    columns = LogColumns(requests=("what",), tz=tz)
    result = anonymize(read_in_memory(log, columns), 2, rare="keep", rows_alike=True, **options)
    result.write(folder / "release", folder / "policy.parquet")
    # The audit finds the zone in the manifest.
    report = audit_files(log, folder / "release", folder / "policy.parquet")
    assert report.passed, [check for check in report.checks if not check.passed]
    bundles = pq.read_table(folder / "release" / "bundles.parquet").to_pylist()
    return result, bundles


def spans(bundles):
    """The first moment and the number of instants of each window."""
    found = {}
    for row in bundles:
        found.setdefault(row["window"], set()).add(row["t_start"])
    return [(min(moments), len(moments)) for moments in found.values()]


def test_a_window_for_each_day(tmp_path):
    begin = datetime(2024, 5, 1, 21)
    result, bundles = run(
        tmp_path, write_days(tmp_path / "log.parquet", days=2, begin=begin), align="day"
    )
    assert spans(bundles) == [
        (begin, 12),
        (datetime(2024, 5, 2), 96),
        (datetime(2024, 5, 3), 84),
    ]
    assert result.manifest["parameters"]["align"] == "day"


def test_midnight_is_that_of_the_zone(tmp_path):
    log = write_days(tmp_path / "log.parquet", zone="UTC")
    _, bundles = run(tmp_path, log, tz="Asia/Kolkata", align="day")
    assert [moment.strftime("%d %H:%M") for moment, _ in spans(bundles)] == [
        "01 00:00",
        "01 18:30",
        "02 18:30",
        "03 18:30",
    ]


def test_days_are_cut_every_length(tmp_path):
    log = write_days(tmp_path / "log.parquet", days=1)
    _, bundles = run(tmp_path, log, align="day", length=36)
    assert [size for _, size in spans(bundles)] == [36, 36, 24]


def test_hours_of_the_day(tmp_path):
    log = write_days(tmp_path / "log.parquet")
    result, bundles = run(tmp_path, log, windows="07:00-10:00,22:00-01:00")
    assert [(m.strftime("%d %H:%M"), size) for m, size in spans(bundles)] == [
        ("01 00:00", 4),
        ("01 07:00", 12),
        ("01 22:00", 12),
        ("02 07:00", 12),
        ("02 22:00", 12),
        ("03 07:00", 12),
        ("03 22:00", 8),
    ]
    published = {(row["t_start"].hour) for row in bundles}
    assert published == {7, 8, 9, 22, 23, 0}
    assert result.figures["withheld"]["outside_windows"] == 4 * 3 * (96 - 24)
    assert sum(result.manifest["ingest"]["user_instants"].values()) == 4 * 3 * 24


@pytest.mark.parametrize(
    ("day", "ambiguous", "nonexistent", "sizes"),
    [
        (datetime(2024, 3, 30), 0, 4 * 4, [96, 92, 96]),
        (datetime(2024, 4, 30), 0, 0, [96, 96, 96]),
    ],
)
def test_local_times_where_clocks_change(tmp_path, day, ambiguous, nonexistent, sizes):
    log = write_days(tmp_path / "log.parquet", begin=day, users=4)
    if nonexistent:
        # 02:00 to 03:00 is skipped; such times would fall onto those after, in other places.
        table = pq.read_table(log)
        hour = table["time"].to_pylist()
        rows = [
            (u, t, x, 0.0, w)
            for (u, t, x, _, w) in zip(
                table["user_id"].to_pylist(), hour, table["x"].to_pylist(),
                table["y"].to_pylist(), table["what"].to_pylist(), strict=True,
            )
        ]  # fmt: skip
        columns = dict(zip(table.column_names, zip(*rows, strict=True), strict=True))
        pq.write_table(pa.table(columns), log)
    result, bundles = run(tmp_path, log, tz="Europe/Berlin", align="day")
    assert (result.manifest["ingest"]["ambiguous"], result.manifest["ingest"]["nonexistent"]) == (
        ambiguous,
        nonexistent,
    )
    assert [size for _, size in spans(bundles)] == sizes
    assert result.manifest["ingest"]["zone"] == "Europe/Berlin"


def test_of_a_time_that_comes_twice_the_first_is_taken(tmp_path):
    log = write_days(tmp_path / "log.parquet", begin=datetime(2024, 10, 27, 1), days=1, step=60)
    result, bundles = run(tmp_path, log, tz="Europe/Berlin", every="1h")
    assert result.manifest["ingest"]["ambiguous"] == 4
    moments = sorted({row["t_start"] for row in bundles})
    # 01:00 and 02:00 of summer time; then nothing is reported for two hours.
    assert moments[:2] == [
        datetime(2024, 10, 26, 23, tzinfo=UTC),
        datetime(2024, 10, 27, 0, tzinfo=UTC),
    ]


def test_somebody_is_located_at_the_first_instant_of_an_irregular_log(tmp_path):
    begin = datetime(2024, 5, 1, 8, 0, 20)
    rows = [
        (f"user-{u}", begin + timedelta(seconds=50 * i + u), float(u), float(i), f"{u} {i}")
        for u in range(4)
        for i in range(20)
    ]
    columns = dict(zip(("user_id", "time", "x", "y", "what"), zip(*rows, strict=True), strict=True))
    log = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns), log)
    result, bundles = run(tmp_path, log, every="60s", length=5)
    assert result.manifest["parameters"]["origin"].startswith("2024-05-01T08:01:00")
    assert bundles[0]["instant"] == 0
    # One request of each user before 08:01:00.
    assert result.figures["withheld"]["outside_windows"] == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("07:00-10:00", [(420, 600)]),
        ("22:00-02:00,02:00-03:30", [(120, 210), (1320, 1560)]),
        ("00:00-24:00", [(0, 1440)]),
    ],
)
def test_hours(text, expected):
    assert parse_hours(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "7-10", "07:00", "07:00-07:00", "25:00-26:00", "07:60-08:00", "24:00-01:00",
     "07:00-10:00,",      "07:00-10:00,09:00-11:00", "22:00-08:00,07:00-09:00"],
)  # fmt: skip
def test_hours_that_are_none(text):
    with pytest.raises(tc.OptionError, match=r"expected .*windows="):
        parse_hours(text)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../etc/passwd", "/etc/passwd", 7])
def test_zones_that_are_none(name):
    with pytest.raises(tc.OptionError, match="expected the name of a time zone"):
        LogColumns(tz=name)


@pytest.mark.parametrize("options", [{"align": "day"}, {"windows": "07:00-10:00"}])
def test_integer_instants_follow_no_clock(tmp_path, options):
    log = tmp_path / "log.parquet"
    pq.write_table(
        pa.table({"user_id": [1, 2], "time": [0, 0], "x": [0.0, 1.0], "y": [0.0, 1.0]}), log
    )
    with pytest.raises(tc.OptionError, match="integer instants"):
        anonymize(read_in_memory(log), 2, **options)
    with pytest.raises(tc.OptionError, match="integer instants"):
        read_in_memory(log, LogColumns(tz="UTC"))
