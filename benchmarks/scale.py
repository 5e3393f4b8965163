"""What a run costs per user and instant, stage by stage, and what larger runs would cost.

``python benchmarks/scale.py`` measures the functions of the plan one after the other on one
core, checks that against what ``make bench-dask`` has measured on a cluster, and then
simulates clusters that are not here. ``docs/scale.md`` explains the model.
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
from rich.console import Console
from rich.table import Table

import trajcloak as tc
from run import LENGTH, RESULTS, K, make_log
from trajcloak.engines import anonymize_on
from trajcloak.engines.local import LocalEngine
from trajcloak.engines.plan import MAX_PARTS, Sizes, choose_sizes

GIB = 2**30
SMALL = 20_000
STAGES = {
    "read": ("read_and_split",),
    "join users": ("join_and_clean",),
    "survey": (
        "describe", "place", "get_bounds", "count_part_places", "find_part_far",
        "count_part_values",         "count_part_digits", "count_part_ids", "list_part_sent",
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

JOB_ROUNDS = 30
"""Rounds of questions between client and workers in a run of one window."""

console = Console(highlight=False)


class MeasuringEngine(LocalEngine):
    """Runs one function at a time, and notes processor time and the bytes of what moves."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = defaultdict(float)
        self.moved: dict[str, int] = defaultdict(int)
        self.gathered = 0

    def run(self, function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run functions and note their time."""
        started = time.process_time()
        values = super().run(function, jobs)
        self.seconds[function.__name__] += time.process_time() - started
        return values

    def exchange(
        self, function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], parts: int
    ) -> list[list[Any]]:
        """Run functions and note the bytes of their pieces."""
        pieces = super().exchange(function, jobs, parts)
        self.moved[function.__name__] += sum(_count_bytes(p) for of in pieces for p in of)
        return pieces

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        """Fetch values and note their bytes."""
        values = super().gather(handles)
        self.gathered += sum(map(_count_bytes, values))
        return values


def _count_bytes(value: Any) -> int:
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(rest) + sum(buffer.raw().nbytes for buffer in buffers)


@dataclass(frozen=True)
class Model:
    """Costs per user and instant.

    Attributes
    ----------
    seconds : dict
        Of one core, by stage.
    moved : dict
        Bytes between workers, by stage.
    gathered : float
        Bytes to the client.
    """

    seconds: dict[str, float]
    moved: dict[str, float]
    gathered: float


def measure(users: int) -> Model:
    """Run the plan function by function on one core."""
    columns = tc.LogColumns(requests=("category", "detail"))
    asked = tc.Options(k=K, algorithm="traj-anon")
    release = RESULTS / "measured"
    for size in (SMALL, users):
        engine = MeasuringEngine()
        shutil.rmtree(release, ignore_errors=True)
        sizes = Sizes(size * LENGTH // 8, size * LENGTH // 8)
        log = make_log(size, "integer")
        anonymize_on(engine, log, columns, asked, sizes=sizes).write(release)
    shutil.rmtree(release)
    unknown = set(engine.seconds) - {name for names in STAGES.values() for name in names}
    assert not unknown, unknown
    total = users * LENGTH
    return Model(
        {stage: sum(engine.seconds[n] for n in names) / total for stage, names in STAGES.items()},
        {stage: sum(engine.moved[n] for n in names) / total for stage, names in STAGES.items()},
        engine.gathered / total,
    )


@dataclass(frozen=True)
class Cluster:
    """A cluster to simulate.

    Attributes
    ----------
    workers, cores : int
        Machines, and cores of each.
    bandwidth : float
        Bytes per second in and out of a machine.
    per_task : float
        Seconds of the scheduler for a task.
    """

    workers: int
    cores: int
    bandwidth: float
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
    seconds: dict[str, float] = {}
    for stage, cost in model.seconds.items():
        shares = np.full(parts, 1 / parts)
        if stage in SKEWED:
            # Ranges come out up to twice as large as wanted, before those of equal keys.
            shares = rng.uniform(0.5, 1.5, parts)
            shares = np.append((1 - same) * shares / shares.sum(), same)
        if stage == "join files":
            shares = np.array([1.0])
        work = total * cost * shares * rng.lognormal(0, 0.1, len(shares))
        slots = cluster.workers * cluster.cores
        seconds[stage] = _schedule(work, slots)
        moved = total * model.moved[stage] * (1 - 1 / cluster.workers)
        worst = max(1 / cluster.workers, shares.max() if stage in SKEWED else 0)
        seconds[stage] += moved * worst / cluster.bandwidth
    seconds["client"] = total * model.gathered / cluster.bandwidth
    seconds["scheduler"] = cluster.per_task * (3 * parts * parts + JOB_ROUNDS * parts)
    return seconds


def _schedule(work: Any, slots: int) -> float:
    """Give each task to the core that is free first; returns when the last one ends."""
    free = [0.0] * min(slots, len(work))
    for task in sorted(work.tolist(), reverse=True):
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def measure_scheduler(tasks: int = 2000) -> float:
    """Measure the time that the scheduler and a client need for a task that does nothing."""
    from trajcloak.engines.dask import open_dask

    with open_dask(None, 2) as engine:
        engine.gather(engine.run(abs, [(1,)] * 100))
        started = time.perf_counter()
        engine.gather(engine.run(abs, [(1,)] * tasks))
        return (time.perf_counter() - started) / tasks


def print_model(model: Model) -> None:
    table = Table(title="One core, per user and instant", title_justify="left")
    for column in ("stage", "nanoseconds", "bytes moved"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for stage, cost in model.seconds.items():
        table.add_row(stage, f"{1e9 * cost:.1f}", f"{model.moved[stage]:.2f}")
    total = sum(model.seconds.values())
    table.add_row("all", f"{1e9 * total:.0f}", f"{sum(model.moved.values()):.1f}")
    console.print(table)
    console.print(f"To the client: {model.gathered:.2f} bytes per user and instant.")


def check(model: Model) -> float:
    """Compare with the processor time that a real cluster took; returns by how much it is more."""
    path = RESULTS / "cluster.json"
    if not path.exists():
        console.print("No cluster was measured; run make bench-dask first.")
        return 1.0
    factors = []
    for point in json.loads(path.read_text())["points"]:
        found = point["dask"]["worker_cpu"]
        expected = point["users"] * LENGTH * sum(model.seconds.values())
        factors.append(found / expected)
        console.print(
            f"{point['users']:,} users on a cluster of processes: {found:.1f} s of processor time, "
            f"{factors[-1]:.2f} of the model, which leaves out what moves between processes."
        )
    return max(factors)


def print_simulation(model: Model, per_task: float, cores: int, bandwidth: float) -> None:
    table = Table(
        title=f"Simulated: {cores} cores a machine, {bandwidth / 1e9:g} GB/s, {LENGTH} instants",
        title_justify="left",
    )
    for column in ("users", "machines", "alike", "minutes", "hours x machines", "longest stages"):
        table.add_column(column, justify="right")
    for users in (10**8, 10**9):
        for workers in (10, 40, 160):
            for same in (0.0, 0.1):
                cluster = Cluster(workers, cores, bandwidth, per_task)
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
    rows = choose_sizes(10**9 * LENGTH).rows
    console.print(
        f"At most {MAX_PARTS} parts: at 10^9 users each holds {rows / 1e6:.0f} million rows, "
        f"{rows * model.moved['read'] / GIB:.1f} GiB."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=200_000, help="to measure with")
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes per second")
    parser.add_argument("--output", type=Path, default=RESULTS / "scale.json")
    asked = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    model = measure(asked.users)
    print_model(model)
    factor = check(model)
    per_task = measure_scheduler()
    console.print(f"Scheduler: {1e3 * per_task:.2f} ms a task.")
    real = replace(model, seconds={s: factor * cost for s, cost in model.seconds.items()})
    print_simulation(real, per_task, asked.cores, asked.bandwidth)
    asked.output.write_text(json.dumps({**vars(model), "per_task": per_task}, indent=2) + "\n")


if __name__ == "__main__":
    main()
