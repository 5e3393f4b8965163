"""Invariant 5. The policy file stays private."""

import contextlib
import os
import stat
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest
from hypothesis import given

import trajcloak as tc
from invariants.common import EXAMPLE, FILES, property_test, require
from runs import anonymize
from small_logs import dense_logs, list_tree, new_folder, read_rows
from trajcloak import output
from trajcloak.release import result as result_module
from trajcloak.release.result import RunResult


def check_invariant_5(result: RunResult) -> None:
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


def check_policy_mode(result: RunResult) -> None:
    modes = []
    join_row_groups = result_module.join_row_groups

    def watched(groups: Any, stream: Any) -> None:
        # A table in memory is no file, and its stream has no name.
        path = Path(getattr(stream, "name", FILES[0]))
        if path.name in FILES:
            join_row_groups(groups, stream)
            return
        modes.append(path.stat().st_mode)
        join_row_groups(groups, stream)
        modes.append(path.stat().st_mode)

    with new_folder() as folder, mock.patch.object(result_module, "join_row_groups", watched):
        result.write(folder / "release", folder / "policy.parquet")
        modes.append((folder / "policy.parquet").stat().st_mode)
        require(
            pq.read_table(folder / "policy.parquet").column_names
            == ["window", "user_id", "bundle_id"],
            "invariant 5: the policy is not what it should be",
        )
        for path in (folder / "release").rglob("*"):
            require(path.name in FILES, "invariant 5: the policy is inside the release")
    for mode in modes:
        require(stat.S_IMODE(mode) == 0o600, "invariant 5: others can read the policy")


def check_places_are_refused(result: RunResult, folder: Path) -> None:
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


def test_invariant_5_the_policy_file_stays_private():
    @property_test(10)
    @given(dense_logs())
    def holds(drawn):
        check_invariant_5(anonymize(read_rows(drawn.rows), drawn.k, **drawn.run_options))

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


def trust_the_path(release, private):
    """Compare names only."""
    output.check_new(release)
    if any(policy.parent == release for policy in private):
        raise tc.OptionError("the policy file would stand inside the release")


BREAKS_INVARIANT_5 = {
    "mode_0644": [(result_module, "PRIVATE", 0o644)],
    "mode_0640": [(result_module, "PRIVATE", 0o640)],
    "private_at_the_end": [(result_module, "new_file", make_private_at_the_end)],
    "always": [(RunResult, "write", write_policy_always(RunResult.write))],
    "in_the_release": [(RunResult, "write", write_policy_into_the_release(RunResult.write))],
    "unchecked": [(result_module, "check_outputs", lambda release, private: None)],
    "by_name_only": [(result_module, "check_outputs", trust_the_path)],
}


@pytest.mark.parametrize("broken", BREAKS_INVARIANT_5)
def test_invariant_5_is_seen_to_fail(monkeypatch, broken):
    result = anonymize(read_rows(EXAMPLE.rows), 3)
    check_invariant_5(result)
    for patch in BREAKS_INVARIANT_5[broken]:
        monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError, match="invariant 5:"):
        check_invariant_5(result)
