"""The dask engine on a cluster of processes on this machine, against the memory engine.

``make bench-dask`` runs it on 1 and 2 million users, and on the larger log once more with
shards of half the size, each three times; ``--users`` makes it smaller. Each worker may use
``--worker-memory`` and spills nothing, so that a run that needs more does not end. A run that
misses a target ends with exit code 1.
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
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from run import LENGTH, RESULTS, K, end_to_end, make_log, print_targets
from trajcloak.bundling.runs import BUNDLING
from trajcloak.engines.engine import WRITING, Sizes
from trajcloak.engines.stored import SHARD_ROWS
from trajcloak.log.read import READING
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import anonymize_on
from trajcloak.window_inputs import BUILDING

GIB = 2**30
REQUESTS = ("category", "detail")
FILES = ("bundles.parquet", "requests.parquet", "manifest.json")
WARM_UP_USERS = 20_000
WARM_UP_SHARDS = 8
RUNS = 3
PEAKS = ("client_gib", "worker_gib", "idle_gib", "scratch_gib", "file_gib", "startup")

console = Console(highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=2_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worker-memory", type=float, default=2.0, help="GiB")
    parser.add_argument("--rows", type=int, default=SHARD_ROWS, help="in a shard")
    parser.add_argument("--child", type=Path, nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(run_on_cluster(*asked.child, asked)))
        return
    RESULTS.mkdir(exist_ok=True)
    make_log(WARM_UP_USERS, "integer")
    points = []
    for users, rows in (
        (asked.users // 2, asked.rows),
        (asked.users, asked.rows),
        (asked.users, asked.rows // 2),
    ):
        log = make_log(users, "integer")
        asked.rows = rows
        spread = measure(log, RESULTS / "spread", asked)
        if not points or points[-1]["users"] != users:
            memory = end_to_end(log, RESULTS / "release")
        same = all(
            filecmp.cmp(RESULTS / "release" / name, RESULTS / "spread" / name, shallow=False)
            for name in FILES
        )
        if not same:
            raise SystemExit("the two engines wrote different releases")
        points.append({"users": users, "rows": rows, "memory": memory, "dask": spread})
    print_points(points, asked)
    results = {"length": LENGTH, "k": K, "workers": asked.workers, "points": points}
    (RESULTS / "cluster.json").write_text(json.dumps(results, indent=2) + "\n")
    _, large, _ = found = [point["dask"] for point in points]
    files = max((one["worker_gib"] - one["idle_gib"]) / one["file_gib"] for one in found)
    sys.exit(
        print_targets(
            [
                ("dask / memory, time", large["seconds"] / points[1]["memory"]["seconds"], 3.0),
                ("peak memory of the client in GiB", large["client_gib"], 2.0),
                ("memory of a worker at work / largest file", files, 5.0),
            ]
        )
    )


def measure(log: Path, release: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Run on clusters of fresh processes: the run of the median time, the most memory of all.

    How far a worker gets to its most depends on which calls meet there, so that one run varies.
    """
    runs = sorted((_run_once(log, release, asked) for _ in range(RUNS)), key=lambda r: r["seconds"])
    return runs[RUNS // 2] | {name: max(run[name] for run in runs) for name in PEAKS}


def _run_once(log: Path, release: Path, asked: argparse.Namespace) -> dict[str, Any]:
    shutil.rmtree(release, ignore_errors=True)
    command = [sys.executable, __file__, "--workers", str(asked.workers)]
    command += ["--worker-memory", str(asked.worker_memory), "--rows", str(asked.rows)]
    command += ["--child", str(log), str(release)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, Any] = json.loads(answer.stdout)
    return measured


def run_on_cluster(log: Path, release: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Time a run, after a small one that loads the kernels, and watch everybody's memory."""
    import dask
    import psutil

    from trajcloak.engines.dask import open_dask

    dask.config.set(
        {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause")}
    )
    memory_limit = int(asked.worker_memory * GIB)
    started = time.perf_counter()
    with open_dask(RESULTS, workers=asked.workers, memory_limit=memory_limit) as engine:
        columns = LogColumns(requests=REQUESTS)
        options = Options(k=K, algorithm="traj-anon")
        warm_up(engine, make_log(WARM_UP_USERS, "integer"), columns, options)
        startup = time.perf_counter() - started
        pids = [*engine.client.run(os.getpid).values(), os.getpid()]
        idle = [psutil.Process(pid).memory_info().rss for pid in pids[:-1]]
        with _Watcher(pids, engine.folder) as watcher:
            stages = engine.progress = _Stages()
            engine._sizes = Sizes(asked.rows, asked.rows)
            before = [_count_seconds(pid) for pid in pids]
            started = time.perf_counter()
            anonymize_on(engine, log, columns, options).write(release, progress=stages)
            seconds = time.perf_counter() - started
            spent = [_count_seconds(pid) - b for pid, b in zip(pids, before, strict=True)]
    return {
        "seconds": seconds,
        "startup": startup,
        "stages": stages.seconds,
        "worker_cpu": sum(spent[:-1]),
        "client_cpu": spent[-1],
        "client_gib": watcher.peaks[os.getpid()] / GIB,
        "worker_gib": max(watcher.peaks[pid] for pid in pids[:-1]) / GIB,
        "idle_gib": max(idle) / GIB,
        "scratch_gib": watcher.scratch / GIB,
        "file_gib": watcher.file / GIB,
    }


def warm_up(engine: Any, log: Path, columns: Any, options: Any) -> None:
    """Have every worker load the kernels: on a small log in more shards than there are workers."""
    rows = -(-pq.read_metadata(log).num_rows // WARM_UP_SHARDS)
    sizes, engine._sizes = engine._sizes, Sizes(rows, rows)
    release = log.with_name("warm-up")
    shutil.rmtree(release, ignore_errors=True)
    anonymize_on(engine, log, columns, options).write(release)
    shutil.rmtree(release)
    engine._sizes = sizes


class _Watcher:
    """Watches the memory of processes, and the files of a scratch folder."""

    def __init__(self, pids: list[int], folder: Path) -> None:
        self.peaks = dict.fromkeys(pids, 0)
        self.scratch = 0
        self.file = 0
        self._folder = folder
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "_Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        import psutil

        while not self._done.wait(0.05):
            for pid in self.peaks:
                self.peaks[pid] = max(self.peaks[pid], psutil.Process(pid).memory_info().rss)
            sizes = list(_list_sizes(self._folder))
            self.scratch = max(self.scratch, sum(sizes))
            self.file = max(self.file, *sizes, 0)


def _list_sizes(folder: Path) -> Iterator[int]:
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                yield Path(parent, name).stat().st_size


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
    rows: list[list[list[str]]] = [[], []]
    for point in points:
        whole, spread = point["memory"]["seconds"], point["dask"]
        stages = [
            spread["stages"].get(name, 0.0) for name in (READING, BUILDING, BUNDLING, WRITING)
        ]
        times = [whole, spread["seconds"], spread["seconds"] / whole, *stages]
        sizes = [spread[f"{n}_gib"] for n in ("file", "scratch", "client", "idle", "worker")]
        names = [f"{point['users']:,}", f"{point['rows']:,}"]
        rows[0].append([*names, *(f"{number:.1f}" for number in times)])
        rows[1].append([*names, *(f"{number:.2f}" for number in sizes)])
    title = f"{asked.workers} workers of {asked.worker_memory:g} GiB, {LENGTH} instants, k = {K}"
    for what, columns, of_table in (
        ("seconds", ("memory", "dask", "ratio", "read", "cut", "bundle", "write"), rows[0]),
        ("GiB", ("largest file", "all files", "client", "idle worker", "worker"), rows[1]),
    ):
        table = Table(title=f"{title}: {what}", title_justify="left")
        for column in ("users", "rows a shard", *columns):
            table.add_column(column, justify="right")
        for row in of_table:
            table.add_row(*row)
        console.print(table)
    startup = max(point["dask"]["startup"] for point in points)
    console.print(f"To start the workers and load their kernels took {startup:.0f} s, not counted.")


if __name__ == "__main__":
    main()
