"""Measure the points of the paper's Figures 9 to 14, and of two figures of our own.

``python -m experiments.run SIZE`` writes one result file per point to
``experiments/results/SIZE`` and leaves out the points that have one. Each point is
measured in a process of its own. An algorithm that goes beyond the time limit is stopped
and recorded as out of time, and so are its larger points, which are not tried.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from trajcloak.log.write import log_writer

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "experiments" / "results"


@dataclass(frozen=True)
class Size:
    """How much is measured: numbers of users, and a limit."""

    phases: tuple[int, ...]  # Figures 9 and 10.
    clustering: tuple[int, ...]  # Figures 11 and 12.
    hilbert: tuple[int, ...]  # Figures 13 and 14.
    settings: int  # Where k and the length vary.
    limit: float  # Seconds for each run of an algorithm.


SIZES = {
    "small": Size(
        phases=(10_000, 50_000, 100_000, 200_000, 500_000),
        clustering=(2_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000),
        hilbert=(10_000, 20_000, 30_000, 40_000, 50_000),
        settings=20_000,
        limit=90,
    ),
    "full": Size(
        phases=(10_000, 50_000, 100_000, 200_000, 600_000, 1_000_000, 2_000_000),
        clustering=(10_000, 50_000, 100_000, 200_000, 600_000, 1_000_000),
        hilbert=(10_000, 20_000, 30_000, 40_000, 50_000),
        settings=50_000,
        limit=600,
    ),
}
K = 50
LENGTH = 30
LENGTHS = (10, 30)
"""Of Figures 9 and 10."""
K_VALUES = (5, 10, 50, 100, 200)
LENGTH_VALUES = (1, 6, 10, 20, 30)
CLUSTERING = ("traj-anon", "refined", "baseline", "fast-clustering", "slow-clustering")
HILBERT = ("traj-anon", "hilbert-clustering")
REPEATS = {"traj-anon": 3, "baseline": 3}
"""Runs of the algorithms that take a second or less, whose single times say little."""
PHASE_REPEATS = 5
"""Runs from a log to a release."""
SEED = 101
"""Of the log: one that no setting of an algorithm was chosen on."""

PHASES = "phases"
TIMED = ("clustering", "hilbert")
"""Experiments whose figures show times of algorithms."""
OK = "ok"
TIMED_OUT = "out of time"

console = Console(highlight=False)


@dataclass(frozen=True)
class Point:
    """One algorithm on one log."""

    # The figures that it belongs to: "phases" (9, 10), "clustering" (11, 12), "hilbert" (13, 14),
    # "k" or "length".
    experiment: str
    algorithm: str
    users: int
    length: int = LENGTH
    k: int = K

    @property
    def name(self) -> str:
        """Name of the result file, without its ending."""
        return f"{self.experiment}-{self.algorithm}-{self.users}-{self.length}-{self.k}"


Measure = Callable[[Point, Path, float], dict[str, Any]]
"""Point, log and time limit to ``status`` and what was measured."""


def main() -> None:
    """Measure what is missing of a size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", choices=SIZES)
    size = parser.parse_args().size
    folder = RESULTS / size
    points = list(plan(SIZES[size]))
    most = max(point.users for point in points)
    logs = Logs(folder / "logs", most, max(point.length for point in points))
    problems = run(points, folder, SIZES[size].limit, logs.get, measure)
    sys.exit(int(problems > 0))


def plan(size: Size) -> Iterator[Point]:
    """List the points of a size; those of an algorithm from few users to many."""
    for length in LENGTHS:
        for users in size.phases:
            yield Point(PHASES, "traj-anon", users, length)
    for algorithm in CLUSTERING:
        for users in size.clustering:
            yield Point("clustering", algorithm, users)
    for algorithm in HILBERT:
        for users in size.hilbert:
            yield Point("hilbert", algorithm, users)
    for algorithm in CLUSTERING:
        for k in K_VALUES:
            yield Point("k", algorithm, size.settings, k=k)
        for length in LENGTH_VALUES:
            yield Point("length", algorithm, size.settings, length)


def run(
    points: list[Point],
    folder: Path,
    limit: float,
    get_log: Callable[[int, int], Path],
    measure: Measure,
) -> int:
    """Measure every point that has no result; returns how many failed."""
    problems = 0
    for i, point in enumerate(points, 1):
        path = folder / f"{point.name}.json"
        label = f"{i}/{len(points)} {point.name}"
        if is_finished(path, limit):
            console.print(f"{label}: finished before")
            continue
        if is_beyond(point, points, folder):
            measured: dict[str, Any] = {"status": TIMED_OUT, "tried": False}
        else:
            measured = measure(point, get_log(point.users, point.length), limit)
        result = {**asdict(point), "limit": limit, "cores": os.cpu_count(), **measured}
        write_result(result, path)
        told = "".join(f", {seconds:.3g} s" for seconds in result.get("seconds", ()))
        console.print(f"{label}: {result['status']}{told}")
        problems += result["status"] not in (OK, TIMED_OUT)
    return problems


def is_finished(path: Path, limit: float) -> bool:
    """Whether a point was measured, or ran out of no less time than it has now."""
    result = read_result(path)
    return bool(
        result["status"] == OK or (result["status"] == TIMED_OUT and result["limit"] >= limit)
    )


def is_beyond(point: Point, points: list[Point], folder: Path) -> bool:
    """Whether the same algorithm ran out of time with fewer users."""
    return any(
        other.users < point.users
        and replace(other, users=point.users) == point
        and read_result(folder / f"{other.name}.json")["status"] == TIMED_OUT
        for other in points
    )


def read_result(path: Path) -> dict[str, Any]:
    """Read a result file; the status is empty where there is none."""
    result: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"status": ""}
    return result


def measure_once(path: Path, measure: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """Read a result file; if there is none, measure and write it first."""
    if not path.exists():
        write_result(measure(*given), path)
    return read_result(path)


def write_result(result: dict[str, Any], path: Path) -> None:
    """Write a result file; it appears complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(result, indent=2) + "\n")
    unfinished.replace(path)


@dataclass(frozen=True)
class Logs:
    """Logs of fewer users and instants, cut from one that is generated once.

    What a user does depends on the seed and the user's number only, so the first users
    of a large log are a log of their own, and a random sample of all.
    """

    folder: Path
    users: int  # Of the log that is generated.
    length: int

    def get(self, users: int, length: int) -> Path:
        """Return a log of the first users and instants."""
        path = self.folder / f"city-{users}-{length}.parquet"
        if path.exists():
            return path
        if (users, length) == (self.users, self.length):
            self.folder.mkdir(parents=True, exist_ok=True)
            command = [trajcloak(), "generate", "-o", str(path), "--users", str(users)]
            subprocess.run([*command, "--length", str(length), "--seed", str(SEED)], check=True)
        else:
            cut_log(self.get(self.users, self.length), self.users, path, users, length)
        return path


def cut_log(whole: Path, num_users: int, path: Path, users: int, length: int) -> None:
    """Write the rows of the first users at the first instants.

    Requires
        The log holds all of its ``num_users`` users in the same order at each instant.
    """
    table = pq.read_table(whole)
    part = pa.concat_tables(table.slice(i * num_users, users) for i in range(length))
    with log_writer(path, part.schema) as append:
        append(part)


def measure(point: Point, log: Path, limit: float) -> dict[str, Any]:
    """Measure a point in a process of its own."""
    if point.experiment == PHASES:
        command = [sys.executable, str(ROOT / "benchmarks" / "child.py"), "stages", str(log)]
        return read_stages([ask([*command, str(point.k)]) for _ in range(PHASE_REPEATS)])
    repeats = REPEATS.get(point.algorithm, 1) if point.experiment in TIMED else 1
    algorithms = ",".join([point.algorithm] * repeats)
    command = [trajcloak(), "compare", str(log), "--k", str(point.k), "--algorithms", algorithms]
    command += ["--threads", "1", "--time-limit", str(limit), "--json"]
    return read_comparisons(ask(command))


def ask(command: list[str]) -> dict[str, Any]:
    """Run a command that prints one JSON object; returns it, or what went wrong."""
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ended.returncode:
        return {"problem": f"failed: exit code {ended.returncode}"}
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def read_stages(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Read what the benchmark tells of the stages from a log to a release.

    The stages are those of the run that took the median time.
    """
    for answer in answers:
        if "problem" in answer:
            return {"status": answer["problem"]}
    answers = sorted(answers, key=lambda answer: answer["seconds"])
    return {
        "status": OK,
        "seconds": [answer["seconds"] for answer in answers],
        "stages": answers[len(answers) // 2]["stages"],
    }


def read_comparisons(answer: dict[str, Any]) -> dict[str, Any]:
    """Read what ``trajcloak compare`` tells of the runs of one algorithm."""
    if "problem" in answer:
        return {"status": answer["problem"]}
    runs = answer["results"]
    for one in runs:
        if one["status"] != OK:
            return {"status": one["status"]}
    return {
        "status": OK,
        "seconds": [one["seconds"] for one in runs],
        "cost": runs[0]["cost_mbr"],
        "bundles": runs[0]["bundles"],
    }


def trajcloak() -> str:
    """Return the path of the command beside this Python."""
    return str(Path(sys.executable).with_name("trajcloak"))


if __name__ == "__main__":
    main()
