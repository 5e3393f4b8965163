"""Errors name settings as their reader writes them: options, or keyword arguments."""

import ast
import inspect
import pickle
import re
from pathlib import Path

import pytest

import trajcloak
from documentation.test_pages import list_options
from trajcloak import errors
from trajcloak.cli import COMMANDS
from trajcloak.errors import name_keywords

SOURCE = Path(trajcloak.__file__).parent
ONLY_ON_THE_COMMAND_LINE = {
    "engine", "epoch", "geographic", "group", "hold", "human-readable-time", "lag", "lonlat",
    "master", "output", "resume", "route", "scheduler", "state", "tls-ca", "tls-cert", "tls-key",
    "width",
}  # fmt: skip


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("pass another --k", "pass another k="),
        ("--drop=out-of-range, or --drop=empty.", 'drop="out-of-range", or drop="empty".'),
        ("such as --every=60s; or (--max-gap)", 'such as every="60s"; or (max_gap=)'),
        ("name it with --request", "name it with requests="),
        ("--from and --to", "first= and last="),
        ("pass --rows-alike", "pass rows_alike=True"),
        ("a--b.csv and /x/--k/y: cannot be read", "a--b.csv and /x/--k/y: cannot be read"),
    ],
)
def test_options_become_keyword_arguments(message, shown):
    error = errors.InputError(message)
    assert str(error) == name_keywords(message) == shown
    assert error.with_options == message
    assert pickle.loads(pickle.dumps(error)).with_options == message


def test_output_errors_too():
    assert str(errors.OutputError("choose another --scratch")) == "choose another scratch="


def test_a_warning_names_the_line_outside_the_package():
    """Also if the folder of the caller begins like that of the package."""
    caller = f"{SOURCE}-demo/run.py"
    code = compile("\nwarn_caller('is this meant?')", caller, "exec")
    with pytest.warns(errors.TrajcloakWarning) as caught:
        exec(code, {"warn_caller": errors.warn_caller})
    assert [(warning.filename, warning.lineno) for warning in caught] == [(caller, 2)]


def list_named_options() -> dict[str, str]:
    """Find the options that messages name, each with the file of one of them."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        if "cli" in path.relative_to(SOURCE).parts:
            continue
        tree = ast.parse(path.read_text())
        documented = {
            ast.get_docstring(node, clean=False)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        }
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and text not in documented:
                for name in re.findall(r"(?<![`\w])--([a-z]+(?:-[a-z]+)*)", text):
                    found[name] = str(path)
    return found


def test_every_option_that_a_message_names_exists():
    known = {option.removeprefix("--") for name in COMMANDS for option in list_options(name)}
    named = list_named_options()
    assert {"k", "every", "drop", "request"} <= set(named)
    unknown = {name: path for name, path in named.items() if name not in known}
    assert set(unknown) <= {"human-readable-time"}, unknown


def test_python_has_a_keyword_for_every_option_that_a_message_names():
    public = [getattr(trajcloak, name) for name in trajcloak.__all__]
    public += [method for _, method in inspect.getmembers(trajcloak.Release)]
    keywords = {
        name
        for function in filter(inspect.isfunction, public)
        for name in inspect.signature(function).parameters
    }
    named = set(list_named_options()) - ONLY_ON_THE_COMMAND_LINE
    missing = {name for name in named if name_keywords(f"--{name}").split("=")[0] not in keywords}
    assert missing == set()
