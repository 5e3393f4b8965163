"""Windows of dense trajectories, against the slow twin of the rules."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import trajcloak as tc
from reference import completion
from small_logs import REGION, Drawn, Row, draw_log, read_rows
from trajcloak.options import Options
from trajcloak.pipeline import prepare

HEIGHT = 4
SEEDS_PER_TEST = 40
ROUNDING = Fraction(1, 10**9)


def build_windows(drawn: Drawn, threads: int = 1):
    """Run the stages from rows to windows."""
    log = read_rows(drawn.rows)
    options = {name: value for name, value in drawn.options.items() if value is not None}
    for name in ("every", "max_gap"):
        if name in options:
            options[name] = str(options[name])
    asked = Options(k=2, region=REGION, height=HEIGHT, **options)
    return log, list(prepare(log, asked, threads).windows())


def complete(drawn: Drawn, k: int = 1):
    """Run the slow twin; with k = 1, so that it never stops because of too few users."""
    return completion.complete(drawn.rows, k=k, **drawn.options)


def is_in_cell(location: tuple[Fraction, Fraction], cell: list[int]) -> bool:
    """Whether a cell of side 1 holds an exact location, up to rounding."""
    return all(
        low + Fraction(i) - ROUNDING <= value <= low + Fraction(i) + 1 + ROUNDING
        for value, i, low in zip(location, cell, map(Fraction, REGION[:2]), strict=True)
    )


def check_windows(drawn: Drawn) -> int:
    """Compare with the slow twin; returns how many users take part, over all windows."""
    try:
        expected = complete(drawn)
    except ValueError as refused:
        if "no window has 1" not in str(refused):
            with pytest.raises(tc.TrajcloakError):
                build_windows(drawn)
            return 0
        expected = None
    log, windows = build_windows(drawn)
    if expected is None:
        assert all(len(window.user) == 0 for window in windows)
        return 0
    ids = log.users.to_pylist()
    kinds = log.requests.kinds["what"].to_pylist()
    assert [(w.number, w.start, w.stop) for w in windows] == [
        (w.number, w.start, w.stop) for w in expected.windows
    ]
    left_out = 0
    left_out_requests = 0
    for window, twin in zip(windows, expected.windows, strict=True):
        present = [ids[number] for number in window.user]
        assert present == sorted(twin.participants)
        for user, cells in zip(present, window.cells.tolist(), strict=True):
            located = zip(twin.participants[user], cells, strict=True)
            assert all(is_in_cell(location, cell) for location, cell in located)
        sent = Counter()
        for user, instant, kind in zip(
            window.request_user, window.request_instant, window.request_kind, strict=True
        ):
            sent[present[user], window.start + int(instant), kinds[kind]] += 1
        assert sent == Counter(
            (user, instant, request)
            for (user, instant), requests in expected.requests.items()
            if window.start <= instant < window.stop and user in twin.participants
            for request in requests
        )
        reporting = {
            row.user
            for row in drawn.rows
            if window.start
            <= completion.instant_of(row.time, expected.origin, expected.every)
            < window.stop
        }
        assert {
            user for user, is_there in zip(present, window.reported, strict=True) if is_there
        } == reporting & set(present)
        left_out += window.left_out_users
        left_out_requests += window.left_out_requests
    why = expected.left_out["missing_location"]
    assert (left_out, left_out_requests) == (why["user_windows"], why["requests"])
    return sum(len(window.user) for window in windows)


@pytest.mark.parametrize("first", range(0, 400, SEEDS_PER_TEST))
def test_windows_are_those_of_the_slow_twin(first):
    taking_part = [check_windows(draw_log(seed)) for seed in range(first, first + SEEDS_PER_TEST)]
    assert sum(taking_part) > SEEDS_PER_TEST, "the logs are too poor to show anything"


def test_the_random_logs_show_every_case():
    """The comparison covers every case: each is among the random logs."""
    seen = Counter()
    for seed in range(400):
        drawn = draw_log(seed)
        try:
            done = complete(drawn)
        except ValueError:
            seen["refused"] += 1
            continue
        times = {(row.user, row.time) for row in drawn.rows}
        on_grid = all((time - done.origin) % done.every == 0 for _, time in times)
        exact = all(
            (user, done.origin + instant * done.every) in times
            for window in done.windows
            for user in window.participants
            for instant in range(window.start, window.stop)
        )
        seen["on the grid" if on_grid else "off the grid"] += 1
        seen["interpolated or held"] += not exact
        seen["shorter last window"] += (
            len({w.stop - w.start for w in done.windows}) > 1 and done.num_instants > 1
        )
        seen["several windows"] += len(done.windows) > 1
        seen["someone left out"] += done.left_out["missing_location"]["user_windows"] > 0
        seen["repeated rows"] += len(times) < len(drawn.rows)
        seen["several requests at once"] += any(len(r) > 1 for r in done.requests.values())
        seen["hold"] += drawn.options["missing"] == "hold"
    assert min(seen.values()) >= 20, seen


@pytest.mark.parametrize("first", range(400, 440, 20))
def test_threads_do_not_change_windows(first):
    for seed in range(first, first + 20):
        drawn = draw_log(seed)
        try:
            _, expected = build_windows(drawn)
        except tc.TrajcloakError:
            continue
        for threads in (2, 5):
            _, actual = build_windows(drawn, threads)
            for one, other in zip(actual, expected, strict=True):
                assert one.user.tolist() == other.user.tolist()
                assert np.array_equal(one.cells, other.cells)


def walk(user, places, **requests):
    return [Row(user, time, x, x, requests.get(f"at_{time}")) for time, x in places.items()]


def test_interpolation_by_hand():
    rows = walk("a", {0: 0, 4: 8, 6: 9}) + walk("b", dict.fromkeys(range(7), 1))
    drawn = Drawn(rows, 2, {"every": 1, "max_gap": 4})
    _, (window,) = build_windows(drawn)
    assert window.cells[0, :, 0].tolist()[:5] == [0, 2, 4, 6, 8]
    assert window.user.tolist() == [0, 1]
    _, (window,) = build_windows(Drawn(rows, 2, {"every": 1, "max_gap": 3}))
    assert window.user.tolist() == [1]
    assert window.left_out_users == 1


def test_a_gap_wider_than_the_log_costs_nothing():
    rows = walk("a", {0: 0, 9: 9}) + walk("b", dict.fromkeys(range(10), 1))
    _, windows = build_windows(Drawn(rows, 2, {"every": 1, "max_gap": 10**12, "length": 4}))
    assert [window.user.tolist() for window in windows] == [[0, 1]] * 3
    assert windows[1].cells[0, :, 0].tolist() == [4, 5, 6, 7]
    assert [window.reported.tolist() for window in windows] == [
        [True, True],
        [False, True],
        [True, True],
    ]


def test_hold_by_hand():
    rows = walk("a", {3: 3, 4: 4, 8: 8}) + walk("b", dict.fromkeys(range(11), 1))
    options = {"every": 1, "max_gap": 1, "missing": "hold"}
    _, (window,) = build_windows(Drawn(rows, 2, options))
    assert window.cells[0, :, 0].tolist() == [3, 3, 3, 3, 4, 4, 4, 4, 8, 8, 8]
    _, windows = build_windows(Drawn(rows, 2, options | {"length": 2}))
    assert np.concatenate([w.cells[0, :, 0] for w in windows]).tolist() == [
        3, 3, 3, 3, 4, 4, 4, 4, 8, 8, 8,
    ]  # fmt: skip


@pytest.mark.parametrize("every", [None, 1, 2, 7], ids=str)
@pytest.mark.parametrize("length", [None, 1, 2], ids=str)
def test_two_places_at_one_time_are_refused(every, length):
    rows = walk("a", {0: 1, 1: 2, 2: 3, 3: 4}) + walk("secret", {0: 1, 1: 2, 2: 3})
    rows.append(Row("secret", 2, 3, 9))
    drawn = Drawn(rows, 2, {"every": every, "length": length})
    with pytest.raises(tc.InputError, match=r"rows 7 and 8: the same user and time") as caught:
        build_windows(drawn)
    assert "(1 such pairs in the log); expected one place" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_progress_ends_with_all_windows():
    log = read_rows(walk("a", dict.fromkeys(range(5), 1)))
    heard = []
    prepared = prepare(log, Options(k=2, length=2), threads=1)
    assert len(list(prepared.windows(lambda *call: heard.append(call)))) == 3
    assert heard[-1] == ("building trajectories", 3, 3)


def test_a_stray_time_makes_empty_windows():
    """Empty windows are skipped, and their missing locations are counted."""
    rows = [Row(user, time, user, 1) for user in range(4) for time in range(6)]
    stray = [*rows, Row(0, 60_000, 1, 1)]
    _, (first, *others, last) = build_windows(Drawn(stray, 2, {"every": 1, "length": 6}))
    assert first.user.tolist() == [0, 1, 2, 3]
    assert len(others) == 9_999
    assert all(window.located.missing == 24 for window in (*others[:3], *others[-3:]))
    assert last.user.tolist() == [0]
