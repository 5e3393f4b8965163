"""The examples in docstrings run as they stand, beside a small log and its release."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import trajcloak
from documentation.conftest import copy_made

SOURCE = Path(trajcloak.__file__).parent
WITH_EXAMPLES = sorted(
    ".".join(("trajcloak", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
    for path in SOURCE.rglob("*.py")
    if ">>>" in path.read_text()
)
NEEDED = ("log.parquet", "release", "policy.parquet", "cells.csv")
"""What the examples start with."""


@pytest.mark.slow
@pytest.mark.needs_jit
def test_examples(made, tmp_path, monkeypatch):
    """Each module in a folder of its own; doctest prints what fails."""
    done = {}
    for name in WITH_EXAMPLES:
        folder = tmp_path / name
        copy_made(made, NEEDED, folder)
        monkeypatch.chdir(folder)
        module = importlib.import_module(name)
        done[name] = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert {name: result for name, result in done.items() if result.failed} == {}
    assert all(result.attempted for result in done.values())


def test_every_public_function_has_an_example():
    public = [getattr(trajcloak, name) for name in trajcloak.__all__]
    functions = [item for item in public if inspect.isfunction(item)]
    assert [item for item in functions if ">>>" not in (item.__doc__ or "")] == []


def test_no_example_is_skipped():
    assert len(WITH_EXAMPLES) > 15
    assert not [path for path in SOURCE.rglob("*.py") if "+SKIP" in path.read_text()]
