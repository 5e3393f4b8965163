"""The stop where rows follow a schedule with exceptions."""

import numpy as np
import pytest

import trajcloak as tc
from runs import anonymize
from small_logs import COLUMNS, UNIT_CELLS, Row, read_rows, write_parquet
from trajcloak.engines.engine import MemoryEngine, Sizes
from trajcloak.log import hold_in_memory, read_in_memory
from trajcloak.options import Options
from trajcloak.pipeline import anonymize_on
from trajcloak.trajectories import compare_all_reports
from trajcloak.trajectories.schedule import find_schedule

USERS = [f"u{i}" for i in range(6)]


def regular(step=60, num_times=5, phase=0):
    """A row of every user at every step, with places of whole numbers."""
    return [
        Row(user, phase + step * number, 2 * i, i, "r")
        for number in range(num_times)
        for i, user in enumerate(USERS)
    ]


def jittered(unit=1):
    """About every 60 seconds, each user at their own."""
    rng = np.random.default_rng(1)
    jitter = 5 * unit
    return [
        row._replace(time=unit * row.time + int(rng.integers(-jitter, jitter + 1)))
        for row in regular()
    ]


def irregular():
    rng = np.random.default_rng(2)
    return [
        Row(user, int(time), 2 * i, i, "r")
        for i, user in enumerate(USERS)
        for time in rng.choice(400, 8, replace=False)
    ]


def own_phases():
    """Every 60 seconds, but each user at another second."""
    return [row._replace(time=row.time + 7 * int(row.user[1:])) for row in regular()]


def seldom():
    """Every 60 seconds, but most rows are missing."""
    rng = np.random.default_rng(4)
    return [row for row in regular(num_times=60) if rng.random() < 0.2]


def rounded():
    """At any minute; two rows of a user in one minute are nothing special."""
    rng = np.random.default_rng(5)
    minutes = [*rng.integers(0, 20_000, 300).tolist(), 500, 501, 900, 901]
    rows = [Row(f"u{u}", 60 * minute, u, 0, "r") for u in range(9) for minute in minutes]
    return rows + rows[::10]


WITHOUT_EXCEPTIONS = {
    "seldom": seldom(),
    "rounded": rounded(),
    "regular": regular(),
    "with gaps": [row for number, row in enumerate(regular()) if number % 7],
    "jittered": jittered(),
    "jittered, in microseconds": jittered(10**6),
    "irregular": irregular(),
    "own phases": own_phases(),
    "one row each": [Row(user, 10 * i, i, i, "r") for i, user in enumerate(USERS)],
    "one row each, another time": [
        Row(user, 17 * i * i, i, i, "r") for i, user in enumerate(USERS)
    ],
}

LONE = Row("lone", 137, 3, 3, "r")
WITH_EXCEPTIONS = {
    "another time": ([*regular(), Row("u1", 97, 2, 1, "r")], "60 apart, and 2 times"),
    "beside a row that is seldom": ([*seldom(), Row("u1", 97, 2, 1, "r")], "60 apart, and 2 times"),
    "after the last": ([*regular(), Row("u1", 297, 2, 1, "r")], "60 apart, and 1 times"),
    "the same time twice": ([*regular(), regular()[8]], "60 apart, and 1 times"),
    "twice, and missing elsewhere": ([*regular()[:-1], regular()[8]], "60 apart, and 1 times"),
    "near a jittered one": ([*jittered(), Row("u1", 90, 2, 1, "r")], "about 60 apart, and 2 times"),
    "right after a jittered one": (
        [*jittered(10**6), jittered(10**6)[7]._replace(time=jittered(10**6)[7].time + 1)],
        "000 apart, and 1 times",
    ),
    "a user of one row": ([*regular(), LONE], "moment of each 60, and 1 do not"),
    "a user of other seconds": (
        [*regular(), LONE, LONE._replace(time=197)],
        "moment of each 60, and 2 do not",
    ),
    "a finer place": (
        [*regular()[:-1], regular()[-1]._replace(x=10.25)],
        "decimals, and 1 rows have another",
    ),
}


def find(rows):
    log = hold_in_memory(read_rows(rows))
    return find_schedule(log, compare_all_reports(log, 0))


@pytest.mark.parametrize("name", WITHOUT_EXCEPTIONS)
def test_nothing_stands_out(name):
    found = find(WITHOUT_EXCEPTIONS[name])
    assert found[2:] == (0, 0, 0)


@pytest.mark.parametrize("name", WITH_EXCEPTIONS)
def test_exceptions_stop_the_run_whichever_rows_carry_requests(name):
    rows, message = WITH_EXCEPTIONS[name]
    rng = np.random.default_rng(3)
    expected = refuse(rows)
    assert message in expected
    assert "request_log=" in expected
    assert "is_report=" in expected
    for share in (0, 0.1, 0.9):
        other = [row._replace(request="s" if rng.random() < share else None) for row in rows]
        assert refuse(other) == expected
    assert make_release(rows, rows_alike=True).manifest["parameters"]["rows_alike"]


def make_release(rows, **options):
    every = max(row.time for row in rows) // 4
    more = {"every": str(every), "missing": "hold", **UNIT_CELLS, **options}
    return anonymize(read_rows(rows), 2, **more)


def refuse(rows):
    with pytest.raises(tc.InputError) as caught:
        make_release(rows)
    return str(caught.value)


def test_logs_without_request_columns_may_have_exceptions(tmp_path):
    rows, _ = WITH_EXCEPTIONS["another time"]
    log = read_in_memory(write_parquet(tmp_path / "log.parquet", rows))
    more = {"every": "60", "missing": "hold", **UNIT_CELLS}
    assert anonymize(log, 2, **more).manifest["requests"] == 0


@pytest.mark.parametrize("name", {**WITHOUT_EXCEPTIONS, **WITH_EXCEPTIONS})
@pytest.mark.parametrize("rows_per_shard", [3, 11])
def test_shards_are_judged_together(tmp_path, name, rows_per_shard):
    rows = WITHOUT_EXCEPTIONS.get(name) or WITH_EXCEPTIONS[name][0]
    whole = find(rows)
    path = write_parquet(tmp_path / "log.parquet", rows)
    every = max(row.time for row in rows) // 4
    engine = MemoryEngine(1, sizes=Sizes(rows_per_shard, 100))
    asked = Options(k=2, every=str(every), missing="hold", **UNIT_CELLS)
    if not any(whole[2:]):
        anonymize_on(engine, path, COLUMNS, asked)
        return
    with pytest.raises(tc.InputError) as caught:
        anonymize_on(engine, path, COLUMNS, asked)
    assert str(caught.value) == refuse(rows)


def test_few_decimals_by_chance_do_not_stand_out():
    """One place in a hundred with seven decimals has fewer by chance."""
    rng = np.random.default_rng(4)
    places = np.round(rng.uniform(0, 15, (400, 2)), 7)
    rows = [Row(f"u{i}", 0, x, y, "r") for i, (x, y) in enumerate(places.tolist())]
    assert find(rows).odd_places == 0
    rounded = [row._replace(x=round(row.x, 2), y=round(row.y, 2)) for row in rows[:5]]
    assert find(rounded + rows[5:]).odd_places == 5
