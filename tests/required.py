"""What tests need besides Python packages: they are skipped without it, an error in CI."""

import re
import shutil
import subprocess

import pytest

OLDEST_JAVA = 17
"""The oldest Java that Spark runs on."""


def require(what: str, is_there: bool) -> None:
    """Skip the test unless it has what it needs."""
    if not is_there:
        pytest.skip(f"needs {what}")


def require_java() -> None:
    require(f"Java {OLDEST_JAVA} or later; `make java` installs it", find_java() >= OLDEST_JAVA)


def find_java() -> int:
    """Major version of the ``java`` on the PATH, 0 without one."""
    java = shutil.which("java")
    if java is None:
        return 0
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', shown.stderr)
    return int(version[1]) if version else 0
