"""No instant twice, no half epoch, whenever a run is killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("stream_kills.py")


@pytest.mark.needs_jit
@pytest.mark.parametrize(
    "kills", [pytest.param(12, marks=pytest.mark.slow), pytest.param(200, marks=pytest.mark.long)]
)
def test_kills_at_random_moments(tmp_path, kills):
    run = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), str(kills), "3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["kills"] == kills
    assert found["epochs"] > kills / 8
    assert found["abandoned"] > kills / 8
