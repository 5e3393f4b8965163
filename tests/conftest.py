import os
import signal

import numba
import pytest
from hypothesis import settings

IN_CI = os.environ.get("CI", "") == "true"

# The first call of a kernel compiles it, so a deadline would fail at random.
settings.register_profile("trajcloak", deadline=None, derandomize=IN_CI)
settings.register_profile("quick", settings.get_profile("trajcloak"), max_examples=25)
settings.load_profile("trajcloak")

# A shell that starts the tests in the background has them, and what they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what uses a browser or a cluster; leave out what takes minutes without compiled kernels.

    Tests that start a cluster by other means than the fixture are marked by hand.
    """
    for item in items:
        for name in {"browser", "cluster"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(name)
    if not numba.config.DISABLE_JIT:
        return
    slow = [item for item in items if item.get_closest_marker("needs_jit")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("needs_jit")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI a skipped test is a failed test: something that it needs was not installed."""
    report = yield
    return _fail_if_skipped(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """The same for a module that is skipped as a whole."""
    report = yield
    return _fail_if_skipped(report)


def _fail_if_skipped(report):
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, an error in CI: {report.longrepr}"
    return report
