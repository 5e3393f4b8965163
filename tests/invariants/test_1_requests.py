"""Invariant 1. Requests never decide who is bundled with whom, nor anything about rows."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from invariants.common import EXAMPLE, property_test, require, run
from small_logs import Drawn, Published, dense_logs, draw_log
from trajcloak import pipeline
from trajcloak.algorithms import Policy
from trajcloak.bundles import build_bundles
from trajcloak.bundling import runs
from trajcloak.cloaks import build_bounding_boxes
from trajcloak.trajectories import build_ingest, layout


def check_invariant_1(drawn: Drawn, seed: int) -> bool:
    """Exchange the requests, blank some, blank all, add some: all but requests stays.

    Returns whether there is a release. Otherwise the error must be the same.
    """
    rng = np.random.default_rng(seed)
    before = run_or_refuse(drawn)
    requests = [row.request for row in drawn.rows]
    shuffled = [requests[i] for i in rng.permutation(len(requests))]
    fewer = [None if rng.random() < 0.5 else request for request in requests]
    for changed in (shuffled, fewer, [None] * len(requests), ["new"] * len(requests)):
        rows = [row._replace(request=r) for row, r in zip(drawn.rows, changed, strict=True)]
        after = run_or_refuse(replace(drawn, rows=rows))
        if isinstance(before, str) or isinstance(after, str):
            require(after == before, "invariant 1: other requests, another error")
            continue
        require(after.members == before.members, "invariant 1: other requests, other members")
        require(
            after.files["bundles.parquet"] == before.files["bundles.parquet"],
            "invariant 1: other requests, other bundles",
        )
        require(after.policy.equals(before.policy), "invariant 1: other requests, other policy")
        require(
            {**after.manifest, "requests": 0} == {**before.manifest, "requests": 0},
            "invariant 1: other requests, other figures about rows and users",
        )
    return not isinstance(before, str)


def run_or_refuse(drawn: Drawn) -> Published | str:
    """Run, or return the error."""
    try:
        return run(drawn)
    except tc.TrajcloakError as error:
        return repr(error)


def test_invariant_1_requests_never_decide_who_is_bundled_with_whom():
    @property_test(60)
    @given(dense_logs(), st.integers(0, 1000))
    def holds(drawn, seed):
        check_invariant_1(drawn, seed)

    holds()


def test_invariant_1_with_gaps_windows_and_suppression():
    released = 0
    for seed in range(30):
        drawn = draw_log(seed)
        drawn.options.update(max_suppressed=0.3, rows_alike=seed % 5 > 0)
        released += check_invariant_1(drawn, seed)
    assert released >= 10


def merge_if_something_was_sent(window, ids, policy, num_kinds, k, **more):
    """One bundle for all, unless nobody sent a request."""
    if len(window.request_kind) and policy.num_bundles > 1:
        everyone = np.zeros_like(policy.bundle)
        policy = Policy(everyone, build_bounding_boxes(window.cells, everyone, 1, 1))
    return build_bundles(window, ids, policy, num_kinds, k, **more)


def number_by_requests(window, ids, policy, num_kinds, k, **more):
    """Bundles in the order of how much they sent."""
    counts = np.bincount(policy.bundle[window.request_user], minlength=policy.num_bundles)

    def order(cloaks, sizes):
        return np.argsort(-counts, kind="stable")

    with mock.patch("trajcloak.bundles.order_by_cloaks", order):
        return build_bundles(window, ids, policy, num_kinds, k, **more)


def leave_out_who_sent_nothing(window, ids, policy, num_kinds, k, **more):
    """Suppress one of those who sent nothing from each bundle that can spare it."""
    silent = np.setdiff1d(np.arange(len(policy.bundle)), window.request_user)
    bundle = policy.bundle.copy()
    for user in silent[:1]:
        bundle[user] = -1
    return build_bundles(window, ids, Policy(bundle, policy.cloaks), num_kinds, k, members=k - 1)


def count_requests(facts, *rest):
    """The manifest counts requests as if they were rows."""
    return build_ingest(replace(facts, num_rows=facts.num_rows + facts.num_requests), *rest)


def stop_if_something_was_sent(log, reports):
    """A schedule is asked for only where rows carry requests."""
    if log.facts.num_requests:
        raise tc.InputError("rows with requests")


BREAKS_INVARIANT_1 = [
    (runs, "build_bundles", merge_if_something_was_sent),
    (runs, "build_bundles", number_by_requests),
    (runs, "build_bundles", leave_out_who_sent_nothing),
    (pipeline, "build_ingest", count_requests),
    (layout, "check_schedule", stop_if_something_was_sent),
]


@pytest.mark.parametrize("broken", BREAKS_INVARIANT_1, ids=lambda broken: broken[2].__name__)
def test_invariant_1_is_seen_to_fail(monkeypatch, broken):
    drawn = replace(EXAMPLE, options={"rows_alike": False})
    assert check_invariant_1(drawn, 5)
    monkeypatch.setattr(*broken)
    with pytest.raises(AssertionError, match="invariant 1:"):
        check_invariant_1(drawn, 5)
