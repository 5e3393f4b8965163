"""When a stream begins, and when its instants close: fewer than k wrong clocks decide nothing."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online.stream_runs import BOX, EVERY, SECOND, START, Walk, encode, run_stream
from trajcloak.online.stream_clock import FARTHEST_EVER, StreamClock, find_agreed_time
from trajcloak.online.stream_run import choose_stream_region
from zoo import examples

DAY = 24 * 3600
WALK = Walk(users=12, instants=11, seed=4)
SPAN = 3 * EVERY
"""What k users have to agree on, in the settings of :func:`run_stream`."""

times = st.integers(-(2 * FARTHEST_EVER), 2 * FARTHEST_EVER)


@given(k=st.integers(2, 5), data=st.data(), span=st.integers(0, 10**9), start=times)
@examples(200)
def test_fewer_than_k_wrong_clocks_are_outvoted(k, data, span, start):
    right = data.draw(st.lists(st.integers(start, start + span), min_size=k, max_size=3 * k))
    wrong = data.draw(st.lists(times, max_size=k - 1))
    agreed = find_agreed_time([*wrong, *right], k, span)
    assert agreed is not None
    assert min(right) - span <= agreed <= max(right)
    assert find_agreed_time([*wrong, start], k + 1, span) is None


@given(k=st.integers(2, 5), data=st.data())
@examples(200)
def test_fewer_than_k_users_close_nothing(k, data):
    clock = StreamClock(k, EVERY * SECOND, 4 * EVERY * SECOND, START * SECOND)
    users = st.sampled_from([f"user {n}" for n in range(k - 1)])
    for user, time in data.draw(st.lists(st.tuples(users, times), max_size=50)):
        clock.see(user, START * SECOND + time)
        assert not clock.is_over
        assert not clock.is_lost


def report(user, time, **place):
    return {"kind": "report", "user_id": user, "time": time, **(place or {"x": 1, "y": 1})}


@pytest.mark.parametrize("ahead", [EVERY, DAY // 2, 10 * DAY, 10**9])
@pytest.mark.parametrize("k", [2, 3, 6])
def test_clocks_that_are_ahead_do_not_decide_when_a_stream_begins(tmp_path, k, ahead):
    lines = WALK.list_lines()
    wrong = [report(f"wrong {n}", START + ahead) for n in range(k - 1)]
    expected = run_stream(tmp_path / "run", lines, k=k).published
    found = run_stream(tmp_path / "wrong", wrong + lines, k=k).published
    moments = [{(row["t_start"], row["instant"]) for row in rows} for rows in (expected, found)]
    assert moments[0] == moments[1]


@pytest.mark.parametrize("behind", [EVERY, SPAN - 1, DAY // 2, 10 * DAY, START])
@pytest.mark.parametrize("k", [2, 3, 6])
def test_clocks_that_are_behind_do_not_keep_a_stream_from_beginning(tmp_path, k, behind):
    lines = WALK.list_lines()
    wrong = [report(f"wrong {n}", START - behind) for n in range(k - 1)]
    expected = run_stream(tmp_path / "run", lines, k=k).published
    found = run_stream(tmp_path / "wrong", wrong + lines, k=k).published
    starts = [sorted({row["t_start"] for row in rows}) for rows in (expected, found)]
    assert starts[0][-1] == starts[1][-1]
    assert set(starts[0][3:]) <= set(starts[1])
    assert found[0]["instant"] % 3 == 0


@pytest.mark.parametrize("pause", [DAY // 12, 3 * DAY, 10 * DAY])
def test_a_stream_goes_on_after_a_long_pause(tmp_path, pause):
    """Such as a weekend, on which nobody reports anything."""
    lines = WALK.list_lines()
    later = [{**line, "time": line["time"] + pause} for line in Walk(12, 20, 5).list_lines(11)]
    run = run_stream(tmp_path / "run", lines + later)
    before = run_stream(tmp_path / "before", lines).published
    assert run.published[: len(before)] == before
    instants = [row["instant"] for row in run.published]
    assert sum(instant > pause // EVERY for instant in set(instants)) >= 9
    assert instants == sorted(instants)
    shown = [(row["instant"], row["bundle_id"]) for row in run.published]
    assert len(shown) == len(set(shown))
    assert run.audit().passed


def test_requests_do_not_make_a_stream_begin_anew(tmp_path):
    lines = WALK.list_lines()
    far = [
        {"kind": "request", "user_id": f"user {n % 12}", "time": START + 3 * DAY + n}
        for n in range(500)
    ]
    sent = [{**line, "category": "food"} for line in far]
    run = run_stream(tmp_path / "run", lines)
    again = run_stream(tmp_path / "again", lines[:200] + sent + lines[200:])
    assert again.published == run.published
    assert again.counts["early"] == 500


def test_wrong_clocks_of_many_do_not_move_a_stream_that_goes_on(tmp_path):
    """k devices that are always far ahead, among more that are not."""
    lines = WALK.list_lines()
    mixed = []
    for line in lines:
        mixed.append(line)
        if line["kind"] == "report" and line["user_id"] in {f"user {n}" for n in range(4)}:
            mixed += [{**line, "user_id": "far " + line["user_id"], "time": line["time"] + 9 * DAY}]
    run = run_stream(tmp_path / "run", lines)
    assert run_stream(tmp_path / "mixed", mixed).published == run.published


@pytest.mark.parametrize("every", [3600, DAY, 3 * DAY])
def test_instants_may_be_long(tmp_path, every):
    lines = WALK.list_lines()
    first = START // every * every
    slow = [{**line, "time": first + (line["time"] - START) / EVERY * every} for line in lines]
    expected = run_stream(tmp_path / "run", lines, box=BOX)
    found = run_stream(tmp_path / "slow", slow, box=BOX, every=every * SECOND)
    instants = [[row["instant"] for row in run.published] for run in (expected, found)]
    assert instants[0] == instants[1]


@pytest.mark.parametrize("place", [{"lon": 1, "lat": 1}, {"lon": "?"}, {}])
def test_fewer_than_k_users_do_not_decide_what_places_are(tmp_path, place):
    lines = WALK.list_lines()
    odd = [{**report(f"odd {n}", START), "x": None, "y": None, **place} for n in range(2)]
    run = run_stream(tmp_path / "run", lines)
    again = run_stream(tmp_path / "again", odd + lines)
    assert again.published == run.published
    assert again.counts.get("no usable place", 0) == (0 if place.get("lon") == 1 else 2)
    later = run_stream(tmp_path / "later", lines[:50] + odd + lines[50:])
    assert later.published == run.published
    assert later.counts["no usable place"] == 2


def test_degrees_are_taken_where_k_users_report_them(tmp_path):
    lines = [
        {**line, "lon": 13 + line.pop("x") / 1e4, "lat": 52 + line.pop("y") / 1e4}
        if "x" in line
        else line
        for line in WALK.list_lines()
    ]
    odd = [report(f"odd {n}", START) for n in range(2)]
    run = run_stream(tmp_path / "run", odd + lines, box=None)
    assert run.published
    start = json.loads((run.state / "stream.json").read_text())["start"]
    assert start["geographic"]
    assert "+lat_0=52" in start["crs"]


@pytest.mark.parametrize("x", [1e308, -1e308, 1e150, 1e12, 1e5])
@pytest.mark.parametrize("k", [2, 5])
def test_places_that_fewer_than_k_users_make_up_do_not_decide_the_region(tmp_path, k, x):
    lines = WALK.list_lines()
    false = [report(f"false {n}", START, x=x * (-1) ** n, y=-x) for n in range(k - 1)]
    run = run_stream(tmp_path / "run", encode(false + lines), box=None, k=k)
    assert run.published
    assert json.loads((run.state / "stream.json").read_text())["start"]["region"]["side"] < 2000


def test_places_on_the_other_side_of_the_globe_do_not_decide_the_region():
    places = np.array([[13 + n / 1000, 52.0] for n in range(4)] + [[13.0 - 180, -52.0]])
    region, _ = choose_stream_region(places, None, None, 2, geographic=True)
    assert region.side < 30_000
