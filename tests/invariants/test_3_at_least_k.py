"""Invariant 3. No bundle below k; if k users cannot be had, nothing is written."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajcloak as tc
from invariants.common import EXAMPLE, property_test, require
from runs import anonymize
from small_logs import (
    UNIT_CELLS,
    Drawn,
    Row,
    dense_logs,
    draw_log,
    list_tree,
    new_folder,
    read_published,
    read_rows,
)
from trajcloak.algorithms import Policy
from trajcloak.algorithms.refined import Refined
from trajcloak.bundles import build_bundles
from trajcloak.bundling import runs
from trajcloak.cloaks import build_bounding_boxes
from trajcloak.trajectories import WindowCutter


def check_invariant_3(drawn: Drawn) -> None:
    """Count distinct users of every bundle; an error leaves nothing behind."""
    log = read_rows(drawn.rows)
    with new_folder() as folder:
        try:
            result = anonymize(log, drawn.k, **drawn.run_options, threads=1)
            result.write(folder / "release", folder / "policy.parquet")
        except tc.TrajcloakError:
            require(list_tree(folder) == {}, "invariant 3: refused, but something was written")
            return
        published = read_published(folder)
    require(
        published.bundles.num_rows > 0 and len(published.members) > 0,
        "invariant 3: a release without a bundle",
    )
    ids = {(row["window"], row["bundle_id"]) for row in published.bundles.to_pylist()}
    require(ids == set(published.members), "invariant 3: bundles are not those of the policy")
    for users in published.members.values():
        require(len(users) >= drawn.k, "invariant 3: a bundle with fewer than k users")
    for row in published.bundles.to_pylist():
        members = published.members[row["window"], row["bundle_id"]]
        require(row["users"] == len(members), "invariant 3: 'users' is not the number of users")
    require(
        published.manifest["smallest_bundle"] == min(map(len, published.members.values())),
        "invariant 3: the manifest's smallest bundle is not the smallest",
    )


def test_invariant_3_no_bundle_below_k():
    @property_test(100)
    @given(dense_logs(), st.sampled_from([{}, {"max_suppressed": 0.5}, {"suppress_above": 30.0}]))
    def holds(drawn, more):
        if drawn.options["algorithm"] not in ("traj-anon", "refined"):
            more = {}
        check_invariant_3(replace(drawn, options={**drawn.options, **more}))

    holds()


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_invariant_3_with_gaps_and_too_few_users(first):
    for seed in range(first, first + 20):
        check_invariant_3(draw_log(seed))


def solve_one_below_k(original):
    def solve(self, cells, height, k, cloak, **more):
        return original(self, cells, height, max(2, k - 1), cloak, **more)

    return solve


def solve_alone(self, cells, height, k, cloak, *, threads=1, progress=None):
    """A bundle for each user: the lowest cost of all."""
    bundle = np.arange(len(cells), dtype=np.int32)
    return Policy(bundle, build_bounding_boxes(cells, bundle, len(cells), 1))


def build_without_check(window, ids, policy, num_kinds, k, **more):
    return build_bundles(window, ids, policy, num_kinds, k, **{**more, "members": 1})


def pad_with_the_same_users(original):
    """Count users several times where they are too few."""

    def cut(self, number, threads):
        window = original(self, number, threads)
        copies = 3
        return replace(
            window,
            user=np.repeat(window.user, copies),
            reported=np.repeat(window.reported, copies),
            cells=np.repeat(window.cells, copies, axis=0),
            request_user=window.request_user * copies,
        )

    return cut


SMALL = Drawn([Row("a", 0, 1, 1, "r"), Row("b", 0, 9, 9)], 3)
BREAKS_INVARIANT_3 = {
    "one_below_k": (
        EXAMPLE,
        [
            (Refined, "solve", solve_one_below_k(Refined.solve)),
            (runs, "build_bundles", build_without_check),
        ],
    ),
    "alone": (
        EXAMPLE,
        [(Refined, "solve", solve_alone), (runs, "build_bundles", build_without_check)],
    ),
    "padded": (SMALL, [(WindowCutter, "cut", pad_with_the_same_users(WindowCutter.cut))]),
}


@pytest.mark.parametrize("broken", BREAKS_INVARIANT_3)
def test_invariant_3_is_seen_to_fail(monkeypatch, broken):
    drawn, patches = BREAKS_INVARIANT_3[broken]
    if broken == "one_below_k":
        rows = [Row(f"u{i}", 0, 3 * i, 3 * i) for i in range(4)]
        drawn = Drawn(rows, 3)
    check_invariant_3(drawn)
    for patch in patches:
        monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError, match="invariant 3:"):
        check_invariant_3(drawn)


@pytest.mark.parametrize("solve", [solve_one_below_k(Refined.solve), solve_alone])
def test_a_broken_algorithm_is_stopped_before_anything_is_written(monkeypatch, solve, tmp_path):
    monkeypatch.setattr(Refined, "solve", solve)
    log = read_rows([Row(f"u{i}", 0, 3 * i, 3 * i) for i in range(4)])
    with pytest.raises(AssertionError, match=r"a bundle has \d users, fewer than 3"):
        anonymize(log, 3, **UNIT_CELLS).write(tmp_path / "release")
    assert list_tree(tmp_path) == {}
