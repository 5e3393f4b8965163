"""All checks in order: expected tables from log and policy, then the files against them."""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.auditor.audited_log import AuditedLog, read_audited_log
from trajcloak.auditor.audited_policy import find_exposure, name_parts_file, read_policy
from trajcloak.auditor.canonical_files import (
    BUNDLES,
    MANIFEST,
    REQUESTS,
    ExpectedTables,
    explain_difference,
    has_same_bytes,
)
from trajcloak.auditor.expected_bundles import (
    ExpectedBundles,
    RegionCells,
    find_member_problems,
    find_order_problems,
    find_region_problems,
    follow_users,
)
from trajcloak.auditor.expected_cloaks import cover_by_quads, read_node_cloaks
from trajcloak.auditor.expected_instants import build_instant_grid
from trajcloak.auditor.expected_manifest import (
    expect_manifest,
    find_figure_problems,
    list_free_values,
)
from trajcloak.auditor.expected_requests import (
    Vocabulary,
    count_possible_senders,
    expect_requests,
    find_eligible_sets,
)
from trajcloak.auditor.findings import CHECKS, AuditReport, Findings, first_few
from trajcloak.auditor.replayed_groups import find_other_groups
from trajcloak.errors import InputError, OptionError
from trajcloak.given_values import read_vocabulary
from trajcloak.log.file_columns import LogPath
from trajcloak.options import QUAD, REPORT_AWARE, TP_AWARE, LogColumns
from trajcloak.output import new_folder
from trajcloak.progress import Progress, silent
from trajcloak.release.manifest_schema import find_manifest_problems
from trajcloak.release.reading import parse_manifest
from trajcloak.version import __version__

FILES = (BUNDLES, MANIFEST, REQUESTS)
SOFTWARE = re.compile(r"trajcloak [0-9]{1,3}(\.[0-9]{1,3}){1,3}((a|b|rc|\.dev|\.post)[0-9]{1,3})?")


@dataclass(frozen=True)
class Audit:
    """What is audited, and how, and what was found; see :func:`audit_files`."""

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
    findings: Findings
    progress: Progress


def audit_files(
    log: LogPath,
    release: str | Path,
    policy: str | Path,
    columns: LogColumns | None = None,
    *,
    request_log: LogPath | None = None,
    k: int | None = None,
    vocabulary: str | Path | Mapping[str, Sequence[Any]] | None = None,
    replay: bool = False,
    rewrite: str | Path | None = None,
    memory: int | None = None,
    progress: Progress = silent,
) -> AuditReport:
    """Check that a release keeps every rule and the guarantee; see :func:`trajcloak.audit`.

    ``memory`` is in bytes. Where no request attributes are named, those of the release are taken.
    """
    release, policy = Path(release), Path(policy)
    if not release.is_dir():
        raise InputError(f"{release}: is no folder; expected a release; check the path")
    if not policy.is_file():
        raise InputError(
            f"{policy}: does not exist; expected the policy file of the release; check the path, "
            f"or anonymize again with --policy"
        )
    if isinstance(vocabulary, str | Path):
        vocabulary = read_vocabulary(Path(vocabulary))
    findings = Findings(tuple(name for name in CHECKS if replay or name != "replay"))
    audit = Audit(
        log=log,
        request_log=request_log,
        release=release,
        policy=policy,
        columns=columns or LogColumns(),
        k=k,
        vocabulary=vocabulary,
        replay=replay,
        rewrite=None if rewrite is None else Path(rewrite),
        memory=memory,
        findings=findings,
        progress=progress,
    )
    _check_folder(audit)
    manifest = _check_manifest(audit)
    if manifest is None:
        return findings.report(None)
    parts_file = name_parts_file(policy)
    if (manifest["parts"] or {}).get("per") == "instant" and not parts_file.is_file():
        raise InputError(
            f"{parts_file}: does not exist; expected the file of parts that was written beside the "
            f"policy file; check the path of --policy, or anonymize again with --policy"
        )
    with ExitStack() as stack:
        log, columns, problems = _read_log(audit, manifest, stack)
        bundles = _follow(audit, manifest, log, problems)
        if bundles is not None:
            _check_release(audit, manifest, columns, bundles)
    return findings.report(manifest["k"], REPORT_AWARE if log.one_log else TP_AWARE)


def _suspect_policy(audit: Audit, problems: list[str]) -> list[str]:
    """Add to the problems of the first check that fails what may be the reason."""
    if problems and audit.findings.passed:
        return [*problems, "the policy file may be that of another release"]
    return problems


def _check_folder(audit: Audit) -> None:
    """Check that a release has its files, and no others."""
    folder = audit.release
    names = [entry.name for entry in folder.iterdir()]
    problems = [f"{name} is missing" for name in FILES if not (folder / name).is_file()]
    problems += [f"{name} is a link" for name in FILES if (folder / name).is_symlink()]
    others = len(set(names) - set(FILES))
    if others:
        problems.append(f"{others} entries that are no part of a release")
    audit.findings.record("release folder", len(names), problems, "files")


def _check_manifest(audit: Audit) -> dict[str, Any] | None:
    """Check the form of the manifest; returns it if it can be used."""
    try:
        manifest: dict[str, Any] = parse_manifest(audit.release / MANIFEST)
        problems = find_manifest_problems(manifest)
    except InputError:
        problems = ["manifest.json cannot be read as JSON in UTF-8"]
    if problems:
        audit.findings.record("manifest", 1, problems, "files")
        return None
    if not SOFTWARE.fullmatch(manifest["software"]):
        problems = ["field 'software' is not trajcloak and its version"]
    audit.findings.record("manifest", 1, problems, "files")
    if manifest["parameters"]["vocabulary"] and audit.vocabulary is None:
        raise OptionError(
            "the release was made with a vocabulary; expected that list, to tell which requests "
            "had to be withheld; pass --vocabulary"
        )
    if audit.replay and "stream" in manifest["parameters"]:
        raise OptionError(
            "the release is that of a stream, whose groups rest on what it remembered when they "
            "were formed; expected a release that can be made again; leave out --replay"
        )
    return manifest


def _read_log(
    audit: Audit, manifest: dict[str, Any], stack: ExitStack
) -> tuple[AuditedLog, LogColumns, list[str]]:
    """Read the log as the manifest says; as the caller says where that cannot be done.

    Returns the log, what was read of it, and what is wrong with the manifest.
    """

    def read(columns: LogColumns) -> AuditedLog:
        return read_audited_log(
            audit.log, columns, audit.request_log, audit.memory, stack, audit.progress
        )

    try:
        said = audit.columns.complete(manifest["parameters"])
        return read(said), said, []
    except (InputError, OptionError) as error:
        try:
            log = read(audit.columns)
        except (InputError, OptionError):
            raise error from None
        return log, audit.columns, ["the log can be read, but not as the parameters say"]


def _follow(
    audit: Audit, manifest: dict[str, Any], log: AuditedLog, problems: list[str]
) -> ExpectedBundles | None:
    """Follow the users of the log through the bundles of the policy, if both can be used.

    ``problems`` are those of reading the log as the manifest says.
    """
    parameters, grid, members = manifest["parameters"], None, None
    if not problems:
        grid, problems = build_instant_grid(parameters, log)
        if not set(parameters["allow"]) <= set(parameters["requests"]):
            problems.append("parameter 'allow' names attributes that are not published")
        if log.num_fast:
            problems.append(f"{log.num_fast:,} rows of the log are faster than 'max_speed'")
        if log.kinds.names != parameters["requests"]:
            problems.append("parameter 'requests' does not name the attributes of the log")
    policy_problems = ["not compared with the log"]
    parts_per = (manifest["parts"] or {}).get("per")
    if grid is not None:
        members, policy_problems = read_policy(audit.policy, log, grid, parts_per)
        policy_problems = _suspect_policy(audit, policy_problems)
    policy_problems = find_exposure(audit.policy, audit.release, parts_per) + policy_problems
    num_members = 0 if members is None else len(members.user)
    audit.findings.record("policy", num_members, policy_problems, "members")
    bundles = None
    if grid is not None and members is not None:
        cells = RegionCells(**manifest["region"], height=manifest["height"])
        keeps_marks = log.one_log and parameters["link_safe"]
        bundles = follow_users(
            log, grid, cells, members, manifest["k"], keeps_marks, audit.progress
        )
        problems = problems + find_region_problems(bundles)
    audit.findings.record("log", log.num_rows, problems, "rows")
    return bundles


def _check_release(
    audit: Audit, manifest: dict[str, Any], columns: LogColumns, bundles: ExpectedBundles
) -> None:
    """Compute what must have been published, and compare it with the files."""
    _check_members(audit, manifest, bundles)
    if bundles.is_silent[bundles.first_set[:-1]].any():
        # A bundle without k members is never shown, and "at least k users" has failed.
        return
    cloaks = _check_cloaks(audit, manifest, bundles)
    k = manifest["k"]
    vocabulary = audit.vocabulary if manifest["parameters"]["vocabulary"] else None
    entries, kinds = expect_requests(bundles, manifest, vocabulary)
    num_requests, fewest = len(entries.kind), count_possible_senders(entries, bundles)
    problems = [f"a request has only {fewest} possible senders"] if 0 < fewest < k else []
    what = f"fewest of a request {fewest:,}; requests" if fewest else "requests"
    audit.findings.record("possible senders", num_requests, problems, what)
    num_withheld = int((~find_eligible_sets(bundles, k)).sum())
    expected = expect_manifest(manifest, columns, bundles, cloaks, num_withheld, num_requests)
    tables = ExpectedTables(expected, bundles, cloaks, entries, kinds)
    if audit.replay:
        problems = find_other_groups(audit, manifest, columns, bundles)
        audit.findings.record("replay", len(bundles.members.window), problems, "same bundles")
    elif "stream" in manifest["parameters"]:
        audit.findings.notes.append(
            "The groups of a stream rest on what it remembered, and cannot be made again: groups "
            "that were chosen with a look at requests would not be found."
        )
    else:
        audit.findings.notes.append(
            "The algorithm was not run again (--replay): groups that were chosen with a look at "
            "requests would not be found."
        )
    _compare_files(audit, manifest, tables)
    free = list_free_values(manifest, bundles)
    if free:
        audit.findings.notes.append(
            f"Chosen by the publisher, and in no other file: {', '.join(free)}."
        )


def _check_members(audit: Audit, manifest: dict[str, Any], bundles: ExpectedBundles) -> None:
    """Check who is in which bundle."""
    parameters, k, members = manifest["parameters"], manifest["k"], bundles.members
    least = parameters["members"] or k
    problems = _suspect_policy(audit, find_member_problems(bundles, parameters, least))
    num_pairs = int(bundles.participants.sum())
    audit.findings.record(
        "one bundle per user", num_pairs, problems, "pairs of a user and a window"
    )
    problems, too_few = [], []
    if audit.k is not None and k < audit.k:
        too_few.append(f"k is {k}; {audit.k} was asked for")
    wanted = [("bundles", members.sizes, least)]
    if manifest["parts"] is not None:
        wanted.append(("parts of bundles", bundles.sizes, manifest["parts"]["users"]))
    for what, sizes, least in wanted:
        small = np.flatnonzero(sizes < least)
        if len(small):
            problems.append(
                f"{len(small):,} {what} with fewer than {least} users, the smallest with "
                f"{int(sizes.min())} ({first_few(small)})"
            )
    problems = too_few + _suspect_policy(audit, problems)
    audit.findings.record("at least k users", len(members.window), problems, "bundles")


def _check_cloaks(audit: Audit, manifest: dict[str, Any], bundles: ExpectedBundles) -> Any:
    """Compute the cloaks that must have been published, or check those that may be."""
    cloaks, problems = bundles.boxes, list[str]()
    if manifest["cloak"] == QUAD:
        if manifest["algorithm"] == "traj-anon" and not bundles.members.parts:
            tree = manifest["parameters"]["tree"]
            cloaks, problems = read_node_cloaks(audit.release / BUNDLES, bundles, tree)
        else:
            cloaks = cover_by_quads(bundles.boxes)
    problems = _suspect_policy(audit, problems + find_order_problems(cloaks, bundles))
    audit.findings.record("cloaks", len(cloaks), problems, "cloaks")
    return cloaks


def _compare_files(audit: Audit, manifest: dict[str, Any], tables: ExpectedTables) -> None:
    """Compare the files with the expected tables: their bytes, and else their values."""
    differing = []
    agree = True
    for check, name, count, what in (
        ("bundles", BUNDLES, len(tables.cloaks), "rows"),
        ("requests", REQUESTS, len(tables.entries.kind), "rows"),
        ("figures", MANIFEST, 1, "files"),
    ):
        path, problems = audit.release / name, []
        if not has_same_bytes(path, tables):
            differing.append(name)
            if name == MANIFEST:
                problems = find_figure_problems(manifest, tables.manifest)
            else:
                problems = explain_difference(path, tables)
                problems = _suspect_policy(audit, problems) if name == BUNDLES else problems
        agree &= not problems
        audit.findings.record(check, count, problems, what)
    problems = [
        f"{name} has other bytes than its values in the usual encoding" for name in differing
    ]
    if agree and differing and _is_of_another_version(audit.release, manifest):
        problems = [
            f"{', '.join(differing)}: written by another version of the software, so that bytes "
            f"could not be compared; text hidden in footers, statistics or dictionaries would not "
            f"be found; publish a clean copy (--rewrite) instead"
        ]
    if audit.rewrite is not None and audit.findings.passed:
        with new_folder(audit.rewrite) as folder:
            for name in FILES:
                with (folder / name).open("wb") as stream:
                    tables.write(name, stream)
        audit.findings.notes.append(
            "A clean copy of the checked tables was written; publish that one."
        )
        problems = []
    audit.findings.record("bytes", len(FILES), problems, "files")


def _is_of_another_version(release: Path, manifest: dict[str, Any]) -> bool:
    try:
        encoders = {pq.read_metadata(release / name).created_by for name in (BUNDLES, REQUESTS)}
    except ValueError:
        # A damaged name is not ours.
        return True
    is_own_encoder = encoders == {f"parquet-cpp-arrow version {pa.cpp_version}"}
    return manifest["software"] != f"trajcloak {__version__}" or not is_own_encoder
