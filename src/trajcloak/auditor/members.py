"""The policy file: who is in which bundle."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.arrays import find_sorted, list_distinct
from trajcloak.auditor.files import plain, plain_type
from trajcloak.auditor.findings import first_few, first_rows
from trajcloak.auditor.grid import Grid
from trajcloak.auditor.layout import Layout
from trajcloak.auditor.logs import Log
from trajcloak.auditor.parts import Part, find_nulls, find_schema_problems

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Members:
    """The usable rows of a policy: a known user, in a bundle of the row's window.

    Attributes
    ----------
    key
        ``user * num_windows + window``; ascending, each once.
    bundle
        Index of the bundle in the layout.
    row
        Number of the row in the policy file, from 0.
    sizes
        Of each bundle of the layout, how many distinct users it has.
    """

    key: Ints
    bundle: Ints
    row: Ints
    sizes: Ints

    def find(self, keys: Ints) -> Ints:
        """Find the positions of keys; -1 for those that are not there."""
        return find_sorted(self.key, keys)


def find_policy_problems(part: Part, log: Log) -> list[str]:
    """Check the columns of a policy file."""
    is_text = pa.types.is_string(log.ids.type)
    kind = log.ids.type if is_text else None
    expected = [("window", pa.int32()), ("user_id", kind), ("bundle_id", pa.int64())]
    problems = find_schema_problems(part, expected, "the policy", as_in_log=("user_id",))
    if problems:
        return problems
    if not is_text and not pa.types.is_integer(part.table.schema.field("user_id").type):
        problems.append("column 'user_id' of the policy holds no integers, as the log does")
    return problems + find_nulls(part, ("window", "user_id", "bundle_id"), "the policy")


def find_exposure(policy: Path, release: Path) -> list[str]:
    """Check that a policy file is readable by its owner only, and not in the release."""
    problems = []
    if os.name == "posix":
        mode = stat.S_IMODE(policy.stat().st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            problems.append(f"the policy file has mode {mode:04o}; expected 0600")
    if policy.resolve().is_relative_to(release.resolve()):
        problems.append("the policy file is inside the release folder")
    return problems


def build_members(part: Part, log: Log, grid: Grid, layout: Layout) -> tuple[Members, list[str]]:
    """Match the rows of a policy with the users of the log and the bundles."""
    table = part.table
    kind = plain_type(table.schema.field("user_id").type)
    ids = pa.chunked_array([plain(chunk) for chunk in table["user_id"].chunks], kind)
    user = _number(ids, log)
    window = table["window"].to_numpy().astype(np.int64)
    bundle = layout.find(table["bundle_id"].to_numpy())

    problems = []
    known = user >= 0
    if not known.all():
        problems.append(
            f"users that the log does not have in {first_rows(np.flatnonzero(~known))} "
            f"of the policy"
        )
    fitting = (bundle >= 0) & (layout.window[bundle] == window)
    if not fitting.all():
        problems.append(
            f"no bundle of that window in {first_rows(np.flatnonzero(~fitting))} of the policy"
        )
    usable = np.flatnonzero(known & fitting)
    key = user[usable] * grid.num_windows + window[usable]
    order = np.argsort(key, kind="stable")
    key, row = key[order], usable[order]
    repeated = np.flatnonzero(key[1:] == key[:-1]) + 1
    if len(repeated):
        problems.append(
            f"a user more than once in a window: {first_rows(np.sort(row[repeated]))} of the policy"
        )
    once = np.append(True, key[1:] != key[:-1])[: len(key)]
    pairs = list_distinct(bundle[row] * log.num_users + user[row])
    sizes = np.bincount(pairs // log.num_users, minlength=len(layout.ids))
    return Members(key[once], bundle[row[once]], row[once], sizes), problems


def _number(ids: Any, log: Log) -> Ints:
    try:
        ids = pc.cast(ids, log.ids.type)
    except pa.ArrowInvalid:
        # An integer that the log's ids cannot even hold.
        ids = pc.cast(ids, pa.string())
        return _fill(pc.index_in(ids, value_set=pc.cast(log.ids, pa.string())))
    return _fill(pc.index_in(ids, value_set=log.ids))


def _fill(indices: Any) -> Ints:
    filled: Ints = pc.fill_null(indices, -1).to_numpy().astype(np.int64)
    return filled


def find_small_bundles(layout: Layout, sizes: Ints, k: int) -> list[str]:
    """Check that every bundle has at least k users, and as many as it says."""
    problems = []
    small = np.flatnonzero(sizes < k)
    if len(small):
        problems.append(
            f"{len(small):,} bundles with fewer than {k} users, the smallest with "
            f"{int(sizes.min())} ({first_few(layout.ids[small])})"
        )
    differing = np.flatnonzero(sizes != layout.users)
    if len(differing):
        problems.append(
            f"{len(differing):,} bundles whose 'users' is not the number of users in them "
            f"({first_few(layout.ids[differing])})"
        )
    return problems
