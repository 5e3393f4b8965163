from fractions import Fraction

import pytest

from .completion import complete, default_every, grid_origin, instant_of, location_at

WALK = {0: (0, 0), 10: (10, 20), 40: (40, 20)}


def still(user, times, request=None):
    return [(user, time, 1, 1, request) for time in times]


def test_location_at_a_report_between_reports_and_in_a_gap():
    assert location_at(WALK, 10, 15, "withhold") == (10, 20)
    assert location_at(WALK, 5, 15, "withhold") == (5, 10)
    assert location_at(WALK, 1, 10, "withhold") == (1, 2)
    assert location_at({0: (0, 0), 3: (1, 1)}, 1, 3, "withhold") == (Fraction(1, 3),) * 2
    assert location_at(WALK, 20, 29, "withhold") is None
    assert location_at(WALK, 20, 30, "withhold") == (20, 20)
    assert location_at(WALK, 41, 30, "withhold") is None
    assert location_at(WALK, -1, 30, "withhold") is None


def test_hold_fills_gaps_with_the_last_report_before():
    assert location_at(WALK, 20, 15, "hold") == (10, 20)
    assert location_at(WALK, 99, 15, "hold") == (40, 20)
    assert location_at(WALK, -5, 15, "hold") == (0, 0)
    assert location_at(WALK, 5, 15, "hold") == (5, 10)


def test_origin_is_the_earliest_time_if_all_lie_on_its_grid():
    assert grid_origin([7, 17, 37], 10) == 7
    assert grid_origin([7, 18, 37], 10) == 10
    assert grid_origin([7, 18, 37], 10, "hold") == 0
    assert grid_origin([7, 8], 10) == 0
    assert grid_origin([-3, 18], 10) == 0
    assert [instant_of(time, 7, 10) for time in (7, 16, 17, 37)] == [0, 0, 1, 3]


def test_default_every_is_the_common_step_of_a_log_filled_by_half():
    assert default_every(still("a", [5, 15, 45])) == 10
    assert default_every(still("a", [5, 65]) + still("b", [15, 25, 35, 45, 55])) == 10
    with pytest.raises(ValueError, match="every must be given"):
        default_every(still("a", [0, 10, 100]))
    assert default_every(still("a", [3]) + still("b", [3])) == 1


def test_windows_participants_and_counts_by_hand():
    rows = [
        *still("a", [0, 1, 2, 3, 4], "ra"),
        *still("b", [0, 1, 2, 3, 4]),
        *still("c", [0, 1, 4], "rc"),  # missing at 2 and 3 with max_gap 1
        ("c", 4, 1, 1, "rc2"),
        *still("d", [2], "rd"),
    ]
    done = complete(rows, k=2, length=2, max_gap=1)
    assert (done.origin, done.every, done.num_instants) == (0, 1, 5)
    assert [(w.start, w.stop) for w in done.windows] == [(0, 2), (2, 4), (4, 5)]
    assert [sorted(w.participants) for w in done.windows] == [
        ["a", "b", "c"],
        ["a", "b"],
        ["a", "b", "c"],
    ]
    assert done.windows[0].participants["a"] == [(1, 1), (1, 1)]
    assert done.requests["c", 4] == ["rc", "rc2"]
    assert done.withheld == {"users": 1, "windows": 0}
    assert done.left_out == {
        "outside_windows": {"user_windows": 0, "requests": 0},
        "missing_location": {"user_windows": 1, "requests": 1},
        "small_window": {"user_windows": 0, "requests": 0},
        "suppressed": {"user_windows": 0, "requests": 0},
    }


def test_a_window_below_k_is_withheld_as_a_whole():
    rows = still("a", [0, 1, 2, 3], "ra") + still("b", [0, 1], "rb") + still("c", [2], "rc")
    done = complete(rows, k=2, length=2)
    assert [w.is_published for w in done.windows] == [True, False]
    assert done.withheld == {"users": 1, "windows": 1}
    assert done.left_out == {
        "outside_windows": {"user_windows": 0, "requests": 0},
        "missing_location": {"user_windows": 1, "requests": 1},
        "small_window": {"user_windows": 1, "requests": 2},
        "suppressed": {"user_windows": 0, "requests": 0},
    }


def test_suppressed_users_are_counted_apart():
    rows = still("a", [0, 1], "ra") + still("b", [0, 1]) + still("c", [0, 1], "rc")
    done = complete(rows, k=2, suppressed={("c", 0)})
    assert done.withheld["users"] == 0
    assert done.left_out["suppressed"] == {"user_windows": 1, "requests": 2}


def test_hold_lets_everybody_take_part_everywhere():
    rows = still("a", [0, 1, 2, 3]) + still("b", [1], "rb")
    done = complete(rows, k=2, length=2, missing="hold")
    assert all(sorted(w.participants) == ["a", "b"] for w in done.windows)
    assert done.withheld == {"users": 0, "windows": 0}


def test_users_are_known_at_the_first_instant_of_a_log_off_the_grid():
    rows = still("a", [3, 14, 23, 34], "r") + still("b", [4, 13, 24, 33])
    done = complete(rows, k=2, every=10)
    assert (done.origin, done.num_instants) == (10, 3)
    assert done.left_out["outside_windows"] == {"user_windows": 0, "requests": 1}
    assert complete(rows, k=2, every=10, missing="hold").num_instants == 4


def test_two_places_at_one_time_are_refused():
    with pytest.raises(ValueError, match="disagree"):
        complete([("a", 0, 1, 1, None), ("a", 0, 1, 2, None)], k=1)
