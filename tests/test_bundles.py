"""Bundles, built from a policy and requests."""

import numpy as np
import pyarrow as pa
import pytest

from trajcloak.algorithms import Policy
from trajcloak.bundles import build_bundles as build_all
from trajcloak.cloaks import order_by_cloaks
from trajcloak.trajectories import Window


def build_window(num_users, length, requests, *, has_row=None, number=2, start=10):
    """A window; ``requests`` are (user, instant, kind)."""
    columns = np.array(requests, np.int32).reshape(-1, 3).T
    return Window(
        number=number,
        start=start,
        stop=start + length,
        user=np.arange(num_users, dtype=np.int32) + 100,
        reported=np.ones(num_users, np.bool_),
        has_row=has_row,
        cells=np.zeros((num_users, length, 2), np.uint32),
        request_user=columns[0],
        request_instant=columns[1],
        request_kind=columns[2],
        left_out_users=0,
        left_out_requests=0,
    )


def build_bundles(window, policy, num_kinds, k, **options):
    """Bundle users whose ids are their numbers; returns also what is left out."""
    ids = pa.array(window.user)
    bundles, left_out, _ = build_all(window, ids, policy, num_kinds, k, **options)
    return bundles, left_out


def list_members(bundles):
    """List the members of each bundle."""
    ends = np.cumsum(bundles.sizes)[:-1]
    return [part.tolist() for part in np.split(bundles.ids.to_numpy(), ends)]


def build_policy(bundle, cloaks):
    return Policy(np.array(bundle, np.int32), np.array(cloaks, np.uint32))


def sets_of(bundles):
    return list(
        zip(
            bundles.request_bundle.tolist(),
            bundles.request_instant.tolist(),
            bundles.request_kind.tolist(),
            strict=True,
        )
    )


def test_bundles_by_hand():
    cloaks = [[[4, 4, 6, 6], [0, 0, 1, 1]], [[1, 9, 2, 10], [3, 3, 4, 4]]]
    policy = build_policy([0, 1, -1, 0, 1], cloaks)
    sent = [(0, 1, 5), (3, 1, 5), (3, 0, 7), (1, 1, 0), (2, 0, 3), (1, 1, 2), (4, 1, 0)]
    bundles, left_out = build_bundles(build_window(5, 2, sent), policy, num_kinds=8, k=2)
    assert (bundles.window, bundles.start, bundles.stop) == (2, 10, 12)
    assert bundles.cloaks.tolist() == [cloaks[1], cloaks[0]]
    assert list_members(bundles) == [[101, 104], [100, 103]]
    assert bundles.sizes.tolist() == [2, 2]
    assert sets_of(bundles) == [(0, 1, 0), (0, 1, 2), (1, 0, 7), (1, 1, 5)]
    assert left_out.suppressed_requests == 1


def test_no_requests_at_all():
    policy = build_policy([0, 0], [[[0, 0, 1, 1]]])
    bundles, left_out = build_bundles(build_window(2, 1, []), policy, num_kinds=0, k=2)
    assert sets_of(bundles) == []
    assert left_out.suppressed_requests == 0


@pytest.mark.parametrize("bundle", [[0, 0, 1], [0, 1, 1], [0, -1, -1], [0, 0, 2, 2, 1]])
def test_a_bundle_below_k_ends_the_run(bundle):
    cloaks = [[[0, 0, 1, 1]]] * (max(bundle) + 1)
    with pytest.raises(AssertionError, match="a bundle has 1 users, fewer than 2"):
        build_bundles(build_window(len(bundle), 1, []), build_policy(bundle, cloaks), 0, 2)


def test_an_empty_bundle_is_below_k():
    policy = build_policy([0, 0], [[[0, 0, 1, 1]], [[0, 0, 1, 1]]])
    with pytest.raises(AssertionError, match="a bundle has 0 users, fewer than 2"):
        build_bundles(build_window(2, 1, []), policy, 0, 2)


def test_a_bundle_below_the_members_asked_for_ends_the_run():
    window, policy = build_window(3, 1, []), build_policy([0, 0, 0], [[[0, 0, 1, 1]]])
    build_bundles(window, policy, 0, 2, members=3)
    with pytest.raises(AssertionError, match="a bundle has 3 users, fewer than 4"):
        build_bundles(window, policy, 0, 2, members=4)


def test_a_set_with_too_few_reporters_is_withheld():
    policy = build_policy([0, 0, 0, 1, 1], [[[0, 0, 1, 1]] * 3, [[2, 2, 3, 3]] * 3])
    has_row = np.array(
        [[1, 1, 0], [1, 0, 1], [0, 0, 1], [1, 1, 1], [1, 1, 0]],
        np.bool_,
    )
    sent = [(0, 0, 4), (0, 1, 5), (1, 2, 6), (2, 2, 6), (3, 1, 7), (3, 2, 7)]
    window = build_window(5, 3, sent, has_row=has_row)
    bundles, left_out = build_bundles(window, policy, num_kinds=8, k=2, keeps_rows=True)
    assert sets_of(bundles) == [(0, 0, 4), (0, 2, 6), (1, 1, 7)]
    assert (left_out.few_reporters, left_out.sets) == (2, 2)
    assert left_out.kind.tolist() == [4, 6, 7]
    assert left_out.sent.tolist() == [1, 2, 1]
    assert bundles.has_row.tolist() == has_row.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_bundles_are_those_of_plain_loops(seed):
    rng = np.random.default_rng(seed)
    num_bundles, length, num_kinds = rng.integers(1, 7), rng.integers(1, 4), rng.integers(1, 9)
    bundle = np.repeat(np.arange(num_bundles), rng.integers(2, 5, size=num_bundles))
    bundle = rng.permutation(np.concatenate([bundle, np.full(rng.integers(0, 3), -1)]))
    corner = rng.integers(0, 3, size=(num_bundles, length, 2))
    cloaks = np.concatenate([corner, corner + rng.integers(1, 300, size=corner.shape)], axis=2)
    sent = [
        tuple(int(rng.integers(0, most)) for most in (len(bundle), length, num_kinds))
        for _ in range(rng.integers(0, 40))
    ]
    policy = build_policy(bundle, cloaks)
    has_row = rng.random((len(bundle), length)) < 0.7 if seed % 2 else None
    actual, left_out = build_bundles(
        build_window(len(bundle), int(length), sent, has_row=has_row),
        policy,
        int(num_kinds),
        2,
        threads=1 + seed % 3,
    )

    sizes = [int((bundle == b).sum()) for b in range(num_bundles)]
    order = sorted(range(num_bundles), key=lambda b: (cloaks[b].tolist(), sizes[b]))
    number = {b: position for position, b in enumerate(order)}
    assert actual.sizes.tolist() == [sizes[b] for b in order]
    assert actual.cloaks.tolist() == [cloaks[b].tolist() for b in order]
    members = [[100 + u for u in range(len(bundle)) if bundle[u] == b] for b in order]
    assert list_members(actual) == members
    eligible = [
        (b, i)
        for b in range(num_bundles)
        for i in range(length)
        if has_row is None or sum(has_row[u, i] for u in np.flatnonzero(bundle == b)) >= 2
    ]
    shown = [(bundle[u], i, kind) for u, i, kind in sent if (bundle[u], i) in eligible]
    assert sets_of(actual) == sorted({(number[b], i, kind) for b, i, kind in shown})
    kinds = [kind for _, _, kind in shown]
    assert left_out.kind.tolist() == sorted(set(kinds))
    assert left_out.sent.tolist() == [kinds.count(kind) for kind in sorted(set(kinds))]
    assert left_out.sets == num_bundles * length - len(eligible)
    num_suppressed = sum(bundle[user] < 0 for user, _, _ in sent)
    assert left_out.suppressed_requests == num_suppressed
    assert left_out.few_reporters == len(sent) - num_suppressed - len(shown)


@pytest.mark.parametrize("seed", range(20))
def test_order_is_that_of_numbers_not_of_their_text_or_bytes(seed):
    rng = np.random.default_rng(seed)
    cloaks = rng.choice([0, 1, 255, 256, 2**16, 2**24, 2**32 - 1], size=(30, 2, 4)).astype("u4")
    sizes = rng.choice([2, 255, 256, 2**30], size=30).astype(np.int32)
    expected = sorted(range(30), key=lambda b: (cloaks[b].tolist(), int(sizes[b]), b))
    assert order_by_cloaks(cloaks, sizes).tolist() == expected
