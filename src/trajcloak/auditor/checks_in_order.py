"""All checks in order: what each needs, and what it hands on to the next."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trajcloak.auditor.audited_files import LogPaths, list_columns, list_log_files
from trajcloak.auditor.audited_instants import (
    InstantGrid,
    build_instant_grid,
    find_crs_problems,
    find_region_problems,
    find_size_problems,
    find_speed_problems,
    project_log,
)
from trajcloak.auditor.audited_log import Log, read_audited_log
from trajcloak.auditor.audited_manifest import Manifest, read_manifest_file
from trajcloak.auditor.audited_parquet import (
    ARROW_SCHEMA,
    KEYS,
    BundleColumns,
    ParquetContents,
    find_footer_problems,
    find_nulls,
    find_schema_problems,
    find_statistics_problems,
    list_bundle_columns,
    read_parquet,
    take_bundle_columns,
)
from trajcloak.auditor.bundle_checks import (
    BundleLayout,
    Members,
    build_members,
    find_cloak_problems,
    find_exposure,
    find_geometry_problems,
    find_moment_problems,
    find_order_problems,
    find_policy_problems,
    find_small_bundles,
    group_bundle_rows,
)
from trajcloak.auditor.findings import AuditReport, Findings
from trajcloak.auditor.id_checks import PublishedText, find_own_ids, find_text_problems
from trajcloak.auditor.recount import (
    Recount,
    RecountInput,
    find_location_problems,
    find_loose_cloaks,
    recount,
)
from trajcloak.auditor.request_checks import (
    encode_requests,
    find_rare_problems,
    find_request_file_problems,
    find_request_order_problems,
    find_request_problems,
    place_requests,
    read_rule,
)
from trajcloak.auditor.totals import (
    count_suppressed,
    find_cost_problems,
    find_count_problems,
    find_ingest_problems,
    find_member_problems,
    find_window_problems,
    find_withheld_problems,
)
from trajcloak.errors import InputError, OptionError
from trajcloak.options import LogColumns
from trajcloak.progress import Progress

Floats = npt.NDArray[np.float64]

STAGE = "searching release for ids"

FILES = ("bundles.parquet", "manifest.json", "requests.parquet")


@dataclass(frozen=True)
class ReleaseFiles:
    """The files of a release; None for those that cannot be used."""

    names: list[str]
    manifest: Manifest | None
    bundles: ParquetContents | None
    requests: ParquetContents | None


def run_checks(
    paths: LogPaths, folder: Path, policy_path: Path, columns: LogColumns, progress: Progress
) -> AuditReport:
    """Run all checks."""
    findings = Findings()
    release = _read_release_files(folder, findings)
    log, problems = _read_as_said(paths, columns, release, progress)
    bundles = _check_bundles_file(release, log, findings)
    requests = _check_requests_file(release, log, findings)
    policy = _check_policy(policy_path, folder, log, findings)
    manifest = release.manifest
    if manifest is None:
        return findings.report(None)

    grid, place = _check_parameters(manifest, log, problems, findings)
    layout = _check_bundles(manifest, release, bundles, grid, findings)
    files = members = None
    if layout and grid and place and policy and requests:
        files = _UsableFiles(manifest, log, policy, requests, grid, layout)
        members = _check_contents(files, place, findings, progress)
    progress(STAGE, 0, 1)
    problems = []
    if release.bundles and release.requests:
        published = PublishedText(release.names, manifest, release.bundles, release.requests)
        problems = find_text_problems(published, log)
    if files and members:
        problems += find_own_ids(files.requests, log, members, files.layout, files.grid.num_windows)
    # A search of half the release may find ids, but cannot show that there are none.
    if problems or members:
        findings.record("user ids", log.num_users, problems, "ids")
    progress(STAGE, 1, 1)
    return findings.report(manifest["k"])


def _read_release_files(folder: Path, findings: Findings) -> ReleaseFiles:
    """Read the files of a release, and check that there are no others."""
    entries = sorted(folder.iterdir())
    names = [entry.name for entry in entries]
    problems = [f"{name} is missing" for name in FILES if not (folder / name).is_file()]
    problems += [f"{name} is a link" for name in FILES if (folder / name).is_symlink()]
    others = len(set(names) - set(FILES))
    if others:
        problems.append(f"{others} entries that are no part of a release")
    findings.record("release folder", len(entries), problems, "files")

    manifest, problems = read_manifest_file(folder / "manifest.json")
    findings.record("manifest", 1, problems, "files")
    return ReleaseFiles(
        names,
        manifest,
        read_parquet(folder / "bundles.parquet"),
        read_parquet(folder / "requests.parquet"),
    )


def _read_as_said(
    paths: LogPaths, columns: LogColumns, release: ReleaseFiles, progress: Progress
) -> tuple[Log, list[str]]:
    """Read a log as the manifest says; as the caller says where that cannot be done.

    Returns the log, and what is wrong with the manifest.
    """
    attributes = _choose_attributes(paths, columns, release)
    if release.manifest is None:
        return read_audited_log(paths, columns, attributes, progress), []
    try:
        said = columns.complete(release.manifest.parameters)
        return read_audited_log(paths, said, attributes, progress), []
    except (InputError, OptionError) as error:
        try:
            log = read_audited_log(paths, columns, attributes, progress)
        except (InputError, OptionError):
            raise error from None
        return log, ["the log can be read, but not as 'tz', 'log_crs', 'clip' and 'drop' say"]


def _choose_attributes(
    paths: LogPaths, columns: LogColumns, release: ReleaseFiles
) -> tuple[str, ...]:
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


def _check_bundles_file(
    release: ReleaseFiles, log: Log, findings: Findings
) -> BundleColumns | None:
    """Check the form of ``bundles.parquet``; returns its columns if they can be used."""
    part, file = release.bundles, "bundles.parquet"
    if part is None:
        findings.record("bundles file", 0, [f"{file} cannot be read as Parquet"], "")
        return None
    expected = list_bundle_columns(log.stamped, log.zoned)
    problems = find_schema_problems(part, expected, file)
    if not problems:
        problems = find_nulls(part, [name for name, _ in expected], file)
    usable = not problems
    if usable:
        problems = find_statistics_problems(part, file)
    problems += find_footer_problems(part, {b"geo", ARROW_SCHEMA}, file)
    findings.record("bundles file", part.table.num_rows, problems, "rows")
    return take_bundle_columns(part) if usable else None


def _check_requests_file(
    release: ReleaseFiles, log: Log, findings: Findings
) -> ParquetContents | None:
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


def _check_policy(path: Path, folder: Path, log: Log, findings: Findings) -> ParquetContents | None:
    """Check the form and the place of the policy file; returns it if it can be used."""
    findings.record("policy private", 1, find_exposure(path, folder), "files")
    part = read_parquet(path)
    if part is None:
        findings.record("policy file", 0, ["the policy cannot be read as Parquet"], "")
        return None
    problems = find_policy_problems(part, log)
    findings.record("policy file", part.table.num_rows, problems, "rows")
    return None if problems else part


def _check_parameters(
    manifest: Manifest, log: Log, problems: list[str], findings: Findings
) -> tuple[InstantGrid | None, tuple[Floats, Floats] | None]:
    """Check the parameters; ``problems`` are those of reading the log as they say."""
    if problems:
        findings.record("parameters", 0, problems, "instants")
        return None, None
    grid, problems = build_instant_grid(manifest, log)
    if grid is not None:
        problems = find_size_problems(log, grid)
        grid = None if problems else grid
    if manifest.parameters["requests"] != list(log.requests):
        problems = [*problems, "parameter 'requests' does not name the attributes of the requests"]
    if not {*manifest.parameters["allow"]} <= log.requests.keys():
        problems = [*problems, "parameter 'allow' names attributes that are not published"]
    problems = problems + find_speed_problems(manifest, log)
    crs_problems = find_crs_problems(manifest, log)
    num_instants = grid.num_instants if grid else 0
    findings.record("parameters", num_instants, problems + crs_problems, "instants")
    if crs_problems:
        return grid, None
    x, y = project_log(log, manifest["crs"])
    findings.record("region", len(x), find_region_problems(manifest, x, y, log.row), "reports")
    finite = bool(np.isfinite(x).all() and np.isfinite(y).all())
    return grid, (x, y) if finite else None


def _check_bundles(
    manifest: Manifest,
    release: ReleaseFiles,
    bundles: BundleColumns | None,
    grid: InstantGrid | None,
    findings: Findings,
) -> BundleLayout | None:
    if bundles is None or release.bundles is None:
        return None
    rows = bundles.num_rows
    findings.record("cloaks", rows, find_cloak_problems(bundles, manifest), "cloaks")
    geo = release.bundles.metadata.get(b"geo")
    problems = find_geometry_problems(bundles, geo, manifest["crs"])
    findings.record("geometry", rows, problems, "polygons")
    if grid is None:
        return None
    findings.record("instants", rows, find_moment_problems(bundles, grid), "rows")
    layout, problems = group_bundle_rows(bundles, grid)
    num_bundles = len(layout.ids) if layout else 0
    findings.record("bundle rows", rows, problems, "rows")
    if layout is not None:
        problems = find_order_problems(bundles, layout)
        findings.record("bundle order", num_bundles, problems, "bundles")
    return layout


@dataclass(frozen=True)
class _UsableFiles:
    """A release of which all files have the right form, with its log and policy."""

    manifest: Manifest
    log: Log
    policy: ParquetContents
    requests: ParquetContents
    grid: InstantGrid
    layout: BundleLayout


def _check_contents(
    files: _UsableFiles, place: tuple[Floats, Floats], findings: Findings, progress: Progress
) -> Members:
    log, grid, layout = files.log, files.grid, files.layout
    attributes = list(log.requests)
    slot, problems = place_requests(files.requests, grid, layout)
    problems += find_request_order_problems(files.requests, attributes)
    num_requests = files.requests.table.num_rows
    findings.record("request rows", num_requests, problems, "rows")

    members, member_problems = build_members(files.policy, log, grid, layout)
    rule = read_rule(files.manifest)
    coded, problems = encode_requests(files.requests, log, rule)
    cell = files.manifest["region"]["side"] / 2 ** int(files.manifest["height"])
    counted = recount(RecountInput(log, *place, coded, grid, layout, members, cell), progress)
    if not problems:
        sent = np.concatenate([np.zeros(0, np.int64), *counted.sent])
        published = slot * coded.num_codes + coded.published
        problems = find_request_problems(sent, published, coded.num_codes, layout)
    counted.sent.clear()
    findings.record("requests", num_requests, problems, "requests")
    problems = find_rare_problems(files.requests, log, rule)
    findings.record("rare values", len(attributes), problems, "attributes")
    _check_users(files, members, member_problems, counted, findings)
    _check_totals(files, members, counted, findings)
    return members


def _check_users(
    files: _UsableFiles,
    members: Members,
    problems: list[str],
    counted: Recount,
    findings: Findings,
) -> None:
    manifest, layout = files.manifest, files.layout
    suppressed = count_suppressed(counted, manifest["k"])
    problems = problems + find_member_problems(counted, members, manifest, suppressed)
    num_pairs = int(counted.participants.sum())
    findings.record("one bundle per user", num_pairs, problems, "pairs of a user and a window")
    problems = find_window_problems(counted, layout, manifest)
    findings.record("windows", len(counted.participants), problems, "windows")
    problems = find_small_bundles(layout, members.sizes, manifest["k"])
    findings.record("at least k users", len(layout.ids), problems, "bundles")
    problems = find_location_problems(counted, layout)
    if manifest["cloak"] == "mbr":
        problems += find_loose_cloaks(counted, layout)
    findings.record("locations", counted.num_located, problems, "locations")


def _check_totals(
    files: _UsableFiles, members: Members, counted: Recount, findings: Findings
) -> None:
    manifest, grid, layout = files.manifest, files.grid, files.layout
    num_users = files.log.num_users
    num_requests = files.requests.table.num_rows
    num_generalised = counted.changed_requests
    problems = find_count_problems(manifest, grid, layout, members, num_requests, num_generalised)
    findings.record("counts", 7, problems, "counts")
    problems = find_cost_problems(manifest, layout, members)
    findings.record("costs", len(layout.rectangle), problems, "cloaks")
    problems = find_withheld_problems(manifest, grid, counted, members, num_users)
    findings.record("withheld", num_users, problems, "users")
    problems = find_ingest_problems(manifest, files.log, grid, counted)
    findings.record("ingest", len(files.log.row), problems, "reports")
