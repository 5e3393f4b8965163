"""Columns found by their usual names, and what is noticed about what they hold."""

import warnings
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import trajcloak as tc
from runs import anonymize
from trajcloak.auditor import audit_files
from trajcloak.errors import TrajcloakWarning
from trajcloak.log import read_in_memory
from trajcloak.log.csv_text import guess_types
from trajcloak.log.file_columns import recognise_columns
from trajcloak.log.formats import WantedColumns
from trajcloak.options import LogColumns

BERLIN = (13.4052, 52.5201)


def recognise(*names, **given):
    columns = LogColumns(**given)
    return recognise_columns(pa.table({name: [1] for name in names}), columns)


@pytest.mark.parametrize("user", ["user_id", "uid", "user", "device_id", "Device ID", "userId"])
@pytest.mark.parametrize("time", ["time", "datetime", "timestamp", "ts", "Time Stamp"])
@pytest.mark.parametrize(
    ("lon", "lat"), [("lon", "lat"), ("lng", "lat"), ("Longitude", "Latitude")]
)
def test_usual_names(user, time, lon, lat):
    found = recognise("category", lat, user, lon, time)
    assert (found.user, found.time, found.lon, found.lat, found.x) == (user, time, lon, lat, None)


def test_planar_coordinates():
    found = recognise("user_id", "time", "Easting", "northing")
    assert (found.x, found.y, found.lon) == ("Easting", "northing", None)


def test_own_names_come_first():
    found = recognise("user_id", "uid", "time", "timestamp", "x", "y")
    assert (found.user, found.time) == ("user_id", "time")


def test_names_that_are_given_stay():
    found = recognise("a", "uid", "ts", "b", "c", user="a", lon="b", lat="c")
    assert (found.user, found.time, found.lon, found.lat) == ("a", "ts", "b", "c")


def test_a_request_is_no_user():
    assert recognise("uid", "device", "t", "x", "y", requests=("device",)).user == "uid"


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            ["uid", "device_id", "t", "x", "y"],
            "the columns device_id, uid may each be the user; .* user=",
        ),
        (["uid", "ts", "timestamp", "x", "y"], "the columns timestamp, ts may each be the time"),
        (["uid", "t", "lng", "longitude", "lat"], "may each be the longitude; .* lon= and lat="),
        (["uid", "t", "lng", "lat", "x", "y"], "both lng/lat and x/y columns; .* lon= and lat="),
    ],
)
def test_doubt_is_no_guess(names, says):
    with pytest.raises(tc.OptionError, match=says):
        recognise(*names)


def write(path, header, *lines):
    path.write_text("\n".join((header, *lines)) + "\n")
    return path


def test_a_log_of_others_is_read_published_and_audited(tmp_path):
    lines = [f"u{u};01.02.2024 08:0{t};13,40{u}5;52,52{t}1;bar" for u in range(4) for t in range(2)]
    log = write(tmp_path / "log.csv", "uid;timestamp;lng;lat;what", *lines)
    columns = LogColumns(requests=("what",), time_format="%d.%m.%Y %H:%M", tz="Europe/Berlin")
    read = read_in_memory(log, columns)
    assert read.x[:2].tolist() == [13.4005, 13.4005]
    assert read.y[:2].tolist() == [52.5201, 52.5211]
    assert read.time[0] == datetime(2024, 2, 1, 7, tzinfo=UTC).timestamp() * 10**6
    release, policy = tmp_path / "release", tmp_path / "policy.parquet"
    anonymize(read, 2).write(release, policy)
    report = audit_files(log, release, policy, columns)
    assert report.passed, report


def test_a_request_log_may_have_other_names(tmp_path):
    places = write(
        tmp_path / "a.csv", "uid,ts,x,y", *(f"u{u},{t},{u},7" for u in range(4) for t in (0, 1))
    )
    sent = write(tmp_path / "b.csv", "user,time,what", "u1,1,bar", "u2,0,bar")
    log = read_in_memory(places, LogColumns(requests=("what",)), sent)
    assert (log.num_rows, log.num_requests, log.unknown_requests) == (8, 2, 0)


@pytest.mark.parametrize(
    ("values", "unit", "second"),
    [
        ([1_700_000_000, 1_700_000_001], "s", 1.7e9),
        ([1_700_000_000_000, 1_700_000_000_500], "ms", 1.7e9),
        ([1_700_000_000_000_000, 1_700_000_000_000_001], "us", 1.7e9),
        ([1_700_000_000.25, 1_700_000_000.5], "s", 1_700_000_000.25),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "table"])
def test_units_of_times(tmp_path, values, unit, second, kind):
    source = pa.table({"uid": ["a", "b"], "ts": values, "x": [1, 2], "y": [3, 4]})
    if kind == "csv":
        lines = (f"{u},{t},1,2" for u, t in zip("ab", values, strict=True))
        source = write(tmp_path / "log.csv", "uid,ts,x,y", *lines)
    log = read_in_memory(source, LogColumns(time_unit=unit))
    assert log.has_timestamps
    assert log.zone == "UTC"
    assert log.time[0] == second * 10**6


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("01.02.2024 08:30", "%d.%m.%Y %H:%M", "2024-02-01T08:30:00"),
        ("2/1/2024 8:30 PM", "%m/%d/%Y %I:%M %p", "2024-02-01T20:30:00"),
        ("Thu Feb 01 18:00:09 +0200 2024", "%a %b %d %H:%M:%S %z %Y", "2024-02-01T16:00:09"),
        ("01.02.2024 08:30:00.25", "%d.%m.%Y %H:%M:%S.%f", "2024-02-01T08:30:00.250"),
    ],
)
def test_formats_of_times(text, form, expected):
    table = pa.table({"uid": ["a"], "ts": [text], "x": [1], "y": [3]})
    log = read_in_memory(table, LogColumns(time_format=form))
    assert log.zone == ("UTC" if "%z" in form else None)
    moment = datetime.fromisoformat(expected).replace(tzinfo=UTC)
    assert log.time[0] == round(moment.timestamp() * 10**6)


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_the_least_integer_is_no_time(unit):
    """Pandas writes it for a time that is missing."""
    table = pa.table({"uid": ["a", "b"], "ts": [1, -(2**63)], "x": [1, 2], "y": [3, 4]})
    with pytest.raises(tc.InputError, match=r"^row 2: column 'ts' is out of range"):
        read_in_memory(table, LogColumns(time_unit=unit))


def test_times_that_do_not_fit(tmp_path):
    log = write(
        tmp_path / "log.csv", "uid,ts,x,y", "a,1.2.2024,1,2", "b,Smith-77,1,2", "c,2024,1,2"
    )
    with pytest.raises(tc.InputError) as caught:
        read_in_memory(log, LogColumns(time_format="%d.%m.%Y"))
    assert "log.csv: 2 rows (2, 3): column 'ts' cannot be read (it looks like 'aaaaa-99')" in str(
        caught.value
    )
    table = pa.table({"uid": ["a", "b"], "ts": [1.0, float("nan")], "x": [1, 2], "y": [3, 4]})
    with pytest.raises(tc.InputError, match=r"^row 2: column 'ts' is out of range .*'nan'"):
        read_in_memory(table, LogColumns(time_unit="s"))
    with pytest.raises(tc.InputError, match="of type double, and time_format= is given"):
        read_in_memory(table, LogColumns(time_format="%Y"))
    with pytest.raises(tc.InputError, match=r"of type double; .* pass time_unit="):
        read_in_memory(table)
    with pytest.raises(tc.OptionError, match="time_unit is 'h'; expected one of s, ms, us"):
        LogColumns(time_unit="h")
    with pytest.raises(tc.OptionError, match="both a unit and a format"):
        LogColumns(time_unit="s", time_format="%Y")


@pytest.mark.parametrize(("scale", "unit"), [(1, "s"), (10**3, "ms"), (10**6, "us")])
def test_epochs_are_noticed(scale, unit):
    times = [1_700_000_000 * scale, 1_700_000_060 * scale]
    table = pa.table({"uid": ["a", "b"], "ts": times, "x": [1, 2], "y": [3, 4]})
    with pytest.warns(TrajcloakWarning, match=f'look like times since 1970, .* time_unit="{unit}"'):
        log = read_in_memory(table)
    assert not log.has_timestamps


@pytest.mark.parametrize("times", [[0, 1], [20_240_501, 20_240_502], [10**10, 10**10 + 1]])
def test_other_whole_numbers_are_instants(times):
    read_in_memory(pa.table({"uid": ["a", "b"], "ts": times, "x": [1, 2], "y": [3, 4]}))


def test_degrees_in_planar_columns_are_noticed():
    x, y = BERLIN
    table = pa.table({"uid": ["a", "b"], "t": [0, 1], "x": [x, x + 0.1], "y": [y, y + 0.1]})
    with pytest.warns(TrajcloakWarning, match='look like longitude .* pass lon="x" lat="y"'):
        read_in_memory(table)
    assert read_in_memory(table, LogColumns(lon="x", lat="y")).geographic
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # With a coordinate system there is nothing to guess.
        read_in_memory(table, LogColumns(crs="EPSG:4258"))


@pytest.mark.parametrize(
    "places",
    [
        ([0.123, 0.987], [0.456, 0.789]),
        ([13.4052, 513.4052], [52.5201, 52.5301]),
        ([5.0, 9.0], [7.0, 8.0]),
        ([-100.123, 100.456], [10.123, 20.456]),
    ],
    ids=["a unit square", "too far", "whole numbers", "wide"],
)
def test_planar_places_are_no_degrees(places):
    x, y = places
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_in_memory(pa.table({"uid": ["a", "b"], "t": [0, 1], "x": x, "y": y}))


@pytest.mark.parametrize(
    ("cells", "point"),
    [
        (["1,5", "-2,25"], ","),
        (["1", "-2,25"], ","),
        (["1.5", "2.25"], "."),
        (["1", "2"], "."),
        (["1,5", "2.5"], "."),
        (["1,200,300", "2"], "."),
    ],
)
def test_decimal_commas(tmp_path, cells, point):
    log = write(
        tmp_path / "log.csv", "u;t;x;y", *(f"a;{t};{cell};7" for t, cell in enumerate(cells))
    )
    wanted = WantedColumns("u", "t", ("x", "y"))
    assert guess_types(log, wanted, wanted.names).decimal_point == point
