"""Which rows stand out in a log that follows a schedule; requests are never looked at."""

import numpy as np
import pytest

import trajcloak as tc
from small_logs import Row, read_rows
from trajcloak.log import hold_in_memory
from trajcloak.trajectories.schedule import find_schedule


def find(rows):
    return find_schedule(hold_in_memory(read_rows(rows)))


def on_schedule(every=60):
    return [Row(f"u{u}", every * t, u, t) for u in range(9) for t in range(20)]


def test_rows_on_a_schedule():
    assert find(on_schedule())[:3] == (60, True, 0)


def test_missing_rows_are_no_exceptions():
    rng = np.random.default_rng(161)
    assert find([row for row in on_schedule() if rng.random() < 0.5]).odd_times == 0


@pytest.mark.parametrize(("second", "odd"), [(7, 2), (0, 1)], ids=["other time", "same time"])
def test_a_row_more_stands_out(second, odd):
    rows = on_schedule()
    rows.append(rows[5]._replace(time=rows[5].time + second))
    assert find(rows)[:3] == (60, True, odd)
    with pytest.raises(tc.InputError, match="most reports of a user come 60 apart"):
        tc.anonymize(read_rows(rows), 2, every="60")


def test_a_loose_schedule():
    rng = np.random.default_rng(162)
    rows = [row._replace(time=row.time + int(rng.integers(0, 7))) for row in on_schedule()]
    found = find(rows)
    assert not found.is_exact
    assert abs(found.step - 60) < 7
    assert found.odd_times == 0
    assert find([*rows, rows[5]._replace(time=rows[5].time + 20)]).odd_times > 0


def test_times_that_are_rounded_are_no_schedule():
    """Two rows of a user in one minute are nothing special where rows come at any time."""
    rng = np.random.default_rng(163)
    minutes = np.concatenate([rng.integers(0, 100_000, 300), [500, 501, 900, 901]])
    rows = [Row(f"u{u}", 60 * int(minute), u, 0) for u in range(9) for minute in minutes]
    rows += [row._replace(y=1) for row in rows[::10]]
    assert find(rows).odd_times == 0
