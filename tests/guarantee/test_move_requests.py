"""Move the request, keep the bytes: nothing published tells who of a bundle sent what."""

from dataclasses import replace
from itertools import starmap

import pytest

from engines.drawn_runs import build_folder_engine, draw_sizes
from guarantee.broken_runs import (
    add_rows_for_requests,
    all_sets,
    count_requests,
    count_senders,
    find_types_of_all_values,
    stop_at_odd_times,
    withhold_without_a_report,
)
from guarantee.movable_logs import KINDS, MARKED, ONE_LOG, TWO_INPUTS, draw_movable
from guarantee.moves import anonymize_in_memory, anonymize_with, check_moves
from trajcloak import bundles, pipeline
from trajcloak.engines.engine import MemoryEngine
from trajcloak.trajectories import layout, windows
from zoo import first_quick

PER_TEST = 20
NUM_TESTS = 15


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("test", first_quick(range(NUM_TESTS), 2))
def test_in_memory(test, kind):
    check_all(kind, test * PER_TEST, anonymize_in_memory)


def check_all(kind, first, anonymize):
    seeds = range(first, first + PER_TEST)
    released = [check_moves(*draw_movable(seed, kind), seed, anonymize) for seed in seeds]
    assert sum(released) >= PER_TEST // 2


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("test", range(1000, 1000 + NUM_TESTS))
def test_in_shards(test, kind):
    """Logs in many shards, and windows that are taken apart, also into blocks of ``refined``.

    How many shards there are depends on the requests.
    """
    sizes = replace(draw_sizes(test), bundles=(10**6, 1)[test % 2])

    def anonymize(given, folder):
        return anonymize_with(MemoryEngine(1, sizes=sizes), given)

    check_all(kind, test * PER_TEST, anonymize)


@pytest.mark.needs_jit
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_in_a_folder(kind):
    def anonymize(given, folder):
        return anonymize_with(build_folder_engine(folder, draw_sizes(1)), given)

    check_all(kind, 3000 * PER_TEST, anonymize)


BROKEN_RUNS = [
    (TWO_INPUTS, pipeline, "read_shards", add_rows_for_requests),
    (MARKED, pipeline, "read_shards", add_rows_for_requests),
    (TWO_INPUTS, windows, "collect_requests", withhold_without_a_report),
    (TWO_INPUTS, pipeline, "decide_requests", count_senders),
    (ONE_LOG, pipeline, "decide_requests", count_senders),
    (TWO_INPUTS, pipeline, "decide_requests", find_types_of_all_values),
    (TWO_INPUTS, pipeline, "build_manifest", count_requests),
    (ONE_LOG, pipeline, "build_manifest", count_requests),
    (TWO_INPUTS, layout, "lay_out", stop_at_odd_times),
    (ONE_LOG, layout, "lay_out", stop_at_odd_times),
    (ONE_LOG, bundles, "find_eligible", all_sets),
    (ONE_LOG, pipeline, "decide_requests", find_types_of_all_values),
]


@pytest.mark.needs_jit
@pytest.mark.parametrize(
    ("kind", "module", "name", "breaks"),
    [
        # The last is seen on few logs only.
        pytest.param(*run, marks=[pytest.mark.slow] * (run is BROKEN_RUNS[-1]))
        for run in BROKEN_RUNS
    ],
    ids=[f"{breaks.__name__}, {kind}" for kind, _, _, breaks in BROKEN_RUNS],
)
def test_a_broken_run_is_seen(monkeypatch, kind, module, name, breaks):
    monkeypatch.setattr(module, name, breaks(getattr(module, name)))
    logs = ((*draw_movable(seed, kind), seed) for seed in range(200))
    with pytest.raises(AssertionError, match="moved requests: "):
        list(starmap(check_moves, logs))
