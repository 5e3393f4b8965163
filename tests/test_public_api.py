"""The names that callers may rely on."""

import importlib.metadata
import inspect
import subprocess
import sys

import pytest

import trajcloak
from trajcloak import errors

PUBLIC = [
    "Answer",
    "Attack",
    "AuditReport",
    "Comparison",
    "InputError",
    "Inspection",
    "LogColumns",
    "NotEnoughUsersError",
    "OptionError",
    "Options",
    "OutputError",
    "Plan",
    "PublishedRelease",
    "Release",
    "Report",
    "RequestLog",
    "TrajcloakError",
    "Utility",
    "__version__",
    "anonymize",
    "attack",
    "audit",
    "audit_foreign",
    "build_route",
    "compare",
    "convert_log",
    "generate_log",
    "inspect_log",
    "measure_utility",
    "open_release",
    "plan_log",
    "read_log",
    "read_manifest",
    "write_report",
]


def test_exported_names():
    assert trajcloak.__all__ == PUBLIC
    assert dir(trajcloak) == PUBLIC


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def kind_of(name: str) -> str:
    """By our convention for names."""
    if name == "__version__":
        return "str"
    return "function" if name.islower() else "type"


@pytest.mark.parametrize("order", [1, -1])
def test_every_name_is_what_its_home_has_whatever_is_asked_for_first(order):
    """In a fresh process, since names are imported when they are first asked for."""
    kinds = run_python(
        f"import trajcloak\nfor name in {PUBLIC[::order]}:\n"
        f"    value = getattr(trajcloak, name)\n"
        f"    print(name, type(value).__name__, bool(value.__doc__))"
    )
    assert kinds.splitlines() == [f"{name} {kind_of(name)} True" for name in PUBLIC[::order]]


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match="module 'trajcloak' has no attribute 'anonymise'"):
        _ = trajcloak.anonymise


def test_the_version_is_that_of_the_package():
    assert importlib.metadata.version("trajcloak") == trajcloak.__version__


def test_importing_the_package_loads_no_compiler():
    code = "import sys, trajcloak; print(any(m in sys.modules for m in ('numba', 'pyarrow')))"
    assert run_python(code) == "False\n"


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.InputError, ValueError),
        (errors.OptionError, ValueError),
        (errors.NotEnoughUsersError, ValueError),
        (errors.OutputError, OSError),
    ],
)
def test_errors_have_one_base_and_the_fitting_builtin(error, builtin):
    assert issubclass(error, errors.TrajcloakError)
    assert issubclass(error, builtin)
    assert error.__name__ in (errors.__doc__ or "")


def test_signatures():
    assert list(inspect.signature(trajcloak.read_log).parameters) == [
        "source", "columns", "request_log", "threads", "progress",
    ]  # fmt: skip
    assert list(inspect.signature(trajcloak.convert_log).parameters) == [
        "source", "path", "format", "geographic", "progress",
    ]  # fmt: skip
    assert list(inspect.signature(trajcloak.anonymize).parameters) == [
        "log", "k", "columns", "request_log", "engine", "memory", "scratch", "threads",
        "progress", "options",
    ]  # fmt: skip
    assert list(inspect.signature(trajcloak.Options).parameters) == [
        "k", "algorithm", "cloak", "every", "length", "max_gap", "missing", "align", "windows",
        "height", "region", "suppress_above", "max_suppressed", "tree", "effort", "seed", "members",
        "parts", "parts_per", "rows_alike", "vocabulary", "rare", "rare_below", "link_safe",
        "allow",
    ]  # fmt: skip
    assert list(inspect.signature(trajcloak.LogColumns).parameters) == [
        "user", "time", "lon", "lat", "x", "y", "requests", "is_report", "tz", "crs", "clip",
        "max_speed", "drop", "delimiter",
    ]  # fmt: skip
    assert list(inspect.signature(trajcloak.PublishedRelease.count).parameters) == [
        "self", "region", "first", "last",
    ]  # fmt: skip
    assert list(inspect.signature(trajcloak.PublishedRelease.follow).parameters) == [
        "self", "steps",
    ]  # fmt: skip
    assert list(inspect.signature(trajcloak.build_route).parameters) == [
        "points", "width", "instants",
    ]  # fmt: skip
    assert list(inspect.signature(trajcloak.measure_utility).parameters) == [
        "log", "release", "policy", "queries", "seed", "threads", "progress",
    ]  # fmt: skip
    assert list(inspect.signature(trajcloak.write_report).parameters) == [
        "release", "path", "log", "policy", "columns", "request_log", "vocabulary", "network",
        "outline", "attack", "threads", "progress",
    ]  # fmt: skip
