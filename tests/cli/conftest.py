import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from trajcloak.cli import main

SCRIPT = Path(sys.executable).with_name("trajcloak")
REQUESTS = ("--request", "category", "--request", "detail")


@dataclass(frozen=True)
class Run:
    """What a command did: its exit code, and what it printed."""

    code: object
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*args) -> Run:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(arg) for arg in args])
        printed = capsys.readouterr()
        return Run(stopped.value.code, printed.out, printed.err)

    return run


def run_script(*args, cwd: Path, **environment: str) -> Run:
    """Run the installed command in a process of its own."""
    done = subprocess.run(
        [SCRIPT, *map(str, args)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """A folder with a generated log, its release and its policy file; not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    log, release, policy = (folder / name for name in ("log.parquet", "release", "policy.parquet"))
    for args in (
        ["generate", "-o", log, "--users", "60", "--length", "4", "--junctions", "2000"],
        ["anonymize", log, "-o", release, "--k", "5", *REQUESTS, "--policy", policy],
    ):
        with pytest.raises(SystemExit) as stopped:
            main([str(arg) for arg in args])
        assert stopped.value.code == 0
    return folder


@pytest.fixture
def copied(made, tmp_path) -> Path:
    """A copy of ``made`` in the folder that commands run in, to be changed at will."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path
