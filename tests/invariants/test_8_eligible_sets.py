"""Invariant 8. What becomes of a request is decided by eligible sets, members and rows alone."""

from collections import defaultdict
from dataclasses import replace
from itertools import starmap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from guarantee.broken_runs import (
    all_sets,
    count_senders,
    find_types_of_all_values,
    leave_out_empty_columns,
    refuse_any_value,
    refuse_values_of_one_user,
)
from guarantee.movable_logs import KINDS, ONE_LOG, TWO_INPUTS, draw_movable, draw_requests
from guarantee.moves import (
    find_rows,
    find_sets,
    list_surviving,
    publish,
    rewrite_requests,
    rewrite_rows,
)
from invariants.common import require
from reference.publishing import Publisher, Rules
from trajcloak import bundles, pipeline
from zoo import first_quick

WORDS = {
    "numbers": ("7", "8", "1.5", "7.0", "007", "x"),
    "markers": ("(other)", "a", "b", "(OTHER)", "c"),
    "identifiers": ("a", "b", "c", "me@post.org", "+49 170 1234567", "u1"),
}
PER_TEST = 20


def draw(seed, kind):
    """Draw a log whose words decide about types, or look like identifiers."""
    log, _ = draw_movable(seed, kind)
    log = replace(log, words=list(WORDS.values())[seed % len(WORDS)], format="csv")
    log.options.pop("vocabulary", None)
    rng = np.random.default_rng(seed)
    return log, draw_requests(rng, log), seed


def check_invariant_8(log, requests, seed) -> bool:
    """Keep the eligible sets, and change all else that was sent, by whom, and how often.

    Returns whether something is published, which must be what the slow twin publishes.
    """
    blank = publish(log, [])
    if not isinstance(blank.files, dict):
        refused = publish(log, requests)
        require(refused == blank, "invariant 8: requests decide whether a run stops")
        return False
    rng = np.random.default_rng(seed)
    sets = find_sets(log, blank)
    if log.kind == ONE_LOG:
        moved = rewrite_rows(log, requests, find_rows(log, sets), rng)
    else:
        moved = rewrite_requests(log, requests, sets, rng)
    before, after = publish(log, requests), publish(log, moved)
    if not (isinstance(before.files, dict) and isinstance(after.files, dict)):
        require(after == before, "invariant 8: another refusal")
        return False
    one, other = (found.files["requests.parquet"] for found in (before, after))
    require(one == other, "invariant 8: other values, columns or types")
    actual, expected = list_entries(one), publish_slowly(log, requests, sets)
    require(sort_entries(actual) == sort_entries(expected), "invariant 8: not what the rules say")
    return bool(expected)


def publish_slowly(log, requests, sets):
    """List what the slow twin publishes, as text."""
    windows, bundles = defaultdict(list), defaultdict(dict)
    for instant, window in sets.window.items():
        windows[window].append(instant)
    for (window, user), bundle in sets.bundle.items():
        bundles[window].setdefault(bundle, set()).add(user)
    rare, below = log.options["rare"], log.options.get("rare_below", 2)
    rules = Rules(
        log.k,
        one_log=log.kind == ONE_LOG,
        rare=rare,
        rare_below=below,
        link_safe="link_safe" in log.options,
    )
    rows = list_surviving(log)
    publisher = Publisher(
        [find_place(sets, *log.reports[row][:2]) for row in rows], windows, bundles, rules
    )
    kept = set(rows) if log.kind == ONE_LOG else {request.row for request in requests}
    sent = [
        (*find_place(sets, *r[:2]), tuple(None if v is None else str(v) for v in r.values))
        for r in requests
        if r.row in kept
    ]
    return set(publisher.publish(sent).values())


def find_place(sets, user, time):
    for instant, start in sets.start.items():
        if start <= time < start + sets.every:
            return user, instant
    return user, None


def list_entries(file):
    table = pq.read_table(pa.BufferReader(file))
    return [
        (window, bundle, instant, tuple(None if v is None else str(v) for v in values))
        for window, bundle, instant, *values in zip(*table.to_pydict().values(), strict=True)
    ]


def sort_entries(entries):
    """List entries in order; numbers without decimals that are 0, as columns of floats have."""
    return sorted(
        repr((*place, [v and v.removesuffix(".0") for v in values])) for *place, values in entries
    )


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", first_quick(range(0, 6 * PER_TEST, PER_TEST), 1))
def test_invariant_8_eligible_sets_decide(first, kind):
    logs = [draw(seed, kind) for seed in range(first, first + PER_TEST)]
    assert sum(starmap(check_invariant_8, logs)) >= PER_TEST // 10


BREAKS_INVARIANT_8 = [
    (TWO_INPUTS, pipeline, "decide_requests", find_types_of_all_values),
    (TWO_INPUTS, pipeline, "decide_requests", leave_out_empty_columns),
    (TWO_INPUTS, pipeline, "decide_requests", count_senders),
    (ONE_LOG, pipeline, "decide_requests", count_senders),
    (TWO_INPUTS, pipeline, "check_values", refuse_any_value),
    (TWO_INPUTS, pipeline, "_collect_kinds", refuse_values_of_one_user),
    (ONE_LOG, bundles, "find_eligible", all_sets),
]


@pytest.mark.needs_jit
@pytest.mark.parametrize(
    ("kind", "module", "name", "breaks"),
    BREAKS_INVARIANT_8,
    ids=[f"{breaks.__name__}, {kind}" for kind, _, _, breaks in BREAKS_INVARIANT_8],
)
def test_invariant_8_is_seen_to_fail(monkeypatch, kind, module, name, breaks):
    monkeypatch.setattr(module, name, breaks(getattr(module, name)))
    logs = [draw(seed, kind) for seed in range(10 * PER_TEST)]
    with pytest.raises(AssertionError, match="invariant 8:"):
        list(starmap(check_invariant_8, logs))
