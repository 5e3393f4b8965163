"""Regions, routes and times, as a consumer writes them."""

import pytest

import trajcloak as tc
from trajcloak.query.questions import (
    PublishedTimes,
    Rectangle,
    build_route,
    parse_points,
    parse_region,
)

MINUTE = 60_000_000
NOON = 1_714_996_800_000_000
"""2024-05-06T12:00:00"""


def test_regions():
    assert parse_region(" 1, -2.5,3e1,4") == Rectangle(1, -2.5, 30, 4)


@pytest.mark.parametrize("text", ["", "1,2,3", "1,2,3,4,5", "1,2,3,x", "1,2,3,nan", "1,2,inf,3"])
def test_no_regions(text):
    with pytest.raises(tc.OptionError, match="expected numbers, X_MIN,Y_MIN,X_MAX,Y_MAX"):
        parse_region(text)


@pytest.mark.parametrize("text", ["1,2,1,3", "1,2,0,3", "0,3,1,2"])
def test_no_rectangles(text):
    with pytest.raises(tc.OptionError, match="no rectangle"):
        parse_region(text)


def test_a_route_with_a_bend():
    """A line of length 12, bent after 4, in three pieces of 4."""
    steps = build_route(parse_points("0,0 4,0 4,8"), 1.0, [2, 3, 7])
    assert steps == [
        (Rectangle(-0.5, -0.5, 4.5, 0.5), 2),
        (Rectangle(3.5, -0.5, 4.5, 4.5), 3),
        (Rectangle(3.5, 3.5, 4.5, 8.5), 7),
    ]


def test_a_route_in_one_piece_holds_its_bends():
    (step,) = build_route([(0, 0), (2, 5), (4, 0)], 2.0, [0])
    assert step.region == Rectangle(-1, -1, 5, 6)


def test_points_that_repeat():
    steps = build_route([(0, 0), (0, 0), (4, 0), (4, 0)], 2.0, [0, 1])
    assert [step.region for step in steps] == [Rectangle(-1, -1, 3, 1), Rectangle(1, -1, 5, 1)]


@pytest.mark.parametrize(
    ("points", "width", "message"),
    [
        ([(0, 0)], 1.0, "the route has 1 points"),
        ([(0, 0), (0, 0)], 1.0, "all points of the route are the same"),
        ([(0, 0), (1, 0)], 0.0, "width is 0; expected a number above 0"),
        ([(0, 0), (1, 0)], float("nan"), "width is nan"),
    ],
)
def test_no_routes(points, width, message):
    with pytest.raises(tc.OptionError, match=message):
        build_route(points, width, [0])


def test_points_that_are_none():
    with pytest.raises(tc.OptionError, match=r"route is '3'; expected numbers, X,Y X,Y \.\.\."):
        parse_points("1,2 3")


PLAIN = PublishedTimes([(0, 3), (6, 9)], None, None)
STAMPED = PublishedTimes([(0, 3), (6, 9)], (NOON, MINUTE), None)
ZONED = PublishedTimes([(0, 3)], (NOON, MINUTE), "UTC")


@pytest.mark.parametrize(
    ("times", "time", "instant"),
    [
        (PLAIN, 2, 2),
        (PLAIN, "6", 6),
        (STAMPED, "2024-05-06T12:00", 0),
        (STAMPED, "2024-05-06 12:02:59.999999", 2),
        (STAMPED, 7, 7),
        (ZONED, "2024-05-06T12:01Z", 1),
        (ZONED, "2024-05-06T12:01", 1),
        (ZONED, "2024-05-06T14:01+02:00", 1),
    ],
)
def test_times(times, time, instant):
    assert times.find_instant(time) == instant


@pytest.mark.parametrize(
    ("times", "time", "message"),
    [
        (PLAIN, 3, r"time '3' is not published; expected an instant from 0 to 8; pass"),
        (PLAIN, "noon", "time is 'noon'; expected the number of an instant; pass"),
        (STAMPED, "2024-05-06T12:03", "is not published; .* or a timestamp from 2024-05-06T12:00"),
        (STAMPED, "2024-05-06T11:59:59", "is not published"),
        (ZONED, "0001-01-01T00:00+01:00", "is not published"),
        (STAMPED, "noon", "expected the number of an instant, or a timestamp such as 2024-05-06T"),
        (STAMPED, "2024-05-06T12:00Z", "has a zone, and the release has none"),
    ],
)
def test_no_times(times, time, message):
    with pytest.raises(tc.OptionError, match=message):
        times.find_instant(time)


def test_stretches_of_time():
    assert PLAIN.between(None, None) == [0, 1, 2, 6, 7, 8]
    assert PLAIN.between(2, 6) == [2, 6]
    assert STAMPED.between("2024-05-06T12:01", 1) == [1]
    with pytest.raises(tc.OptionError, match="from '6' to '2' is empty"):
        PLAIN.between(6, 2)


def test_moments_are_written_with_their_zone():
    assert ZONED.describe_instant(1) == "2024-05-06T12:01:00.000000Z"
    assert STAMPED.describe_instant(1) == "2024-05-06T12:01:00.000000"
    assert PLAIN.describe_instant(1) is None
