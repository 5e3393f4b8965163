"""Invariant 2. The same bytes whatever the order of rows, threads or names."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from invariants.common import EDGES, EXAMPLE, FILES, property_test, require, run
from small_logs import Drawn, Published, dense_logs
from trajcloak.algorithms import Policy
from trajcloak.algorithms.refined import Refined
from trajcloak.bundles import build_bundles
from trajcloak.bundling import runs
from trajcloak.cloaks import build_bounding_boxes
from trajcloak.release import published_rows
from trajcloak.release.result import RunResult


def check_invariant_2(drawn: Drawn, seed: int) -> None:
    """Shuffle rows, change threads, rename users: the release stays. Nothing orders users.

    Requires distinct trajectories, as ids may decide between equal ones.
    """
    rng = np.random.default_rng(seed)
    expected = run(drawn)
    require(run(drawn).files == expected.files, "invariant 2: another run, other bytes")
    for threads in (2, 5):
        files = run(drawn, threads=threads).files
        require(files == expected.files, "invariant 2: other threads, other bytes")
    rows = [drawn.rows[i] for i in rng.permutation(len(drawn.rows))]
    require(
        run(replace(drawn, rows=rows)).files == expected.files,
        "invariant 2: another order of rows, other bytes",
    )
    users = sorted({row.user for row in drawn.rows})
    names = {
        user: f"person-{i}" for user, i in zip(users, rng.permutation(len(users)), strict=True)
    }
    rows = [row._replace(user=names[row.user]) for row in drawn.rows]
    require(
        run(replace(drawn, rows=rows)).files == expected.files,
        "invariant 2: other names of users, other bytes",
    )
    check_order(expected)
    check_nothing_else_in_files(expected)


def check_order(published: Published) -> None:
    """Bundles stand in the order of their cloaks, requests in that of their values."""
    sequences: dict[int, list[Any]] = {}
    for row in published.bundles.to_pylist():
        sequence = sequences.setdefault(row["bundle_id"], [row["window"], [], row["users"]])
        sequence[1].append([row[name] for name in EDGES])
    require(
        list(sequences) == list(range(len(sequences)))
        and list(sequences.values()) == sorted(sequences.values()),
        "invariant 2: bundles are not numbered in the order of their cloaks",
    )
    requests = [tuple(row.values()) for row in published.requests.to_pylist()]
    require(
        requests == sorted(set(requests), key=lambda row: row[1:]),
        "invariant 2: requests are not in order, or not distinct",
    )


def check_nothing_else_in_files(published: Published) -> None:
    require(sorted(published.files) == FILES, "invariant 2: another file in the release")
    for table, keys in ((published.bundles, {b"geo"}), (published.requests, set())):
        found = set(table.schema.metadata or {})
        require(found <= keys | {b"ARROW:schema"}, "invariant 2: metadata that names something")


def test_invariant_2_the_same_bytes_whatever_the_order_of_rows_or_threads():
    @property_test(50)
    @given(dense_logs(distinct=True), st.integers(0, 1000))
    def holds(drawn, seed):
        check_invariant_2(drawn, seed)

    holds()


def test_invariant_2_ids_decide_only_between_equal_trajectories():
    """With equal trajectories, names may exchange members, but never cloaks or sizes."""

    @property_test(50)
    @given(dense_logs(size=2, max_length=2), st.integers(0, 1000))
    def holds(drawn, seed):
        rng = np.random.default_rng(seed)
        users = sorted({row.user for row in drawn.rows})
        names = dict(zip(users, rng.permutation(users).tolist(), strict=True))
        rows = [row._replace(user=names[row.user]) for row in drawn.rows]
        before, after = run(drawn), run(replace(drawn, rows=rows))
        assert after.files["bundles.parquet"] == before.files["bundles.parquet"]

    holds()


def number_by_first_user(window, ids, policy, num_kinds, k, **more):
    """Bundles in the order of their first member."""
    first = [int(np.argmax(policy.bundle == b)) for b in range(policy.num_bundles)]

    def order(cloaks, sizes):
        return np.argsort(first, kind="stable")

    with mock.patch("trajcloak.bundles.order_by_cloaks", order):
        return build_bundles(window, ids, policy, num_kinds, k, **more)


def keep_requests_in_order_of_rows(window, ids, policy, num_kinds, k, **more):
    """No sorting within the sets."""
    bundles, *rest = build_bundles(window, ids, policy, num_kinds, k, **more)
    sender = find_bundle(policy, rest[-1])[window.request_user]
    order = np.lexsort((np.arange(len(sender)), window.request_instant, sender))
    seen: set[tuple[int, int, int]] = set()
    rows = []
    for i in order:
        key = int(sender[i]), int(window.request_instant[i]), int(window.request_kind[i])
        if key not in seen:
            seen.add(key)
            rows.append(key)
    bundle, instant, kind = np.array(rows, np.int32).reshape(-1, 3).T
    bundles = replace(bundles, request_bundle=bundle, request_instant=instant, request_kind=kind)
    return bundles, *rest


def find_bundle(policy, order):
    """The published number of each participant's bundle, of which ``order`` are the policy's."""
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    return number[policy.bundle]


def keep_duplicates(window, ids, policy, num_kinds, k, **more):
    """Lists instead of sets: the number of senders shows."""
    bundles, *rest = build_bundles(window, ids, policy, num_kinds, k, **more)
    sender = find_bundle(policy, rest[-1])[window.request_user]
    order = np.lexsort((window.request_kind, window.request_instant, sender))
    bundles = replace(
        bundles,
        request_bundle=sender[order],
        request_instant=window.request_instant[order],
        request_kind=window.request_kind[order],
    )
    return bundles, *rest


def solve_by_threads(self, cells, height, k, cloak, *, threads=1, progress=None):
    """Another result with more threads."""
    bundle = np.zeros(len(cells), np.int32)
    if threads > 1:
        bundle[: len(cells) // 2] = 1
    return Policy(bundle, build_bounding_boxes(cells, bundle, int(bundle.max()) + 1, 1))


def put_users_into_metadata(original):
    def schema(head):
        built = original(head)
        return built.with_metadata({**built.metadata, b"users": b"u1, u2"})

    return schema


def add_a_file(original):
    def write(self, path, policy):
        original(self, path, policy)
        (Path(path) / "log.txt").write_text("done")

    return write


BREAKS_INVARIANT_2 = {
    "number_by_first_user": (runs, "build_bundles", number_by_first_user),
    "order_of_rows": (runs, "build_bundles", keep_requests_in_order_of_rows),
    "duplicates": (runs, "build_bundles", keep_duplicates),
    "threads": (Refined, "solve", solve_by_threads),
    "metadata": (
        published_rows,
        "build_bundles_schema",
        put_users_into_metadata(published_rows.build_bundles_schema),
    ),
    "extra_file": (RunResult, "_write", add_a_file(RunResult._write)),
}


@pytest.mark.parametrize("broken", BREAKS_INVARIANT_2)
def test_invariant_2_is_seen_to_fail(monkeypatch, broken):
    check_invariant_2(EXAMPLE, 7)
    monkeypatch.setattr(*BREAKS_INVARIANT_2[broken])
    with pytest.raises(AssertionError, match="invariant 2:"):
        check_invariant_2(EXAMPLE, 7)
