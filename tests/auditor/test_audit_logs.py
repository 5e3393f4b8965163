import json
import random
import struct
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from reference.completion import location_at
from reference.release_by_hand import geographic, make, planar, write
from trajcloak.auditor import audit
from trajcloak.auditor.audited_instants import InstantGrid, locate
from trajcloak.auditor.audited_values import duration_to_ticks, moment_to_ticks, read_times
from trajcloak.errors import InputError
from trajcloak.options import LogColumns

from .conftest import audit_files, list_failed


@pytest.fixture(params=[planar, geographic])
def written(request, tmp_path):
    example = request.param()
    return example, write(example, tmp_path / "example")


def change_log(paths, change):
    pq.write_table(change(pq.read_table(paths.log)), paths.log)


def set_column(table, name, column):
    return table.set_column(table.column_names.index(name), name, column)


def test_order_of_rows_does_not_matter(written):
    example, paths = written
    random.Random(3).shuffle(example.log)
    change_log(paths, lambda _: pa.Table.from_pylist(example.log, pa.schema(example.columns)))
    assert list_failed(audit_files(example, paths)) == set()


def test_small_blocks(written, monkeypatch):
    monkeypatch.setattr("trajcloak.auditor.audited_instants.BLOCK", 10)
    monkeypatch.setattr("trajcloak.auditor.audited_files.ROWS_PER_BATCH", 7)
    example, paths = written
    assert list_failed(audit_files(example, paths)) == set()


def test_folder_glob_and_list(written):
    example, paths = written
    folder = paths.log.parent / "parts"
    folder.mkdir()
    table = pq.read_table(paths.log)
    pq.write_table(table.slice(0, 50), folder / "a.parquet")
    pq.write_table(table.slice(50), folder / "b.parquet")
    (folder / "readme.txt").write_text("not a log")
    sources = [folder, folder / "*.parquet", [folder / "a.parquet", str(folder / "b.parquet")]]
    for source in sources:
        assert list_failed(audit_files(example, paths, log=source)) == set()


def test_csv(written):
    example, paths = written
    table = pq.read_table(paths.log)
    path = paths.log.with_suffix(".csv")
    pa_csv.write_csv(table, path)
    assert list_failed(audit_files(example, paths, log=path)) == set()


def test_csv_ids_with_leading_zeros_are_text(tmp_path):
    example = planar()
    for row in [*example.log, *example.policy]:
        row["user_id"] = f"{row['user_id']:03d}"
    example.columns["user_id"] = pa.string()
    paths = write(example, tmp_path / "example")
    path = paths.log.with_suffix(".csv")
    pa_csv.write_csv(pq.read_table(paths.log), path)
    assert list_failed(audit_files(example, paths, log=path)) == set()


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()]
)
def test_kinds_of_text(tmp_path, kind):
    example = geographic()
    paths = write(example, tmp_path / "example")
    change_log(
        paths,
        lambda table: set_column(
            set_column(table, "user_id", table["user_id"].cast(kind)),
            "query",
            table["query"].cast(kind),
        ),
    )
    assert list_failed(audit_files(example, paths)) == set()


def test_narrow_numbers(tmp_path):
    example = planar()
    paths = write(example, tmp_path / "example")

    def narrow(table):
        for name, kind in (
            ("user_id", pa.int16()),
            ("time", pa.int32()),
            ("x", pa.float32()),
            ("y", pa.int32()),
        ):
            table = set_column(table, name, table[name].cast(kind))
        return table

    change_log(paths, narrow)
    assert list_failed(audit_files(example, paths)) == set()


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_units_of_time(tmp_path, unit):
    example = geographic()
    paths = write(example, tmp_path / "example")
    kind = pa.timestamp(unit, "Europe/Berlin")
    change_log(paths, lambda table: set_column(table, "time", table["time"].cast(kind)))
    assert list_failed(audit_files(example, paths)) == set()


def test_times_without_a_zone(tmp_path):
    rows = [row | {"time": row["time"].replace(tzinfo=None)} for row in geographic().log]
    base = geographic()
    example = make(
        rows,
        base.columns | {"time": pa.timestamp("us")},
        k=4,
        attributes=base.attributes,
        every="60s",
        length=4,
    )
    paths = write(example, tmp_path / "example")
    assert list_failed(audit_files(example, paths)) == set()
    kind = pa.timestamp("us", "UTC")
    change_log(paths, lambda table: set_column(table, "time", table["time"].cast(kind)))
    assert {"bundles file", "parameters"} <= list_failed(audit_files(example, paths))


def test_attributes_of_the_release_where_none_are_named(written):
    example, paths = written
    assert list_failed(audit_files(example, paths, columns=LogColumns())) == set()


def test_other_column_names(tmp_path):
    example = planar()
    paths = write(example, tmp_path / "example")
    names = ["who", "when", "east", "north", "category", "amount"]
    change_log(paths, lambda table: table.rename_columns(names))
    columns = LogColumns("who", "when", x="east", y="north", requests=("category", "amount"))
    assert list_failed(audit_files(example, paths, columns=columns)) == set()


def test_progress(written):
    example, paths = written
    told = []
    audit_files(example, paths, progress=lambda *step: told.append(step))
    ended = {stage for stage, done, total in told if done == total}
    assert ended == {stage for stage, _, _ in told}


def test_report(written):
    example, paths = written
    report = audit_files(example, paths)
    assert report.passed
    listed = report.to_dict()
    assert (listed["passed"], listed["k"]) == (True, example.manifest["k"])
    assert len(listed["checks"]) == len(report.checks)
    assert listed["checks"][0] == {
        "check": "release folder",
        "passed": True,
        "checked": 3,
        "detail": "files: 3",
    }
    assert report["requests"].checked == len(example.requests)


@pytest.mark.parametrize("name", ["nothing", "nothing*.parquet", "empty", "notes.txt"])
def test_log_paths_that_lead_nowhere(tmp_path, name):
    example = planar()
    paths = write(example, tmp_path / "example")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("user_id,time,x,y\n1,1,1,1\n")
    with pytest.raises(InputError, match="expected"):
        audit_files(example, paths, log=tmp_path / name)


def test_release_and_policy_paths_that_lead_nowhere(tmp_path):
    paths = write(planar(), tmp_path / "example")
    with pytest.raises(InputError, match="release"):
        audit(paths.log, tmp_path / "nothing", paths.policy)
    with pytest.raises(InputError, match="policy"):
        audit(paths.log, paths.release, tmp_path / "nothing")
    with pytest.raises(InputError, match="no log"):
        audit([], paths.release, paths.policy)


def test_damaged_log(tmp_path):
    example = planar()
    paths = write(example, tmp_path / "example")
    paths.log.write_bytes(paths.log.read_bytes()[:100])
    with pytest.raises(InputError, match="cannot be read"):
        audit_files(example, paths)


HEADER = "user_id,time,x,y,category,amount\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        (HEADER, "no rows"),
        ("user_id,time,x\nanna-1,1,1\n", "0 columns 'y'"),
        (HEADER + "anna-1,1,1,1,,\n,1,1,1,,\n", "row 2: column 'user_id' is empty"),
        (HEADER + "anna-1,1,1,1,,\nanna-1,,1,1,,\n", "row 2: column 'time' is empty"),
        (HEADER + "anna-1,1,1,1,,\nanna-1,2,47.11,many,,\n", "row 2: column 'y' holds no number"),
        (HEADER + "anna-1,1,1,1,,\nanna-1,2,nan,1,,\n", "row 2: column 'x' is out of range"),
        (HEADER + "anna-1,1,1,1,,\nanna-1,noon,1,1,,\n", "row 2: column 'time' holds no time"),
        (HEADER + "anna-1,1,1,1,,\nbob-22,1,1,1,,\nanna-1,1,2,1,,\n", "rows 1 and 3"),
        (HEADER + "anna-1,1,1,1,,\nanna-1,1,1\n", "cannot be read"),
        ("user_id,time,lon,lat,category,amount\nanna-1,1,10,91,,\n", "row 1: column 'lat'"),
    ],
)
def test_bad_rows(tmp_path, text, message):
    example = planar()
    paths = write(example, tmp_path / "example")
    log = tmp_path / "log.csv"
    log.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        audit_files(example, paths, log=log)
    shown = str(caught.value)
    assert "anna-1" not in shown
    assert "47.11" not in shown


@pytest.mark.parametrize("kind", [pa.float64(), pa.date32()])
def test_ids_of_another_type(tmp_path, kind):
    example = planar()
    paths = write(example, tmp_path / "example")
    ids = pa.array(range(len(example.log)), pa.int32()).cast(kind)
    change_log(paths, lambda table: set_column(table, "user_id", ids))
    with pytest.raises(InputError, match="column 'user_id'"):
        audit_files(example, paths)


@pytest.mark.parametrize("missing", ["withhold", "hold"])
@pytest.mark.parametrize("seed", range(20))
def test_completion_against_plain_loops(missing, seed):
    rng = random.Random(seed)
    every, max_gap = rng.choice([1, 3, 10]), rng.choice([0, 2, 10, 30])
    reports = {
        user: {
            rng.randrange(60): (rng.randrange(100), rng.randrange(100))
            for _ in range(rng.randint(1, 12))
        }
        for user in range(6)
    }
    latest = max(max(times) for times in reports.values())
    num_instants = latest // every + 1
    edges = np.array([0]), np.array([num_instants])
    grid = InstantGrid(0, every, max_gap, num_instants, missing == "hold", *edges)
    rows = sorted((user, time, *reports[user][time]) for user in reports for time in reports[user])
    rows = [row for row in rows for _ in range(rng.randint(1, 2))]
    user, time, x, y = (np.array(column) for column in zip(*rows, strict=True))
    actual = locate(user, time, x.astype(float), y.astype(float), grid)
    expected = [
        (user, instant, *place)
        for user in reports
        for instant in range(grid.num_instants)
        for place in [location_at(reports[user], instant * every, max_gap, missing)]
        if place is not None
    ]
    assert list(zip(actual.user, actual.instant, strict=True)) == [row[:2] for row in expected]
    places = np.array([[float(row[2]), float(row[3])] for row in expected]).reshape(-1, 2)
    np.testing.assert_allclose(np.column_stack([actual.x, actual.y]), places, rtol=0, atol=1e-9)
    exact = actual.reported
    np.testing.assert_array_equal(actual.x[exact], places[exact, 0])


@pytest.mark.parametrize(
    ("values", "ticks", "zoned"),
    [
        (["2024-01-01T00:00:01", "2024-01-01 00:00:00.5"], [1704067201 * 10**6, None], False),
        (["2024-01-01T00:00:01Z", "2024-01-01T01:00:01+01:00"], [1704067201 * 10**6] * 2, True),
    ],
)
def test_times_as_text(values, ticks, zoned):
    times = read_times(pa.array(values))
    assert times.stamped
    assert times.zoned == zoned
    assert [a for a, b in zip(times.ticks, ticks, strict=True) if b is not None] == [
        b for b in ticks if b is not None
    ]


def test_moments_and_durations():
    assert moment_to_ticks("2024-01-01T00:00:01", True, False) == 1704067201 * 10**6
    assert moment_to_ticks("2024-01-01T00:00:01+00:00", True, True) == 1704067201 * 10**6
    assert moment_to_ticks("2024-01-01T00:00:01Z", True, True) == 1704067201 * 10**6
    assert moment_to_ticks("2024-01-01T00:00:01", True, True) is None
    assert moment_to_ticks(5, False, False) == 5
    assert moment_to_ticks(5, True, False) is None
    assert duration_to_ticks("1500ms", True) == 1_500_000
    assert duration_to_ticks("1min", True) == 60 * 10**6
    assert duration_to_ticks("1.5us", True) is None
    assert duration_to_ticks("soon", True) is None
    assert duration_to_ticks("60s", False) is None


def test_window_without_a_report(tmp_path):
    moments = [datetime(2024, 1, 1, 23, 50), datetime(2024, 1, 2, 0, 10)]
    rows = [(f"user-{i:05d}", moment, float(i)) for i in range(20) for moment in moments]
    user, time, place = zip(*rows, strict=True)
    table = {"user_id": user, "time": time, "x": place, "y": place, "what": ["a"] * len(rows)}
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    columns = LogColumns(requests=("what",))
    options = {"every": "60s", "missing": "hold", "windows": "23:59-00:01"}
    result = tc.anonymize(tc.read_log(tmp_path / "log.parquet", columns), k=5, **options)
    result.write(tmp_path / "release", policy=tmp_path / "policy.parquet")
    report = audit(tmp_path / "log.parquet", tmp_path / "release", tmp_path / "policy.parquet")
    assert list_failed(report) == set()


@pytest.mark.parametrize("as_struct", [True, False])
def test_points_are_no_attribute(tmp_path, as_struct):
    example = geographic()
    paths = write(example, tmp_path / "example")
    places = [(row["lon"], row["lat"]) for row in example.log]
    points = [dict(zip("xy", place, strict=True)) for place in places]
    if not as_struct:
        points = [struct.pack("<BIdd", 1, 1, *place) for place in places]
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": {}}}
    change_log(
        paths,
        lambda table: (
            table.drop_columns(["lon", "lat"])
            .append_column("geometry", pa.array(points))
            .replace_schema_metadata({"geo": json.dumps(geo)})
        ),
    )
    assert list_failed(audit_files(example, paths)) == set()
    name = "geometry.x" if as_struct else "geometry"
    with pytest.raises(InputError, match="geometry"):
        audit_files(example, paths, columns=LogColumns(requests=("query", name)))
    manifest = json.loads((paths.release / "manifest.json").read_text())
    manifest["parameters"]["requests"].append(name)
    (paths.release / "manifest.json").write_text(json.dumps(manifest, indent=2, sort_keys=True))
    assert "parameters" in list_failed(audit_files(example, paths, columns=LogColumns()))
