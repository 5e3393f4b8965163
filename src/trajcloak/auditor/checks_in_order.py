"""All checks in order: expected tables from log and policy, then the files against them."""

import re
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trajcloak.auditor.audited_instants import (
    InstantGrid,
    build_instant_grid,
    find_plane_crs,
    find_region_problems,
)
from trajcloak.auditor.audited_log import Log, read_audited_log
from trajcloak.auditor.audited_policy import Members, find_exposure, read_policy
from trajcloak.auditor.canonical_files import (
    BUNDLES,
    MANIFEST,
    REQUESTS,
    ExpectedTables,
    explain_difference,
    find_encoder,
    get_own_encoder,
    has_same_bytes,
)
from trajcloak.auditor.expected_bundles import (
    CellGrid,
    Followed,
    count_suppressed,
    find_member_problems,
    find_order_problems,
    follow_users,
)
from trajcloak.auditor.expected_cloaks import cover_by_quads, read_node_cloaks
from trajcloak.auditor.expected_manifest import (
    expect_manifest,
    find_figure_problems,
    list_free_values,
)
from trajcloak.auditor.expected_requests import (
    RequestRules,
    Vocabulary,
    count_possible_senders,
    expect_requests,
    find_eligible,
)
from trajcloak.auditor.findings import CHECKS, AuditReport, Findings, first_few
from trajcloak.auditor.replayed_groups import find_other_groups
from trajcloak.errors import InputError, OptionError
from trajcloak.log.files import LogPath
from trajcloak.options import LogColumns
from trajcloak.output import new_folder
from trajcloak.progress import Progress
from trajcloak.release.manifest_schema import find_manifest_problems
from trajcloak.release.reading import parse_manifest
from trajcloak.version import __version__

FILES = (BUNDLES, MANIFEST, REQUESTS)
SOFTWARE = re.compile(r"trajcloak [0-9]{1,3}(\.[0-9]{1,3}){1,3}((a|b|rc|\.dev|\.post)[0-9]{1,3})?")


@dataclass(frozen=True)
class AuditInput:
    """What is to be audited, and how.

    Attributes
    ----------
    log, request_log
        As for :func:`trajcloak.read_log`.
    release, policy
        Paths.
    columns
        Which columns of the log mean what.
    k
        The least k that is asked for; None: that of the release.
    vocabulary
        The public list of values, if the release was made with one.
    replay
        Whether to run the algorithm again.
    rewrite
        Where to write a clean copy of the release; None: nowhere.
    memory
        Bytes that rows of the log may take; None: no limit.
    """

    log: LogPath
    request_log: LogPath | None
    release: Path
    policy: Path
    columns: LogColumns
    k: int | None
    vocabulary: Vocabulary | None
    replay: bool
    rewrite: Path | None
    memory: int | None


def run_checks(given: AuditInput, progress: Progress) -> AuditReport:
    """Run all checks."""
    findings = Findings(CHECKS if given.replay else CHECKS[:-1])
    _check_folder(given.release, findings)
    manifest, problems = _read_manifest(given.release / MANIFEST)
    if manifest is not None and not SOFTWARE.fullmatch(manifest["software"]):
        problems = ["field 'software' is not trajcloak and its version"]
    findings.record("manifest", 1, problems, "files")
    if manifest is not None and manifest["parameters"]["vocabulary"] and given.vocabulary is None:
        raise OptionError(
            "the release was made with a vocabulary; expected that list, to tell which requests "
            "had to be withheld; pass --vocabulary"
        )
    with ExitStack() as stack:
        log, columns, problems = _read_log(given, manifest, stack, progress)
        if manifest is None:
            return findings.report(None)
        _check_release(given, manifest, log, columns, problems, findings, progress)
    return findings.report(manifest["k"], "report-aware" if log.one_log else "tp-aware")


def _check_folder(folder: Path, findings: Findings) -> None:
    """Check that a release has its files, and no others."""
    names = [entry.name for entry in folder.iterdir()]
    problems = [f"{name} is missing" for name in FILES if not (folder / name).is_file()]
    problems += [f"{name} is a link" for name in FILES if (folder / name).is_symlink()]
    others = len(set(names) - set(FILES))
    if others:
        problems.append(f"{others} entries that are no part of a release")
    findings.record("release folder", len(names), problems, "files")


def _read_manifest(file: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """Read a manifest; returns it if it can be used, and what is wrong with it."""
    try:
        manifest = parse_manifest(file)
    except InputError:
        return None, ["manifest.json cannot be read as JSON in UTF-8"]
    problems = [
        f"field '{field}' is {found}; expected {expected}"
        for field, found, expected in find_manifest_problems(manifest)
    ]
    return (None, problems) if problems else (manifest, [])


def _read_log(
    given: AuditInput, manifest: dict[str, Any] | None, stack: ExitStack, progress: Progress
) -> tuple[Log, LogColumns, list[str]]:
    """Read the log as the manifest says; as the caller says where that cannot be done.

    Returns the log, what was read of it, and what is wrong with the manifest.
    """

    def read(columns: LogColumns) -> Log:
        return read_audited_log(
            given.log, columns, given.request_log, given.memory, stack, progress
        )

    if manifest is None:
        return read(given.columns), given.columns, []
    parameters = manifest["parameters"]
    try:
        said = given.columns.complete(parameters)
        if not said.requests:
            said = replace(said, requests=tuple(parameters["requests"]))
        return read(said), said, []
    except (InputError, OptionError) as error:
        try:
            log = read(given.columns)
        except (InputError, OptionError):
            raise error from None
        return log, given.columns, ["the log can be read, but not as the parameters say"]


def _check_release(
    given: AuditInput,
    manifest: dict[str, Any],
    log: Log,
    columns: LogColumns,
    problems: list[str],
    findings: Findings,
    progress: Progress,
) -> None:
    """Compute what must have been published, and compare it with the files."""
    parameters = manifest["parameters"]
    crs = find_plane_crs(log)
    grid = None
    if not problems:
        grid, problems = build_instant_grid(parameters, log)
        if not set(parameters["allow"]) <= set(parameters["requests"]):
            problems = [*problems, "parameter 'allow' names attributes that are not published"]
        if log.num_fast:
            problems = [*problems, f"{log.num_fast:,} rows of the log are faster than 'max_speed'"]
        if log.kinds.names != parameters["requests"]:
            problems = [*problems, "parameter 'requests' does not name the attributes of the log"]
    exposure = find_exposure(given.policy, given.release)
    if grid is None:
        findings.record("log", log.num_rows, problems, "rows")
        findings.record("policy", 0, [*exposure, "not compared with the log"], "members")
        return
    parts_per = None if manifest["parts"] is None else manifest["parts"]["per"]
    members, policy_problems = read_policy(given.policy, log, grid, parts_per)
    num_members = 0 if members is None else len(members.user)
    findings.record("policy", num_members, exposure + policy_problems, "members")
    if members is None:
        findings.record("log", log.num_rows, problems, "rows")
        return
    cells = CellGrid(**manifest["region"], height=manifest["height"])
    followed = follow_users(
        log, crs, grid, cells, members,
        keeps_marks=log.one_log and parameters["link_safe"], progress=progress,
    )  # fmt: skip
    problems = problems + find_region_problems(manifest["region"], followed.bounds)
    findings.record("log", log.num_rows, problems, "rows")
    tables = _expect_tables(given, manifest, columns, log, grid, cells, members, followed, findings)
    _compare_files(given, manifest, tables, findings)
    if given.replay:
        problems = find_other_groups(given, manifest, columns, log, members, progress)
        findings.record("replay", len(members.window), problems, "same bundles")
    else:
        findings.notes.append(
            "The algorithm was not run again (--replay): groups that were chosen with a look at "
            "requests would not be found."
        )


def _expect_tables(
    given: AuditInput,
    manifest: dict[str, Any],
    columns: LogColumns,
    log: Log,
    grid: InstantGrid,
    cells: CellGrid,
    members: Members,
    followed: Followed,
    findings: Findings,
) -> ExpectedTables:
    """Compute the tables that must have been published, and check who is in them."""
    parameters, k = manifest["parameters"], manifest["k"]
    least = parameters["members"] or k
    suppressed = count_suppressed(followed, least)
    problems = find_member_problems(followed, parameters, least, suppressed)
    num_pairs = int(followed.participants.sum())
    findings.record("one bundle per user", num_pairs, problems, "pairs of a user and a window")
    problems = _find_small(members, followed, manifest, given.k)
    findings.record("at least k users", len(members.window), problems, "bundles")

    boxes, problems = followed.boxes, []
    if manifest["cloak"] == "mbr":
        cloaks = boxes
    elif manifest["algorithm"] == "traj-anon" and not members.parts:
        cloaks, problems = read_node_cloaks(
            given.release / BUNDLES, boxes, followed.first_set, cells, parameters["tree"]
        )
    else:
        cloaks = cover_by_quads(boxes)
    problems += find_order_problems(cloaks, followed, members)
    findings.record("cloaks", len(cloaks), problems, "cloaks")

    rules = RequestRules(
        k=k,
        one_log=log.one_log,
        rare=parameters["rare"],
        rare_below=parameters["rare_below"],
        link_safe=parameters["link_safe"],
        vocabulary=given.vocabulary if parameters["vocabulary"] else None,
    )
    entries, kinds = expect_requests(followed, members, log.kinds, rules)
    fewest = count_possible_senders(entries, followed, members, log.one_log)
    problems = [f"a request has only {fewest} possible senders"] if 0 < fewest < k else []
    what = f"fewest of a request {fewest:,}; requests" if fewest else "requests"
    findings.record("possible senders", len(entries.kind), problems, what)
    num_withheld = int((~find_eligible(followed, rules)).sum())
    expected = expect_manifest(
        manifest, columns, log, grid, members, followed, cloaks, cells, num_withheld,
        len(entries.kind),
    )  # fmt: skip
    return ExpectedTables.of_log(
        log,
        manifest=expected,
        grid=grid,
        cells=cells,
        members=members,
        first_set=followed.first_set,
        first_row=followed.first_row,
        cloaks=cloaks,
        sizes=followed.sizes,
        entries=entries,
        kinds=kinds,
    )


def _find_small(
    members: Members, followed: Followed, manifest: dict[str, Any], asked: int | None
) -> list[str]:
    """Check that every bundle, and every part of one, has enough users."""
    k = manifest["k"]
    problems = []
    if asked is not None and k < asked:
        problems.append(f"k is {k}; {asked} was asked for")
    least = [("bundles", members.sizes, manifest["parameters"]["members"] or k)]
    if manifest["parts"] is not None:
        least.append(("parts of bundles", followed.sizes, manifest["parts"]["users"]))
    for what, sizes, wanted in least:
        small = np.flatnonzero(sizes < wanted)
        if len(small):
            problems.append(
                f"{len(small):,} {what} with fewer than {wanted} users, the smallest with "
                f"{int(sizes.min())} ({first_few(small)})"
            )
    return problems


def _compare_files(
    given: AuditInput, manifest: dict[str, Any], tables: ExpectedTables, findings: Findings
) -> None:
    """Compare the files with the expected tables: their bytes, and else their values."""
    differing = []
    agree = True
    for check, name, num_rows in (
        ("bundles", BUNDLES, len(tables.cloaks)),
        ("requests", REQUESTS, len(tables.entries.kind)),
        ("figures", MANIFEST, 1),
    ):
        path, problems = given.release / name, []
        if not has_same_bytes(path, tables):
            differing.append(name)
            if name == MANIFEST:
                problems = find_figure_problems(manifest, tables.manifest)
            else:
                problems = explain_difference(path, tables)
        agree &= findings.record(check, num_rows, problems, "files" if name == MANIFEST else "rows")
    problems = [
        f"{name} has other bytes than its values in the usual encoding" for name in differing
    ]
    if agree and differing and _is_of_another_version(given.release, manifest):
        problems = [
            f"{', '.join(differing)}: written by another version of the software, so that bytes "
            f"could not be compared; text hidden in footers, statistics or dictionaries would not "
            f"be found; publish a clean copy (--rewrite) instead"
        ]
    if agree and given.rewrite is not None:
        with new_folder(given.rewrite) as folder:
            for name in FILES:
                with (folder / name).open("wb") as stream:
                    tables.write(name, stream)
        findings.notes.append("A clean copy of the checked tables was written; publish that one.")
        problems = []
    findings.record("bytes", len(FILES), problems, "files")
    free = list_free_values(manifest)
    if free:
        findings.notes.append(f"Chosen by the publisher, and in no other file: {', '.join(free)}.")


def _is_of_another_version(release: Path, manifest: dict[str, Any]) -> bool:
    own = get_own_encoder()
    encoders = {find_encoder(release / name) for name in (BUNDLES, REQUESTS)}
    return manifest["software"] != f"trajcloak {__version__}" or encoders != {own}
