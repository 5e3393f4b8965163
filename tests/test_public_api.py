"""The names that callers may rely on."""

import ast
import importlib.metadata
import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_args, is_typeddict

import pyarrow as pa
import pytest

import trajcloak
from trajcloak import errors
from trajcloak.interface.logs import ColumnOptions
from trajcloak.options import LogColumns, Options

PUBLIC = [
    "AuditReport",
    "Check",
    "Choice",
    "ConvertedLog",
    "CustomAlgorithm",
    "GeneratedLog",
    "Ingest",
    "InputError",
    "Inspection",
    "Located",
    "Log",
    "NotEnoughUsersError",
    "OnlineAnonymizer",
    "OnlineOptions",
    "OptionError",
    "OutputError",
    "PublishedInstant",
    "Refined",
    "RefusedLogError",
    "Region",
    "Release",
    "Report",
    "Schedule",
    "Suspect",
    "TrajAnon",
    "TrajcloakError",
    "TrajcloakWarning",
    "__version__",
    "anonymize",
    "attack",
    "audit",
    "audit_foreign",
    "compare",
    "convert_log",
    "generate_log",
    "inspect_log",
    "measure_utility",
    "open_release",
    "plan_log",
    "read_log",
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
    if name == "CustomAlgorithm":
        return "_ProtocolMeta"
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


READING = [
    "user", "time", "lon", "lat", "x", "y", "requests", "request_log", "is_report", "tz", "crs",
    "clip", "max_speed", "drop", "delimiter", "time_unit", "time_format",
]  # fmt: skip


def list_parameters(function) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_every_way_to_read_a_log_is_an_argument_of_anonymize():
    assert list(ColumnOptions.__annotations__) == READING
    assert list_parameters(trajcloak.anonymize)[: len(READING) + 2] == ["source", "k", *READING]
    columns = {field.name for field in fields(LogColumns)} | {"request_log"}
    assert columns == set(READING)


def test_every_option_of_a_run_is_an_argument_of_anonymize():
    given = list_parameters(trajcloak.anonymize)[len(READING) + 2 :]
    assert set(given) == {field.name for field in fields(Options)} - {"k"} | {
        "memory", "engine", "scratch", "threads", "progress",
    }  # fmt: skip
    defaults = {name: value.default for name, value in inspect.signature(trajcloak.anonymize)
                .parameters.items()}  # fmt: skip
    assert all(defaults[field.name] == field.default for field in fields(Options)[1:])


def test_no_function_takes_options_that_a_type_checker_cannot_see():
    public = [getattr(trajcloak, name) for name in trajcloak.__all__]
    for function in filter(inspect.isfunction, public):
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                assert is_typeddict(get_args(parameter.annotation)[0]), function


def test_returned_types_are_public():
    for name in trajcloak.__all__:
        function = getattr(trajcloak, name)
        if inspect.isfunction(function):
            returned = inspect.get_annotations(function, eval_str=True)["return"]
            assert returned is pa.Table or returned.__name__ in PUBLIC, name


def test_a_public_name_means_one_thing_in_the_whole_package():
    homes: dict[str, list[str]] = {name: [] for name in PUBLIC if name != "__version__"}
    for path in Path(trajcloak.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in homes:
                homes[node.name].append(str(path))
    assert {name: paths for name, paths in homes.items() if len(paths) != 1} == {}
