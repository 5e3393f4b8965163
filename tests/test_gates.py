"""The gates of the project fail where they must."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_skip_is_an_error_in_ci(tmp_path, ci, code):
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (tmp_path / "test_it.py").write_text("import pytest\n\ndef test_it():\n    pytest.skip('no')\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(
        command, env={**os.environ, "CI": ci}, cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == code, ran.stdout


@pytest.mark.parametrize(
    ("guilty", "contract"),
    [
        ("auditor/findings.py", "The audit shares no code with what it judges"),
        ("query/bounds.py", "A query sees what a consumer sees: the release alone"),
        ("report/sections.py", "The public part of a report sees the release alone"),
    ],
)
def test_layers_are_checked(tmp_path, guilty, contract):
    """An algorithm that the audit, a report or a query imports breaks a contract."""
    tree = tmp_path / "src"
    subprocess.run(["cp", "-r", str(ROOT / "src"), str(tree)], check=True)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    path = tree / "trajcloak" / guilty
    path.write_text("import trajcloak.algorithms.policy\n" + path.read_text())
    ran = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1, ran.stdout
    assert f"{contract} BROKEN" in ran.stdout
