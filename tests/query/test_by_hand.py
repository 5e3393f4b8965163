"""Small releases whose answers are worked out by hand."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from query.conftest import LOG, publish
from runs import anonymize
from small_logs import UNIT_CELLS, read_rows
from trajcloak.log import read_in_memory
from trajcloak.options import PARTS_PER, WGS84, LogColumns
from trajcloak.query import Answer, RequestAnswer, bounds, open_published

LEFT_QUARTER = (-0.5, -0.5, 0.5, 1.5)
"""Of the movers' first cloak: the column of cells that user a is in."""

RIGHT_HALF = (5.5, -0.5, 7.5, 1.5)
"""Of the movers' second cloak; holds its last column."""

BOTTOM = (-1.0, -1.0, 8.0, 2.0)
EVERYWHERE = (-1.0, -1.0, 16.0, 16.0)


def test_count(by_hand):
    # One mover is in the first column for certain, and one in the last, which is outside.
    assert by_hand.count(LEFT_QUARTER) == {0: Answer(1, 1.0, 1), 1: Answer(0, 0.0, 0)}
    assert by_hand.count(BOTTOM, 1, 1) == {1: Answer(2, 2.0, 2)}
    assert by_hand.count(EVERYWHERE, 0, 1) == dict.fromkeys((0, 1), Answer(4, 4.0, 4))
    # Half of the cloak at the top, and none of its sides as a whole.
    half = by_hand.count((-1, 8.5, 16, 9), 0, 0)[0]
    assert (half.lower, half.upper) == (0, 2)
    assert half.estimate == pytest.approx(1, abs=0.02)


def test_count_with_quadrants(tmp_path):
    release = open_published(publish(tmp_path, cloak="quad"))
    cloaks = {tuple(cloak) for cloak in release.windows[0].cloaks[:, :, 0].T.tolist()}
    assert cloaks == {(-0.5, -0.5, 3.5, 3.5), (-0.5, 7.5, 1.5, 9.5)}
    # A quarter of the quadrant; nothing says that somebody is at its sides.
    quarter = release.count((-0.5, -0.5, 0.5, 3.5), 0, 0)[0]
    assert (quarter.lower, quarter.upper) == (0, 2)
    assert quarter.estimate == pytest.approx(0.5)


def test_moves(by_hand):
    # One of the two is in the quarter, one in the half: perhaps the same, perhaps not. Who keeps
    # their place is not in both: 2 / 2 / 2, less a half of 2 / 4 / 2, as many as areas give.
    assert by_hand.follow([(LEFT_QUARTER, 0), (RIGHT_HALF, 1)]) == Answer(0, 0.375, 1)
    # The same quarter at both: half of the 2 / 4 who are in it by its area stay, not 2 / 4 / 4.
    moved = (3.5, -0.5, 4.5, 1.5)
    assert by_hand.follow([(LEFT_QUARTER, 0), (moved, 1)]) == Answer(0, 0.6875, 1)
    # Both are at the bottom, so that the one in the half has moved from there.
    assert by_hand.follow([(BOTTOM, 0), (RIGHT_HALF, 1)]) == Answer(1, 1.0, 1)
    assert by_hand.follow([(BOTTOM, 0), (BOTTOM, 1)]) == Answer(2, 2.0, 2)
    assert by_hand.follow([(BOTTOM, 0), ((-1, 8, 2, 10), 1)]) == Answer(0, 0.0, 0)


def test_moves_between_windows(by_hand_in_windows):
    """Bundles of two windows are not linked: 2 of 4 users and 2 of 4 users."""
    assert by_hand_in_windows.follow([(BOTTOM, 0), (BOTTOM, 1)]) == Answer(0, 1.0, 2)
    everywhere = [(EVERYWHERE, 0), (EVERYWHERE, 1)]
    assert by_hand_in_windows.follow(everywhere) == Answer(4, 4.0, 4)
    assert by_hand_in_windows.follow([(EVERYWHERE, 0), (BOTTOM, 1)]) == Answer(2, 2.0, 2)


def test_requests_in_a_region(by_hand):
    # Both movers sent x at 0: one entry. At 1 one sent x and one y.
    assert by_hand.count_requests(BOTTOM, "what") == {
        "x": RequestAnswer(Answer(2, 2.0, 2), Answer(1, 2.0, 2)),
        "y": RequestAnswer(Answer(1, 1.0, 1), Answer(1, 1.0, 2)),
    }
    assert by_hand.count_requests(LEFT_QUARTER, "what", 0, 0) == {
        "x": RequestAnswer(Answer(0, 0.5, 1), Answer(0, 0.5, 1)),
    }


def test_requests_in_windows(by_hand_in_windows):
    # The one who sent x at 0 may be the one who sent it at 1.
    assert by_hand_in_windows.count_requests(EVERYWHERE, "what")["x"] == RequestAnswer(
        Answer(3, 3.0, 3), Answer(2, 3.0, 4)
    )
    # One bundle sent y at 0, and another at 1: they need have no user in common.
    assert by_hand_in_windows.count_requests(EVERYWHERE, "what")["y"] == RequestAnswer(
        Answer(2, 2.0, 2), Answer(1, 2.0, 4)
    )


def test_requests_along_a_route(by_hand, by_hand_in_windows):
    steps = [(BOTTOM, 0), (RIGHT_HALF, 1)]
    # One mover followed, and may have sent any of the movers' requests.
    assert by_hand.follow_requests(steps, "what") == {
        "x": RequestAnswer(Answer(0, 1.0, 2), Answer(0, 1.0, 1)),
        "y": RequestAnswer(Answer(0, 0.5, 1), Answer(0, 0.5, 1)),
    }
    followed = by_hand_in_windows.follow_requests([(BOTTOM, 0), (BOTTOM, 1)], "what")
    # Two of four at each end: each is a follower with one half.
    assert followed["y"] == RequestAnswer(Answer(0, 0.5, 1), Answer(0, 0.5, 2))
    nobody = [(BOTTOM, 0), ((90, 90, 91, 91), 1)]
    assert by_hand_in_windows.follow_requests(nobody, "what") == {}


def test_what_cannot_be_asked(by_hand):
    with pytest.raises(tc.OptionError, match="no attribute 'who'; expected one of what; pass"):
        by_hand.count_requests(BOTTOM, "who")
    with pytest.raises(tc.OptionError, match="which is no rectangle"):
        by_hand.count((1, 1, 1, 2))
    with pytest.raises(tc.OptionError, match="2 steps have 1 different instants"):
        by_hand.follow([(BOTTOM, 0), (LEFT_QUARTER, 0)])
    with pytest.raises(tc.OptionError, match="0 steps have 0 different instants"):
        by_hand.follow([])
    with pytest.raises(tc.OptionError, match="in planar coordinates"):
        by_hand.place_region((0, 0, 1, 1), WGS84)


def test_many_values_are_sorted_instead_of_marked(by_hand, monkeypatch):
    expected = by_hand.count_requests(EVERYWHERE, "what")
    number = bounds._number
    monkeypatch.setattr(bounds, "_number", lambda key, size: number(key, 2**60))
    assert by_hand.count_requests(EVERYWHERE, "what") == expected


def test_a_release_without_requests(tmp_path):
    """An attribute that nobody used."""
    log = read_rows([row._replace(request=None) for row in LOG])
    anonymize(log, 2, threads=1, **UNIT_CELLS).write(tmp_path / "silent")
    release = open_published(tmp_path / "silent")
    assert release.count_requests(EVERYWHERE, "what") == {}
    assert release.follow_requests([(BOTTOM, 0)], "what") == {}


def test_values_that_are_null_or_numbers(tmp_path):
    table = pa.table(
        {
            "user_id": [1, 2, 3, 4],
            "time": [0] * 4,
            "x": [0.0] * 4,
            "y": [0.0] * 4,
            "size": [7, 7, None, None],
            "kind": ["a", "b", "c", None],
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    log = read_in_memory(tmp_path / "log.parquet", LogColumns(requests=("size", "kind")))
    anonymize(log, 4, threads=1, rare="keep", **UNIT_CELLS).write(tmp_path / "release")
    release = open_published(tmp_path / "release")
    # Two entries of size 7, which one user may have sent; one entry without a size.
    assert release.count_requests(EVERYWHERE, "size") == {
        7: RequestAnswer(Answer(2, 2.0, 2), Answer(1, 2.0, 4)),
        None: RequestAnswer(Answer(1, 1.0, 1), Answer(1, 1.0, 4)),
    }
    assert set(release.count_requests(EVERYWHERE, "kind")) == {"a", "b", "c"}


@pytest.mark.parametrize("per", PARTS_PER)
def test_parts(by_hand, tmp_path, per):
    """All four users in one bundle, shown in the parts that are bundles of ``by_hand``."""
    release = open_published(publish(tmp_path, "parts", k=4, parts=2, parts_per=per))
    for region in (LEFT_QUARTER, RIGHT_HALF, BOTTOM, EVERYWHERE):
        assert release.count(region) == by_hand.count(region)
    both_at_bottom = [(BOTTOM, 0), (BOTTOM, 1)]
    if per == "window":
        assert release.follow(both_at_bottom) == by_hand.follow(both_at_bottom)
    else:
        # Two of four at each time; nothing says that they are the same two.
        assert release.follow(both_at_bottom) == Answer(0, 1.0, 2)
    # Requests belong to the bundle: half of its users are at the bottom.
    assert release.count_requests(BOTTOM, "what", 0, 0) == {
        "x": RequestAnswer(Answer(0, 0.5, 1), Answer(0, 0.5, 2)),
        "y": RequestAnswer(Answer(0, 0.5, 1), Answer(0, 0.5, 2)),
    }


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("part", [0, 1, 1, 1], "rows are missing or out of order"),
        ("part", [1, 1, 0, 1], "rows are missing or out of order"),
        ("instant", [0, 1, 1, 1], "rows are missing or out of order"),
        ("users", [2, 2, 1, 3], "other numbers of users at other times"),
        ("users", [2, 2, 2, 3], "other numbers of users at other times"),
    ],
)
def test_damaged_parts_are_refused(tmp_path, column, values, message):
    path = publish(tmp_path, "parts", k=4, parts=2)
    file = path / "bundles.parquet"
    table = pq.read_table(file)
    place = table.schema.get_field_index(column)
    changed = pa.array(values, table.schema.field(column).type)
    pq.write_table(table.set_column(place, table.schema.field(column), changed), file)
    with pytest.raises(tc.InputError, match=message):
        open_published(path)
