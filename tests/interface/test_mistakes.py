"""What callers in Python get wrong, and what they are told."""

import numpy as np
import pandas as pd
import pytest
import shapely

import trajcloak as tc
from interface.frames import UTM, build_geopandas, build_pandas, build_table
from trajcloak.errors import TrajcloakWarning

TRIANGLE = shapely.Polygon([(0, 0), (1, 0), (0, 1)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 1}, r"^k is 1; expected a whole number of at least 2: .* pass another k=$"),
        ({"k": 500}, r"^the log has 24 users; expected at least 500 .*; lower k= or members=$"),
        ({"every": "7s", "max_gap": "7s"}, r'inspect_log proposes as every=.* missing="hold", or'),
        ({"every": "soon"}, r"^every is 'soon'; .* pass another every=$"),
        ({"every": pd.Timedelta(0)}, r"^every is '0us'; .* pass another every=$"),
        ({"requests": "servce"}, r"no column 'servce' among user_id, .*service .*; .*requests="),
        ({"requests": ["service", "service"]}, "a request column is named twice"),
        ({"requests": "user_id"}, "request column 'user_id' also holds the user"),
        ({"user": "rider"}, r"no column 'rider' among user_id, .* user="),
        ({"lon": "lon"}, r"only one of the columns 'lon' and 'lat' .* pass lon= and lat= together"),
        ({"drop": "dust"}, r"^drop is 'dust'; expected one of empty, .* pass another drop=$"),
        ({"cloak": "circle"}, r"^cloak is 'circle'; expected one of mbr, quad; .* cloak=$"),
        (
            {"region": (0, 0, -1)},
            r"^region is \(0.0, 0.0, -1.0\); expected a square: .* region=$",
        ),
        ({"region": "everywhere"}, r"^a region is given as str; expected numbers, or a box"),
        ({"clip": TRIANGLE}, r"^the region is a Polygon that is no upright rectangle; .*\.bounds$"),
        ({"clip": (0, 0, 1)}, r"^clip is \(0.0, 0.0, 1.0\); expected a rectangle: .* clip=$"),
        ({"crs": "nonsense"}, r"^crs is 'nonsense'; .* pass another crs="),
        ({"memory": "much"}, r"^memory is 'much'; .* pass another memory=$"),
        ({"scratch": "here"}, "a scratch folder is given, and the log is held in memory"),
        ({"engine": "dask"}, r"^engine is a str; expected a distributed.Client or a SparkSession"),
        ({"algorithm": "magic"}, r"^algorithm is 'magic'; expected one of traj-anon, .*algorithm="),
        ({"algorithm": 3}, r"^algorithm is a int; expected a name, or an object with .*group"),
        ({"algorithm": tc.Refined(parts=2)}, "^Refined is given parts; expected effort alone"),
        ({"tz": "Berlin"}, r"^tz is 'Berlin'; .* pass another tz=$"),
        ({"threads": 0}, r"^threads is 0; .* pass another threads=$"),
    ],
)
def test_arguments(options, message):
    with pytest.raises(tc.TrajcloakError, match=message) as caught:
        tc.anonymize(build_pandas(), **{"k": 4, **options})
    assert "--" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_log_that_was_read_is_not_read_again():
    log = tc.read_log(build_pandas())
    for options in ({"user": "rider"}, {"requests": "service"}, {"request_log": build_pandas()}):
        (name,) = options
        with pytest.raises(tc.OptionError, match=rf"was read already, and {name}= .* to read_log"):
            tc.anonymize(log, k=4, **options)
        with pytest.raises(tc.OptionError, match=f"was read already, and {name}= is given"):
            tc.audit(log, "release", "policy.parquet", **options)
    with pytest.raises(tc.OptionError, match=r"engine=, memory= is given; .* pass the path of"):
        tc.anonymize(log, k=4, engine="x", memory="1GiB")
    with pytest.raises(tc.OptionError, match="read already is given where one is still to be read"):
        tc.anonymize(build_pandas(), k=4, request_log=log)


@pytest.mark.parametrize("source", [7, None, {"user_id": [1]}, np.zeros(3)])
def test_what_is_no_log(source):
    with pytest.raises(tc.OptionError, match=r"^the log is given as .*; expected paths of files"):
        tc.anonymize(source, k=4)


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(tc.InputError, match=r"nothing\.csv: no log found; expected a file"):
        tc.anonymize(tmp_path / "nothing.csv", k=4)
    with pytest.raises(tc.InputError, match=r"manifest\.json: cannot be read"):
        tc.open_release(tmp_path)
    with pytest.raises(tc.InputError, match=r"gone: there is no such folder; .* of a release"):
        tc.open_release(tmp_path / "gone")
    (tmp_path / "walk.gpx").touch()
    with pytest.raises(tc.InputError, match=r"no log found; .* use trajcloak\.convert_log$"):
        tc.anonymize(tmp_path, k=4)


def test_a_column_cannot_be_user_and_request():
    frame = build_pandas().rename(columns={"user_id": "uid"})
    with pytest.raises(tc.TrajcloakError, match=r"column 'uid' .*user"):
        tc.anonymize(frame, k=4, requests="uid")


def test_irregular_times_are_told_the_usual_interval():
    frame = build_pandas()
    frame["time"] += pd.to_timedelta(np.arange(len(frame)) % 5, unit="s")
    message = r'such as every="\d+s", the usual time .*; trajcloak\.inspect_log proposes'
    with pytest.raises(tc.InputError, match=message):
        tc.anonymize(frame, k=4)


@pytest.fixture(scope="module")
def release() -> tc.Release:
    return tc.anonymize(build_geopandas(UTM), k=4, requests="service")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda r: r.count((0, 0, 1)), r"^region has 3 numbers; expected X_MIN, .* region=$"),
        (lambda r: r.count((1, 0, 0, 1)), r"^region is '1,0,0,1', which is no rectangle"),
        (lambda r: r.count("Berlin"), r"^a region is given as str; expected numbers, or a box"),
        (lambda r: r.count(TRIANGLE), "no upright rectangle"),
        (
            lambda r: r.count((0, 0, 1, 1), crs="EPSG:99999"),
            r"^crs is 'EPSG:99999'; .*another crs=$",
        ),
        (lambda r: r.count(build_geopandas(UTM)), r"^the region has 144 geometries; expected one"),
        (lambda r: r.count((0, 0, 1, 1), "soon"), r"^time is 'soon'; expected the number"),
        (
            lambda r: r.count((0, 0, 1, 1), first=5, last=2),
            r"is empty; .* exchange first= and last=$",
        ),
        (lambda r: r.count((0, 0, 1, 1), 1, last=2), r"^both a single time .* pass at=, or first="),
        (lambda r: r.count((0, 0, 1, 1), "1999-01-01"), r"is not published; expected an instant"),
        (lambda r: r.count_requests((0, 0, 1, 1), "price"), r"no attribute 'price'.* another by=$"),
        (lambda r: r.moves([]), r"^0 steps have 0 different instants; expected one or more"),
        (lambda r: r.route([(0, 0)], 5), r"^the route has 1 points; expected two or more"),
    ],
)
def test_questions(release, ask, message):
    with pytest.raises(tc.OptionError, match=message) as caught:
        ask(release)
    assert "--" not in str(caught.value).replace("--route", "")


def test_a_region_with_a_system_of_a_release_without_one():
    frame = build_pandas().rename(columns={"lon": "x", "lat": "y"})
    with pytest.warns(TrajcloakWarning, match="look like longitude and latitude"):
        planar = tc.anonymize(frame, k=4)
    with pytest.raises(tc.OptionError, match="the release is in planar coordinates"):
        planar.count((0, 0, 1, 1), crs=4326)


def test_findings_of_the_audit_name_keywords(release):
    (note,) = (note for note in release.audit().notes if "was not run again" in note)
    assert "(replay=True)" in note


def test_columns_of_several_types():
    frame = build_table().to_pandas().astype(object)
    frame.loc[2, "lat"] = frame.loc[7, "lat"] = "north"
    frame.loc[4, "lon"] = "13,4x"
    with pytest.raises(tc.RefusedLogError) as caught:
        tc.anonymize(frame, k=4)
    several, one = caught.value.reasons
    assert several.startswith(
        "2 rows (3, 8): column 'lat' holds a value of another type than most, which are of type "
        "number (it looks like 'aaaaa'); expected values of one type"
    )
    assert one.startswith("row 5: column 'lon' holds")


def test_degrees_in_planar_columns_are_noticed():
    frame = build_pandas().rename(columns={"lon": "x", "lat": "y"})
    with pytest.warns(tc.TrajcloakWarning, match=r'look like longitude .* pass lon="x" lat="y"$'):
        tc.anonymize(frame, k=4)
    assert tc.anonymize(frame, k=4, lon="x", lat="y").manifest["crs"]


def test_times_since_1970_are_noticed():
    seconds = build_pandas()["time"].astype("datetime64[s]").astype("int64")
    frame = build_pandas().assign(time=seconds)
    with pytest.warns(tc.TrajcloakWarning, match=r'look like times since 1970.* time_unit="s"$'):
        tc.anonymize(frame, k=4)
    release = tc.anonymize(frame, k=4, time_unit="s")
    assert release.bundles["t_start"][0].as_py().isoformat() == "2026-03-02T08:00:00+00:00"


def test_regions_in_degrees_are_noticed(release):
    region = tuple(build_geopandas().total_bounds)
    with pytest.warns(tc.TrajcloakWarning, match=r'looks like longitude .* crs="EPSG:4326"$'):
        assert release.count(region, 0)["upper"].to_pylist() == [0]
    assert release.count(region, 0, crs="EPSG:4326")["upper"].to_pylist() == [24]


def test_a_trajectory_is_not_taken_for_a_user():
    frame = build_pandas().rename(columns={"user_id": "traj_id"})
    with pytest.raises(tc.InputError, match=r"no column 'user_id' among traj_id, .* with user="):
        tc.anonymize(frame, k=4)


def test_all_that_is_wrong_is_said_at_once():
    frame = build_pandas()
    frame.loc[3, "lat"] = 200.0
    frame.loc[5, "lon"] = np.nan
    message = r"for 2 reasons: \(1\) row 4: .*drop=.out-of-range.* \(2\) row 6: .* drop=.empty"
    with pytest.raises(tc.InputError, match=message):
        tc.anonymize(frame, k=4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda frame: tc.inspect_log(frame, usr="user_id"), "'usr'; did you mean user=?"),
        (lambda frame: tc.compare(frame, k=4, evry="60s"), "'evry'; did you mean every=?"),
        (lambda frame: tc.attack(frame, k=4, colour="red"), "'colour'$"),
    ],
)
def test_keywords_that_do_not_exist(call, message):
    with pytest.raises(TypeError, match=f"^got an unexpected keyword argument {message}"):
        call(build_pandas())


def test_numbers_as_text():
    with pytest.raises(tc.OptionError, match=r"^k is '4'; expected a whole number"):
        tc.anonymize(build_pandas(), k="4")
    with pytest.raises(tc.OptionError, match=r"^length is '1d'; expected a whole number from"):
        tc.anonymize(build_pandas(), k=4, length="1d")


def test_a_region_to_fit_the_log_into_is_in_metres():
    with pytest.raises(tc.InputError, match="outside the region, which is in metres from"):
        tc.anonymize(build_pandas(), k=4, region=shapely.box(13, 52, 14, 53))


def test_regions_outside_the_release_are_noticed(release):
    west, south, east, north = build_geopandas().total_bounds
    with pytest.warns(tc.TrajcloakWarning, match=r"outside that of the release.* longitude first"):
        assert release.count((south, west, north, east), 0, crs=4326)["upper"].to_pylist() == [0]


def test_warnings_are_about_the_line_of_the_caller(release):
    with pytest.warns(tc.TrajcloakWarning) as caught:
        release.count(tuple(build_geopandas().total_bounds), 0)
    assert [warning.filename for warning in caught] == [__file__]


def test_progress_need_not_be_a_bool(capsys):
    assert tc.anonymize(build_pandas(), k=4, progress=1).manifest["k"] == 4
    assert "reading log" in capsys.readouterr().err
    tc.anonymize(build_pandas(), k=4, progress=0)
    assert not capsys.readouterr().err
