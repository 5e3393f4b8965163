"""Judge a published table of any tool against a log: who could be in its rectangles."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from trajcloak.auditor.audited_columns import Ints, match_ids
from trajcloak.auditor.audited_log import AuditedLog, AuditedRows, read_audited_log
from trajcloak.auditor.audited_times import duration_to_ticks
from trajcloak.auditor.expected_instants import InstantGrid
from trajcloak.auditor.findings import AuditReport, Findings, find_rows, first_rows
from trajcloak.auditor.foreign_candidates import (
    CandidateCounts,
    GroupMembers,
    count_candidates,
)
from trajcloak.auditor.foreign_identifiers import (
    find_long_ids,
    find_lookalikes,
    find_named_users,
    find_own_ids,
)
from trajcloak.auditor.foreign_table import (
    ForeignTable,
    Link,
    list_links,
    read_foreign,
    read_plain_columns,
)
from trajcloak.errors import InputError, OptionError
from trajcloak.log.file_columns import LogPath
from trajcloak.options import HOLD, TP_AWARE, LogColumns, check_number
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

MAX_INSTANTS = 2**27
MAX_LOCATIONS = 2**34
"""Far beyond any log, but not beyond a wrong time."""

MIN_FOUND = 3
ABOVE_CHANCE = 4
"""So many edges may equal a coordinate of a user: the first number, and the second number times as
many as chance explains."""

TRAJECTORY_AWARE = "trajectory-aware"
ASSUMPTIONS = (
    "Assumes that senders were inside their rectangles, that attackers know every location of "
    "the log, and that rows are linked by single columns, or by all of them together.",
    "How the tool chose its groups was not looked at: attackers who know that may learn more.",
)


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
    """Check what a table of any tool gives away; see :func:`trajcloak.audit_foreign`."""
    check_number("k", k, 1)
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
    members = None
    if policy is not None:
        members = _read_members(Path(policy), foreign, read.ids, group)
    links = list_links(foreign, group)
    named = find_named_users(foreign, read.ids)
    groupings = [np.arange(len(foreign.first))]
    groupings += [group for link in links for group in (link.group, link.shuffled)]
    counts = count_candidates(
        foreign, rows, grid, groupings, members, list(named.values()), progress
    )
    checks = (name for name in FOREIGN_CHECKS if name != "members" or members is not None)
    findings = Findings(tuple(checks))
    findings.record("rectangles", len(foreign.first), _find_bad_rows(foreign, grid), "rows")
    _record_links(findings, links, counts.candidates, k)
    _record_sizes(findings, foreign, counts, members, k)
    findings.record(
        "exact coordinates", counts.num_edges, _find_exact(foreign, counts), "different edges"
    )
    problems = find_long_ids(foreign, read.ids)
    problems += find_own_ids(named, counts, len(read.ids))
    findings.record("user ids", len(read.ids), problems, "ids")
    findings.record("identifiers", len(foreign.columns), find_lookalikes(foreign), "columns")
    findings.notes += ASSUMPTIONS
    return findings.report(k, TRAJECTORY_AWARE if members is None else TP_AWARE)


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
    if num_instants > MAX_INSTANTS or num_instants * log.num_users > MAX_LOCATIONS:
        raise OptionError(
            "the log has too many instants to be followed; expected fewer; pass a longer --every"
        )
    return grid


def _read_duration(text: str | None, log: AuditedLog, name: str) -> int | None:
    if text is None:
        return None
    value: object = text if log.stamped else (int(text) if text.isdecimal() else None)
    ticks = duration_to_ticks(value, log.stamped)
    if ticks is None:
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


def _read_members(path: Path, foreign: ForeignTable, ids: Any, group: str | None) -> GroupMembers:
    """Read users and their groups; the groups are named as in a column of the published table."""
    columns = read_plain_columns(path)
    names = [name for name in columns if name != "window"]
    users = [name for name in names if _has_all(columns[name], ids)]
    for name in names:
        if name in users[:1]:
            continue
        for among in [group] if group is not None else list(foreign.columns):
            keys = foreign.columns[among].unique()
            if users and _has_all(columns[name], keys) and _has_all(keys, columns[name]):
                user, number = match_ids(columns[users[0]], ids), match_ids(columns[name], keys)
                pairs = np.unique(number * len(ids) + user)
                of_row = match_ids(foreign.columns[among], keys)
                return GroupMembers(*np.divmod(pairs, len(ids)), of_row)
    raise InputError(
        f"{path}: has no column of users of the log beside one of groups of the table; "
        f"expected both, in every row; check the path, or name the table's column with --group"
    )


def _has_all(values: Any, among: Any) -> bool:
    return bool((match_ids(values, among) >= 0).all())


def _record_links(findings: Findings, links: list[Link], candidates: list[Ints], k: int) -> None:
    """Check each row alone, and with every link; names the worst."""
    alone = np.flatnonzero(candidates[0] < k)
    found = []
    if len(alone):
        said = _say_small("rows", candidates[0], alone, k, "candidates", alone)
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
            said = _say_small("groups", own, small, k, "candidates", rows)
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


def _say_small(what: str, sizes: Ints, small: Ints, k: int, users: str, rows: Ints) -> str:
    return (
        f"{len(small):,} of {len(sizes):,} {what} have fewer than {k:,} {users}, the smallest "
        f"{int(sizes[small].min()):,}: {first_rows(rows)}"
    )


def _record_sizes(
    findings: Findings,
    foreign: ForeignTable,
    counts: CandidateCounts,
    members: GroupMembers | None,
    k: int,
) -> None:
    """Check what the table says about numbers of users, and who is in which group."""
    problems = []
    if foreign.sizes is not None:
        if members is None:
            wrong, what = foreign.sizes > counts.candidates[0], "more than its candidates"
        else:
            own = members.sizes[members.of_row]
            wrong, what = foreign.sizes != own, "not its number of members"
        problems = find_rows(wrong, f"the count of users is {what}")
    findings.record("claimed users", len(foreign.first), problems, "rows")
    if members is None:
        return
    problems, sizes = [], members.sizes
    small = np.flatnonzero(sizes < k)
    if len(small):
        rows = np.flatnonzero(np.isin(members.of_row, small))
        problems.append(_say_small("groups", sizes, small, k, "members", rows))
    outside = sizes - counts.inside
    what = f"{int(outside.sum()):,} members are not in all rectangles of their group"
    problems += find_rows(outside[members.of_row] > 0, what)
    findings.record("members", int(sizes.sum()), problems, "members")


def _find_bad_rows(foreign: ForeignTable, grid: InstantGrid) -> list[str]:
    x_min, y_min, x_max, y_max = foreign.rectangle.T
    is_unknown = (foreign.first < 0) | (foreign.stop > grid.num_instants)
    problems = find_rows((x_min > x_max) | (y_min > y_max), "edges in the wrong order")
    return problems + find_rows(is_unknown, "times that the log lacks")


def _find_exact(foreign: ForeignTable, counts: CandidateCounts) -> list[str]:
    x_min, y_min, x_max, y_max = foreign.rectangle.T
    problems = find_rows((x_min == x_max) | (y_min == y_max), "rectangles without an area")
    if counts.num_known > MIN_FOUND + ABOVE_CHANCE * counts.by_chance:
        problems.append(
            f"{counts.num_known:,} of {counts.num_edges:,} different edges equal a coordinate of a "
            f"user at that instant; chance would have {counts.by_chance:,.0f}"
        )
    return problems
