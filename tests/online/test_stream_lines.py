"""Lines of a stream, one by one."""

import pytest

from online.stream_runs import START
from trajcloak.online.stream_lines import (
    LONGEST_LINE,
    LineParser,
    ReportLine,
    RequestLine,
    cut_lines,
)

TIME = START * 10**6


@pytest.mark.parametrize(
    "time",
    ['"2026-03-02T08:00:00Z"', '"2026-03-02T09:00:00+01:00"', '"2026-03-02 08:00"', "1772438400"],
)
def test_times(time):
    line = f'{{"kind": "report", "user_id": 7, "time": {time}, "lon": 13.4, "lat": 52.5}}'
    parser = LineParser([])
    assert parser.parse(line.encode()) == ReportLine("7", TIME, 13.4, 52.5, True)


def test_values_become_text():
    line = b'{"kind": "request", "user_id": "a", "time": 1772438400, "x": 1, "b": true, "c": 2.5}'
    assert LineParser(["c", "b", "d"]).parse(line) == RequestLine("a", TIME, ("2.5", "true", None))


def test_a_report_says_what_its_place_is():
    parser = LineParser([])
    planar = b'{"kind": "report", "user_id": "a", "time": 0, "x": 1, "y": 2}'
    assert parser.parse(planar) == ReportLine("a", 0, 1.0, 2.0)
    geographic = planar.replace(b'"x"', b'"lon"').replace(b'"y"', b'"lat"')
    assert parser.parse(geographic) == ReportLine("a", 0, 1.0, 2.0, geographic=True)
    assert parser.parse(planar.replace(b'"x"', b'"lon"')) is None
    assert parser.skipped == {"no usable place": 1}


def test_a_request_in_a_report_is_counted_and_not_used():
    parser = LineParser(["category"])
    report = b'{"kind": "report", "user_id": "a", "time": 0, "x": 1, "y": 2, "category": "food"}'
    assert parser.parse(report) == ReportLine("a", 0, 1.0, 2.0)
    assert parser.skipped == {"a request in a report": 1}
    parser.parse(report.replace(b'"food"', b"null"))
    assert parser.skipped == {"a request in a report": 1}


@pytest.mark.parametrize("place", ['"lon": 181, "lat": 0', '"lon": 0, "lat": -90.5'])
def test_places_off_the_globe(place):
    parser = LineParser([])
    line = f'{{"kind": "report", "user_id": "a", "time": 0, {place}}}'
    assert parser.parse(line.encode()) is None
    assert parser.skipped == {"no usable place": 1}


def test_lines_of_a_broker():
    parser = LineParser(["category"], "owntracks")
    location = b'{"_type": "location", "tid": "ph", "tst": 1772438400, "lat": 52.5, "lon": 13.4}'
    assert parser.parse(b"owntracks/ann/phone " + location) == ReportLine(
        "ann/phone", TIME, 13.4, 52.5, geographic=True
    )
    request = b'{"kind": "request", "user_id": "ann/phone", "time": 1772438400, "category": "a"}'
    assert parser.parse(b"requests/shop " + request) == RequestLine("ann/phone", TIME, ("a",))
    for line, reason in (
        (b"owntracks/ann/phone/event " + location, "no usable user id"),
        (b"elsewhere " + location, "no usable user id"),
        (b'owntracks/ann/phone {"_type": "lwt"}', "neither a location nor a request"),
        (b"owntracks/ann/phone", "no JSON"),
        (location, "no JSON"),
    ):
        parser.skipped.clear()
        assert parser.parse(line) is None
        assert parser.skipped == {reason: 1}


def test_lines_that_are_too_long_take_no_memory():
    long = b"x" * (3 * LONGEST_LINE)
    text = b"one\n" + long + b"\ntwo\n" + long + b"\nthree\nunfinished"
    for size in (10, 1000, LONGEST_LINE, len(text)):
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        parser = LineParser([])
        lines = [line for some in cut_lines(pieces, parser.skipped) for line in some]
        assert [line for line in lines if line] == [b"one", b"two", b"three"]
        assert parser.skipped == {"too long": 2}
