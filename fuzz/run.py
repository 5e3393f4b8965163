"""Run the fuzzer: ``python -m fuzz.run [--runs N | --seconds S] [--seed N] [TARGET ...]``.

Each target is a process of its own. A seed does not quite fix its inputs: two runs differ. What
the kernels do is left to the tests: here they run as plain Python, so that the fuzzer sees their
branches too.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT = 20
"""Seconds for one input; more is a hang."""

MEGABYTES = 4000
FOUND = Path(__file__).parent / "found"
"""What was found and is to be a test: ``tests/fuzz`` runs every file there."""


def main() -> int:
    """Fuzz the targets one after the other; 1 if one of them found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--runs", type=int, default=1000, help="inputs for each target")
    parser.add_argument("--seconds", type=int, help="time for each target, instead of --runs")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs that are drawn")
    asked = parser.parse_args()
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("fuzz: atheris is not installed: it has no wheel for this Python or platform")
        return 1 if os.environ.get("CI") == "true" else 0
    from fuzz.seeds import SEEDS

    limit = f"-max_total_time={asked.seconds}" if asked.seconds else f"-runs={asked.runs}"
    options = [limit, f"-seed={asked.seed}"]
    failed = [name for name in asked.targets or SEEDS if not fuzz(name, SEEDS[name], options)]
    for name in failed:
        print(
            f"fuzz: {name} found an input that is neither read nor refused; it is in {FOUND}: "
            f"commit it with the remedy"
        )
    return 1 if failed else 0


def fuzz(name: str, seeds: list[bytes], options: list[str]) -> bool:
    """Fuzz one target in a process of its own; tells whether nothing was found."""
    FOUND.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds):
            Path(corpus, f"{number:02d}").write_bytes(seed)
        command = [
            sys.executable, "-m", "fuzz.one", name, corpus, *options,
            f"-timeout={TIMEOUT}", f"-rss_limit_mb={MEGABYTES}", "-max_len=4096",
            f"-artifact_prefix={FOUND / name}-", "-print_final_stats=1",
        ]  # fmt: skip
        print(f"fuzz: {name}", flush=True)
        done = subprocess.run(
            command, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True
        )
    told = done.stderr.splitlines()
    shown = told[-40:] if done.returncode else [line for line in told if "stat::" in line][:2]
    print("\n".join([*done.stdout.splitlines()[-30:], *shown] if done.returncode else shown))
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
