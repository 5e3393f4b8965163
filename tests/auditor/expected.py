"""What the tests of damage expect."""

NEEDS_CONTENTS = {
    "windows",
    "one bundle per user",
    "at least k users",
    "locations",
    "request rows",
    "requests",
    "rare values",
    "counts",
    "costs",
    "withheld",
    "ingest",
    "user ids",
}
"""The checks that cannot pass where the contents cannot be read."""


def list_failed(report):
    """List the checks of an audit that failed."""
    return {check.name for check in report.checks if not check.passed}
