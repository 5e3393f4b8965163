"""The first run of each command on a new installation: nothing is compiled yet.

``make bench`` runs it. Processor time of the whole command, compiling included, with an empty
cache of kernels; then once more with what the first run has left there. A target that is missed
ends with exit code 1.

``--demo`` also times ``make demo`` in a fresh clone with an empty home, installation included:
seconds on the clock, so the machine should be idle.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from run import LENGTH, print_targets, time_command, trajcloak

PROJECT = Path(__file__).parents[1]
USERS = 1_000
K = 50
REQUESTS = ["--request", "category", "--request", "detail"]

console = Console(highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", action="store_true", help="also time `make demo`, installed anew")
    asked = parser.parse_args()
    targets: list[tuple[str, float, float]] = []
    table = Table(title="Processor time in seconds", title_justify="left")
    for column in ("command", "first run", "second run", "kernels compiled"):
        table.add_column(column, justify="left" if column == "command" else "right")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log.parquet"
        generate = [trajcloak(), "generate", "--length", str(LENGTH), "--json"]
        subprocess.run(
            [*generate, "--users", str(USERS), "-o", str(log)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        anonymize = [trajcloak(), "anonymize", str(log), "--k", str(K), "--json", *REQUESTS]
        for title, command, most in (
            ("anonymize --algorithm traj-anon", [*anonymize, "--algorithm", "traj-anon"], 6.0),
            ("anonymize --algorithm refined", [*anonymize, "--algorithm", "refined"], 12.0),
            ("generate, 100 users", [*generate, "--users", "100"], 8.0),
        ):
            first, second, kernels = measure(command, folder / title.replace(" ", "-"))
            table.add_row(title, f"{first:.1f}", f"{second:.1f}", str(kernels))
            targets.append((f"{title}: first run", first, most))
    console.print(table)
    if asked.demo:
        targets.append(("make demo, installation included: seconds", time_demo(), 90.0))
    sys.exit(print_targets(targets))


def measure(command: list[str], folder: Path) -> tuple[float, float, int]:
    """Run a command twice with a cache that is empty at first.

    Returns the processor time of each run, and how many kernels the first has compiled.
    """
    folder.mkdir()
    os.environ["NUMBA_CACHE_DIR"] = str(folder / "kernels")
    first, second = (
        time_command([*command, "-o", str(folder / f"made-{number}.parquet")])["cpu"]
        for number in range(2)
    )
    return first, second, len(list((folder / "kernels").rglob("*.nbc")))


def time_demo() -> float:
    """Time ``make demo`` in a clone of this project, with an empty home."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone = folder / "clone"
        subprocess.run(["git", "clone", "--quiet", str(PROJECT), str(clone)], check=True)
        (folder / "home").mkdir()
        os.environ["HOME"] = str(folder / "home")
        os.environ.pop("NUMBA_CACHE_DIR", None)
        return float(time_command(["make", "-C", str(clone), "demo"])["seconds"])


if __name__ == "__main__":
    main()
