"""Values as people write them."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pyproj
import pytest
import shapely

import trajcloak as tc
from interface.frames import START, UTM, build_geopandas, build_pandas

K = 4
EVERYWHERE = (-1e7, -1e7, 1e7, 1e7)


@pytest.fixture(scope="module")
def release() -> tc.Release:
    return tc.anonymize(build_geopandas(UTM), k=K, requests="service", length=3)


@pytest.mark.parametrize(
    "every", [timedelta(minutes=2), pd.Timedelta("2min"), np.timedelta64(2, "m"), "120s"]
)
def test_durations(every):
    release = tc.anonymize(build_pandas(), k=K, every=every, max_gap=every)
    assert release.manifest["parameters"]["every"] == "120s"
    assert release.manifest["parameters"]["max_gap"] == "120s"


def test_whole_numbers_for_instants():
    frame = build_pandas().assign(time=np.tile(np.arange(6), 24))
    release = tc.anonymize(frame, k=np.int64(K), every=2, length=np.int32(3))
    assert release.manifest["parameters"]["every"] == 2
    assert release.count(EVERYWHERE, first=np.int64(1), last=2)["instant"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    "time",
    [
        1,
        np.int64(1),
        "2026-03-02 08:01",
        "2026-03-02T08:01:30",
        START + timedelta(minutes=1),
        pd.Timestamp(START) + pd.Timedelta("90s"),
        np.datetime64("2026-03-02T08:01:00"),
    ],
    ids=str,
)
def test_times(release, time):
    answer = release.count(EVERYWHERE, time)
    assert answer["instant"].to_pylist() == [1]
    assert answer["t_start"].to_pylist() == [START + timedelta(minutes=1)]
    assert answer["t_end"].to_pylist() == [START + timedelta(minutes=2)]


def test_times_with_a_zone():
    frame = build_pandas()
    frame["time"] = frame["time"].dt.tz_localize("Europe/Berlin")
    release = tc.anonymize(frame, k=K)
    time = pd.Timestamp("2026-03-02 08:02", tz="Europe/Berlin")
    answer = release.count(EVERYWHERE, time)
    assert answer["t_start"].to_pylist() == [datetime(2026, 3, 2, 7, 2, tzinfo=UTC)]


def test_a_day_is_its_midnight():
    frame = build_pandas()
    frame["time"] -= pd.Timedelta(hours=8)
    answer = tc.anonymize(frame, k=K).count(EVERYWHERE, date(2026, 3, 2))
    assert answer["instant"].to_pylist() == [0]


def test_boxes_of_shapely():
    frame = build_geopandas(UTM)
    x_min, y_min, x_max, y_max = frame.total_bounds
    middle = (x_min + x_max) / 2
    clipped = tc.anonymize(frame, k=2, clip=shapely.box(x_min, y_min, middle, y_max))
    assert 0 < clipped.manifest["users"] < 24
    box = shapely.box(x_min - 10, y_min - 10, x_max + 10, y_max + 10)
    region = tc.anonymize(frame, k=K, region=box).manifest["region"]
    assert region["side"] == max(x_max - x_min, y_max - y_min) + 20
    assert (region["x_min"], region["y_min"]) == (x_min - 10, y_min - 10)


def test_regions(release):
    x_min, y_min, x_max, y_max = build_geopandas(UTM).total_bounds
    numbers = (x_min, y_min, (x_min + x_max) / 2, y_max)
    expected = release.count(numbers)
    assert 0 < expected["upper"].to_numpy().max() < 24
    assert release.count(np.array(numbers)).equals(expected)
    assert release.count(shapely.box(*numbers)).equals(expected)
    assert release.count(list(numbers), crs=UTM).equals(expected)


def test_regions_in_another_system(release):
    frame = build_geopandas()
    box = shapely.box(*frame.total_bounds).buffer(0.01).envelope
    around = release.count(box, crs="EPSG:4326")
    assert around["lower"].to_pylist() == [24] * 6
    row = frame.iloc[:1].set_geometry([box], crs=4326)
    assert release.count(row).equals(around)
    assert release.count(row.geometry).equals(around)
    assert release.count(box, crs=pyproj.CRS(4326)).equals(around)


@pytest.mark.parametrize(
    "crs", [UTM, f"EPSG:{UTM}", pyproj.CRS(UTM)], ids=["number", "text", "CRS"]
)
def test_systems(crs):
    frame = build_geopandas(UTM)
    frame = pd.DataFrame(frame.drop(columns="geometry")).assign(
        x=frame.geometry.x, y=frame.geometry.y
    )
    assert tc.anonymize(frame, k=K, crs=crs).manifest["crs"] == f"EPSG:{UTM}"


def test_one_name_is_one_column_not_its_letters(release):
    assert release.requests.column_names == ["window", "bundle_id", "instant", "service"]
    assert release.manifest["parameters"]["requests"] == ["service"]
    frame = build_pandas()
    frame.loc[0, "lon"] = np.nan
    dropped = tc.anonymize(frame, k=K, drop="empty")
    assert dropped.manifest["parameters"]["drop"] == "empty"


def test_progress(capsys, tmp_path):
    heard = []
    tc.anonymize(build_pandas(), k=K, progress=lambda *call: heard.append(call))
    assert {stage for stage, _, _ in heard} >= {"reading log", "building trajectories"}
    assert capsys.readouterr() == ("", "")
    tc.anonymize(build_pandas(), k=K, progress=True)
    assert "reading log" in capsys.readouterr().err
    tc.generate_log(tmp_path / "log.csv", users=20, length=2, junctions=2000, progress=True)
    assert "generating" in capsys.readouterr().err
