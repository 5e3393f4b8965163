from datetime import timedelta

import pyarrow as pa
import pytest

import trajcloak as tc
from movement.samples import GPX_1_1, gpx, moment, trkpt, write
from trajcloak.log import read_in_memory

NOON = "2024-05-06T12:00:00"


def test_values(convert, tmp_path):
    points = [
        trkpt("52.5", "13.25", NOON + "Z", "<ele>34.5</ele>"),
        trkpt("-52.5", "-13.25", "2024-05-06T12:00:01.25Z", "<ele> </ele><name>here</name>"),
        "</trkseg><trkseg>",
        trkpt("0", "180", "\n  2024-05-06T12:00:02Z\n"),
    ]
    done = convert(write(tmp_path / "alice.gpx", gpx("\n".join(points))))
    noon = moment(NOON)
    assert done.rows == [
        ("alice", noon, 13.25, 52.5, 34.5),
        ("alice", noon + timedelta(seconds=1.25), -13.25, -52.5, None),
        ("alice", noon + timedelta(seconds=2), 180.0, 0.0, None),
    ]
    assert done.log == tc.movement.ConvertedLog(
        format="gpx",
        files=1,
        rows=3,
        users=1,
        skipped={},
        columns=("user_id", "time", "lon", "lat", "altitude"),
    )
    assert done.table.schema.field("time").type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2024-05-06T12:00:00Z", NOON),
        ("2024-05-06T12:00:00z", NOON),
        ("2024-05-06T12:00:00", NOON),
        ("2024-05-06T14:00:00+02:00", NOON),
        ("2024-05-06T08:30:00-0330", NOON),
        ("2024-05-06T12:00:00.123456789Z", NOON + ".123456"),
        ("2024-05-06T12:00:00.1234567", NOON + ".123456"),
        ("2024-05-06T14:00:00.5+02:00", NOON + ".500000"),
        ("2024-05-06T12:00Z", NOON),
    ],
)
def test_forms_of_time(convert, tmp_path, time, expected):
    done = convert(write(tmp_path / "a.gpx", gpx(trkpt(1, 2, time))))
    assert [row[1] for row in done.rows] == [moment(expected)]


@pytest.mark.parametrize(
    "root",
    [
        f'gpx version="1.1" xmlns="{GPX_1_1}"',
        'gpx version="1.0" xmlns="http://www.topografix.com/GPX/1/0"',
        'gpx version="1.1"',
    ],
)
def test_versions(convert, tmp_path, root):
    done = convert(write(tmp_path / "a.gpx.gz", gpx(trkpt(1, 2, NOON), root)))
    assert done.rows == [("a", moment(NOON), 2.0, 1.0, None)]


def test_prefixed_names(convert, tmp_path):
    text = gpx(trkpt(1, 2, NOON)).replace("xmlns=", "xmlns:g=")
    text = (
        text.replace("</", "<|").replace("<", "<g:").replace("<g:|", "</g:").replace("<g:?", "<?")
    )
    assert "<g:trkpt" in text
    done = convert(write(tmp_path / "a.gpx", text))
    assert done.rows == [("a", moment(NOON), 2.0, 1.0, None)]


def test_extensions_are_not_mistaken_for_points(convert, tmp_path):
    extension = (
        '<extensions><time>1999-01-01T00:00:00Z</time><o:time xmlns:o="urn:o">x</o:time>'
        '</extensions><o:ele xmlns:o="urn:o">99</o:ele><o:trkpt xmlns:o="urn:o" lat="0" lon="0"/>'
    )
    done = convert(write(tmp_path / "a.gpx", gpx(trkpt(1, 2, NOON, extension))))
    assert done.rows == [("a", moment(NOON), 2.0, 1.0, None)]


def test_what_is_skipped_is_counted(convert, tmp_path):
    points = [
        trkpt(1, 2, None),
        trkpt(1, 2, NOON),
        trkpt(3, 4, NOON),
        trkpt(1, 2, ""),
        trkpt(1, 2, "2024-05-06T12:00:01Z"),
        '<trkpt lat="1" lon="2"/>',
    ]
    others = '<wpt lat="1" lon="2"/><rte><rtept lat="1" lon="2"/><rtept lat="1" lon="2"/></rte>'
    text = gpx("".join(points)).replace("<trk>", others + "<trk>")
    done = convert(write(tmp_path / "a.gpx", text))
    assert done.log.skipped == {"waypoint": 1, "route_point": 2, "no_time": 3, "repeated_time": 1}
    assert [row[2:4] for row in done.rows] == [(2.0, 1.0), (2.0, 1.0)]


def test_users_are_files(convert, tmp_path):
    for name in ("one.gpx", "Two, with a comma.GPX", "deep/three.v2.gpx.gz"):
        write(tmp_path / "in" / name, gpx(trkpt(1, 2, NOON)))
    done = convert(tmp_path / "in")
    assert sorted(row[0] for row in done.rows) == ["Two, with a comma", "one", "three.v2"]
    assert done.log.users == 3


def test_a_name_with_a_comma_survives_csv(tmp_path):
    write(tmp_path / 'a, "b".gpx', gpx(trkpt(1, 2, NOON)))
    tc.convert_log(tmp_path, tmp_path / "log.csv")
    log = read_in_memory(tmp_path / "log.csv")
    assert log.users.to_pylist() == ['a, "b"']
    assert (log.has_timestamps, log.zone, log.geographic) == (True, "UTC", True)


def test_two_files_of_one_name(refuse, tmp_path):
    for name in ("1/a.gpx", "2/a.gpx.gz"):
        write(tmp_path / name, gpx(trkpt(1, 2, NOON)))
    assert "names the same user as" in refuse(tmp_path)


@pytest.mark.parametrize(
    ("point", "says"),
    [
        (trkpt(1, 4711, NOON), "'lon' is out of range; expected -180..180 degrees (are longitude"),
        (trkpt(91, 2, NOON), "'lat' is out of range; expected -90..90 degrees"),
        (trkpt("", 2, NOON), "'lat' cannot be read; expected a number"),
        (trkpt(1, "4711,5", NOON), "'lon' cannot be read; expected a number"),
        (trkpt(1, 2, "yesterday"), "'time' cannot be read; expected an ISO 8601 date and time"),
        (trkpt(1, 2, "2024-02-30T12:00:00Z"), "'time' cannot be read; expected an ISO 8601"),
        (trkpt(1, 2, "2024-05-06"), "'time' cannot be read; expected an ISO 8601"),
        (trkpt(1, 2, NOON, "<ele>high</ele>"), "'altitude' cannot be read; expected a number"),
        (trkpt(1, 2, NOON, "<ele>inf</ele>"), "'altitude' is not finite; expected a number"),
        (f'<trkpt lat="1"><time>{NOON}</time></trkpt>', "a <trkpt> lacks its lat or lon"),
    ],
)
def test_bad_points(refuse, tmp_path, point, says):
    good = trkpt(1, 2, "2024-05-06T11:00:00Z")
    file = write(tmp_path / "a.gpx", gpx("\n".join([good, point, good])))
    message = refuse(file)
    assert message.startswith(f"a.gpx: line 5: {says}")
    assert "4711" not in message
