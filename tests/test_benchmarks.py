"""The benchmarks run, on a small log; what they measure is for a quiet machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import trajcloak as tc
from required import require_java

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("benchmarks") / "log.parquet"
    tc.generate_log(path, users=400, length=5)
    return path


def run_benchmark(name, *arguments):
    command = [sys.executable, BENCHMARKS / name, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.parametrize(
    "arguments",
    [
        ("bare_read",),
        ("stages", 20),
        ("dense_to_policy", 20, 300),
        ("bounds", 20, 300),
        ("parts", 20, 5, "window"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_measurements(log, arguments):
    name, *others = arguments
    done = run_benchmark("child.py", name, log, *others)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert measured["peak_gib"] > 0
    if name == "stages":
        assert all(seconds >= 0 for seconds in measured["stages"].values())
        assert {"read", "pivot", "sort keys", "write release"} <= measured["stages"].keys()


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.needs_jit
@pytest.mark.parametrize(
    ("engine", "num_targets"), [("memory", 4), ("dask", 2), ("spark", 1)], ids=lambda value: value
)
def test_windows(tmp_path, engine, num_targets):
    if engine == "spark":
        require_java()
    sizes = ("--users", 100, "--windows", 1)
    done = run_benchmark("windows.py", "--engine", engine, "--folder", tmp_path, *sizes)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    targets = json.loads((tmp_path / f"windows-{engine}.json").read_text())
    assert len(targets) == num_targets
    assert all(target["found"] > 0 for target in targets)
    missed = [target for target in targets if target["found"] > target["at most"]]
    assert done.returncode == bool(missed)


@pytest.mark.slow
@pytest.mark.needs_jit
def test_streams():
    done = run_benchmark("online.py", "--users", 500, "--day-users", 200, "--day", 120)
    assert done.returncode in (0, 1), done.stderr
    assert "seconds at the start of an epoch" in done.stdout
    assert "instant 120" in done.stdout


@pytest.mark.slow
def test_functions_of_the_plan_have_stages(log, tmp_path, monkeypatch):
    """So that what the plan does more is not left out of the model."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import scale

    monkeypatch.setattr(scale, "RESULTS", tmp_path)
    measured = scale.run_plan(log, rows=500)
    scale.check_stages(measured)
    assert all(measured.seconds.get(name[0], 0) > 0 for name in scale.STAGES.values())
    measured.seconds["something_new"] = 1.0
    with pytest.raises(SystemExit, match="something_new: belongs to no stage"):
        scale.check_stages(measured)
