"""No instant twice, no half epoch, whenever a run is killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("stream_kills.py")


@pytest.mark.needs_jit
@pytest.mark.parametrize(
    ("kills", "seed"),
    [
        pytest.param(12, 3, marks=pytest.mark.slow),
        # The audit after each kill grows with the stream: several streams, of 200 kills in all.
        *(pytest.param(25, seed, marks=pytest.mark.long) for seed in range(10, 18)),
    ],
)
def test_kills_at_random_moments(tmp_path, kills, seed):
    run = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), str(kills), str(seed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["kills"] == kills
    # How many there are of each depends on the speed of the machine; kills before a given step,
    # which do not, leave some of both with every seed above.
    assert found["epochs"] > 0
    assert found["abandoned"] > 0
