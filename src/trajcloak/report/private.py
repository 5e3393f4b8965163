"""The private part of a report: what only the holder of log and policy file can find out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trajcloak.attackers import Attack, attack_release
from trajcloak.auditor import AuditReport, audit
from trajcloak.log import read_log
from trajcloak.log.files import list_files
from trajcloak.options import LogColumns
from trajcloak.progress import Progress
from trajcloak.query import PublishedRelease
from trajcloak.report.rare_section import RareValues, count_rare_values
from trajcloak.report.signing import Digests, digest_private


@dataclass(frozen=True)
class Examination:
    """What audit and attack found.

    Attributes
    ----------
    audit : AuditReport
    attack : Attack or None
        None if it was not asked for, or the audit failed.
    rare : list of RareValues or None
        None if the release has no request attributes, or the audit failed.
    digests : dict
        SHA-256 of the log and of the policy file.
    """

    audit: AuditReport
    attack: Attack | None
    rare: list[RareValues] | None
    digests: Digests


def examine(
    release: PublishedRelease,
    log: Sequence[Path],
    policy: Path,
    columns: LogColumns,
    *,
    with_attack: bool,
    threads: int | None,
    progress: Progress,
) -> Examination:
    """Audit a release against its log; if the audit passed, count rare values and attack it."""
    report = audit(list(log), release.path, policy, columns, progress=progress)
    digests = digest_private(list_files(list(log)), policy)
    if not (report.passed and (with_attack or release.attributes)):
        return Examination(report, None, None, digests)
    columns = columns.complete(release.manifest["parameters"])
    if not columns.requests:
        columns = replace(columns, requests=tuple(release.attributes))
    request_log = read_log(list(log), columns, threads=threads, progress=progress)
    found = None
    if with_attack:
        found = attack_release(request_log, release, policy, threads=threads, progress=progress)
    rare = count_rare_values(request_log, release) if release.attributes else None
    return Examination(report, found, rare, digests)
