"""What happens before a command runs."""

import os
import subprocess
import sys

import pytest

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
