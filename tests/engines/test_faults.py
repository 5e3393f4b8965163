"""Runs that are killed, or run out of disk, leave nothing that could be taken for a release."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

HERE = Path(__file__).parent


def run_program(name, *args, before=()):
    command = [*before, sys.executable, str(HERE / name), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.needs_jit
@pytest.mark.parametrize(("mode", "kills"), [("memory", 50), ("bounded", 60)])
def test_killed_at_random_moments(tmp_path, mode, kills):
    """Never half a release, the log never touched; a continued run gives the same bytes."""
    found = run_program("kills.py", tmp_path, mode, kills, 1)
    assert found["kills"] >= kills
    assert found["finished"] > 0


@pytest.mark.needs_jit
def test_out_of_disk(tmp_path):
    """At every stage: reading, cutting into windows, bundling, writing."""
    if shutil.which("unshare") is None:
        pytest.skip("a small disk needs unshare, of util-linux")
    as_root = [] if os.getuid() == 0 else ["--map-root-user"]
    before = ["unshare", "--mount", *as_root]
    found = run_program("small_disk.py", tmp_path, 4, 40, 100, 180, 260, before=before)
    for disk in found.values():
        assert disk["in_memory"] == 2
        assert disk["left_by_memory"] == []
        assert disk["code"] == 2
        assert "No space left on device" in disk["message"]
        assert "continue with --resume" in disk["message"]
        assert disk["left"] == [".release.trajcloak-work"]
        assert disk["again"] == 2, "what was done is not thrown away unasked"
        assert disk["resumed"] == 0
        assert disk["same_bytes"]
        assert disk["same_log"]
