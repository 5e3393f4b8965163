"""The gates of the project fail where they must."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from required import OLDEST_JAVA, find_java, require_java

ROOT = Path(__file__).parent.parent


HELPERS = ("tests/conftest.py", "tests/required.py", "pyproject.toml")
SKIPS = """
import pytest
from required import require

@pytest.fixture
def missing():
    pytest.skip()

def test_inside():
    pytest.skip()

@pytest.mark.skip
def test_marked():
    pass

def test_fixture(missing):
    pass

def test_required():
    require("a dog", False)
"""
SKIPPED_MODULE = "import pytest\npytest.skip(allow_module_level=True)"
LANES = """
import pytest

@pytest.fixture
def browser():
    pass

@pytest.fixture
def cluster():
    pass

@pytest.fixture
def client(cluster):
    pass

def test_quick():
    pass

def test_page(browser):
    pass

def test_worker(client):
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.long
def test_long():
    pass
"""


def run_tests(folder: Path, text: str, *options: str, ci: str = "") -> tuple[int, str]:
    """Run a module of tests with the project's configuration; its exit code, what it printed."""
    for name in HELPERS:
        shutil.copy(ROOT / name, folder)
    (folder / "test_it.py").write_text(text)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_it.py"],
        env={**os.environ, "CI": ci},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "ci", "code", "says"),
    [
        (SKIPS, "true", 1, "2 failed, 2 errors in"),
        (SKIPS, "", 0, "4 skipped in"),
        (SKIPPED_MODULE, "true", 2, "1 error in"),
        (SKIPPED_MODULE, "", 5, "1 skipped in"),
    ],
    ids=["tests in CI", "tests", "module in CI", "module"],
)
def test_a_skip_is_an_error_in_ci(tmp_path, text, ci, code, says):
    returned, printed = run_tests(tmp_path, text, ci=ci)
    assert (returned, says in printed) == (code, True), printed


@pytest.mark.slow
def test_a_marker_that_is_not_registered_is_an_error(tmp_path):
    text = "import pytest\n\n@pytest.mark.{}\ndef test_it():\n    pass\n"
    assert run_tests(tmp_path, text.format("slow"))[0] == 0
    code, printed = run_tests(tmp_path, text.format("slwo"))
    assert code == 2, printed
    assert "'slwo' not found in `markers` configuration option" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "tests"),
    [
        ("test-quick", ["quick"]),
        ("test", ["quick", "page", "worker", "slow"]),
        ("test-long", ["long"]),
    ],
)
def test_lanes(tmp_path, target, tests):
    """What ``make`` selects, of tests with each marker; fixtures mark those that use them."""
    shown = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    options = shlex.split(shown[shown.index("-m pytest") :].replace("\\\n", " "))[2:]
    code, printed = run_tests(tmp_path, LANES, *options, "-n", "0", "--collect-only")
    assert code == 0, printed
    assert re.findall(r"::test_(\w+)", printed) == tests


@pytest.mark.parametrize(
    ("version", "user", "does"),
    [
        ("21.0.4", 0, ""),
        ("17", 1000, ""),
        ("1.8.0_392", 1000, "Install Java 17 or later to run the tests of Spark.\n"),
        ("11.0.2", 0, "update -q\ninstall -q -y --no-install-recommends openjdk-17-jre-headless\n"),
    ],
)
def test_java_is_installed_where_it_may_be(tmp_path, monkeypatch, version, user, does):
    programs = {
        "java": f"echo 'openjdk version \"{version}\" 2024-07-16' >&2",
        "id": f"echo {user}",
        "apt-get": 'echo "$@"',
    }
    for name, line in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    ran = subprocess.run(
        ["make", "--silent", "java"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout == does
    assert (find_java() >= OLDEST_JAVA) == (does == "")


def test_no_java(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert find_java() == 0
    with pytest.raises(pytest.skip.Exception, match="needs Java 17 or later; `make java` installs"):
        require_java()


@pytest.mark.parametrize(
    ("guilty", "contract"),
    [
        (
            "auditor/findings.py",
            "The audit shares no code with what it judges, but for reading files and encoding rows",
        ),
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
    assert f"{contract} BROKEN" in " ".join(ran.stdout.split())
