"""Invariant 7. Windows are unlinked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from invariants.common import EDGES, WINDOWS, property_test, require, run
from small_logs import Drawn, Published, Row, clustered_rows, dense_logs
from trajcloak.algorithms import Policy
from trajcloak.bundles import build_bundles
from trajcloak.bundling import runs
from trajcloak.cloaks import build_bounding_boxes
from trajcloak.release.published_rows import ReleaseHead


def check_invariant_7(drawn: Drawn) -> None:
    """A bundle is of one window, and nothing but its own window decides its number."""
    published = run(drawn)
    windows: dict[int, set[int]] = {}
    for table in (published.bundles, published.requests, published.policy):
        for row in table.select(["window", "bundle_id"]).to_pylist():
            windows.setdefault(row["bundle_id"], set()).add(row["window"])
    require(
        all(len(found) == 1 for found in windows.values()),
        "invariant 7: a bundle id spans two windows",
    )
    numbers = [windows[bundle_id] for bundle_id in sorted(windows)]
    require(
        sorted(windows) == list(range(len(windows))) and numbers == sorted(numbers, key=min),
        "invariant 7: bundles are not numbered window by window",
    )
    # What a window's bundles are, and their order, is the same if it is the only one.
    length = drawn.options["length"]
    for number in sorted(set.union(*windows.values())):
        rows = [row for row in drawn.rows if row.time // length == number]
        alone = run(replace(drawn, rows=rows), length=None)
        require(
            cloaks_and_sizes(alone, 0) == cloaks_and_sizes(published, number),
            "invariant 7: the bundles of a window depend on another window",
        )
        first = min(bundle for bundle, found in windows.items() if found == {number})
        members = {
            (0, bundle - first): users
            for (window, bundle), users in published.members.items()
            if window == number
        }
        require(members == alone.members, "invariant 7: members depend on another window")


def cloaks_and_sizes(published: Published, window: int) -> list[tuple[Any, ...]]:
    return [
        (*(row[name] for name in EDGES), row["users"])
        for row in published.bundles.to_pylist()
        if row["window"] == window
    ]


def test_invariant_7_windows_are_unlinked():
    @property_test(60)
    @given(dense_logs(), st.integers(1, 3))
    def holds(drawn, length):
        check_invariant_7(replace(drawn, options={**drawn.options, "length": length}))

    holds()


def count_from_zero(original):
    """Build rows as if their window were the first."""

    def build_rows(self, bundles, first_id, rows):
        return original(self, bundles, 0, rows)

    return build_rows


REUSE_IDS, REUSE_IDS_OF_REQUESTS = (
    (ReleaseHead, name, count_from_zero(getattr(ReleaseHead, name)))
    for name in ("_build_bundle_rows", "_build_request_rows")
)


class NumberAsBefore:
    """Numbers bundles by where their members were in the window before."""

    def __init__(self) -> None:
        self.leader: Any = None

    def __call__(self, window, ids, policy, num_kinds, k, **more):
        bundles, *rest = build_bundles(window, ids, policy, num_kinds, k, **more)
        if window.number > 0 and self.leader is not None and len(bundles.sizes) > 1:
            # The bundle that a user of the window before's last bundle is in comes first.
            bundle = np.repeat(np.arange(len(bundles.sizes)), bundles.sizes)
            leader = int(bundle[bundles.ids.to_pylist().index(self.leader)])
            order = [leader, *(b for b in range(len(bundles.sizes)) if b != leader)]
            bundles = bundles.take(np.array(order))
        self.leader = bundles.ids[-1].as_py()
        return bundles, *rest


class KeepGroups:
    """Bundles users as in the first window: groups linked for ever."""

    def __init__(self) -> None:
        self.bundle: Any = None

    def __call__(self, window, ids, policy, num_kinds, k, **more):
        if window.number == 0:
            self.bundle = policy.bundle
        boxes = build_bounding_boxes(window.cells, self.bundle, int(self.bundle.max()) + 1, 1)
        return build_bundles(window, ids, Policy(self.bundle, boxes), num_kinds, k, **more)


def mixed_rows() -> list[Row]:
    """Clusters whose members change from one instant to the next."""
    rng = np.random.default_rng(2)
    rows = clustered_rows()
    users = sorted({row.user for row in rows})
    names = [dict(zip(users, rng.permutation(users).tolist(), strict=True)) for _ in range(3)]
    return [row._replace(user=names[row.time][row.user]) for row in rows]


BREAKS_INVARIANT_7 = {
    "reused_ids": [REUSE_IDS, REUSE_IDS_OF_REQUESTS],
    "reused_ids_of_requests": [REUSE_IDS_OF_REQUESTS],
    "numbered_as_before": [(runs, "build_bundles", NumberAsBefore())],
    "kept_groups": [(runs, "build_bundles", KeepGroups())],
}


@pytest.mark.parametrize("broken", BREAKS_INVARIANT_7)
def test_invariant_7_is_seen_to_fail(monkeypatch, broken):
    drawn = replace(WINDOWS, rows=mixed_rows())
    check_invariant_7(drawn)
    for patch in BREAKS_INVARIANT_7[broken]:
        monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError, match="invariant 7:"):
        check_invariant_7(drawn)
