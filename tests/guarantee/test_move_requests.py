"""Move the request, keep the bytes: nothing published tells who of a bundle sent what."""

from dataclasses import replace
from itertools import starmap

import numpy as np
import pytest

import trajcloak as tc
from engines.drawn_runs import draw_sizes
from guarantee.movable_logs import KINDS, MARKED, ONE_LOG, TWO_INPUTS, draw_movable
from guarantee.moves import anonymize_in_memory, anonymize_with, check_moves
from trajcloak import bundles, pipeline
from trajcloak.engines.folder import FolderEngine
from trajcloak.engines.memory import MemoryEngine
from trajcloak.log.request_values import infer_types
from trajcloak.log.sharded_log import build_shard, describe
from trajcloak.trajectories import windows
from zoo import first_quick

PER_TEST = 20
NUM_TESTS = 15


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("test", first_quick(range(NUM_TESTS), 3))
def test_in_memory(test, kind):
    check_all(kind, test * PER_TEST, anonymize_in_memory)


def check_all(kind, first, anonymize):
    seeds = range(first, first + PER_TEST)
    released = [check_moves(*draw_movable(seed, kind), seed, anonymize) for seed in seeds]
    assert sum(released) >= PER_TEST // 2


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("test", first_quick(range(1000, 1000 + NUM_TESTS), 2))
def test_in_shards(test, kind):
    """Logs in many shards, and windows that are taken apart."""
    sizes = draw_sizes(test)

    def anonymize(given, folder):
        return anonymize_with(MemoryEngine(1, sizes=sizes), given)

    check_all(kind, test * PER_TEST, anonymize)


@pytest.mark.needs_jit
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_in_a_folder(kind):
    def anonymize(given, folder):
        return anonymize_with(FolderEngine(folder, 1 << 30, 1, sizes=draw_sizes(1)), given)

    check_all(kind, 3000 * PER_TEST, anonymize)


def add_rows_for_requests(original):
    """A request of a second input adds a row, near its user's first: it shapes the region."""

    def read(*args):
        log = original(*args)
        shard = build_shard(log.shards[0])
        if shard.is_one_log or not shard.num_requests:
            return log
        first = np.unique(shard.user, return_index=True)[1][shard.request_user]
        columns = {
            "user": np.append(shard.user, shard.request_user),
            "time": np.append(shard.time, shard.request_time),
            "x": np.append(shard.x, shard.x[first] + 0.25),
            "y": np.append(shard.y, shard.y[first]),
        }
        x, y, time = columns["x"], columns["y"], columns["time"]
        shaped = replace(
            shard,
            **columns,
            bounds=(x.min(), y.min(), x.max(), y.max()),
            time_range=(int(time.min()), int(time.max())),
            file_row=np.arange(len(time)),
        )
        return replace(log, shards=[[shaped]], facts=describe(shaped))

    return read


def withhold_without_a_report(original):
    """A request of a user who has no report in its instant is withheld."""

    def collect(log, grid, start, chosen, user):
        reported = set(zip(log.user.tolist(), (log.time // grid.every).tolist(), strict=True))
        sent = zip(
            log.request_user[chosen].tolist(),
            (log.request_time[chosen] // grid.every).tolist(),
            strict=True,
        )
        has_report = np.array([place in reported for place in sent], np.bool_)
        return original(log, grid, start, chosen[has_report], user)

    return collect


def count_senders(original):
    """A request is rare if it was sent seldom."""

    def decide(engine, ranges, found, kinds, asked, **more):
        for window in found:
            is_shown = np.ones(kinds.num_rows, np.bool_)
            is_shown[window.kind[window.sent < asked.rare_below]] = False
            window.keep(is_shown)
        return original(engine, ranges, found, kinds, replace(asked, rare="keep"), **more)

    return decide


def find_types_of_all_values(original):
    """Types of text come from all requests of the log."""

    def decide(engine, ranges, found, kinds, asked, *, is_text):
        if is_text and asked.rare != "other":
            kinds = infer_types(kinds)
        return original(engine, ranges, found, kinds, asked, is_text=False)

    return decide


def count_requests(original):
    """The manifest says how many requests the log has."""

    def build(facts, *rest):
        return {**original(facts, *rest), "sent": facts.num_requests}

    return build


def stop_at_odd_times(original):
    """The run stops if a request was sent at an odd second."""

    def lay_out(log, asked):
        if any((times % 2).any() for times in log.ask(lambda shard: shard.request_time)):
            raise tc.InputError("odd times")
        return original(log, asked)

    return lay_out


def all_sets(original):
    """All sets of written bundles are published, whoever has a row."""

    def find(*args):
        return np.ones_like(original(*args))

    return find


BROKEN_RUNS = [
    (TWO_INPUTS, pipeline, "read_shards", add_rows_for_requests),
    (MARKED, pipeline, "read_shards", add_rows_for_requests),
    (TWO_INPUTS, windows, "collect_requests", withhold_without_a_report),
    (TWO_INPUTS, pipeline, "decide_requests", count_senders),
    (ONE_LOG, pipeline, "decide_requests", count_senders),
    (TWO_INPUTS, pipeline, "decide_requests", find_types_of_all_values),
    (ONE_LOG, pipeline, "decide_requests", find_types_of_all_values),
    (TWO_INPUTS, pipeline, "build_manifest", count_requests),
    (ONE_LOG, pipeline, "build_manifest", count_requests),
    (TWO_INPUTS, pipeline, "lay_out", stop_at_odd_times),
    (ONE_LOG, pipeline, "lay_out", stop_at_odd_times),
    (ONE_LOG, bundles, "find_eligible", all_sets),
]


@pytest.mark.needs_jit
@pytest.mark.parametrize(
    ("kind", "module", "name", "breaks"),
    BROKEN_RUNS,
    ids=[f"{breaks.__name__}, {kind}" for kind, _, _, breaks in BROKEN_RUNS],
)
def test_a_broken_run_is_seen(monkeypatch, kind, module, name, breaks):
    monkeypatch.setattr(module, name, breaks(getattr(module, name)))
    logs = [(*draw_movable(seed, kind), seed) for seed in range(200)]
    with pytest.raises(AssertionError, match="moved requests: "):
        list(starmap(check_moves, logs))
