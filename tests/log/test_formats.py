"""The same log in every kind of file and frame: all releases are equal, and audited."""

import bz2
import csv
import gzip
import io
import json
from datetime import datetime, timedelta

import geopandas
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from log.dirty import zstd
from runs import anonymize
from trajcloak.auditor import audit_files
from trajcloak.log import read_in_memory
from trajcloak.log.geometry import find_geometry
from trajcloak.options import LogColumns

COLUMNS = LogColumns(requests=("what", "amount"))


def build_table():
    rng = np.random.default_rng(8)
    begin = datetime(2024, 5, 1, 8)
    rows = [
        (f"user-{u}", begin + timedelta(minutes=i), *(rng.random(2) / 100 + (13.4, 52.5)),
         None if i % 3 else f"a, {u % 2};|b", i if i % 3 else None)
        for u in range(6) for i in range(5)
    ]  # fmt: skip
    names = ("user_id", "time", "lon", "lat", "what", "amount")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def to_csv(delimiter=","):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    table = build_table()
    writer.writerow(table.column_names)
    writer.writerows(row.values() for row in table.to_pylist())
    return text.getvalue().encode()


def to_lines():
    lines = [json.dumps(row, default=str) for row in build_table().to_pylist()]
    return "\n".join(lines).encode()


def write_partitions(path):
    table = build_table()
    for user in set(table["user_id"].to_pylist()):
        folder = path / f"user_id={user}" / "_delta"
        folder.mkdir(parents=True)
        part = table.filter(pa.compute.equal(table["user_id"], user)).drop_columns(["user_id"])
        pq.write_table(part, folder.parent / "part-0.parquet")
        pq.write_table(part, folder / "old.parquet")
        (folder.parent / "_SUCCESS").write_text("")


def write_points(path, kind):
    table = build_table()
    lon, lat = table["lon"].to_numpy(), table["lat"].to_numpy()
    rest = table.drop_columns(["lon", "lat"])
    if kind == "struct":
        points = pa.StructArray.from_arrays([pa.array(lon), pa.array(lat)], names=["x", "y"])
        pq.write_table(rest.append_column("geometry", points), path)
        return
    frame = geopandas.GeoDataFrame(
        rest.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get),
        geometry=geopandas.points_from_xy(lon, lat),
        crs=4326,
    )
    frame.to_parquet(path)


def write_stream(path):
    table = build_table()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "log.csv": lambda path: path.write_bytes(to_csv()),
    "semicolon.csv": lambda path: path.write_bytes(to_csv(";")),
    "pipe.csv": lambda path: path.write_bytes(to_csv("|")),
    "tab.tsv": lambda path: path.write_bytes(to_csv("\t")),
    "UPPER.CSV": lambda path: path.write_bytes(to_csv()),
    "log.csv.gz": lambda path: path.write_bytes(gzip.compress(to_csv())),
    "log.CSV.GZ": lambda path: path.write_bytes(gzip.compress(to_csv(";"))),
    "log.csv.bz2": lambda path: path.write_bytes(bz2.compress(to_csv())),
    "log.csv.zst": lambda path: path.write_bytes(zstd(to_csv())),
    "log.jsonl": lambda path: path.write_bytes(to_lines()),
    "log.ndjson.gz": lambda path: path.write_bytes(gzip.compress(to_lines())),
    "log.parquet": lambda path: pq.write_table(build_table(), path),
    "LOG.PARQUET": lambda path: pq.write_table(build_table(), path),
    "log.arrow": write_stream,
    "log.feather": lambda path: pyarrow.feather.write_feather(build_table(), str(path)),
    "partitions": write_partitions,
    "wkb.parquet": lambda path: write_points(path, "wkb"),
    "struct.parquet": lambda path: write_points(path, "struct"),
}


@pytest.fixture(scope="module")
def expected():
    return publish(read_in_memory(build_table(), COLUMNS))


def publish(log):
    release = anonymize(log, 2, every="60s")
    return release.manifest, [bundles.cloaks.tolist() for bundles in release.windows]


@pytest.mark.parametrize("name", WRITERS)
def test_a_log_is_the_same_in_every_kind_of_file(tmp_path, name, expected):
    path = tmp_path / name
    WRITERS[name](path)
    assert publish(read_in_memory(path, COLUMNS)) == expected
    result = anonymize(read_in_memory(path, COLUMNS), 2, every="60s")
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    report = audit_files(path, tmp_path / "release", tmp_path / "policy.parquet", COLUMNS)
    assert report.passed, [check for check in report.checks if not check.passed]


def to_geopandas():
    table = build_table()
    points = geopandas.points_from_xy(table["lon"].to_numpy(), table["lat"].to_numpy())
    rest = table.drop_columns(["lon", "lat"])
    frame = rest.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return geopandas.GeoDataFrame(frame, geometry=points, crs=4326)


FRAMES = {
    "pyarrow": build_table,
    "pandas": lambda: build_table().to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get),
    "polars": lambda: polars.from_arrow(build_table()),
    "geopandas": to_geopandas,
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name, expected):
    assert publish(read_in_memory(FRAMES[name](), COLUMNS)) == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("user_id", 7, "row 3: column 'user_id' holds a value of another type than most"),
        ("lat", "north", "row 3: column 'lat' holds a value of another type than most"),
        ("what", [1], "row 3: column 'what' holds a value of another type than most"),
        ("amount", 10**30, "row 3: column 'amount' holds a value of another type than most"),
    ],
)
def test_frames_with_columns_of_several_types(name, value, message):
    frame = build_table().to_pandas().astype(object)
    frame.loc[2, name] = [value] if isinstance(value, list) else value
    with pytest.raises(tc.InputError, match=message) as caught:
        read_in_memory(frame, COLUMNS)
    assert "north" not in str(caught.value)
    twice = build_table().to_pandas().set_axis(["user_id", "time", "x", "x", "y", "z"], axis=1)
    with pytest.raises(tc.InputError, match="two columns of one name"):
        read_in_memory(twice)


def test_the_delimiter_can_be_given(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user_id^time^x^y;z\na^1^2^3\nb^1^2^4\n")
    columns = LogColumns(x="x", y="y;z", delimiter="^")
    assert read_in_memory(path, columns).num_rows == 2
    with pytest.raises(tc.InputError, match="delimiter="):
        read_in_memory(path, LogColumns(x="x", y="y;z"))
    with pytest.raises(tc.OptionError, match="delimiter="):
        LogColumns(delimiter=", ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"row 31: no JSON object"),
        ("[1]", r"row 31: no JSON object"),
        (
            '{"user_id": 7, "time": "2024-05-01", "lon": 1.0, "lat": 1.0}',
            r"row 31: field 'user_id'",
        ),
        ('{"user_id": "u", "time": "2024-05-01", "lon": "1", "lat": 1.0}', r"row 31: field 'lon'"),
        (
            '{"user_id": "u", "time": "2024-05-01", "lon": 1.0, "lat": 1e400}',
            r"row 31: field 'lat'",
        ),
        ('{"user_id": "u", "time": "soon", "lon": 1.0, "lat": 1.0}', r"row 31: column 'time'"),
        ('{"user_id": "u", "time": "2024-05-01", "lon": 1.0}', r"row 31: column 'lat' is empty"),
    ],
)
def test_bad_lines(tmp_path, line, message):
    path = tmp_path / "log.jsonl"
    path.write_bytes(to_lines() + b"\n" + line.encode() + b"\n")
    with pytest.raises(tc.InputError, match=message):
        read_in_memory(path, COLUMNS)


def test_geometries_that_are_no_points(tmp_path):
    table = build_table().drop_columns(["lon", "lat"])
    point = b"\x01\x01\x00\x00\x00" + b"\x00" * 16
    shapes = [point] * table.num_rows
    shapes[1], shapes[3] = b"\x01\x02\x00\x00\x00" + b"\x00" * 16, point + b"\x00" * 8
    with pytest.raises(tc.InputError, match=r"^2 rows \(2, 4\): the geometry is no point"):
        read_in_memory(table.append_column("geometry", pa.array(shapes)), COLUMNS)


@pytest.mark.parametrize(
    "geo", [b'{"columns": []}', b'{"columns": {"geometry": 5}}', b"[" * 10**5, b"\xff", b"5"]
)
def test_damaged_metadata_count_as_none(geo):
    schema = pa.schema([("geometry", pa.binary())], metadata={"geo": geo})
    assert find_geometry(schema) == find_geometry(schema.remove_metadata())


@pytest.mark.parametrize("kind", ["wkb", "struct"])
@pytest.mark.parametrize("has_others", [False, True])
def test_points_are_not_published(tmp_path, kind, has_others):
    """Also if the log has its places in other columns, or points in one file only."""
    points, rest = tmp_path / "a.parquet", tmp_path / "b.parquet"
    write_points(points, kind)
    if has_others:
        table, metadata = pq.read_table(points), pq.read_schema(points).metadata
        for name in ("lon", "lat"):
            table = table.append_column(name, build_table()[name])
        pq.write_table(table.replace_schema_metadata(metadata), points)
    for name in ("geometry", "geometry.x")[: 1 + (kind == "struct")]:
        columns = LogColumns(requests=(name,))
        with pytest.raises(tc.OptionError, match="request column 'geometry' also holds the user"):
            read_in_memory(points, columns)
    pq.write_table(build_table().append_column("geometry", build_table()["what"]), rest)
    columns = LogColumns(requests=("geometry",))
    assert read_in_memory(rest, columns).requests.kinds.num_rows > 0
    if has_others:
        with pytest.raises(tc.OptionError, match="request column 'geometry' also holds the user"):
            read_in_memory([rest, points], columns)


@pytest.mark.parametrize("name", ["log.txt", "log.gz", "log.parquet.gz", "log", "log.xlsx"])
def test_kinds_that_are_not_known(tmp_path, name):
    (tmp_path / name).write_text("x")
    with pytest.raises(tc.InputError, match="unknown kind of file"):
        read_in_memory(tmp_path / name)
