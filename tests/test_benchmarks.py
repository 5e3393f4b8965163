"""The benchmarks run, on a small log; what they measure is for a quiet machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import trajcloak as tc

CHILD = Path(__file__).parent.parent / "benchmarks" / "child.py"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmarks") / "log.parquet"
    tc.generate_log(path, users=400, length=5)
    return path


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.parametrize(
    "arguments",
    [("bare_read",), ("stages", 20), ("dense_to_policy", 20, 300), ("bounds", 20, 300)],
    ids=lambda arguments: arguments[0],
)
def test_measurements(log, arguments):
    name, *others = arguments
    command = [sys.executable, CHILD, name, log, *map(str, others)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert measured["peak_gib"] > 0
    if name == "stages":
        assert all(seconds >= 0 for seconds in measured["stages"].values())
        assert {"read", "pivot", "sort keys", "write release"} <= measured["stages"].keys()
