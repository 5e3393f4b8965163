"""The private policy file: who is in which bundle."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_log import Log, match_ids
from trajcloak.auditor.audited_values import Ints, decode_array
from trajcloak.auditor.findings import first_rows
from trajcloak.parquet.bounds import check_parquet


@dataclass(frozen=True)
class Members:
    """The members of all bundles, bundle after bundle.

    Attributes
    ----------
    user
        Their numbers in the log.
    first
        Where the members of each bundle start.
    window
        Of each bundle; ascending.
    """

    user: Ints
    first: Ints
    window: Ints

    @property
    def sizes(self) -> Ints:
        """How many members each bundle has."""
        return np.diff(self.first)

    def list_bundles(self, window: int) -> tuple[int, int]:
        """Find the first bundle of a window, and the one after its last."""
        start, stop = np.searchsorted(self.window, [window, window + 1]).tolist()
        return start, stop


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


def read_policy(path: Path, log: Log, grid: InstantGrid) -> tuple[Members | None, list[str]]:
    """Read who is in which bundle; returns that if it can be used, and what is wrong.

    The order of rows is private, and may be any.
    """
    try:
        check_parquet(path)
        table = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        return None, ["the policy cannot be read as Parquet"]
    if table.column_names != ["window", "user_id", "bundle_id"]:
        return None, ["the policy has other columns than window, user_id and bundle_id"]
    columns = [decode_array(table[name].combine_chunks()) for name in table.column_names]
    types = [pa.int32(), log.ids.type, pa.int64()]
    if any(c.type != t or c.null_count for c, t in zip(columns, types, strict=True)):
        return None, ["the columns of the policy are not of the types int32, that of ids, int64"]
    window, bundle = (columns[i].to_numpy().astype(np.int64) for i in (0, 2))
    user = match_ids(columns[1], log.ids)
    if not len(user) or bundle.min() < 0 or bundle.max() >= len(bundle):
        return None, ["the bundles of the policy are not numbered 0, 1, 2, ..."]
    order = np.lexsort([user, bundle])
    first = np.append(0, np.cumsum(np.bincount(bundle)))
    of_bundle = window[order][first[:-1][np.diff(first) > 0]]
    if len(of_bundle) < len(first) - 1:
        return None, ["the bundles of the policy are not numbered 0, 1, 2, ..."]
    problems = []
    if (of_bundle[bundle] != window).any():
        problems.append("a bundle of the policy is in several windows")
    if (np.diff(of_bundle) < 0).any() or of_bundle[0] < 0 or of_bundle[-1] >= grid.num_windows:
        problems.append("the bundles of the policy are not numbered window by window")
    if (user < 0).any():
        problems.append(f"users that the log does not have: {first_rows(np.flatnonzero(user < 0))}")
    by_user = np.lexsort([user, window])
    again = (np.diff(user[by_user]) == 0) & (np.diff(window[by_user]) == 0)
    if again.any():
        rows = np.sort(by_user[1:][again])
        problems.append(f"a user more than once in a window: {first_rows(rows)}")
    if problems:
        return None, problems
    return Members(user[order], first, of_bundle), []
