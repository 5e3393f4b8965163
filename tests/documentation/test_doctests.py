"""The examples in docstrings run as they stand, beside a small log and its release."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import trajcloak

SOURCE = Path(trajcloak.__file__).parent
WITH_EXAMPLES = sorted(
    ".".join(("trajcloak", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
    for path in SOURCE.rglob("*.py")
    if ">>>" in path.read_text()
)
START = "<!-- starts with: log.parquet release policy.parquet cells.csv -->"


@pytest.mark.needs_jit
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name, start):
    start(START)
    module = importlib.import_module(name)
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert done.attempted > 0
    assert done.failed == 0


FUNCTIONS = [name for name in trajcloak.__all__ if inspect.isfunction(getattr(trajcloak, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_has_an_example(name):
    assert ">>>" in (getattr(trajcloak, name).__doc__ or "")


def test_no_example_is_skipped():
    assert len(WITH_EXAMPLES) > 15
    assert not [path for path in SOURCE.rglob("*.py") if "+SKIP" in path.read_text()]
