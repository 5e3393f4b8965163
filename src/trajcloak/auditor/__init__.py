"""Judge a release from files alone: the log, the release and the policy file.

It computes with code of its own the tables that must have been published, as
``docs/data-model.md`` says, and then demands that the files hold exactly these, byte for byte.
Read in this order: :mod:`.release_audit`, which makes all checks; modules named ``audited_*``,
which read what is audited; ``expected_*``, which compute what must be there; and
:mod:`.canonical_files`. Modules named ``foreign_*`` judge tables of other tools.
"""

from trajcloak.auditor.findings import CHECKS, AuditReport, Check
from trajcloak.auditor.foreign_audit import FOREIGN_CHECKS, audit_foreign_table
from trajcloak.auditor.release_audit import audit_files

__all__ = ["CHECKS", "FOREIGN_CHECKS", "AuditReport", "Check", "audit_files", "audit_foreign_table"]
