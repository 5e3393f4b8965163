"""What the tests of damage expect."""


def list_failed(report):
    """List the checks of an audit that failed."""
    return {check.name for check in report.checks if not check.passed}
