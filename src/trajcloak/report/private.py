"""The private part of a report: what only the holder of log and policy file can find out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trajcloak.attackers import Attack, attack_release
from trajcloak.auditor import AuditReport, audit
from trajcloak.log import read_log
from trajcloak.options import LogColumns
from trajcloak.progress import Progress
from trajcloak.query import PublishedRelease


@dataclass(frozen=True)
class Examination:
    """What audit and attack found.

    Attributes
    ----------
    audit : AuditReport
    attack : Attack or None
        None if it was not asked for, or the audit failed.
    """

    audit: AuditReport
    attack: Attack | None


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
    """Audit a release against its log, and attack it if the audit passed."""
    report = audit(list(log), release.path, policy, columns, progress=progress)
    if not (report.passed and with_attack):
        return Examination(report, None)
    columns = columns.complete(release.manifest["parameters"])
    if not columns.requests:
        columns = replace(columns, requests=tuple(release.attributes))
    request_log = read_log(list(log), columns, threads=threads, progress=progress)
    found = attack_release(request_log, release, policy, threads=threads, progress=progress)
    return Examination(report, found)
