import os

import numba
import pytest
from hypothesis import settings

IN_CI = os.environ.get("CI", "") == "true"

# The first call of a kernel compiles it, so a deadline would fail at random.
settings.register_profile("trajcloak", deadline=None, derandomize=IN_CI)
settings.load_profile("trajcloak")


def pytest_collection_modifyitems(config, items):
    """Leave out what takes minutes where the kernels are not compiled."""
    if not numba.config.DISABLE_JIT:
        return
    slow = [item for item in items if item.get_closest_marker("needs_jit")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("needs_jit")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI a skipped test is a failed test: something that it needs was not installed."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which is an error in CI: {report.longrepr}"
    return report
