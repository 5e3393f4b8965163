"""Logs of many small windows, as ratios within one run.

``make bench`` runs it in memory: two threads against one, and ``refined`` against ``traj-anon``
on windows of a few hundred users. ``make bench-dask`` runs it with ``--engine dask``, two workers
against one, and with ``--engine spark``, Spark against dask on one large window. ``--users`` and
``--windows`` make it smaller. A run that misses a target ends with exit code 1.
"""

import argparse
import filecmp
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

import trajcloak as tc
from run import RESULTS, K, make_log, print_targets
from trajcloak.options import LogColumns, Options

ALGORITHMS = ("traj-anon", "refined")
USERS, NUM_WINDOWS, LENGTH = 20_000, 48, 10
WARM_UP_USERS = 2_000
REPEATS, LONG = 25, 20.0
LARGE_USERS = 2_000_000

SMALL_USERS, SMALL_WINDOWS = 500, 3_000
SMALL_KS = (10, 50)
COST_WINDOWS = 200
COST_BEFORE = {10: 25723639680191.125, 50: 185090769065214.62}
"""Cost of ``refined`` by k, before its effort was fitted to small windows.

Of a log of :data:`COST_WINDOWS` windows, measured with ``python benchmarks/windows.py --costs``,
with the sources of then on the ``PYTHONPATH``: it needs nothing that they do not have.
"""

Targets = list[tuple[str, float, float]]
console = Console(highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("memory", "dask", "spark"), default="memory")
    parser.add_argument("--users", type=int, help=f"{USERS:,}; with Spark {LARGE_USERS:,}")
    parser.add_argument("--windows", type=int, default=SMALL_WINDOWS, help="of few users")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="for logs and results")
    parser.add_argument("--costs", action="store_true", help="measure costs only")
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True)
    if asked.costs:
        console.print({k: measure_cost(asked.folder, k) for k in SMALL_KS})
        return
    targets: Targets = []
    if asked.engine == "memory":
        compare_threads(asked.folder, asked.users or USERS, targets)
        compare_small_windows(asked.folder, asked.windows, targets)
    elif asked.engine == "dask":
        compare_workers(asked.folder, asked.users or USERS, targets)
    else:
        compare_clusters(asked.folder, asked.users or LARGE_USERS, targets)
    names = ("measure", "found", "at most")
    results = [dict(zip(names, target, strict=True)) for target in targets]
    file = asked.folder / f"windows-{asked.engine}.json"
    file.write_text(json.dumps(results, indent=2) + "\n")
    sys.exit(print_targets(targets))


def make_windows(folder: Path, users: int, windows: int, length: int) -> Path:
    """Generate one long log without requests, once."""
    path = folder / f"windows-{users}-{windows}x{length}.parquet"
    if not path.exists():
        tc.generate_log(path, users=users, length=windows * length, seed=111, request_share=0.0)
    return path


def compare_threads(folder: Path, users: int, targets: Targets) -> None:
    """Compare two threads with one, on a log that is read: Arrow decodes on all cores anyway."""
    small, log = (
        tc.read_log(make_windows(folder, count, NUM_WINDOWS, LENGTH))
        for count in (min(users, WARM_UP_USERS), users)
    )
    for name in ALGORITHMS:
        seconds = {}
        for threads in (1, 2):
            options = {"algorithm": name, "length": LENGTH, "threads": threads}
            tc.anonymize(small, k=K, **options)
            seconds[threads] = time_best(partial(tc.anonymize, log, k=K, **options))
        add_speedup(f"{name}, two threads / one", users, seconds, targets)


def compare_workers(folder: Path, users: int, targets: Targets) -> None:
    """Compare two dask workers with one; each has one thread."""
    from cluster import warm_up
    from trajcloak.engines.dask import open_dask
    from trajcloak.pipeline import anonymize_on

    small = make_windows(folder, min(users, WARM_UP_USERS), NUM_WINDOWS, LENGTH)
    log = make_windows(folder, users, NUM_WINDOWS, LENGTH)
    seconds: dict[str, dict[int, float]] = {name: {} for name in ALGORITHMS}
    for workers in (1, 2):
        with open_dask(folder, workers=workers) as engine:
            for name in ALGORITHMS:
                options = Options(k=K, algorithm=name, length=LENGTH)
                warm_up(engine, small, LogColumns(), options)
                run = partial(anonymize_on, engine, log, LogColumns(), options)
                seconds[name][workers] = time_best(run)
    for name in ALGORITHMS:
        add_speedup(f"{name}, two dask workers / one", users, seconds[name], targets)


def add_speedup(name: str, users: int, seconds: dict[int, float], targets: Targets) -> None:
    """Print how long one and two took, and add the target of their ratio."""
    console.print(
        f"{name}: {seconds[2]:.1f} s / {seconds[1]:.1f} s, {users:,} users in {NUM_WINDOWS} "
        f"windows of {LENGTH} instants."
    )
    targets.append((name, seconds[2] / seconds[1], 0.65))


def compare_small_windows(folder: Path, windows: int, targets: Targets) -> None:
    """Compare ``refined`` with ``traj-anon`` in time, and with its own cost of before."""
    log = make_windows(folder, SMALL_USERS, windows, LENGTH)
    for k in SMALL_KS:
        seconds = {}
        for algorithm in ALGORITHMS:
            solve_small(make_windows(folder, SMALL_USERS, 1, LENGTH), algorithm, k)
            seconds[algorithm] = time_best(partial(solve_small, log, algorithm, k))
        console.print(
            f"{windows:,} windows of {SMALL_USERS} users, k = {k}: "
            + ", ".join(f"{name} {1e3 * s / windows:.1f} ms" for name, s in seconds.items())
            + " a window."
        )
        ratio = seconds["refined"] / seconds["traj-anon"]
        targets.append((f"refined / traj-anon, time, small windows, k = {k}", ratio, 6.0))
        if windows >= COST_WINDOWS:
            ratio = measure_cost(folder, k) / COST_BEFORE[k]
            targets.append((f"refined / before, cost, small windows, k = {k}", ratio, 1.03))


def measure_cost(folder: Path, k: int) -> float:
    """Measure the cost of ``refined`` on small windows."""
    log = make_windows(folder, SMALL_USERS, COST_WINDOWS, LENGTH)
    return float(solve_small(log, "refined", k).manifest["cost"])


def solve_small(log: Path, algorithm: str, k: int) -> Any:
    """Read a log, bundle its small windows in memory, and write the release."""
    release = tc.anonymize(log, k=k, algorithm=algorithm, length=LENGTH)
    with tempfile.TemporaryDirectory(dir=log.parent) as folder:
        release.save(Path(folder) / "release")
    return release


def compare_clusters(folder: Path, users: int, targets: Targets) -> None:
    """Compare Spark with two cores and dask with two workers, and the files that they write."""
    from cluster import FILES, REQUESTS, warm_up
    from trajcloak.engines.dask import open_dask
    from trajcloak.pipeline import anonymize_on

    try:
        from trajcloak.engines.spark import open_spark
    except ImportError as error:
        raise SystemExit(f"Spark cannot be measured: {error}") from None
    log = make_log(users, "integer", folder)
    small = make_log(min(users, 10 * WARM_UP_USERS), "integer", folder)
    columns = LogColumns(requests=REQUESTS)
    options = Options(k=K, algorithm="traj-anon")
    seconds = {}
    for name, opened in (
        ("dask", open_dask(folder, workers=2)),
        ("spark", open_spark(folder, "local[2]")),
    ):
        with opened as engine:
            warm_up(engine, small, columns, options)
            release = folder / f"by-{name}"
            shutil.rmtree(release, ignore_errors=True)
            start = time.perf_counter()
            anonymize_on(engine, log, columns, options).write(release)
            seconds[name] = time.perf_counter() - start
    for file in FILES:
        if not filecmp.cmp(folder / "by-dask" / file, folder / "by-spark" / file, shallow=False):
            raise SystemExit(f"dask and Spark wrote different files {file}")
    console.print(f"{users:,} users: Spark {seconds['spark']:.1f} s, dask {seconds['dask']:.1f} s.")
    targets.append(("Spark / dask, two cores each", seconds["spark"] / seconds["dask"], 2.5))


def time_best(run: Callable[[], Any]) -> float:
    """Take the least time of a few runs, or of one that is long."""
    seconds: list[float] = []
    while len(seconds) < REPEATS and sum(seconds) < LONG:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
