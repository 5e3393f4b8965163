"""The grid of instants: origin, step, durations as text."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from reference.completion import default_every, grid_origin, instant_of
from small_logs import Row, draw_log, read_rows
from trajcloak.log import hold_in_memory
from trajcloak.trajectories import TimeGrid, build_time_grid, format_duration, parse_duration


def still(user, times):
    return [Row(user, time, 1, 1) for time in times]


@pytest.mark.parametrize(
    ("rows", "every", "expected"),
    [
        (still("a", [7, 17, 37]), 10, TimeGrid(7, 10, 4, True)),
        (still("a", [7, 18, 37]), 10, TimeGrid(10, 10, 3, False)),
        (still("a", [-3, 18]), 10, TimeGrid(0, 10, 2, False)),
        (still("a", [-10, 10]), 10, TimeGrid(-10, 10, 3, True)),
        (still("a", [5, 6, 7]), 100, TimeGrid(0, 100, 1, False)),
        (still("a", [5]), 100, TimeGrid(5, 100, 1, True)),
        (still("a", [5, 15, 45]), None, TimeGrid(5, 10, 5, True)),
        (still("a", [3]) + still("b", [3]), None, TimeGrid(3, 1, 1, True)),
        (still("a", [0, 1]) + still("b", [100, 101]), None, TimeGrid(0, 1, 102, True)),
    ],
)
def test_a_grid(rows, every, expected):
    assert build_time_grid(hold_in_memory(read_rows(rows)), every) == expected


@pytest.mark.parametrize(
    ("rows", "is_filled"),
    [
        (still("a", [0, 10, 100]), False),
        (still("a", [0, 10, 30]), True),
        (still("a", [0, 10, 50]), True),
        (still("a", [0, 10, 60]), False),
        (still("a", [0, 60]) + still("b", range(0, 70, 10)), True),
        (still("a", [0, 10, 10, 10, 10, 60]), True),
        (still("a", [0, 60]) + still("b", [10]), False),
        (still("a", [0]) + still("b", [7]) + still("c", [1000]), True),
    ],
)
def test_the_logs_own_step_is_used_if_reports_fill_half_of_it(rows, is_filled):
    log = read_rows(rows)
    if is_filled:
        assert build_time_grid(hold_in_memory(log), None).every == default_every(rows)
        return
    with pytest.raises(tc.InputError, match=r"fill only .*% of its finest time grid; expected"):
        build_time_grid(hold_in_memory(log), None)
    with pytest.raises(ValueError, match="every must be given"):
        default_every(rows)


def test_instants_start_before_the_first_report_where_users_are_held():
    rows = still("a", [7, 18, 37])
    assert build_time_grid(hold_in_memory(read_rows(rows)), 10, hold=True) == TimeGrid(
        0, 10, 4, False
    )
    assert grid_origin([7, 18, 37], 10, "hold") == 0


def test_three_users_a_year_apart_have_a_step_but_too_many_instants():
    log = read_rows(still("a", [0]) + still("b", [7]) + still("c", [10**15]))
    with pytest.raises(tc.InputError, match=r"1,0.*,001 instants from one to the other.*every="):
        build_time_grid(hold_in_memory(log), None)


def test_a_time_far_from_all_others_is_named():
    """It would create instants without rows, more than fit into memory."""
    rows = still("a", range(30)) + still("b", [2**21])
    with pytest.raises(
        tc.InputError, match=r"parquet: rows 1 and 31: there are 2,097,153 instants .* 31 rows"
    ):
        build_time_grid(hold_in_memory(read_rows(rows)), 1)
    assert build_time_grid(hold_in_memory(read_rows(rows)), 4).num_instants == 2**19 + 1


@pytest.mark.parametrize(
    ("times", "row"), [([-62_135_596_797, -62_135_596_790], 1), ([0, 253_402_300_799], 2)]
)
def test_instants_that_no_calendar_knows_are_refused(times, row):
    log = read_rows(still("a", [time * 10**6 for time in times]), pa.timestamp("us"))
    with pytest.raises(
        tc.InputError, match=rf"parquet: row {row}: an instant is out of range; .* 9999"
    ):
        build_time_grid(hold_in_memory(log), 7 * 86400 * 10**6, hold=True)


def test_whole_numbers_that_cannot_be_counted_on_are_refused():
    log = read_rows(still("a", [2**31, 2**62]))
    with pytest.raises(
        tc.InputError, match=r"parquet: row 2: an instant is out of range; .* 2\^62"
    ):
        build_time_grid(hold_in_memory(log), None)


@pytest.mark.parametrize("seed", range(120))
def test_grids_are_those_of_the_slow_twin(seed):
    drawn = draw_log(seed)
    rows, every = drawn.rows, drawn.options["every"]
    log = read_rows(rows)
    if every is None:
        try:
            every = default_every(rows)
        except ValueError:
            with pytest.raises(tc.InputError, match="finest time grid"):
                build_time_grid(hold_in_memory(log), None)
            return
    grid = build_time_grid(hold_in_memory(log), drawn.options["every"])
    times = [row.time for row in rows]
    assert (grid.origin, grid.every) == (grid_origin(times, every), every)
    assert grid.num_instants == instant_of(max(times), grid.origin, every) + 1
    assert grid.on_grid == all((time - grid.origin) % every == 0 for time in times)


def test_moments_are_microseconds():
    log = read_rows(still("a", [90 * 10**6, 120 * 10**6]), pa.timestamp("us"))
    assert build_time_grid(hold_in_memory(log), 60 * 10**6) == TimeGrid(
        120 * 10**6, 60 * 10**6, 1, False
    )
    assert build_time_grid(hold_in_memory(log), None) == TimeGrid(90 * 10**6, 30 * 10**6, 2, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60s", 60 * 10**6),
        ("1500ms", 1_500_000),
        (" 5 m ", 300 * 10**6),
        ("1h", 3600 * 10**6),
        ("2min", 120 * 10**6),
        ("3 hours", 3 * 3600 * 10**6),
        ("2d", 2 * 86400 * 10**6),
        ("7us", 7),
    ],
)
def test_durations(text, expected):
    assert parse_duration(text, has_timestamps=True, name="every") == expected


@pytest.mark.parametrize(
    "text", ["", "0s", "60", "-5s", "1.5s", "s", "5 parsecs", "5S", "60s60s", "1" * 30 + "d", "٣s"]
)
def test_durations_that_are_none(text):
    with pytest.raises(tc.OptionError, match=r"every=") as caught:
        parse_duration(text, has_timestamps=True, name="every")
    assert "expected a duration such as 60s" in str(caught.value)


@pytest.mark.parametrize("text", ["", "0", "60s", "-5", "1.5", "True", "9" * 25])
def test_numbers_of_instants_that_are_none(text):
    with pytest.raises(tc.OptionError, match="integer instants, so expected a whole number"):
        parse_duration(text, has_timestamps=False, name="max-gap")


@given(st.integers(1, 10**15), st.booleans())
def test_durations_survive_being_written(value, has_timestamps):
    text = format_duration(value, has_timestamps=has_timestamps)
    assert isinstance(text, str) == has_timestamps
    assert parse_duration(str(text), has_timestamps=has_timestamps, name="every") == value
