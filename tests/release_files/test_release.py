"""The files of a release, read back by other means than the library's."""

import json
import math
import os
import stat
from datetime import UTC, datetime, timedelta

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest

import trajcloak as tc
from runs import anonymize
from small_logs import (
    UNIT_CELLS,
    Drawn,
    Published,
    clustered_rows,
    draw_log,
    list_tree,
    new_folder,
    publish,
    publish_rows,
    read_published,
    read_rows,
)
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns
from trajcloak.release import result as result_module
from trajcloak.release.reading import read_manifest

EDGES = ["x_min", "y_min", "x_max", "y_max"]
SOFTWARE = f"trajcloak {tc.__version__}"


def read_degrees(folder, num_users=40, time=None):
    """A lon/lat log of one instant after the other around Buenos Aires."""
    rng = np.random.default_rng(11)
    start = [-58.4, -34.6] + 0.1 * rng.uniform(-1, 1, size=(num_users, 2))
    columns = {"user_id": [], "time": [], "lon": [], "lat": [], "what": []}
    for instant in range(3):
        start += 0.001 * rng.normal(size=start.shape)
        columns["user_id"] += range(num_users)
        columns["time"] += [instant * 60] * num_users
        columns["lon"] += start[:, 0].tolist()
        columns["lat"] += start[:, 1].tolist()
        columns["what"] += rng.choice(["a", "b", "c"], num_users).tolist()
    table = pa.table(columns | {"time": pa.array(columns["time"], time)})
    pq.write_table(table, folder / "log.parquet")
    return read_in_memory(folder / "log.parquet", LogColumns(requests=("what",)))


@pytest.fixture(scope="module")
def planar() -> Published:
    return publish_rows(clustered_rows(), 3, length=2)


@pytest.fixture(scope="module")
def geographic(tmp_path_factory) -> Published:
    log = read_degrees(tmp_path_factory.mktemp("log"), time=pa.timestamp("s", "UTC"))
    return publish(log, 5, length=2)


def test_a_release_has_three_files(planar):
    assert sorted(planar.files) == ["bundles.parquet", "manifest.json", "requests.parquet"]


def test_schema_of_bundles(planar, geographic):
    before = [("window", pa.int32()), ("bundle_id", pa.int64()), ("instant", pa.int32())]
    after = [
        *((name, pa.float64()) for name in EDGES), ("users", pa.int32()), ("geometry", pa.binary())
    ]  # fmt: skip
    moment = pa.timestamp("us", "UTC")
    times = [("t_start", moment), ("t_end", moment)]
    assert planar.bundles.schema.remove_metadata() == pa.schema([*before, *after])
    assert geographic.bundles.schema.remove_metadata() == pa.schema([*before, *times, *after])


def test_schema_of_requests_and_policy(planar, geographic):
    keys = [("window", pa.int32()), ("bundle_id", pa.int64()), ("instant", pa.int32())]
    for published in (planar, geographic):
        assert published.requests.schema.remove_metadata() == pa.schema(
            [*keys, ("what", pa.string())]
        )
    policy = [("window", pa.int32()), ("user_id", pa.string()), ("bundle_id", pa.int64())]
    assert planar.policy.schema.remove_metadata() == pa.schema(policy)
    assert geographic.policy.schema.field("user_id").type == pa.int64()


def test_metadata_has_no_other_key(planar):
    with new_folder() as folder:
        for name, allowed in (("bundles", {b"geo"}), ("requests", set())):
            (folder / "file").write_bytes(planar.files[f"{name}.parquet"])
            metadata = pq.read_metadata(folder / "file")
            assert set(metadata.metadata or {}) - {b"ARROW:schema"} == allowed
            assert "parquet-cpp-arrow" in metadata.created_by


def test_times_only_where_the_log_has_them(planar, geographic):
    assert "t_start" not in planar.bundles.column_names
    origin = datetime(1970, 1, 1, tzinfo=UTC)
    for row in geographic.bundles.to_pylist():
        assert row["t_start"] == origin + row["instant"] * timedelta(seconds=60)
        assert row["t_end"] == row["t_start"] + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("time", "zone"), [(pa.timestamp("ms"), None), (pa.timestamp("ns", "Asia/Tokyo"), "UTC")]
)
def test_times_are_utc_if_the_log_has_a_zone(time, zone):
    rows = [row._replace(time=row.time * 10**9 + 10**18) for row in clustered_rows()]
    unit = {"ms": 10**6, "ns": 1}[time.unit]
    log = read_rows([row._replace(time=row.time // unit) for row in rows], time)
    published = publish(log, 3, **UNIT_CELLS)
    assert published.bundles.schema.field("t_start").type == pa.timestamp("us", zone)
    first = published.bundles["t_start"][0].as_py()
    assert first.replace(tzinfo=None) == datetime(2001, 9, 9, 1, 46, 40)
    origin = published.manifest["parameters"]["origin"]
    assert origin == "2001-09-09T01:46:40.000000" + ("Z" if zone else "")
    assert published.manifest["parameters"]["every"] == "1s"
    assert published.manifest["parameters"]["max_gap"] == "2s"


@pytest.mark.parametrize("kind", ["planar", "geographic"])
def test_geoparquet_as_others_read_it(kind, request, tmp_path):
    published = request.getfixturevalue(kind)
    (tmp_path / "bundles.parquet").write_bytes(published.files["bundles.parquet"])
    frame = geopandas.read_parquet(tmp_path / "bundles.parquet")
    assert len(frame) == published.bundles.num_rows
    if kind == "planar":
        assert frame.crs is None
    else:
        assert frame.crs == pyproj.CRS(published.manifest["crs"])
        assert frame.crs.to_epsg() is None
    assert (frame.geometry.bounds.to_numpy() == frame[EDGES].to_numpy()).all()
    assert (frame.geometry.geom_type == "Polygon").all()
    assert frame.geometry.is_valid.all()
    assert frame.geometry.exterior.is_ccw.all()
    area = (frame.x_max - frame.x_min) * (frame.y_max - frame.y_min)
    assert np.allclose(frame.geometry.area, area, rtol=1e-9)
    first = frame.geometry.iloc[0].exterior.coords[0]
    assert first == (frame.x_min.iloc[0], frame.y_min.iloc[0])


@pytest.mark.parametrize("kind", ["planar", "geographic"])
def test_geo_metadata(kind, request):
    published = request.getfixturevalue(kind)
    geo = json.loads(published.bundles.schema.metadata[b"geo"])
    assert (geo["version"], geo["primary_column"]) == ("1.1.0", "geometry")
    assert list(geo["columns"]) == ["geometry"]
    column = geo["columns"]["geometry"]
    assert (column["encoding"], column["geometry_types"]) == ("WKB", ["Polygon"])
    edges = {name: published.bundles[name].to_numpy() for name in EDGES}
    assert column["bbox"] == [
        edges["x_min"].min(), edges["y_min"].min(), edges["x_max"].max(), edges["y_max"].max(),
    ]  # fmt: skip
    assert "crs" in column, "a missing key would mean longitude and latitude"
    crs = published.manifest["crs"]
    assert column["crs"] == (None if crs is None else pyproj.CRS(crs).to_json_dict())


def test_cloaks_are_cells_of_the_grid_inside_the_region(planar, geographic):
    for published in (planar, geographic):
        region, height = published.manifest["region"], published.manifest["height"]
        cell = region["side"] / 2**height
        for axis in "xy":
            start = published.bundles[f"{axis}_min"].to_numpy()
            stop = published.bundles[f"{axis}_max"].to_numpy()
            low = region[f"{axis}_min"]
            for edge in (start, stop):
                numbers = np.rint((edge - low) / cell)
                assert (low + numbers * cell == edge).all()
                assert ((numbers >= 0) & (numbers <= 2**height)).all()
            assert (start < stop).all()


def test_no_coordinate_of_the_log_is_published(tmp_path):
    log = read_degrees(tmp_path)
    for cloak in ("mbr", "quad"):
        published = publish(log, 5, cloak=cloak)
        transform = pyproj.Transformer.from_crs("OGC:CRS84", published.manifest["crs"])
        x, y = transform.transform(log.x, log.y)
        numbers = {value for name in EDGES for value in published.bundles[name].to_pylist()}
        numbers |= set(published.manifest["region"].values())
        assert not numbers & {*x.tolist(), *y.tolist(), *log.x.tolist(), *log.y.tolist()}


@pytest.mark.parametrize("cloak", ["mbr", "quad"])
def test_every_location_is_inside_its_cloak(tmp_path, cloak):
    log = read_degrees(tmp_path)
    published = publish(log, 5, cloak=cloak)
    transform = pyproj.Transformer.from_crs("OGC:CRS84", published.manifest["crs"])
    x, y = transform.transform(log.x, log.y)
    bundle = {row["user_id"]: row["bundle_id"] for row in published.policy.to_pylist()}
    cloaks = {(row["bundle_id"], row["instant"]): row for row in published.bundles.to_pylist()}
    for row in range(log.num_rows):
        found = cloaks[bundle[log.users[log.user[row]].as_py()], int(log.time[row]) // 60]
        assert found["x_min"] <= x[row] <= found["x_max"]
        assert found["y_min"] <= y[row] <= found["y_max"]


def test_rows_are_in_order_and_bundles_are_numbered_by_their_cloaks(planar, geographic):
    for published in (planar, geographic):
        rows = published.bundles.to_pylist()
        keys = [(row["bundle_id"], row["instant"]) for row in rows]
        assert keys == sorted(set(keys))
        sequences = {}
        for row in rows:
            cloaks = tuple(row[name] for name in EDGES)
            sequences.setdefault(row["bundle_id"], [row["window"], [], row["users"]])
            sequences[row["bundle_id"]][1].append(cloaks)
        assert list(sequences) == list(range(len(sequences)))
        assert list(sequences.values()) == sorted(sequences.values())
        assert {row["window"] for row in rows} == {0, 1}
        for row in rows:
            assert row["instant"] // 2 == row["window"]


def test_requests_are_sorted_and_distinct(planar, geographic):
    for published in (planar, geographic):
        rows = [tuple(row.values())[1:] for row in published.requests.to_pylist()]
        assert rows == sorted(set(rows))
        assert len(rows) > 10


def test_null_values_of_requests_come_first(tmp_path):
    lines = ["user_id,time,x,y,one,two"]
    values = ["b,", ",z", "a,y", ",a", "a,", "10,9"]
    lines += [f"u{i},0,{i},1,{value}" for i, value in enumerate(values)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    log = read_in_memory(tmp_path / "log.csv", LogColumns(requests=("one", "two")))
    published = publish(log, 6, rare="keep")
    assert [(row["one"], row["two"]) for row in published.requests.to_pylist()] == [
        (None, "a"), (None, "z"), ("10", "9"), ("a", None), ("a", "y"), ("b", None),
    ]  # fmt: skip


def test_types_of_attributes_are_those_of_the_log(tmp_path):
    n = 4
    columns = {
        "flag": pa.array([True, False, None, True]),
        "small": pa.array([1, 2, 3, None], pa.int8()),
        "ratio": pa.array([0.5, None, 1, 2], pa.float32()),
        "day": pa.array([1, 2, None, 4], pa.date32()),
        "moment": pa.array([1, 2, None, 4], pa.timestamp("us", "UTC")),
        "nothing": pa.nulls(n, pa.int16()),
    }
    base = {"user_id": range(n), "time": [0] * n, "x": [1.0] * n, "y": [1.0] * n}
    pq.write_table(pa.table(base | columns), tmp_path / "log.parquet")
    for names in (tuple(columns), ("nothing",)):
        log = read_in_memory(tmp_path / "log.parquet", LogColumns(requests=names))
        schema = publish(log, 2, rare="keep").requests.schema
        # An attribute of which nothing is shown is text: its type tells nothing.
        assert {name: schema.field(name).type for name in names} == {
            name: columns[name].type if name != "nothing" else pa.string() for name in names
        }


def test_no_requests(tmp_path):
    rows = [row._replace(request=None) for row in clustered_rows()]
    published = publish_rows(rows, 3)
    assert published.requests.num_rows == published.manifest["requests"] == 0
    assert published.requests.column_names == ["window", "bundle_id", "instant", "what"]


def check_manifest(published: Published, drawn: Drawn) -> None:
    """Recompute every field of the manifest from the other files and the options."""
    manifest, bundles = published.manifest, published.bundles.to_pylist()
    options = drawn.options
    area = [(r["x_max"] - r["x_min"]) * (r["y_max"] - r["y_min"]) for r in bundles]
    sizes = {key: len(users) for key, users in published.members.items()}
    assert {(r["window"], r["bundle_id"]): r["users"] for r in bundles} == sizes
    assert min(sizes.values()) >= drawn.k
    expected = {
        "format_version": 1,
        "software": SOFTWARE,
        "k": drawn.k,
        "algorithm": "traj-anon" if options.get("cloak") == "quad" else "refined",
        "cloak": options.get("cloak", "mbr"),
        "crs": None,
        "region": {"x_min": -0.5, "y_min": -0.5, "side": 16.0},
        "height": 4,
        "windows": len({r["window"] for r in bundles}),
        "instants": len({r["instant"] for r in bundles}),
        "users": len(set(published.policy["user_id"].to_pylist())),
        "bundles": len({r["bundle_id"] for r in bundles}),
        "smallest_bundle": min(sizes.values()),
        "cost": pytest.approx(
            math.fsum(a * r["users"] for a, r in zip(area, bundles, strict=True)), rel=1e-12
        ),
        "mean_cloak_area": pytest.approx(math.fsum(area) / len(area), rel=1e-12),
        "requests": published.requests.num_rows,
        "attacker": "report-aware",
        "parts": None,
    }
    assert {name: manifest[name] for name in expected} == expected
    assert set(manifest) == {
        *expected,
        "parameters",
        "withheld",
        "suppressed",
        "ingest",
    }
    parameters = manifest["parameters"]
    for name in ("length", "missing", "max_suppressed", "suppress_above"):
        assert parameters[name] == options.get(name, "withhold" if name == "missing" else None)
    assert parameters["requests"] == published.requests.column_names[3:]
    assert parameters["every"] == (options.get("every") or parameters["every"])
    assert parameters["max_gap"] == (options.get("max_gap") or 2 * parameters["every"])
    assert set(manifest["withheld"]) == {"users", "windows", "sets"}


def test_manifests_are_what_the_files_say():
    checked = 0
    for seed in range(60):
        drawn = draw_log(seed)
        drawn = Drawn(drawn.rows, drawn.k, drawn.options | {"cloak": ("mbr", "quad")[seed % 2]})
        try:
            published = publish(read_rows(drawn.rows), drawn.k, **drawn.run_options)
        except tc.TrajcloakError:
            continue
        check_manifest(published, drawn)
        checked += 1
    assert checked >= 20


def test_manifest_is_json_with_sorted_keys(planar):
    text = planar.files["manifest.json"].decode("utf-8")
    assert text.endswith("}\n")

    def reject_constant(name):
        raise AssertionError(f"{name} is no JSON")

    parsed = json.loads(text, parse_constant=reject_constant)
    assert list(parsed) == sorted(parsed)
    assert list(parsed["parameters"]) == sorted(parsed["parameters"])


def test_the_same_bytes_for_shuffled_rows_any_threads_and_again():
    rows = clustered_rows(num_clusters=4, per_cluster=7)
    rng = np.random.default_rng(9)
    expected = publish(read_rows(rows), 3, **UNIT_CELLS, length=2)
    for threads in (1, 2, 5, 1):
        rng.shuffle(rows)
        log = read_rows(rows)
        actual = publish(log, 3, **UNIT_CELLS, length=2, threads=threads)
        assert actual.files == expected.files
        assert actual.policy.equals(expected.policy)


@pytest.mark.parametrize("rows_per_group", [1, 2, 5, 1000])
def test_the_same_rows_in_row_groups_of_any_size(rows_per_group, planar, monkeypatch):
    monkeypatch.setattr(result_module, "ROWS_PER_GROUP", rows_per_group)
    again = publish_rows(clustered_rows(), 3, length=2)
    assert again.bundles.equals(planar.bundles)
    assert again.requests.equals(planar.requests)


@pytest.mark.parametrize("fails", [1, 2, "manifest", "rename"])
@pytest.mark.parametrize("with_policy", [False, True])
def test_a_failure_leaves_nothing(tmp_path, fails, with_policy, monkeypatch):
    result = anonymize(read_rows(clustered_rows()), 3)
    join_row_groups = result_module.join_row_groups
    calls = []

    def write(*args, **options):
        calls.append(args)
        if len(calls) == fails:
            raise OSError(28, "No space left on device")
        join_row_groups(*args, **options)

    def refuse(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(result_module, "join_row_groups", write)
    if fails == "manifest":
        monkeypatch.setattr("pathlib.Path.write_text", refuse)
    if fails == "rename":
        monkeypatch.setattr("os.rename", refuse)
    policy = tmp_path / "policy.parquet" if with_policy else None
    with pytest.raises(tc.OutputError, match=r"cannot be written \(No space left on device\)"):
        result.write(tmp_path / "release", policy)
    assert list_tree(tmp_path) == {}


def test_an_existing_output_is_refused_and_kept(tmp_path):
    result = anonymize(read_rows(clustered_rows()), 3)
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    before = list_tree(tmp_path)
    for release, policy in (
        ("release", None),
        ("release", "new.parquet"),
        ("new", "policy.parquet"),
        ("policy.parquet", None),
    ):
        with pytest.raises(tc.OutputError, match="exists already; expected a new path"):
            result.write(tmp_path / release, policy and tmp_path / policy)
        assert list_tree(tmp_path) == before
    with pytest.raises(tc.OutputError, match="exists already"):
        result.write(tmp_path / "release")
    assert list_tree(tmp_path) == before


def test_the_policy_is_readable_by_its_owner_only(tmp_path):
    result = anonymize(read_rows(clustered_rows()), 3)
    before = os.umask(0)
    try:
        result.write(tmp_path / "release", tmp_path / "policy.parquet")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "policy.parquet").stat().st_mode) == 0o600


def test_the_policy_is_written_only_if_asked_for(tmp_path):
    anonymize(read_rows(clustered_rows()), 3).write(tmp_path / "release")
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


@pytest.mark.parametrize("exists", [False, True], ids=["new release", "existing release"])
@pytest.mark.parametrize(
    "place", ["release/p", "release/sub/p", "release/../release/p", "link/p", "link/../release/p"]
)
def test_a_policy_inside_a_release_is_refused(tmp_path, place, exists):
    result = anonymize(read_rows(clustered_rows()), 3)
    (tmp_path / "link").symlink_to(tmp_path / "release")
    if exists:
        result.write(tmp_path / "release")
        (tmp_path / "release" / "sub").mkdir()
    before = list_tree(tmp_path)
    target = tmp_path / ("other" if exists else "release")
    message = "the policy file would stand inside the release .*; expected a private place outside"
    with pytest.raises(tc.OptionError, match=message):
        result.write(target, tmp_path / place)
    assert list_tree(tmp_path) == before


def test_the_policy_cannot_take_the_name_of_the_release(tmp_path):
    result = anonymize(read_rows(clustered_rows()), 3)
    for name in ("release", "sub/../release"):
        with pytest.raises(tc.OptionError, match="would stand inside the release"):
            result.write(tmp_path / "release", tmp_path / name)
    assert list_tree(tmp_path) == {}


def test_policy_rows(planar):
    rows = planar.policy.to_pylist()
    assert len({(row["window"], row["user_id"]) for row in rows}) == len(rows) == 24
    window_of_bundle = {row["bundle_id"]: row["window"] for row in planar.bundles.to_pylist()}
    assert all(window_of_bundle[row["bundle_id"]] == row["window"] for row in rows)


def test_read_manifest_of_something_else(tmp_path):
    for content in (None, "", "{", "[]", '{"format_version": 2}', "\xff"):
        folder = tmp_path / "release"
        folder.mkdir(exist_ok=True)
        if content is not None:
            (folder / "manifest.json").write_text(content, encoding="latin-1")
        with pytest.raises(tc.InputError, match=r"manifest\.json: .*expected .*release"):
            read_manifest(folder)


def test_read_back_is_what_was_written(tmp_path):
    result = anonymize(read_rows(clustered_rows()), 3, **UNIT_CELLS)
    result.write(tmp_path / "release", tmp_path / "policy.parquet")
    published = read_published(tmp_path)
    assert published.manifest == result.manifest
    assert published.policy.to_pylist() == result.policy.to_pylist()
