"""What happens before a command runs."""

import os
import subprocess
import sys

import pytest

from cli.conftest import SCRIPT

ASK = """
import sys
from trajcloak.cli import main
assert "numpy" not in sys.modules
try:
    main(["--version"])
except SystemExit:
    pass
from numpy._core.multiarray import _get_madvise_hugepage
print("huge pages:", bool(_get_madvise_hugepage()))
"""


def test_the_package_is_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "trajcloak", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("trajcloak, version ")


def test_the_shell_completes():
    """As docs/reference/commands.md shows."""
    environment = os.environ | {"_TRAJCLOAK_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    for words, expected in (
        ("trajcloak ano", "anonymize"),
        ("trajcloak anonymize --time-u", "--time-unit"),
    ):
        asked = environment | {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        done = subprocess.run([SCRIPT], env=asked, capture_output=True, text=True, check=True)
        assert expected in done.stdout


@pytest.mark.parametrize(("given", "huge"), [(None, False), ("1", True), ("0", False)])
def test_pages_are_small_unless_asked_for(given, huge):
    environment = {k: v for k, v in os.environ.items() if k != "NUMPY_MADVISE_HUGEPAGE"}
    if given is not None:
        environment["NUMPY_MADVISE_HUGEPAGE"] = given
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"huge pages: {huge}"
