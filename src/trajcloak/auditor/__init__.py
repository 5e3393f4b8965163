"""Judge a release from files alone: the log, the release and the policy file.

Shares no code with what it judges: it reads the log, completes the trajectories,
recounts and recomputes on its own, as ``docs/data-model.md`` says. Modules named ``audited_*``
read what is audited.
"""

from pathlib import Path

from trajcloak.auditor.audited_files import LogPaths
from trajcloak.auditor.checks_in_order import run_checks
from trajcloak.auditor.findings import CHECKS, AuditReport, Check
from trajcloak.auditor.foreign_audit import FOREIGN_CHECKS, audit_foreign
from trajcloak.errors import InputError
from trajcloak.options import LogColumns
from trajcloak.progress import Progress, silent

__all__ = ["CHECKS", "FOREIGN_CHECKS", "AuditReport", "Check", "audit", "audit_foreign"]


def audit(
    log: LogPaths,
    release: str | Path,
    policy: str | Path,
    columns: LogColumns | None = None,
    *,
    progress: Progress = silent,
) -> AuditReport:
    """Check that a release keeps every rule and the guarantee.

    Parameters
    ----------
    log
        The log that was anonymized: a file, a glob, a folder, or a list of these.
    release
        The release folder.
    policy
        The private policy file that belongs to the release.
    columns
        Which columns of the log mean what. Where no request attributes are named,
        those of the release are taken.
    progress
        Called with the progress of each stage.

    Returns
    -------
    AuditReport
        One line for each check, always all of them. Damaged files of the release
        and a damaged policy file are failed checks.

    Raises
    ------
    InputError
        If a path leads to nothing, or the log breaks a rule of the data model.

    Examples
    --------
    >>> report = audit("log.parquet", "release", "policy.parquet")
    >>> [check.name for check in report.checks if not check.passed]
    []
    """
    release, policy = Path(release), Path(policy)
    if not release.is_dir():
        raise InputError(f"{release}: is no folder; expected a release; check the path")
    if not policy.is_file():
        raise InputError(
            f"{policy}: does not exist; expected the policy file of the release; check the path, "
            f"or anonymize again with --policy"
        )
    return run_checks(log, release, policy, columns or LogColumns(), progress)
