"""Judge a published table of any tool against a log: who could be in its rectangles."""

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_log import AuditedLog, AuditedRows, read_audited_log
from trajcloak.auditor.audited_values import Ints, duration_to_ticks
from trajcloak.auditor.findings import AuditReport, Findings, first_rows
from trajcloak.auditor.foreign_candidates import (
    CandidateCounts,
    GroupMembers,
    KnownEdges,
    can_be_followed,
    count_candidates,
)
from trajcloak.auditor.foreign_columns import Link, count_numbers, list_links, list_long_ids
from trajcloak.auditor.foreign_table import ForeignTable, read_foreign, read_plain_columns
from trajcloak.errors import InputError, OptionError
from trajcloak.log.files import LogPath
from trajcloak.options import HOLD, TP_AWARE, LogColumns
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

NOBODY = np.zeros(0, np.int64)
TRAJECTORY_AWARE = "trajectory-aware"
ASSUMPTIONS = (
    "Assumes that senders were inside their rectangles, that attackers know every location of "
    "the log, and that rows are linked by single columns, or by all of them together.",
    "How the tool chose its groups was not looked at: attackers who know that may learn more.",
)

MANY_VALUES = 200
PATTERNS = {
    "e-mail addresses": r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+\.[A-Za-z]{2,}",
    "tokens": r"^[0-9A-Fa-f]{16,}$|[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",
    "network addresses": r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$",
    "phone numbers": r"^\+[0-9][0-9 ()/-]{6,}[0-9]$",
    "coordinates": r"^[-+]?[0-9]{1,3}\.[0-9]{2,}[,; ]+[-+]?[0-9]{1,3}\.[0-9]{2,}$",
}


def audit_foreign_table(
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
    """Check what a table of any tool gives away; see :func:`trajcloak.audit_foreign`.

    Parameters
    ----------
    log
        Files, or an Arrow table.
    columns
        Which columns of the log mean what.
    table, k, policy, group, every, max_gap, missing
        As for :func:`trajcloak.audit_foreign`; durations as text.
    progress
        Called with the progress of each stage.

    Examples
    --------
    >>> report = audit_foreign_table("log.parquet", "cells.csv", k=50)
    >>> report.passed
    False
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise OptionError(f"k is {k}; expected a whole number of at least 1; pass another --k")
    with ExitStack() as stack:
        read = read_audited_log(log, columns or LogColumns(), None, None, stack, progress)
        rows = read.load(0)
    grid = _lay_instants(read, rows, every, max_gap, missing == HOLD)
    foreign = read_foreign(Path(table), read, grid)
    if group is not None and group not in foreign.columns:
        raise InputError(
            f"{table}: there is no column '{group}'; expected the groups in it; pass another "
            f"--group"
        )
    names = [name for name in FOREIGN_CHECKS if name != "members" or policy is not None]
    findings = Findings(tuple(names))
    members, grouping = GroupMembers(NOBODY, NOBODY), np.arange(len(foreign.first))
    if policy is not None:
        members, grouping = _read_members(Path(policy), foreign, read.ids, group)
    links = list_links(foreign, group)
    named = {name: _find_users(column, read.ids) for name, column in foreign.columns.items()}
    named = {name: users for name, users in named.items() if (users >= 0).any()}
    groupings = [grouping, np.arange(len(foreign.first))]
    groupings += [group for link in links for group in (link.group, link.shuffled)]
    counts = count_candidates(
        foreign, rows, grid, groupings, members, list(named.values()), progress
    )
    findings.record("rectangles", len(foreign.first), _find_bad_rows(foreign, grid), "rows")
    _record_links(findings, links, counts.candidates[1:], k)
    _record_sizes(findings, foreign, counts, members, grouping, k, policy is not None)
    findings.record("exact coordinates", counts.edges.num_edges, _find_exact(foreign, counts.edges),
        "different edges")  # fmt: skip
    problems = find_id_problems(foreign, read.ids)
    problems += _find_own_ids(named, counts, len(read.ids))
    findings.record("user ids", len(read.ids), problems, "ids")
    findings.record("identifiers", len(foreign.columns), find_lookalikes(foreign), "columns")
    findings.notes += ASSUMPTIONS
    return findings.report(k, TRAJECTORY_AWARE if policy is None else TP_AWARE)


def _lay_instants(
    log: AuditedLog, rows: AuditedRows, every: str | None, max_gap: str | None, hold: bool
) -> InstantGrid:
    """Lay instants over a log, as ``docs/data-model.md`` says."""
    step = _read_duration(every, log, "every") or _guess_step(log, rows)
    gap = _read_duration(max_gap, log, "max-gap")
    origin = log.earliest if log.step % step == 0 else log.earliest // step * step
    num_instants = (log.latest - origin) // step + 1
    gap = 2 * step if gap is None else gap
    whole = np.array([0]), np.array([num_instants])
    grid = InstantGrid(origin, step, gap, num_instants, hold, *whole)
    if num_instants > MAX_INSTANTS or not can_be_followed(rows, grid):
        raise OptionError(
            "the log has too many instants to be followed; expected fewer; pass a longer --every"
        )
    return grid


def _read_duration(text: str | None, log: AuditedLog, name: str) -> int | None:
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


def _guess_step(log: AuditedLog, rows: AuditedRows) -> int:
    """Find the step of the log's own grid, if it has reports at half of the instants or more."""
    step = log.step or 1
    has_rows = np.diff(rows.first) > 0
    start, stop = rows.first[:-1][has_rows], rows.first[1:][has_rows]
    spans = (rows.time[stop - 1] - rows.time[start]) // step + 1
    if 2 * len(rows.time) < float(spans.sum(dtype=np.float64)):
        raise OptionError(
            "the log's times have no common step; expected to be told the time from one instant "
            "to the next; pass --every"
        )
    return step


def _read_members(
    path: Path, foreign: ForeignTable, ids: Any, group: str | None
) -> tuple[GroupMembers, Ints]:
    """Read users and their groups; the groups are named as in a column of the published table.

    Returns who is in which group, and the group of each row of the table.
    """
    columns = read_plain_columns(path)
    names = [name for name in columns if name != "window"]
    users = [name for name in names if _has_all(columns[name], ids)]
    for name in names:
        if name in users[:1]:
            continue
        for among in [group] if group is not None else list(foreign.columns):
            keys = foreign.columns[among].unique()
            if users and _has_all(columns[name], keys) and _has_all(keys, columns[name]):
                user, number = _find(columns[users[0]], ids), _find(columns[name], keys)
                pairs = np.unique(number * len(ids) + user)
                members = GroupMembers(*np.divmod(pairs, len(ids)))
                return members, _find(foreign.columns[among], keys)
    raise InputError(
        f"{path}: has no column of users of the log beside one of groups of the table; "
        f"expected both, in every row; check the path, or name the table's column with --group"
    )


def _find(values: Any, among: Any) -> Ints:
    texts = pc.cast(values, pa.string()), pc.cast(among, pa.string())
    found = pc.index_in(texts[0], value_set=texts[1])
    numbers: Ints = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return numbers


def _has_all(values: Any, among: Any) -> bool:
    try:
        return bool((_find(values, among) >= 0).all())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False


def _find_users(values: Any, ids: Any) -> Ints:
    """Find the user that each row names: by the whole value, or by the only number in a text."""
    try:
        text = pc.cast(values, pa.string())
        whole = _find(text, ids)
        digits = pc.replace_substring_regex(text, "^[^0-9]*([0-9]+)[^0-9]*$", "\\1")
        return np.where(whole >= 0, whole, _find(digits, ids))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return np.full(len(values), -1)


def _find_own_ids(named: dict[str, Ints], counts: CandidateCounts, num_users: int) -> list[str]:
    """Find columns that name users inside their row's rectangle, far more often than chance."""
    problems = []
    inside = counts.candidates[1] / num_users
    for (name, users), own in zip(named.items(), counts.own, strict=True):
        share = inside[users >= 0]
        spread = math.sqrt(float((share * (1 - share)).sum()))
        by_chance = float(share.sum()) + ABOVE_CHANCE * spread
        if own >= MIN_FOUND and 2 * own >= len(share) and own > by_chance:
            problems.append(
                f"column '{name}' has the id of a user inside the rectangle in {own:,} of "
                f"{len(share):,} rows with an id"
            )
    return problems


def _record_links(findings: Findings, links: list[Link], candidates: list[Ints], k: int) -> None:
    """Check each row alone, and with every link; names the worst."""
    alone = np.flatnonzero(candidates[0] < k)
    found = []
    if len(alone):
        said = _say_small("rows", alone, candidates[0], alone, k)
        found.append((int(candidates[0].min()), -len(alone), said))
    taken, fewest = [], int(candidates[0].min())
    for link, own, by_chance in zip(links, candidates[1::2], candidates[2::2], strict=True):
        if not link.could_link(own, by_chance):
            continue
        taken.append(f"'{link.name}'")
        fewest = min(fewest, int(own[own >= link.least].min(initial=fewest)))
        small = link.find_small(own, k)
        if len(small):
            rows = np.flatnonzero(np.isin(link.group, small))
            said = _say_small("groups", small, own, rows, k)
            said = f"with '{link.name}' as a link, {said}"
            found.append((int(own[small].min()), -len(rows), said))
    # The worst: the fewest candidates, and then for most rows.
    problems = [min(found)[-1]] if found else []
    if len(found) > 1:
        problems.append(f"{len(found) - 1} other ways to read the table also give too few")
    findings.record(
        "candidates", len(candidates[0]), problems, f"{fewest:,} or more candidates; rows"
    )
    others = [f"'{link.name}'" for link in links if f"'{link.name}'" not in taken]
    findings.notes.append(f"Taken as links between rows: {', '.join(taken) or 'none'}.")
    if others:
        findings.notes.append(
            f"Not taken as links, since nobody fits most of their values: {', '.join(others)}."
        )


def _say_small(what: str, small: Ints, candidates: Ints, rows: Ints, k: int) -> str:
    return (
        f"{len(small):,} of {len(candidates):,} {what} have fewer than {k:,} candidates, the "
        f"smallest {int(candidates[small].min()):,}: {first_rows(rows)}"
    )


def _record_sizes(
    findings: Findings,
    foreign: ForeignTable,
    counts: CandidateCounts,
    members: GroupMembers,
    grouping: Ints,
    k: int,
    has_members: bool,
) -> None:
    """Check what the table says about numbers of users, and who is in which group."""
    sizes = np.bincount(members.group, minlength=int(grouping.max()) + 1)
    problems = []
    if foreign.sizes is not None:
        known = sizes[grouping] if has_members else counts.candidates[1]
        wrong = foreign.sizes != known if has_members else foreign.sizes > known
        if wrong.any():
            what = "not its number of members" if has_members else "more than its candidates"
            problems.append(f"the count of users is {what} in {first_rows(np.flatnonzero(wrong))}")
    findings.record("claimed users", len(foreign.first), problems, "rows")
    if not has_members:
        return
    problems = []
    small = np.flatnonzero(sizes < k)
    if len(small):
        rows = first_rows(np.flatnonzero(np.isin(grouping, small)))
        problems.append(
            f"{len(small):,} of {len(sizes):,} groups have fewer than {k:,} members, the smallest "
            f"{int(sizes.min()):,}: {rows}"
        )
    outside = sizes - counts.inside
    if outside.any():
        rows = first_rows(np.flatnonzero(outside[grouping] > 0))
        problems.append(
            f"{int(outside.sum()):,} members are not in all rectangles of their group, as in {rows}"
        )
    findings.record("members", int(sizes.sum()), problems, "members")


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


def _find_exact(foreign: ForeignTable, edges: KnownEdges) -> list[str]:
    x_min, y_min, x_max, y_max = foreign.rectangle.T
    problems = []
    flat = (x_min == x_max) | (y_min == y_max)
    if flat.any():
        problems.append(f"rectangles without an area in {first_rows(np.flatnonzero(flat))}")
    if edges.found > MIN_FOUND + ABOVE_CHANCE * edges.by_chance:
        problems.append(
            f"{edges.found:,} of {edges.num_edges:,} different edges equal a coordinate of a user "
            f"at that instant; chance would have {edges.by_chance:,.0f}"
        )
    return problems


def find_id_problems(foreign: ForeignTable, ids: Any) -> list[str]:
    """Search the table for ids of users that are long enough to tell from chance."""
    words, numbers = list_long_ids(ids)
    problems = []
    for name, values in foreign.columns.items():
        text = _join(values)
        num_found = int(words.find_in(text).sum()) + count_numbers(numbers, text)
        if num_found:
            problems.append(f"column '{name}' holds the ids of {num_found:,} users")
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
    for name, values in foreign.columns.items():
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
            problems.append(f"column '{name}' looks like {', '.join(found)}")
    return problems
