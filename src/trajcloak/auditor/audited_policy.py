"""The private policy file: who is in which bundle."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from trajcloak.auditor.audited_columns import Ints, match_ids, read_parquet
from trajcloak.auditor.audited_log import AuditedLog
from trajcloak.auditor.expected_instants import InstantGrid
from trajcloak.auditor.findings import find_rows
from trajcloak.log.types import to_plain

ABSENT = -1
"""Part of a member at an instant at which the member is not shown."""


@dataclass(frozen=True)
class BundleMembers:
    """The members of all bundles, bundle after bundle."""

    user: Ints  # their numbers in the log
    first: Ints  # where the members of each bundle start
    window: Ints  # of each bundle; ascending
    # Of each window, if bundles are shown in parts: the part of each member, in one column for the
    # whole window or in one for each instant. Empty without parts. In the release of a stream,
    # ``ABSENT`` where the policy has no row.
    parts: dict[int, Ints]

    @property
    def sizes(self) -> Ints:
        """How many members each bundle has."""
        return np.diff(self.first)

    def list_bundles(self, window: int) -> tuple[int, int]:
        """Find the first bundle of a window, and the one after its last."""
        start, stop = np.searchsorted(self.window, [window, window + 1]).tolist()
        return start, stop


def find_exposure(policy: Path, release: Path, parts_per: str | None) -> list[str]:
    """Check that private files are readable by their owner only, and not in the release."""
    problems = []
    files = {"policy file": policy}
    if parts_per == "instant":
        files["file of parts beside the policy file"] = name_parts_file(policy)
    for what, file in files.items():
        mode = stat.S_IMODE(file.stat().st_mode)
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            problems.append(f"the {what} has mode {mode:04o}; expected 0600")
        if file.resolve().is_relative_to(release.resolve()):
            problems.append(f"the {what} is inside the release folder")
    return problems


def name_parts_file(policy: Path) -> Path:
    """Name the private file beside the policy file, with parts per instant."""
    return policy.with_stem(f"{policy.stem}-parts")


def read_policy(
    path: Path, log: AuditedLog, grid: InstantGrid, parts_per: str | None
) -> tuple[BundleMembers | None, list[str]]:
    """Read who is in which bundle; returns that if it can be used, and what is wrong.

    The order of rows is private, and may be any. ``parts_per`` says what a part keeps its
    members for: ``window``, or ``instant``, which is in a second file; None without parts.
    """
    names = ["window", "user_id", "bundle_id", *(["part"] if parts_per == "window" else [])]
    columns = _read_private(path, names, log)
    if columns is None:
        return None, [f"the policy is no Parquet file with the columns {', '.join(names)}"]
    window, user, bundle, *part = columns
    in_range = len(user) and bundle.min() >= 0 and bundle.max() < len(bundle)
    if not in_range or not np.bincount(bundle).all():
        return None, ["the bundles of the policy are not numbered 0, 1, 2, ..."]
    order = np.lexsort([user, bundle])
    first = np.append(0, np.cumsum(np.bincount(bundle)))
    of_bundle = window[order][first[:-1]]
    problems = []
    if (of_bundle[bundle] != window).any():
        problems.append("a bundle of the policy is in several windows")
    if (np.diff(of_bundle) < 0).any() or of_bundle[0] < 0 or of_bundle[-1] >= grid.num_windows:
        problems.append("the bundles of the policy are not numbered window by window")
    problems += find_rows(user < 0, "users that the log does not have")
    by_user = np.lexsort([user, window])
    again = np.zeros(len(user), bool)
    again[by_user[1:]] = (np.diff(user[by_user]) == 0) & (np.diff(window[by_user]) == 0)
    problems += find_rows(again, "a user more than once in a window")
    if problems:
        return None, problems
    members = BundleMembers(user[order], first, of_bundle, {})
    if parts_per is None:
        return members, []
    if parts_per == "window":
        for number in np.unique(of_bundle).tolist():
            low, high = members.list_bundles(number)
            members.parts[number] = part[0][order[first[low] : first[high]], None]
    else:
        problems = _read_parts(name_parts_file(path), log, grid, members)
    sizes = np.repeat(members.sizes, members.sizes)
    least = 0 if grid.needed is None else ABSENT
    for number, of_window in members.parts.items():
        low, high = members.list_bundles(number)
        most = sizes[first[low] : first[high], None]
        if ((of_window < least) | (of_window >= most)).any():
            problems = ["the parts of a bundle are not numbered 0, 1, 2, ..."]
    return (None, problems) if problems else (members, [])


def _read_parts(
    path: Path, log: AuditedLog, grid: InstantGrid, members: BundleMembers
) -> list[str]:
    """Read who is in which part at each instant into ``members.parts``."""
    names = ["window", "instant", "user_id", "part"]
    columns = _read_private(path, names, log)
    if columns is None:
        return [f"{path.name} is no Parquet file with the columns {', '.join(names)}"]
    order = np.argsort(columns[0], kind="stable")
    window, instant, user, part = (column[order] for column in columns)
    for number in np.unique(members.window).tolist():
        low, high = members.list_bundles(number)
        own = members.user[members.first[low] : members.first[high]]
        place = np.full(len(log.ids) + 1, -1)
        place[own] = np.arange(len(own))
        rows = slice(*np.searchsorted(window, [number, number + 1]))
        member, within = place[user[rows]], instant[rows] - grid.starts[number]
        of_window = np.full((len(own), int(grid.lengths[number])), ABSENT)
        right = (member >= 0) & (within >= 0) & (within < of_window.shape[1]) & (part[rows] >= 0)
        of_window[member[right], within[right]] = part[rows][right]
        num_found = int((of_window != ABSENT).sum())
        # Members of a stream may leave: who must have a row is found when users are followed.
        is_whole = grid.needed is not None or num_found == of_window.size
        if not right.all() or len(member) != num_found or not is_whole:
            return [f"{path.name} has not one row for each member and instant of window {number}"]
        members.parts[number] = of_window
    if not np.isin(window, members.window).all():
        return [f"{path.name} has rows of windows that have no bundles"]
    return []


def _read_private(path: Path, names: list[str], log: AuditedLog) -> list[Ints] | None:
    """Read columns of a private file as numbers; None if it does not have exactly these."""
    table = read_parquet(path)
    if table is None or table.column_names != names:
        return None
    types = {"user_id": log.ids.type, "bundle_id": pa.int64()}
    columns: list[Ints] = []
    for name in names:
        column = to_plain(table[name].combine_chunks())
        if column.type != types.get(name, pa.int32()) or column.null_count:
            return None
        is_id = name == "user_id"
        columns.append(match_ids(column, log.ids) if is_id else column.to_numpy().astype(np.int64))
    return columns
