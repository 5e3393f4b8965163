"""Tables and frames of many libraries are the same log."""

import subprocess
import sys
import warnings

import geopandas
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from interface.frames import LENGTH, SOURCES, UTM, build_geopandas, build_pandas, build_table

K = 4


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> tc.Release:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(build_table(), path)
    return tc.anonymize(path, k=K, requests="service")


@pytest.mark.parametrize("name", SOURCES)
def test_every_frame_is_the_same_log(name, expected):
    release = tc.anonymize(SOURCES[name](), k=K, requests="service")
    assert release.bundles.equals(expected.bundles)
    assert release.requests.equals(expected.requests)
    assert release.manifest == expected.manifest
    assert release.policy.equals(expected.policy)


@pytest.mark.parametrize("name", ["pandas", "a reader of Arrow", "GeoPandas"])
def test_what_was_read_from_a_frame_can_be_audited(name):
    release = tc.anonymize(SOURCES[name](), k=K, requests="service")
    assert release.audit(replay=True).passed
    assert release.audit(build_table()).passed


def test_a_log_is_read_once_and_used_often(expected):
    log = tc.read_log(build_pandas(), requests="service")
    assert (log.num_rows, log.num_users, log.num_requests) == (144, 24, 144)
    assert tc.anonymize(log, k=K).bundles.equals(expected.bundles)
    release = tc.anonymize(log, k=2 * K)
    assert release.audit(log).passed
    assert release.audit().passed


def test_requests_may_come_from_a_second_frame():
    frame = build_pandas()
    release = tc.anonymize(
        frame.drop(columns="service"),
        k=K,
        requests=["service"],
        request_log=frame[["user_id", "time", "service"]],
    )
    assert release.manifest["attacker"] == "tp-aware"
    assert release.audit().passed


def test_points_come_with_their_coordinate_system():
    release = tc.anonymize(build_geopandas(UTM), k=K, requests="service")
    assert release.manifest["crs"] == f"EPSG:{UTM}"
    assert release.audit().passed
    bundles = release.to_geopandas()
    assert bundles.crs == UTM
    points = build_geopandas(UTM)
    here = bundles[bundles["instant"] == 0].union_all()
    assert points[points["time"] == points["time"].min()].within(here).all()


def test_points_come_before_columns_that_are_not_named():
    """Columns may be left over from before the points were projected."""
    frame = build_geopandas(UTM, keeps_columns=True).rename(columns={"lon": "x", "lat": "y"})
    release = tc.anonymize(frame, k=K)
    assert release.manifest["crs"] == f"EPSG:{UTM}"
    assert release.bundles["x_min"].to_numpy().min() > 100_000
    named = build_geopandas(UTM, keeps_columns=True)
    assert tc.anonymize(named, k=K, lon="lon", lat="lat").manifest["crs"] != f"EPSG:{UTM}"


def test_points_of_another_name():
    frame = build_geopandas(UTM).rename_geometry("where")
    assert tc.anonymize(frame, k=K).manifest["crs"] == f"EPSG:{UTM}"


def test_degrees_of_another_datum_are_not_taken_for_those_of_wgs_84():
    release = tc.anonymize(build_geopandas(4258), k=K)
    assert release.manifest["parameters"]["log_crs"] is None
    assert release.audit().passed


def test_trajectories_of_movingpandas():
    """As its documentation makes them: points, an index ``t``, an id for each trajectory."""
    frame = build_geopandas(UTM).rename(columns={"user_id": "traj_id", "time": "t"}).set_index("t")
    whole = tc.anonymize(frame, k=K, user="traj_id", requests="service")
    with warnings.catch_warnings():
        # It warns of parts of its own that are not installed, and uses what pandas will drop.
        warnings.simplefilter("ignore")
        import movingpandas

        collection = movingpandas.TrajectoryCollection(frame, "traj_id")
        release = tc.anonymize(collection, k=K, user="traj_id", requests="service")
    assert release.bundles.equals(whole.bundles)
    assert release.requests.equals(whole.requests)
    assert release.audit().passed


def test_a_frame_of_scikit_mobility(expected):
    """Its frames are frames of pandas with these columns, in this order."""
    frame = build_pandas().rename(
        columns={"user_id": "uid", "time": "datetime", "lon": "lng"}
    )[["lat", "lng", "datetime", "uid", "service"]]  # fmt: skip
    release = tc.anonymize(frame, k=K, requests="service")
    assert release.bundles.equals(expected.bundles)
    assert release.audit().passed


def test_the_index_is_no_time_if_there_is_a_column_of_times(expected):
    frame = build_pandas()
    frame.index = pd.date_range("1999-01-01", periods=len(frame), freq="D")
    release = tc.anonymize(frame, k=K, requests="service")
    assert release.bundles.equals(expected.bundles)


def test_other_indexes_are_not_read(expected):
    frame = build_pandas().set_index("service", append=True)
    release = tc.anonymize(frame, k=K, requests="service")
    assert release.requests.equals(expected.requests)


def test_no_library_is_loaded_that_the_caller_does_not_use(tmp_path):
    pq.write_table(build_table(), tmp_path / "log.parquet")
    # But for pandas, which Arrow itself loads where it is installed.
    others = ("polars", "geopandas", "shapely", "duckdb", "matplotlib", "movingpandas")
    code = (
        "import sys, trajcloak as tc\n"
        f"release = tc.anonymize({str(tmp_path / 'log.parquet')!r}, k={K}, requests='service')\n"
        "release.count((-1e6, -1e6, 1e6, 1e6)), release.bundles, release.requests\n"
        f"print([name for name in {others} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("crs", [None, "unknown"])
def test_points_without_a_coordinate_system_are_refused(tmp_path, crs):
    source = geopandas.GeoDataFrame(build_geopandas()).set_crs(None, allow_override=True)
    if crs == "unknown":
        source.to_parquet(tmp_path / "log.parquet")
        source = tmp_path / "log.parquet"
    with pytest.raises(tc.InputError, match=r"'geometry' holds points, .* pass crs=$"):
        tc.anonymize(source, k=K)
    assert tc.anonymize(source, k=K, crs=4326).manifest["users"] == 24


def test_one_column_of_several_points_is_used():
    """GeoPandas says which: the others are columns that nobody asked for."""
    frame = build_geopandas(UTM)
    frame["home"] = frame.geometry
    release = tc.anonymize(frame, k=K)
    assert release.manifest["instants"] == LENGTH


def test_a_table_that_was_made_by_hand():
    table = build_table().append_column("empty", pa.nulls(24 * LENGTH))
    assert tc.anonymize(table, k=K).manifest["users"] == 24
