"""Judge a published table of any tool against a log: who could be in its rectangles."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_values import duration_to_ticks
from trajcloak.auditor.findings import AuditReport, Findings, first_rows
from trajcloak.auditor.foreign_ids import count_numbers, list_ids
from trajcloak.auditor.foreign_locations import (
    LocationLog,
    find_runs,
    find_size_problems,
    read_locations,
)
from trajcloak.auditor.foreign_table import (
    CandidateCounts,
    ForeignTable,
    GroupMembers,
    count_candidates,
    read_foreign,
    read_plain_columns,
)
from trajcloak.errors import InputError, OptionError
from trajcloak.log.files import LogPath
from trajcloak.options import HOLD, LogColumns
from trajcloak.progress import Progress, silent

FOREIGN_CHECKS = (
    "rectangles",
    "candidates",
    "claimed users",
    "members",
    "exact coordinates",
    "user ids",
    "identifiers",
)
"""Names of all checks of a foreign table, in the order of the report."""

MAX_INSTANTS = 2**31 - 1
MIN_FOUND = 3
ABOVE_CHANCE = 4
"""More than ``MIN_FOUND``, and this many times more than expected by chance, are a problem."""

MANY_VALUES = 200
PATTERNS = {
    "e-mail addresses": r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+\.[A-Za-z]{2,}",
    "tokens": r"^[0-9A-Fa-f]{16,}$|[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",
    "network addresses": r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$",
    "phone numbers": r"^\+[0-9][0-9 ()/-]{6,}[0-9]$",
    "coordinates": r"^[-+]?[0-9]{1,3}\.[0-9]{2,}[,; ]+[-+]?[0-9]{1,3}\.[0-9]{2,}$",
}


def audit_foreign(
    log: LogPath,
    table: str | Path,
    k: int,
    columns: LogColumns | None = None,
    *,
    policy: str | Path | None = None,
    group: str | None = None,
    every: str | None = None,
    max_gap: str | None = None,
    missing: str | None = None,
    progress: Progress = silent,
) -> AuditReport:
    """Check what a published table of any tool gives away to somebody who has the log.

    Parameters
    ----------
    log
        The log: a file, a glob, a folder, or a list of these.
    table
        What was published, as CSV or Parquet: a rectangle per row, with its time.
    k
        Least number of users who could be in a group at all its instants.
    columns
        Which columns of the log mean what.
    policy
        A private table of users and their groups: then members count, not candidates.
    group
        Column of the groups; default: ``bundle_id``, ``group`` and the like. Without
        one each row is judged alone.
    every, max_gap, missing
        The grid of instants, as in :class:`trajcloak.Options`.
    progress
        Called with the progress of each stage.

    Raises
    ------
    InputError
        If a file cannot be read, or the table does not fit the log.

    Examples
    --------
    >>> report = audit_foreign("log.parquet", "cells.csv", k=50)
    >>> report.passed
    False
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise OptionError(f"k is {k}; expected a whole number of at least 1; pass another --k")
    read = read_locations(log, columns or LogColumns(), progress)
    grid = _lay_instants(read, every, max_gap, missing == HOLD)
    foreign = read_foreign(Path(table), read, grid, group)
    members = GroupMembers(np.zeros(0, np.int64), np.zeros(0, np.int64))
    names = [name for name in FOREIGN_CHECKS if name != "members" or policy is not None]
    findings = Findings(tuple(names))
    if policy is not None:
        members = _read_members(Path(policy), foreign, read)
    counts = count_candidates(foreign, read, grid, members, progress)
    _record_counts(findings, foreign, grid, counts, members, k, policy is not None)
    problems = find_id_problems(foreign, read)
    findings.record("user ids", read.num_users, problems, "ids")
    problems = find_lookalikes(foreign)
    findings.record("identifiers", len(foreign.others), problems, "columns")
    return findings.report(k)


def _lay_instants(
    log: LocationLog, every: str | None, max_gap: str | None, hold: bool
) -> InstantGrid:
    """Lay instants over a log, as ``docs/data-model.md`` says."""
    step = _read_duration(every, log, "every") or _guess_step(log)
    gap = _read_duration(max_gap, log, "max-gap")
    earliest, latest = int(log.time.min()), int(log.time.max())
    on_grid = bool(((log.time - earliest) % step == 0).all())
    origin = earliest if on_grid else earliest // step * step
    num_instants = (latest - origin) // step + 1
    gap = 2 * step if gap is None else gap
    whole = np.array([0]), np.array([num_instants])
    grid = InstantGrid(origin, step, gap, num_instants, hold, *whole)
    if num_instants > MAX_INSTANTS or find_size_problems(log, grid):
        raise OptionError(
            "the log has too many instants to be followed; expected fewer; pass a longer --every"
        )
    return grid


def _read_duration(text: str | None, log: LocationLog, name: str) -> int | None:
    if text is None:
        return None
    value: object = text if log.stamped else (int(text) if text.isdigit() else None)
    ticks = duration_to_ticks(value, log.stamped)
    if ticks is None or ticks <= 0:
        raise OptionError(
            f"{name} is '{text}'; expected a duration above 0, such as 60s, or a whole number for "
            f"a log with integer times; pass another --{name}"
        )
    return ticks


def _guess_step(log: LocationLog) -> int:
    """Find the step of the log's own grid, if it has reports at half of the instants or more."""
    step = int(np.gcd.reduce(log.time - log.time.min())) or 1
    stop = np.flatnonzero(np.diff(log.user, append=-1))
    start = np.append(0, stop[:-1] + 1)
    instants = float(((log.time[stop] - log.time[start]) // step + 1).sum(dtype=np.float64))
    if 2 * len(log.time) < instants:
        raise OptionError(
            "the log's times have no common step; expected to be told the time from one instant "
            "to the next; pass --every"
        )
    return step


def _read_members(path: Path, foreign: ForeignTable, log: LocationLog) -> GroupMembers:
    """Read users and their groups; the groups are named as in the published table."""
    columns = read_plain_columns(path)
    if foreign.keys is None:
        raise InputError(
            "the published table has no groups; expected those of the policy file; name their "
            "column with --group, or leave out --policy"
        )
    names = [name for name in columns if name != "window"]
    users = [name for name in names if _count_found(columns[name], log.ids) == len(columns[name])]
    groups = [
        name
        for name in names
        if name not in users[:1] and _count_found(columns[name], foreign.keys) == len(columns[name])
    ]
    if not users or not groups:
        raise InputError(
            f"{path}: has no column of users of the log beside one of groups of the table; "
            f"expected both, in every row; check the path"
        )
    user = _find(columns[users[0]], log.ids)
    group = _find(columns[groups[0]], foreign.keys)
    pairs, _ = find_runs(np.sort(group * log.num_users + user))
    return GroupMembers(pairs // log.num_users, pairs % log.num_users)


def _find(values: Any, among: Any) -> npt.NDArray[np.int64]:
    texts = pc.cast(values, pa.string()), pc.cast(among, pa.string())
    found = pc.index_in(texts[0], value_set=texts[1])
    numbers: npt.NDArray[np.int64] = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return numbers


def _count_found(values: Any, among: Any) -> int:
    try:
        return int((_find(values, among) >= 0).sum())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return 0


def _record_counts(
    findings: Findings,
    foreign: ForeignTable,
    grid: InstantGrid,
    counts: CandidateCounts,
    members: GroupMembers,
    k: int,
    has_members: bool,
) -> None:
    num_rows = len(foreign.group)
    findings.record("rectangles", num_rows, _find_bad_rows(foreign, grid), "rows")
    sizes = np.bincount(members.group, minlength=foreign.num_groups)
    problems = [] if has_members else _find_small(foreign, counts.candidates, k, "candidates")
    findings.record("candidates", foreign.num_groups, problems, _summarise(counts.candidates))
    problems = []
    if foreign.sizes is not None:
        known = sizes if has_members else counts.candidates
        wrong = foreign.sizes != known[foreign.group]
        wrong = wrong if has_members else foreign.sizes > known[foreign.group]
        if wrong.any():
            what = "not its number of members" if has_members else "more than its candidates"
            problems.append(f"the count of users is {what} in {first_rows(np.flatnonzero(wrong))}")
    findings.record("claimed users", num_rows, problems, "rows")
    if has_members:
        problems = _find_small(foreign, sizes, k, "members")
        outside = sizes - counts.inside
        if outside.any():
            rows = np.flatnonzero(outside[foreign.group] > 0)
            problems.append(
                f"{int(outside.sum()):,} members are not in all rectangles of their group, as in "
                f"{first_rows(rows)}"
            )
        findings.record("members", int(sizes.sum()), problems, "members")
    problems = _find_exact(foreign, counts)
    findings.record("exact coordinates", counts.num_edges, problems, "edges")


def _find_bad_rows(foreign: ForeignTable, grid: InstantGrid) -> list[str]:
    x_min, y_min, x_max, y_max = foreign.rectangle.T
    problems = []
    for wrong, what in (
        ((x_min > x_max) | (y_min > y_max), "edges in the wrong order"),
        ((foreign.first < 0) | (foreign.stop > grid.num_instants), "times that the log lacks"),
    ):
        if wrong.any():
            problems.append(f"{what} in {first_rows(np.flatnonzero(wrong))}")
    return problems


def _find_small(
    foreign: ForeignTable, sizes: npt.NDArray[np.int64], k: int, what: str
) -> list[str]:
    small = sizes < k
    if not small.any():
        return []
    rows = np.flatnonzero(small[foreign.group])
    return [
        f"{int(small.sum()):,} of {len(sizes):,} groups have fewer than {k:,} {what}, the smallest "
        f"{int(sizes.min()):,}: {first_rows(rows)}"
    ]


def _summarise(candidates: npt.NDArray[np.int64]) -> str:
    return f"{int(candidates.min()):,} or more candidates; groups"


def _find_exact(foreign: ForeignTable, counts: CandidateCounts) -> list[str]:
    x_min, y_min, x_max, y_max = foreign.rectangle.T
    problems = []
    flat = (x_min == x_max) | (y_min == y_max)
    if flat.any():
        problems.append(f"rectangles without an area in {first_rows(np.flatnonzero(flat))}")
    if counts.edges > MIN_FOUND + ABOVE_CHANCE * counts.by_chance:
        problems.append(
            f"{counts.edges:,} of {counts.num_edges:,} edges equal a coordinate of a user at that "
            f"instant; chance would have {counts.by_chance:,.0f}"
        )
    return problems


def find_id_problems(foreign: ForeignTable, log: LocationLog) -> list[str]:
    """Search the table for ids of users that are long enough to tell from chance."""
    words, numbers = list_ids(log)
    problems = []
    for number, values in foreign.text.items():
        text = _join(values)
        num_found = int(words.find_in(text).sum()) + count_numbers(numbers, text)
        if num_found:
            problems.append(f"column {number} of the table holds the ids of {num_found:,} users")
    return problems


def _join(values: Any) -> bytes:
    """Join the distinct values of a column, as text."""
    try:
        texts = pc.cast(values.unique(), pa.string()).drop_null().to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Such as bytes of which some are no text: as Python shows them, so that none is missed.
        texts = [str(value) for value in values.to_pylist()]
    return "\0".join(texts).lower().encode()


def find_lookalikes(foreign: ForeignTable) -> list[str]:
    """Find other columns that look like identifiers or places."""
    problems = []
    for number, values in foreign.others.items():
        distinct = values.unique().drop_null()
        found = []
        if pa.types.is_string(distinct.type):
            found = [
                what
                for what, regex in PATTERNS.items()
                if pc.any(pc.match_substring_regex(distinct, regex)).as_py()
            ]
        if len(distinct) > max(MANY_VALUES, len(values) / 2):
            found.append("near-unique values")
        if found:
            problems.append(f"column {number} of the table looks like {', '.join(found)}")
    return problems
