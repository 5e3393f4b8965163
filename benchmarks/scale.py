"""What a run costs per user and instant, stage by stage, and what larger runs would cost.

``python benchmarks/scale.py`` measures the functions of the plan one after the other on one
core, with values in files as on a cluster, checks that against what ``make bench-dask`` has
measured on a cluster, and then simulates clusters that are not here. ``docs/scale.md``
explains the model.
"""

import argparse
import heapq
import json
import pickle
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from trajcloak.engines.plan import Sizes, choose_sizes
from trajcloak.engines.scratch import Pieces, Scratch, Stage

import trajcloak as tc
from run import LENGTH, RESULTS, K, make_log
from trajcloak.engines import anonymize_on
from trajcloak.engines.dask import Call, Storing
from trajcloak.engines.engine import Handle, Job

GIB = 2**30
SMALL = 20_000
STAGES = {
    "read": ("read_and_split",),
    "join users": ("join_and_clean",),
    "survey": (
        "_get", "describe", "place", "get_bounds", "count_part_places", "find_part_far",
        "count_part_values", "count_part_digits", "count_part_ids", "list_part_sent",
    ),
    "windows": ("build_shares", "count_participants", "count_left_out"),
    "cut": ("sample_share", "sample_ranges", "count_ranges", "split_by_key"),
    "sort": ("sort_range", "find_ends"),
    "solve": ("solve_range", "summarise_forest"),
    "bundle": ("bundle_range", "bundle_top"),
    "order": ("sample_cloaks", "split_finished", "join_finished", "total_range"),
    "write": ("write_group", "write_members"),
    "join files": ("join_files",),
}  # fmt: skip
SKEWED = ("sort", "solve", "bundle")
"""Stages in which users with the same trajectory are with one worker."""

MANY_PARTS = (25, 50, 100)
"""Numbers of parts of a small log, from which follows what a pair of parts costs."""

console = Console(highlight=False)


class MeasuringEngine:
    """Runs one function at a time, values in files; notes processor time, bytes and jobs."""

    threads = 1

    def __init__(self, folder: Path) -> None:
        self.scratch = Scratch(folder)
        self.seconds: dict[str, float] = defaultdict(float)
        self.read: dict[str, int] = defaultdict(int)
        self.written: dict[str, int] = defaultdict(int)
        self.gathered = 0
        self.num_jobs = 0

    def put(self, value: Any) -> Any:
        """Hand over a value."""
        return value

    def run(self, function: Callable[..., Any], jobs: Sequence[Job]) -> Pieces:
        """Run functions whose values are written to files."""
        return Pieces(self._store(function, jobs, is_cut=False), len(jobs), 0)

    def exchange(
        self, function: Callable[..., Any], jobs: Sequence[Job], parts: int
    ) -> list[Sequence[Handle]]:
        """Run functions whose pieces are written to files."""
        stage = self._store(function, jobs, is_cut=True)
        return [Pieces(stage, len(jobs), part) for part in range(parts)]

    def ask(self, function: Callable[..., Any], jobs: Sequence[Job]) -> list[Any]:
        """Run functions whose values are fetched, and note their bytes."""
        values = [self._make(function, Call(self._count_mapped(function), job)) for job in jobs]
        self.gathered += sum(map(_count_bytes, values))
        return values

    def _store(self, function: Callable[..., Any], jobs: Sequence[Job], *, is_cut: bool) -> Stage:
        stage = self.scratch.new_stage()
        for i, job in enumerate(jobs):
            call = Storing(Call(self._count_mapped(function), job), stage, i, is_cut)
            self._make(function, call)
            self.written[function.__name__] += stage.get_file(i).stat().st_size
        return stage

    def _make(self, function: Callable[..., Any], call: Call | Storing) -> Any:
        self.num_jobs += 1
        read = _count_read()
        started = time.process_time()
        value = call.make()
        self.seconds[function.__name__] += time.process_time() - started
        self.read[function.__name__] += _count_read() - read
        return value

    def _count_mapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Note the bytes of files that a function looks at in memory."""

        def run(*job: Any) -> Any:
            mapped = _count_resident()
            value = function(*job)
            self.read[function.__name__] += max(0, _count_resident() - mapped)
            return value

        return run


def _count_read() -> int:
    """Count the bytes that this process has read."""
    return int(Path("/proc/self/io").read_text().split()[1])


def _count_resident() -> int:
    """Count the bytes of files that are mapped into this process and loaded."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssFile"].split()[0]) << 10


def _count_bytes(value: Any) -> int:
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(rest) + sum(buffer.raw().nbytes for buffer in buffers)


@dataclass(frozen=True)
class Model:
    """Costs per user and instant, if not said otherwise.

    Attributes
    ----------
    seconds : dict
        Of one core, by stage.
    read, written : dict
        Bytes of files, by stage.
    gathered : float
        Bytes to the client.
    jobs : float
        Jobs for each part.
    per_pair : float
        Seconds of one core for each pair of parts.
    """

    seconds: dict[str, float]
    read: dict[str, float]
    written: dict[str, float]
    gathered: float
    jobs: float
    per_pair: float


def measure(users: int) -> Model:
    """Run the plan function by function on one core."""
    rows = min(Sizes.rows, users * LENGTH // 2)
    for size in (SMALL, users):
        engine = run_plan(make_log(size, "integer"), rows)
    unknown = set(engine.seconds) - {name for names in STAGES.values() for name in names}
    assert not unknown, unknown
    total = users * LENGTH

    def per_instant(counts: dict[str, Any]) -> dict[str, float]:
        return {stage: sum(counts[n] for n in names) / total for stage, names in STAGES.items()}

    return Model(
        per_instant(engine.seconds),
        per_instant(engine.read),
        per_instant(engine.written),
        engine.gathered / total,
        engine.num_jobs * rows / total,
        measure_pairs(),
    )


def measure_pairs() -> float:
    """Measure what a pair of parts costs: what grows as the square of their number."""
    table = pq.read_table(make_log(SMALL, "integer"))
    path = RESULTS / "pairs.parquet"
    seconds = []
    for parts in MANY_PARTS:
        rows = table.num_rows // parts
        pq.write_table(table, path, row_group_size=-(-rows // 2))
        seconds.append(sum(run_plan(path, rows).seconds.values()))
    path.unlink()
    square, *_ = np.polyfit(MANY_PARTS, seconds, 2)
    return float(square)


def run_plan(log: Path, rows: int) -> MeasuringEngine:
    """Run the plan with parts of so many rows."""
    engine = MeasuringEngine(RESULTS)
    release = RESULTS / "measured"
    shutil.rmtree(release, ignore_errors=True)
    columns = tc.LogColumns(requests=("category", "detail"))
    asked = tc.Options(k=K, algorithm="traj-anon")
    anonymize_on(engine, log, columns, asked, sizes=Sizes(rows, rows)).write(release)
    shutil.rmtree(release)
    engine.scratch.close()
    return engine


@dataclass(frozen=True)
class Cluster:
    """A cluster to simulate.

    Attributes
    ----------
    workers, cores : int
        Machines, and cores of each.
    bandwidth : float
        Bytes per second in and out of a machine.
    storage : float
        Bytes per second in and out of the storage that all share.
    per_task : float
        Seconds of the scheduler for a task.
    """

    workers: int
    cores: int
    bandwidth: float
    storage: float
    per_task: float


def simulate(
    model: Model, users: int, cluster: Cluster, same: float, seed: int = 0
) -> dict[str, float]:
    """Simulate a run; seconds by stage.

    Parameters
    ----------
    model
    users
    cluster
    same
        The share of users who have one and the same trajectory, and so one worker.
    seed
        Of the unevenness of parts and cores.
    """
    rng = np.random.default_rng(seed)
    total = users * LENGTH
    sizes = choose_sizes(total)
    parts = max(1, -(-total // sizes.rows))
    slots = cluster.workers * cluster.cores
    seconds: dict[str, float] = {}
    files = 0.0
    for stage, cost in model.seconds.items():
        shares = np.full(parts, 1 / parts)
        if stage in SKEWED:
            # Ranges come out up to twice as large as wanted, before those of equal keys.
            shares = rng.uniform(0.5, 1.5, parts)
            shares = np.append((1 - same) * shares / shares.sum(), same)
        if stage == "join files":
            shares = np.array([1.0])
        work = total * cost * shares * rng.lognormal(0, 0.1, len(shares))
        seconds[stage] = _schedule(work, slots)
        moved = total * (model.read[stage] + model.written[stage])
        worst = max(1 / cluster.workers, shares.max())
        files += max(moved * worst / cluster.bandwidth, moved / cluster.storage)
    seconds["files"] = files
    seconds["pieces"] = parts * parts * model.per_pair / min(slots, parts)
    seconds["client"] = total * model.gathered / cluster.bandwidth
    seconds["scheduler"] = cluster.per_task * model.jobs * parts
    return seconds


def _schedule(work: Any, slots: int) -> float:
    """Give each task to the core that is free first; returns when the last one ends."""
    free = [0.0] * min(slots, len(work))
    for task in sorted(work.tolist(), reverse=True):
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def measure_scheduler(tasks: int = 2000) -> float:
    """Measure the time that the scheduler and a client need for a task that does nothing."""
    from trajcloak.engines.clusters import open_dask

    with open_dask(RESULTS, None, 2) as engine:
        engine.ask(abs, [(1,)] * 100)
        started = time.perf_counter()
        engine.ask(abs, [(1,)] * tasks)
        return (time.perf_counter() - started) / tasks


def print_model(model: Model) -> None:
    table = Table(title="One core, per user and instant", title_justify="left")
    for column in ("stage", "nanoseconds", "bytes read", "bytes written"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for stage, cost in model.seconds.items():
        bytes_of = f"{model.read[stage]:.1f}", f"{model.written[stage]:.1f}"
        table.add_row(stage, f"{1e9 * cost:.1f}", *bytes_of)
    sums = (sum(counts.values()) for counts in (model.read, model.written))
    table.add_row("all", f"{1e9 * sum(model.seconds.values()):.0f}", *(f"{n:.0f}" for n in sums))
    console.print(table)
    console.print(
        f"To the client: {model.gathered:.2f} bytes per user and instant. Jobs: {model.jobs:.0f} "
        f"for each part. Pieces: {1e6 * model.per_pair:.0f} microseconds for each pair of parts."
    )


def check(model: Model) -> float:
    """Compare with the processor time that a real cluster took; returns by how much it is more."""
    path = RESULTS / "cluster.json"
    if not path.exists():
        console.print("No cluster was measured; run make bench-dask first.")
        return 1.0
    factors = []
    for point in json.loads(path.read_text())["points"]:
        found = point["dask"]["worker_cpu"]
        total = point["users"] * LENGTH
        pairs = (total / point["rows"]) ** 2
        expected = total * sum(model.seconds.values()) + pairs * model.per_pair
        factors.append(found / expected)
        console.print(
            f"{point['users']:,} users on a cluster of processes: {found:.1f} s of processor time, "
            f"{factors[-1]:.2f} of the model."
        )
    return max(factors)


def print_simulation(model: Model, per_task: float, asked: argparse.Namespace) -> None:
    table = Table(
        title=f"Simulated: {asked.cores} cores and {asked.bandwidth / 1e9:g} GB/s a machine, "
        f"storage of {asked.storage / 1e9:g} GB/s, {LENGTH} instants",
        title_justify="left",
    )
    for column in ("users", "machines", "alike", "minutes", "hours x machines", "longest stages"):
        table.add_column(column, justify="right")
    for users in (10**8, 10**9):
        for workers in (10, 40, 160):
            for same in (0.0, 0.1):
                cluster = Cluster(workers, asked.cores, asked.bandwidth, asked.storage, per_task)
                seconds = simulate(model, users, cluster, same)
                total = sum(seconds.values())
                longest = sorted(seconds, key=lambda stage: -seconds[stage])[:2]
                table.add_row(
                    f"{users:,}",
                    str(workers),
                    f"{same:.0%}",
                    f"{total / 60:.1f}",
                    f"{total / 3600 * workers:.1f}",
                    ", ".join(f"{stage} {seconds[stage] / total:.0%}" for stage in longest),
                )
    console.print(table)
    for users in (10**8, 10**9):
        rows = choose_sizes(users * LENGTH).rows
        console.print(
            f"{users:,} users: {-(-users * LENGTH // rows):,} parts of {rows / 1e6:.1f} million "
            f"rows, {rows * model.written['join users'] / GIB:.2f} GiB."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000, help="to measure with")
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes per second")
    parser.add_argument("--storage", type=float, default=10e9, help="bytes per second")
    parser.add_argument("--output", type=Path, default=RESULTS / "scale.json")
    asked = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    model = measure(asked.users)
    print_model(model)
    factor = check(model)
    per_task = measure_scheduler()
    console.print(f"Scheduler: {1e3 * per_task:.2f} ms a task.")
    real = replace(model, seconds={s: factor * cost for s, cost in model.seconds.items()})
    print_simulation(real, per_task, asked)
    asked.output.write_text(json.dumps({**vars(model), "per_task": per_task}, indent=2) + "\n")


if __name__ == "__main__":
    main()
