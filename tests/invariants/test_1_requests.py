"""Invariant 1. Requests never decide who is bundled with whom."""

import contextlib
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from invariants.common import EXAMPLE, property_test, require, run
from small_logs import Drawn, dense_logs, draw_log
from trajcloak.algorithms import Policy
from trajcloak.bundles import build_bundles
from trajcloak.bundling import runs
from trajcloak.cloaks import build_bounding_boxes


def check_invariant_1(drawn: Drawn, seed: int) -> None:
    """Exchange the requests, blank some, blank all, add some: members and cloaks stay."""
    rng = np.random.default_rng(seed)
    before = run(drawn)
    requests = [row.request for row in drawn.rows]
    shuffled = [requests[i] for i in rng.permutation(len(requests))]
    fewer = [None if rng.random() < 0.5 else request for request in requests]
    for changed in (shuffled, fewer, [None] * len(requests), ["new"] * len(requests)):
        rows = [row._replace(request=r) for row, r in zip(drawn.rows, changed, strict=True)]
        after = run(replace(drawn, rows=rows))
        require(after.members == before.members, "invariant 1: other requests, other members")
        require(
            after.files["bundles.parquet"] == before.files["bundles.parquet"],
            "invariant 1: other requests, other bundles",
        )
        require(after.policy.equals(before.policy), "invariant 1: other requests, other policy")


def test_invariant_1_requests_never_decide_who_is_bundled_with_whom():
    @property_test(60)
    @given(dense_logs(), st.integers(0, 1000))
    def holds(drawn, seed):
        check_invariant_1(drawn, seed)

    holds()


@pytest.mark.parametrize("seed", range(20))
def test_invariant_1_with_gaps_windows_and_suppression(seed):
    drawn = draw_log(seed)
    drawn.options["max_suppressed"] = 0.3
    with contextlib.suppress(tc.TrajcloakError):
        check_invariant_1(drawn, seed)


def merge_if_something_was_sent(window, ids, policy, num_kinds, k, rare=None, threads=1):
    """One bundle for all, unless nobody sent a request."""
    if len(window.request_kind) and policy.num_bundles > 1:
        everyone = np.zeros_like(policy.bundle)
        policy = Policy(everyone, build_bounding_boxes(window.cells, everyone, 1, 1))
    return build_bundles(window, ids, policy, num_kinds, k)


def number_by_requests(window, ids, policy, num_kinds, k, rare=None, threads=1):
    """Bundles in the order of how much they sent."""
    counts = np.bincount(policy.bundle[window.request_user], minlength=policy.num_bundles)

    def order(cloaks, sizes):
        return np.argsort(-counts, kind="stable")

    with mock.patch("trajcloak.bundles.order_by_cloaks", order):
        return build_bundles(window, ids, policy, num_kinds, k)


def leave_out_who_sent_nothing(window, ids, policy, num_kinds, k, rare=None, threads=1):
    """Suppress one of those who sent nothing from each bundle that can spare it."""
    silent = np.setdiff1d(np.arange(len(policy.bundle)), window.request_user)
    bundle = policy.bundle.copy()
    for user in silent[:1]:
        bundle[user] = -1
    return build_bundles(window, ids, Policy(bundle, policy.cloaks), num_kinds, k - 1)


@pytest.mark.parametrize(
    "broken", [merge_if_something_was_sent, number_by_requests, leave_out_who_sent_nothing]
)
def test_invariant_1_is_seen_to_fail(monkeypatch, broken):
    check_invariant_1(EXAMPLE, 5)
    monkeypatch.setattr(runs, "build_bundles", broken)
    with pytest.raises(AssertionError, match="invariant 1:"):
        check_invariant_1(EXAMPLE, 5)
