"""The files of a release and the policy file: there, readable, of the right form."""

from dataclasses import dataclass
from pathlib import Path

from trajcloak.auditor.files import LogPaths, list_columns, list_log_files
from trajcloak.auditor.findings import Findings
from trajcloak.auditor.footers import find_footer_problems, find_statistics_problems
from trajcloak.auditor.logs import Log
from trajcloak.auditor.manifest import Manifest, read_manifest
from trajcloak.auditor.members import find_exposure, find_policy_problems
from trajcloak.auditor.parts import (
    ARROW_SCHEMA,
    KEYS,
    Bundles,
    Part,
    build_bundles,
    bundle_columns,
    find_nulls,
    find_schema_problems,
    read_part,
)
from trajcloak.auditor.requests import find_request_file_problems
from trajcloak.options import LogColumns

FILES = ("bundles.parquet", "manifest.json", "requests.parquet")


@dataclass(frozen=True)
class Release:
    """The files of a release; None for those that cannot be used."""

    names: list[str]
    manifest: Manifest | None
    bundles: Part | None
    requests: Part | None


def read_release(folder: Path, findings: Findings) -> Release:
    """Read the files of a release, and check that there are no others."""
    entries = sorted(folder.iterdir())
    names = [entry.name for entry in entries]
    problems = [f"{name} is missing" for name in FILES if not (folder / name).is_file()]
    problems += [f"{name} is a link" for name in FILES if (folder / name).is_symlink()]
    others = len(set(names) - set(FILES))
    if others:
        problems.append(f"{others} entries that are no part of a release")
    findings.record("release folder", len(entries), problems, "files")

    manifest, problems = read_manifest(folder / "manifest.json")
    findings.record("manifest", 1, problems, "files")
    return Release(
        names,
        manifest,
        read_part(folder / "bundles.parquet"),
        read_part(folder / "requests.parquet"),
    )


def choose_attributes(paths: LogPaths, columns: LogColumns, release: Release) -> tuple[str, ...]:
    """Take the request attributes that the manifest names where the caller names none.

    Those that the log does not have, or that say who, when or where, are left out.
    """
    if columns.requests or release.manifest is None:
        return columns.requests
    present = list_columns(list_log_files(paths)[0], columns.delimiter)
    secret = {columns.user, columns.time, *columns.place(present)[:2]}
    own = {name for name, _ in KEYS}
    return tuple(
        name
        for name in release.manifest.parameters["requests"]
        if name in present and name not in secret | own
    )


def check_bundles_file(release: Release, log: Log, findings: Findings) -> Bundles | None:
    """Check the form of ``bundles.parquet``; returns its columns if they can be used."""
    part, file = release.bundles, "bundles.parquet"
    if part is None:
        findings.record("bundles file", 0, [f"{file} cannot be read as Parquet"], "")
        return None
    expected = bundle_columns(log.stamped, log.zoned)
    problems = find_schema_problems(part, expected, file)
    if not problems:
        problems = find_nulls(part, [name for name, _ in expected], file)
    usable = not problems
    if usable:
        problems = find_statistics_problems(part, file)
    problems += find_footer_problems(part, {b"geo", ARROW_SCHEMA}, file)
    findings.record("bundles file", part.table.num_rows, problems, "rows")
    return build_bundles(part) if usable else None


def check_requests_file(release: Release, log: Log, findings: Findings) -> Part | None:
    """Check the form of ``requests.parquet``; returns it if it can be used."""
    part, file = release.requests, "requests.parquet"
    if part is None:
        findings.record("requests file", 0, [f"{file} cannot be read as Parquet"], "")
        return None
    problems = find_request_file_problems(part, log)
    usable = not problems
    if usable:
        problems = find_statistics_problems(part, file)
    if part.unused:
        problems.append(f"{file} holds {part.unused} values that stand in none of its rows")
    problems += find_footer_problems(part, {ARROW_SCHEMA}, file)
    findings.record("requests file", part.table.num_rows, problems, "rows")
    return part if usable else None


def check_policy(path: Path, folder: Path, log: Log, findings: Findings) -> Part | None:
    """Check the form and the place of the policy file; returns it if it can be used."""
    findings.record("policy private", 1, find_exposure(path, folder), "files")
    part = read_part(path)
    if part is None:
        findings.record("policy file", 0, ["the policy cannot be read as Parquet"], "")
        return None
    problems = find_policy_problems(part, log)
    findings.record("policy file", part.table.num_rows, problems, "rows")
    return None if problems else part
