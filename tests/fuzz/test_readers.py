"""What the fuzzer sets out from is read; what it found is refused; its gate fails in CI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.readers import TARGETS
from fuzz.seeds import SEEDS

ROOT = Path(__file__).parents[2]
FOUND = sorted((ROOT / "fuzz" / "found").iterdir())


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read(name):
    """Otherwise the fuzzer would not get past the first checks."""
    was_read = [TARGETS[name](seed) for seed in SEEDS[name]]
    assert 2 * sum(was_read) >= len(was_read)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_seeds_are_read_or_refused(name):
    """A little of what the fuzzer does, where it is not installed."""
    for number, seed in enumerate(SEEDS[name]):
        for at in range(number % 7, len(seed), len(seed) // 12 + 1):
            TARGETS[name](seed[:at])
            TARGETS[name](seed[:at] + bytes([seed[at] ^ 0xFF]) + seed[at + 1 :])


def test_what_was_found_is_refused():
    was_read = [path.name for path in FOUND if TARGETS[path.name.split("-")[0]](path.read_bytes())]
    assert was_read == []


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_fuzzer_that_is_not_installed_is_an_error_in_ci(tmp_path, ci, code):
    (tmp_path / "atheris.py").write_text("raise ImportError")
    ran = subprocess.run(
        [sys.executable, "-m", "fuzz.run", "--runs", "1"],
        env={**os.environ, "CI": ci, "PYTHONPATH": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == code
    assert "atheris is not installed" in ran.stdout
