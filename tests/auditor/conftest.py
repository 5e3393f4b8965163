import pytest

from auditor.expected import list_failed
from reference.release_by_hand import write
from trajcloak.auditor import audit
from trajcloak.options import LogColumns


def audit_files(example, paths, **options):
    columns = options.pop("columns", LogColumns(requests=tuple(example.attributes)))
    return audit(options.pop("log", paths.log), paths.release, paths.policy, columns, **options)


@pytest.fixture
def find_failed(tmp_path):
    """Write an example, damage its files, audit it, and list the checks that fail."""

    def find(example, damage_files=None, **options):
        paths = write(example, tmp_path / "example")
        if damage_files is not None:
            damage_files(paths)
        report = audit_files(example, paths, **options)
        details = " ".join(check.detail for check in report.checks)
        for user in {row["user_id"] for row in example.log}:
            assert "-" not in str(user) or user not in details
        return list_failed(report)

    return find
