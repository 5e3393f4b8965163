"""Judge a release from files alone: the log, the release and the policy file.

It computes with code of its own the tables that must have been published, as
``docs/data-model.md`` says, and then demands that the files hold exactly these, byte for byte.
Read in this order: :mod:`.checks_in_order`, then modules named ``audited_*``, which read what is
audited, ``expected_*``, which compute what must be there, and :mod:`.canonical_files`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trajcloak.auditor.checks_in_order import AuditInput, run_checks
from trajcloak.auditor.findings import CHECKS, AuditReport, Check
from trajcloak.auditor.foreign_audit import FOREIGN_CHECKS, audit_foreign_table
from trajcloak.errors import InputError
from trajcloak.given_values import read_vocabulary
from trajcloak.log.file_columns import LogPath
from trajcloak.options import LogColumns
from trajcloak.progress import Progress, silent

__all__ = ["CHECKS", "FOREIGN_CHECKS", "AuditReport", "Check", "audit_files", "audit_foreign_table"]


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

    Logs are files or Arrow tables; ``columns`` say which of their columns mean what. Where no
    request attributes are named, those of the release are taken.
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
    given = AuditInput(
        log,
        request_log,
        release,
        policy,
        columns or LogColumns(),
        k,
        vocabulary,
        replay,
        None if rewrite is None else Path(rewrite),
        memory,
    )
    return run_checks(given, progress)
