"""The seven invariants of docs/guarantee.md.

Each has a checker, which a property test calls on the library as it is, and which
another test sees fail on versions of the library that are broken on purpose.
"""

import contextlib
import json
import os
import stat
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trajcloak as tc
from small_logs import (
    UNIT_CELLS,
    Drawn,
    Published,
    Row,
    clustered_rows,
    dense_logs,
    draw_log,
    list_tree,
    new_folder,
    publish,
    read_published,
    read_rows,
)
from test_bad_input import CASES, Case, Secrets
from trajcloak import output, pipeline, release
from trajcloak.algorithms import Policy
from trajcloak.algorithms.refined import Refined
from trajcloak.algorithms.traj_anon import TrajAnon
from trajcloak.bundles import Bundles, build_bundles
from trajcloak.cloaks import build_bounding_boxes
from trajcloak.space import check_inside
from trajcloak.trajectories import stream_windows
from trajcloak.trajectories.windows import check_conflicts

EDGES = ["x_min", "y_min", "x_max", "y_max"]
FILES = ["bundles.parquet", "manifest.json", "requests.parquet"]
EXAMPLE = Drawn(clustered_rows(), 3)
"""Four bundles of three users, three instants, requests in most."""

WINDOWS = Drawn(clustered_rows(), 3, {"length": 1})


def property_test(max_examples: int):
    """Settings of a property test: the same examples in every run."""
    return settings(derandomize=True, max_examples=max_examples)


def run(drawn: Drawn, **more: Any) -> Published:
    return publish(read_rows(drawn.rows), drawn.k, **{**drawn.run_options, **more})


def require(condition: bool, message: str) -> None:
    """Fail with the number of the invariant first, so that tests can tell whose failure it is."""
    if not condition:
        raise AssertionError(message)


# 1. Requests never decide who is bundled with whom.


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


def merge_if_something_was_sent(window, policy, num_kinds, k, rare=None, threads=1):
    """One bundle for all, unless nobody sent a request."""
    if len(window.request_kind) and policy.num_bundles > 1:
        everyone = np.zeros_like(policy.bundle)
        policy = Policy(everyone, build_bounding_boxes(window.cells, everyone, 1, 1))
    return build_bundles(window, policy, num_kinds, k)


def number_by_requests(window, policy, num_kinds, k, rare=None, threads=1):
    """Bundles in the order of how much they sent."""
    counts = np.bincount(policy.bundle[window.request_user], minlength=policy.num_bundles)

    def order(cloaks, sizes):
        return np.argsort(-counts, kind="stable")

    with mock.patch("trajcloak.bundles.order_by_cloaks", order):
        return build_bundles(window, policy, num_kinds, k)


def leave_out_who_sent_nothing(window, policy, num_kinds, k, rare=None, threads=1):
    """Suppress one of those who sent nothing from each bundle that can spare it."""
    silent = np.setdiff1d(np.arange(len(policy.bundle)), window.request_user)
    bundle = policy.bundle.copy()
    for user in silent[:1]:
        bundle[user] = -1
    return build_bundles(window, Policy(bundle, policy.cloaks), num_kinds, k - 1)


@pytest.mark.parametrize(
    "broken", [merge_if_something_was_sent, number_by_requests, leave_out_who_sent_nothing]
)
def test_invariant_1_is_seen_to_fail(monkeypatch, broken):
    check_invariant_1(EXAMPLE, 5)
    monkeypatch.setattr(pipeline, "build_bundles", broken)
    with pytest.raises(AssertionError, match="invariant 1:"):
        check_invariant_1(EXAMPLE, 5)


# 2. The same bytes whatever the order of rows, threads or names.


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


def number_by_first_user(window, policy, num_kinds, k, rare=None, threads=1):
    """Bundles in the order of their first member."""
    first = [int(np.argmax(policy.bundle == b)) for b in range(policy.num_bundles)]

    def order(cloaks, sizes):
        return np.argsort(first, kind="stable")

    with mock.patch("trajcloak.bundles.order_by_cloaks", order):
        return build_bundles(window, policy, num_kinds, k)


def keep_requests_in_order_of_rows(window, policy, num_kinds, k, rare=None, threads=1):
    """No sorting within the sets."""
    bundles = build_bundles(window, policy, num_kinds, k)
    sender = bundles.bundle[window.request_user]
    order = np.lexsort((np.arange(len(sender)), window.request_instant, sender))
    seen: set[tuple[int, int, int]] = set()
    rows = []
    for i in order:
        key = int(sender[i]), int(window.request_instant[i]), int(window.request_kind[i])
        if key not in seen:
            seen.add(key)
            rows.append(key)
    bundle, instant, kind = np.array(rows, np.int32).reshape(-1, 3).T
    return replace(bundles, request_bundle=bundle, request_instant=instant, request_kind=kind)


def keep_duplicates(window, policy, num_kinds, k, rare=None, threads=1):
    """Lists instead of sets: the number of senders shows."""
    bundles = build_bundles(window, policy, num_kinds, k)
    sender = bundles.bundle[window.request_user]
    order = np.lexsort((window.request_kind, window.request_instant, sender))
    return replace(
        bundles,
        request_bundle=sender[order],
        request_instant=window.request_instant[order],
        request_kind=window.request_kind[order],
    )


def solve_by_threads(self, cells, height, k, cloak, *, threads=1, progress=None):
    """Another result with more threads."""
    bundle = np.zeros(len(cells), np.int32)
    if threads > 1:
        bundle[: len(cells) // 2] = 1
    return Policy(bundle, build_bounding_boxes(cells, bundle, int(bundle.max()) + 1, 1))


def put_users_into_metadata(original):
    def schema(release):
        users = sum(len(bundles.user) for bundles in release.windows)
        built = original(release)
        return built.with_metadata({**built.metadata, b"users": str(users).encode()})

    return schema


def add_a_file(original):
    def write(self, path, **more):
        original(self, path, **more)
        (Path(path) / "log.txt").write_text("done")

    return write


BREAKS_INVARIANT_2 = {
    "number_by_first_user": (pipeline, "build_bundles", number_by_first_user),
    "order_of_rows": (pipeline, "build_bundles", keep_requests_in_order_of_rows),
    "duplicates": (pipeline, "build_bundles", keep_duplicates),
    "threads": (Refined, "solve", solve_by_threads),
    "metadata": (release, "bundles_schema", put_users_into_metadata(release.bundles_schema)),
    "extra_file": (release.Release, "write", add_a_file(release.Release.write)),
}


@pytest.mark.parametrize("broken", BREAKS_INVARIANT_2)
def test_invariant_2_is_seen_to_fail(monkeypatch, broken):
    check_invariant_2(EXAMPLE, 7)
    monkeypatch.setattr(*BREAKS_INVARIANT_2[broken])
    with pytest.raises(AssertionError, match="invariant 2:"):
        check_invariant_2(EXAMPLE, 7)


# 3. No bundle below k; if k users cannot be had, nothing is written.


def check_invariant_3(drawn: Drawn) -> None:
    """Count distinct users of every bundle; an error leaves nothing behind."""
    log = read_rows(drawn.rows)
    with new_folder() as folder:
        try:
            result = tc.anonymize(log, drawn.k, **drawn.run_options, threads=1)
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


def build_without_check(window, policy, num_kinds, k, rare=None, threads=1):
    return build_bundles(window, policy, num_kinds, 1)


def pad_with_the_same_users(*args, **more):
    """Count users several times where they are too few."""
    for window in stream_windows(*args, **more):
        copies = 3
        yield replace(
            window,
            user=np.repeat(window.user, copies),
            reported=np.repeat(window.reported, copies),
            cells=np.repeat(window.cells, copies, axis=0),
            request_user=window.request_user * copies,
        )


SMALL = Drawn([Row("a", 0, 1, 1, "r"), Row("b", 0, 9, 9)], 3)
BREAKS_INVARIANT_3 = {
    "one_below_k": (
        EXAMPLE,
        [
            (TrajAnon, "solve", solve_one_below_k(TrajAnon.solve)),
            (pipeline, "build_bundles", build_without_check),
        ],
    ),
    "alone": (
        EXAMPLE,
        [(TrajAnon, "solve", solve_alone), (pipeline, "build_bundles", build_without_check)],
    ),
    "padded": (SMALL, [(pipeline, "stream_windows", pad_with_the_same_users)]),
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


@pytest.mark.parametrize("solve", [solve_one_below_k(TrajAnon.solve), solve_alone])
def test_a_broken_algorithm_is_stopped_before_anything_is_written(monkeypatch, solve, tmp_path):
    monkeypatch.setattr(TrajAnon, "solve", solve)
    log = read_rows([Row(f"u{i}", 0, 3 * i, 3 * i) for i in range(4)])
    with pytest.raises(AssertionError, match=r"a bundle has \d users, fewer than k = 3"):
        tc.anonymize(log, 3, **UNIT_CELLS).write(tmp_path / "release")
    assert list_tree(tmp_path) == {}


# 4. A release appears complete or not at all.


class StoppedError(Exception):
    """Stands for anything that ends a run: a full disk, a signal."""


def check_invariant_4(result: tc.Result) -> None:
    """Stop the writing at every step; look at the final name before and after each."""
    with new_folder() as folder:
        steps = write_stopping_at(result, folder / "release", None)
        require(steps >= 3, "invariant 4: the files are not all written through known steps")
        complete = list_tree(folder)
        names = [name.removeprefix("release/") for name in complete if name != "release"]
        require(names == FILES, "invariant 4: other files than those of a release")
        with contextlib.suppress(tc.OutputError):
            result.release.write(folder / "release")
            require(False, "invariant 4: an existing release was written again")
        require(list_tree(folder) == complete, "invariant 4: an existing release was changed")
    for step in range(steps):
        with new_folder() as folder:
            try:
                write_stopping_at(result, folder / "release", step)
            except StoppedError:
                require(list_tree(folder) == {}, "invariant 4: part of a release was left")
            else:
                raise AssertionError("invariant 4: a failure was swallowed")


def write_stopping_at(result: tc.Result, path: Path, stop: int | None) -> int:
    """Write a release, and raise before step ``stop``; returns the number of steps."""
    num_steps = 0

    def watch(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            nonlocal num_steps
            require(not path.exists(), "invariant 4: the release is there before it is complete")
            if num_steps == stop:
                raise StoppedError
            num_steps += 1
            return original(*args, **more)

        return step

    with (
        mock.patch.object(release, "write_row_groups", watch(release.write_row_groups)),
        mock.patch.object(pq.ParquetWriter, "close", watch(pq.ParquetWriter.close)),
        mock.patch.object(json, "dumps", watch(json.dumps)),
        mock.patch.object(Path, "write_text", watch(Path.write_text)),
    ):
        result.release.write(path)
    return num_steps


def test_invariant_4_a_release_is_complete_or_absent():
    @property_test(10)
    @given(dense_logs())
    def holds(drawn):
        check_invariant_4(tc.anonymize(read_rows(drawn.rows), drawn.k, **drawn.run_options))

    holds()


@contextlib.contextmanager
def write_in_place(path):
    path.mkdir()
    yield path


@contextlib.contextmanager
def write_beside_and_forget(path):
    staging = path.with_name(path.name + ".tmp")
    output.check_new(path)
    staging.mkdir()
    yield staging
    staging.rename(path)


@contextlib.contextmanager
def write_what_there_is(path):
    with output.new_folder(path) as staging, contextlib.suppress(StoppedError):
        yield staging


@contextlib.contextmanager
def replace_what_is_there(path):
    if path.exists():
        (path / "manifest.json").write_bytes(b"{}")
    with output.new_folder(path) as staging:
        yield staging


@pytest.mark.parametrize(
    "broken", [write_in_place, write_beside_and_forget, write_what_there_is, replace_what_is_there]
)
def test_invariant_4_is_seen_to_fail(monkeypatch, broken):
    result = tc.anonymize(read_rows(EXAMPLE.rows), 3)
    check_invariant_4(result)
    monkeypatch.setattr(release, "new_folder", broken)
    with pytest.raises(AssertionError, match="invariant 4:"):
        check_invariant_4(result)


# 5. The policy file stays private.


def check_invariant_5(result: tc.Result) -> None:
    """Written only if asked for, outside the release, for its owner only, all along."""
    before = os.umask(0)
    try:
        check_policy_mode(result)
    finally:
        os.umask(before)
    with new_folder() as folder:
        result.write(folder / "release")
        found = sorted(path.name for path in folder.rglob("*"))
        require(found == sorted(["release", *FILES]), "invariant 5: a policy nobody asked for")
        for file in FILES[:1] + FILES[2:]:
            columns = pq.read_schema(folder / "release" / file).names
            require("user_id" not in columns, "invariant 5: user ids in the release")
        check_places_are_refused(result, folder)


def check_policy_mode(result: tc.Result) -> None:
    modes = []
    write_table = pq.write_table

    def watched(table: Any, where: Any, **more: Any) -> None:
        modes.append(Path(where).stat().st_mode if Path(where).exists() else 0o777)
        write_table(table, where, **more)
        modes.append(Path(where).stat().st_mode)

    with new_folder() as folder, mock.patch.object(pq, "write_table", watched):
        result.write(folder / "release", folder / "one.parquet")
        result.write_policy(folder / "two.parquet")
        for name in ("one.parquet", "two.parquet"):
            modes.append((folder / name).stat().st_mode)
            table = pq.read_table(folder / name)
            require(
                table.column_names == ["window", "user_id", "bundle_id"],
                "invariant 5: the policy is not what it should be",
            )
        for path in (folder / "release").rglob("*"):
            require(path.name in FILES, "invariant 5: the policy is inside the release")
    for mode in modes:
        require(stat.S_IMODE(mode) == 0o600, "invariant 5: others can read the policy")


def check_places_are_refused(result: tc.Result, folder: Path) -> None:
    """``release`` exists in the folder, and ``new`` does not."""
    (folder / "link").symlink_to(folder / "release")
    (folder / "new-link").symlink_to(folder / "new")
    inside = ["release/p", "link/p", "release/../release/p", "link/../release/p"]
    inside += ["new/p", "new", "new/sub/p", "new/../new/p", "new-link/p"]
    before = list_tree(folder)
    for name in inside:
        with contextlib.suppress(tc.OptionError, tc.OutputError):
            result.write(folder / "new", folder / name)
            require(False, "invariant 5: a policy inside a release was not refused")
        require(list_tree(folder) == before, "invariant 5: refused, but something was written")
    for name in inside[:4]:
        with contextlib.suppress(tc.OptionError, tc.OutputError):
            result.write_policy(folder / name)
            require(False, "invariant 5: a policy inside a release was not refused")
        require(list_tree(folder) == before, "invariant 5: refused, but something was written")


def test_invariant_5_the_policy_file_stays_private():
    @property_test(10)
    @given(dense_logs())
    def holds(drawn):
        check_invariant_5(tc.anonymize(read_rows(drawn.rows), drawn.k, **drawn.run_options))

    holds()


@contextlib.contextmanager
def make_private_at_the_end(path, mode=output.PUBLIC):
    with output.new_file(path) as staging:
        yield staging
        staging.chmod(mode)


def write_policy_always(original):
    def write(self, release, policy=None, **more):
        original(self, release, policy or Path(release).with_name("policy.parquet"), **more)

    return write


def write_policy_into_the_release(original):
    def write(self, release, policy=None, **more):
        original(self, release, policy, **more)
        pq.write_table(self.policy, Path(release) / "policy.parquet")

    return write


def trust_the_path(release, policy):
    """Compare names only."""
    output.check_new(release)
    if policy is not None and policy.parent == release:
        raise tc.OptionError("the policy file would stand inside the release")


BREAKS_INVARIANT_5 = {
    "mode_0644": [(release, "PRIVATE", 0o644)],
    "mode_0640_of_write_policy": [(release, "PRIVATE", 0o640)],
    "private_at_the_end": [(release, "new_file", make_private_at_the_end)],
    "always": [(tc.Result, "write", write_policy_always(tc.Result.write))],
    "in_the_release": [(tc.Result, "write", write_policy_into_the_release(tc.Result.write))],
    "unchecked": [(pipeline, "check_outputs", lambda release, policy: None)],
    "by_name_only": [(pipeline, "check_outputs", trust_the_path)],
    "unchecked_alone": [(release, "check_outside_releases", lambda path: None)],
}


@pytest.mark.parametrize("broken", BREAKS_INVARIANT_5)
def test_invariant_5_is_seen_to_fail(monkeypatch, broken):
    result = tc.anonymize(read_rows(EXAMPLE.rows), 3)
    check_invariant_5(result)
    for patch in BREAKS_INVARIANT_5[broken]:
        monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError, match="invariant 5:"):
        check_invariant_5(result)


# 6. Messages name nobody.


def check_invariant_6(bad: Case, seed: int) -> None:
    """Nothing that a failing run says, to anybody, holds an id or a coordinate of its log."""
    secrets = Secrets(seed)
    said: list[str] = []

    def listen(stage: str, done: int, total: int) -> None:
        said.append(f"{stage} {done} {total}")

    with new_folder() as folder, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        attempt = bad.build(folder, secrets)
        try:
            log = tc.read_log(attempt.source, attempt.columns, progress=listen)
            result = tc.anonymize(log, attempt.k, progress=listen, **attempt.options)
            result.write(folder / attempt.release, folder / attempt.policy, progress=listen)
        except tc.TrajcloakError as error:
            said += [str(error), repr(error), *traceback.format_exception(error)]
        else:
            raise AssertionError(f"invariant 6: {bad.name} did not fail")
        said += [str(warning.message) for warning in warned]
    for text in said:
        require(not secrets.find(text), f"invariant 6: {bad.name} tells an id or a coordinate")


def test_invariant_6_messages_name_nobody():
    @property_test(150)
    @given(st.sampled_from(CASES), st.integers(0, 10**6))
    def holds(bad, seed):
        check_invariant_6(bad, seed)

    holds()


@pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.name)
def test_invariant_6_holds_in_every_case(bad, capfd, caplog):
    check_invariant_6(bad, 99)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_invariant_6_holds_for_the_manifest():
    """Ids and coordinates do not show in what a good run reports."""
    secrets = Secrets(3)
    rows = [Row(secrets.user(), 0, secrets.place(), secrets.place(), "r") for _ in range(9)]
    manifest = json.dumps(publish(read_rows(rows), 3).manifest)
    assert not secrets.find(manifest)


def name_the_user(log):
    try:
        check_conflicts(log)
    except tc.InputError as error:
        raise tc.InputError(f"user {log.users[0]}: {error}") from None


def name_the_place(log, x, y, bounds, region):
    try:
        check_inside(log, x, y, bounds, region)
    except tc.InputError as error:
        raise tc.InputError(f"({x[0]}, {y[0]}): {error}") from None


def keep_the_cause(log):
    """The message is fine, but the traceback shows another one."""
    try:
        raise KeyError(log.users[0].as_py())
    except KeyError as error:
        raise tc.InputError("rows 2 and 3: two places") from error


def warn_of_the_user(log):
    warnings.warn(f"user {log.users[0]} is at two places", stacklevel=2)
    check_conflicts(log)


CONFLICT = next(bad for bad in CASES if bad.name == "two_places_at_once")
OUTSIDE = next(bad for bad in CASES if bad.name == "outside_the_region")
BREAKS_INVARIANT_6 = {
    "user": (CONFLICT, "trajcloak.trajectories.windows.check_conflicts", name_the_user),
    "place": (OUTSIDE, "trajcloak.space.check_inside", name_the_place),
    "cause": (CONFLICT, "trajcloak.trajectories.windows.check_conflicts", keep_the_cause),
    "warning": (CONFLICT, "trajcloak.trajectories.windows.check_conflicts", warn_of_the_user),
}


@pytest.mark.parametrize("broken", BREAKS_INVARIANT_6)
def test_invariant_6_is_seen_to_fail(monkeypatch, broken):
    bad, target, function = BREAKS_INVARIANT_6[broken]
    check_invariant_6(bad, 4)
    monkeypatch.setattr(target, function)
    with pytest.raises(AssertionError, match="invariant 6:"):
        check_invariant_6(bad, 4)


# 7. Windows are unlinked.


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


def reuse_ids(original):
    """Count bundles from 0 in each window."""

    def batches(self):
        for bundles in self.windows:
            yield from original(replace(self, windows=[bundles]))

    return batches


class NumberAsBefore:
    """Numbers bundles by where their members were in the window before."""

    def __init__(self) -> None:
        self.before: Bundles | None = None

    def __call__(self, window, policy, num_kinds, k, rare=None, threads=1):
        bundles = build_bundles(window, policy, num_kinds, k)
        if window.number > 0 and self.before is not None and len(bundles.sizes) > 1:
            # The bundle that the first user of the window before's last bundle is in comes first.
            user = self.before.user[np.argmax(self.before.bundle)]
            leader = int(bundles.bundle[np.flatnonzero(bundles.user == user)[0]])
            order = [leader, *(b for b in range(len(bundles.sizes)) if b != leader)]
            number = np.argsort(order).astype(np.int32)
            bundles = replace(
                bundles,
                cloaks=bundles.cloaks[order],
                sizes=bundles.sizes[order],
                bundle=number[bundles.bundle],
                request_bundle=number[bundles.request_bundle],
            )
        self.before = bundles
        return bundles


class KeepGroups:
    """Bundles users as in the first window: groups linked for ever."""

    def __init__(self) -> None:
        self.bundle: Any = None

    def __call__(self, window, policy, num_kinds, k, rare=None, threads=1):
        if window.number == 0:
            self.bundle = policy.bundle
        boxes = build_bounding_boxes(window.cells, self.bundle, int(self.bundle.max()) + 1, 1)
        return build_bundles(window, Policy(self.bundle, boxes), num_kinds, k)


def mixed_rows() -> list[Row]:
    """Clusters whose members change from one instant to the next."""
    rng = np.random.default_rng(2)
    rows = clustered_rows()
    users = sorted({row.user for row in rows})
    names = [dict(zip(users, rng.permutation(users).tolist(), strict=True)) for _ in range(3)]
    return [row._replace(user=names[row.time][row.user]) for row in rows]


BREAKS_INVARIANT_7 = {
    "reused_ids": [
        (release.Release, "_bundle_groups", reuse_ids(release.Release._bundle_groups)),
        (release.Release, "_request_groups", reuse_ids(release.Release._request_groups)),
    ],
    "reused_ids_of_requests": [
        (release.Release, "_request_groups", reuse_ids(release.Release._request_groups)),
    ],
    "numbered_as_before": [(pipeline, "build_bundles", NumberAsBefore())],
    "kept_groups": [(pipeline, "build_bundles", KeepGroups())],
}


@pytest.mark.parametrize("broken", BREAKS_INVARIANT_7)
def test_invariant_7_is_seen_to_fail(monkeypatch, broken):
    drawn = replace(WINDOWS, rows=mixed_rows())
    check_invariant_7(drawn)
    for patch in BREAKS_INVARIANT_7[broken]:
        monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError, match="invariant 7:"):
        check_invariant_7(drawn)
