"""All checks in order: what each needs, and what it hands on to the next."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trajcloak.auditor.cloaks import (
    find_cloak_problems,
    find_geometry_problems,
    find_moment_problems,
)
from trajcloak.auditor.files import LogPaths
from trajcloak.auditor.findings import AuditReport, Findings
from trajcloak.auditor.grid import (
    Grid,
    build_grid,
    find_crs_problems,
    find_region_problems,
    find_speed_problems,
    project,
)
from trajcloak.auditor.identifiers import Published, find_text_problems
from trajcloak.auditor.ingest import find_ingest_problems
from trajcloak.auditor.layout import Layout, build_layout, find_order_problems
from trajcloak.auditor.logs import Log, read_log
from trajcloak.auditor.manifest import Manifest
from trajcloak.auditor.members import Members, build_members, find_small_bundles
from trajcloak.auditor.own_ids import find_own_ids
from trajcloak.auditor.parts import Bundles, Part
from trajcloak.auditor.rare import find_rare_problems, read_rule
from trajcloak.auditor.recount import (
    Case,
    Recount,
    find_location_problems,
    find_loose_cloaks,
    recount,
)
from trajcloak.auditor.release_files import (
    Release,
    check_bundles_file,
    check_policy,
    check_requests_file,
    choose_attributes,
    read_release,
)
from trajcloak.auditor.requests import (
    encode_requests,
    find_request_order_problems,
    find_request_problems,
    place_requests,
)
from trajcloak.auditor.totals import (
    count_suppressed,
    find_cost_problems,
    find_count_problems,
    find_member_problems,
    find_window_problems,
    find_withheld_problems,
)
from trajcloak.auditor.trajectories import find_size_problems
from trajcloak.errors import InputError, OptionError
from trajcloak.options import LogColumns
from trajcloak.progress import Progress

STAGE = "searching release for ids"

Floats = npt.NDArray[np.float64]


def judge(
    paths: LogPaths, folder: Path, policy_path: Path, columns: LogColumns, progress: Progress
) -> AuditReport:
    """Run all checks."""
    findings = Findings()
    release = read_release(folder, findings)
    log, problems = _read_as_said(paths, columns, release, progress)
    bundles = check_bundles_file(release, log, findings)
    requests = check_requests_file(release, log, findings)
    policy = check_policy(policy_path, folder, log, findings)
    manifest = release.manifest
    if manifest is None:
        return findings.report(None)

    grid, place = _check_parameters(manifest, log, problems, findings)
    layout = _check_bundles(manifest, release, bundles, grid, findings)
    whole = members = None
    if layout and grid and place and policy and requests:
        whole = _Whole(manifest, log, policy, requests, grid, layout)
        members = _check_contents(whole, place, findings, progress)
    progress(STAGE, 0, 1)
    problems = []
    if release.bundles and release.requests:
        published = Published(release.names, manifest, release.bundles, release.requests)
        problems = find_text_problems(published, log)
    if whole and members:
        problems += find_own_ids(whole.requests, log, members, whole.layout, whole.grid.num_windows)
    # A search of half the release may find ids, but cannot find that there are none.
    if problems or members:
        findings.record("user ids", log.num_users, problems, "ids")
    progress(STAGE, 1, 1)
    return findings.report(manifest["k"])


def _read_as_said(
    paths: LogPaths, columns: LogColumns, release: Release, progress: Progress
) -> tuple[Log, list[str]]:
    """Read a log as the manifest says; as the caller says where that cannot be done.

    Returns the log, and what is wrong with the manifest.
    """
    attributes = choose_attributes(paths, columns, release)
    if release.manifest is None:
        return read_log(paths, columns, attributes, progress), []
    try:
        said = columns.complete(release.manifest.parameters)
        return read_log(paths, said, attributes, progress), []
    except (InputError, OptionError) as error:
        try:
            log = read_log(paths, columns, attributes, progress)
        except (InputError, OptionError):
            raise error from None
        return log, ["the log can be read, but not as 'tz', 'log_crs', 'clip' and 'drop' say"]


def _check_parameters(
    manifest: Manifest, log: Log, problems: list[str], findings: Findings
) -> tuple[Grid | None, tuple[Floats, Floats] | None]:
    """Check the parameters; ``problems`` are those of reading the log as they say."""
    if problems:
        findings.record("parameters", 0, problems, "instants")
        return None, None
    grid, problems = build_grid(manifest, log)
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
    x, y = project(log, manifest["crs"])
    findings.record("region", len(x), find_region_problems(manifest, x, y, log.row), "reports")
    finite = bool(np.isfinite(x).all() and np.isfinite(y).all())
    return grid, (x, y) if finite else None


def _check_bundles(
    manifest: Manifest,
    release: Release,
    bundles: Bundles | None,
    grid: Grid | None,
    findings: Findings,
) -> Layout | None:
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
    layout, problems = build_layout(bundles, grid)
    num_bundles = len(layout.ids) if layout else 0
    findings.record("bundle rows", rows, problems, "rows")
    if layout is not None:
        problems = find_order_problems(bundles, layout)
        findings.record("bundle order", num_bundles, problems, "bundles")
    return layout


@dataclass(frozen=True)
class _Whole:
    """A release of which all files have the right form, with its log and policy."""

    manifest: Manifest
    log: Log
    policy: Part
    requests: Part
    grid: Grid
    layout: Layout


def _check_contents(
    whole: _Whole, place: tuple[Floats, Floats], findings: Findings, progress: Progress
) -> Members:
    log, grid, layout = whole.log, whole.grid, whole.layout
    attributes = list(log.requests)
    slot, problems = place_requests(whole.requests, grid, layout)
    problems += find_request_order_problems(whole.requests, attributes)
    num_requests = whole.requests.table.num_rows
    findings.record("request rows", num_requests, problems, "rows")

    members, member_problems = build_members(whole.policy, log, grid, layout)
    rule = read_rule(whole.manifest)
    coded, problems = encode_requests(whole.requests, log, rule)
    cell = whole.manifest["region"]["side"] / 2 ** int(whole.manifest["height"])
    counted = recount(Case(log, *place, coded, grid, layout, members, cell), progress)
    if not problems:
        sent = np.concatenate([np.zeros(0, np.int64), *counted.sent])
        published = slot * coded.num_codes + coded.published
        problems = find_request_problems(sent, published, coded.num_codes, layout)
    counted.sent.clear()
    findings.record("requests", num_requests, problems, "requests")
    problems = find_rare_problems(whole.requests, log, rule)
    findings.record("rare values", len(attributes), problems, "attributes")
    _check_users(whole, members, member_problems, counted, findings)
    _check_totals(whole, members, counted, findings)
    return members


def _check_users(
    whole: _Whole,
    members: Members,
    problems: list[str],
    counted: Recount,
    findings: Findings,
) -> None:
    manifest, layout = whole.manifest, whole.layout
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


def _check_totals(whole: _Whole, members: Members, counted: Recount, findings: Findings) -> None:
    manifest, grid, layout = whole.manifest, whole.grid, whole.layout
    num_users = whole.log.num_users
    num_requests = whole.requests.table.num_rows
    num_generalised = counted.changed_requests
    problems = find_count_problems(manifest, grid, layout, members, num_requests, num_generalised)
    findings.record("counts", 7, problems, "counts")
    problems = find_cost_problems(manifest, layout, members)
    findings.record("costs", len(layout.rectangle), problems, "cloaks")
    problems = find_withheld_problems(manifest, grid, counted, members, num_users)
    findings.record("withheld", num_users, problems, "users")
    problems = find_ingest_problems(manifest, whole.log, grid, counted)
    findings.record("ingest", len(whole.log.row), problems, "reports")
