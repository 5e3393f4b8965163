"""The dask engine on a cluster of processes on this machine, against the local engine.

``make bench-dask`` runs it on 1 and 2 million users; ``--users`` makes it smaller. Each
worker may use ``--worker-memory``: what does not fit is spilled, so that a worker's peak
does not grow with the log. A run that misses a target ends with exit code 1.
"""

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from run import LENGTH, RESULTS, K, end_to_end, make_log, print_targets

GIB = 2**30
REQUESTS = ("category", "detail")
FILES = ("bundles.parquet", "requests.parquet", "manifest.json")
WARM_UP_USERS = 20_000

console = Console(highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worker-memory", type=float, default=4.0, help="GiB")
    parser.add_argument("--child", type=Path, nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(run_on_cluster(*asked.child, asked.workers, asked.worker_memory)))
        return
    RESULTS.mkdir(exist_ok=True)
    make_log(WARM_UP_USERS, "integer")
    points = []
    for users in (asked.users // 2, asked.users):
        log = make_log(users, "integer")
        local = end_to_end(log, RESULTS / "release")
        spread = measure(log, RESULTS / "spread", asked)
        same = all(
            filecmp.cmp(RESULTS / "release" / name, RESULTS / "spread" / name, shallow=False)
            for name in FILES
        )
        if not same:
            raise SystemExit("the two engines wrote different releases")
        points.append({"users": users, "local": local, "dask": spread})
    print_points(points, asked)
    results = {"length": LENGTH, "k": K, "workers": asked.workers, "points": points}
    (RESULTS / "cluster.json").write_text(json.dumps(results, indent=2) + "\n")
    last = points[-1]
    sys.exit(
        print_targets(
            [
                ("dask / local, time", last["dask"]["seconds"] / last["local"]["seconds"], 3.0),
                ("peak memory of the client in GiB", last["dask"]["client_gib"], 2.0),
                (
                    "peak memory of a worker / its limit",
                    max(p["dask"]["worker_gib"] for p in points) / asked.worker_memory,
                    1.0,
                ),
            ]
        )
    )


def measure(log: Path, release: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Run on a cluster of fresh processes."""
    shutil.rmtree(release, ignore_errors=True)
    command = [sys.executable, __file__, "--workers", str(asked.workers)]
    command += ["--worker-memory", str(asked.worker_memory), "--child", str(log), str(release)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, Any] = json.loads(answer.stdout)
    return measured


def run_on_cluster(log: Path, release: Path, workers: int, memory: float) -> dict[str, Any]:
    """Time a run, after a small one that loads the kernels, and watch everybody's memory."""
    import psutil

    import trajcloak as tc
    from trajcloak.engines import anonymize_on
    from trajcloak.engines.dask import open_dask

    started = time.perf_counter()
    with open_dask(None, workers, memory_limit=int(memory * GIB)) as engine:
        columns = tc.LogColumns(requests=REQUESTS)
        options = tc.Options(k=K, algorithm="traj-anon")
        warm_up = release.with_name("warm-up")
        shutil.rmtree(warm_up, ignore_errors=True)
        anonymize_on(engine, make_log(WARM_UP_USERS, "integer"), columns, options).write(warm_up)
        shutil.rmtree(warm_up)
        startup = time.perf_counter() - started
        pids = [*engine.client.run(os.getpid).values(), os.getpid()]
        peaks = dict.fromkeys(pids, 0)
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.05):
                for pid in pids:
                    peaks[pid] = max(peaks[pid], psutil.Process(pid).memory_info().rss)

        watcher = threading.Thread(target=watch)
        watcher.start()
        stages = _Stages()
        before = [_count_seconds(pid) for pid in pids]
        started = time.perf_counter()
        result = anonymize_on(engine, log, columns, options, progress=stages)
        result.write(release, progress=stages)
        seconds = time.perf_counter() - started
        spent = [_count_seconds(pid) - b for pid, b in zip(pids, before, strict=True)]
        done.set()
        watcher.join()
    return {
        "seconds": seconds,
        "startup": startup,
        "stages": stages.seconds,
        "worker_cpu": sum(spent[:-1]),
        "client_cpu": spent[-1],
        "client_gib": peaks[os.getpid()] / GIB,
        "worker_gib": max(peaks[pid] for pid in pids[:-1]) / GIB,
    }


def _count_seconds(pid: int) -> float:
    """Count the processor time of a process."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


class _Stages:
    """Adds up the time from the first news of a stage to the last."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started: dict[str, float] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.perf_counter()
        self.seconds[stage] = now - self._started.setdefault(stage, now)


def print_points(points: list[dict[str, Any]], asked: argparse.Namespace) -> None:
    table = Table(
        title=f"{asked.workers} workers of {asked.worker_memory:g} GiB, {LENGTH} instants, "
        f"k = {K}; seconds, and peak memory in GiB",
        title_justify="left",
    )
    for column in (
        "users", "local", "dask", "ratio", "read", "bundle", "write", "client", "worker"
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for point in points:
        local, spread = point["local"], point["dask"]
        stages = spread["stages"]
        table.add_row(
            f"{point['users']:,}",
            f"{local['seconds']:.1f}",
            f"{spread['seconds']:.1f}",
            f"{spread['seconds'] / local['seconds']:.2f}",
            *(f"{stages[name]:.1f}" for name in ("reading log", "bundling", "writing release")),
            f"{spread['client_gib']:.2f}",
            f"{spread['worker_gib']:.2f}",
        )
    console.print(table)
    startup = max(point["dask"]["startup"] for point in points)
    console.print(f"To start the workers and load their kernels took {startup:.0f} s, not counted.")


if __name__ == "__main__":
    main()
