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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from run import LENGTH, RESULTS, K, make_log
from trajcloak.engines.engine import Sizes
from trajcloak.engines.shard_files import Scratch
from trajcloak.engines.stored import SHARD_ROWS, Call, StoredEngine
from trajcloak.log.sharded_log import call_on_shard
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import anonymize_on

GIB = 2**30
JOINING = "join files"
SMALL = 20_000
STAGES = {
    "read": ("read_rows", "count_by_reading"),
    "join users": ("join_shard", "_renumber"),
    "check": (
        "count_places", "describe", "_list_kinds", "sum_spans", "_place_shard", "_bound_plane",
        "_find_far", "count_decimals",
    ),
    "windows": ("cut_shard", "count_left_out"),
    "cut": ("sample_input", "sample_ranges", "count_ranges", "split_by_key"),
    "sort": ("sort_range", "find_end_keys"),
    "solve": ("solve_range", "summarise_forest"),
    "bundle": ("bundle_range", "bundle_top"),
    "order": ("sample_cloaks", "split_by_cloaks", "join_range"),
    "requests": ("renumber_requests",),
    "write": ("encode_group",),
    JOINING: (JOINING,),
}  # fmt: skip
"""Functions of the plan, by stage."""

SKEWED = ("sort", "solve", "bundle")
"""Stages in which users with the same trajectory are with one worker."""

MANY_SHARDS = (25, 50, 100)
"""Numbers of shards of a small log, from which follows what a pair of shards costs."""

console = Console(highlight=False)


class MeasuringEngine(StoredEngine):
    """Runs one call at a time, values in files; notes processor time, bytes and calls.

    Parameters
    ----------
    folder
        Private folder for the files.
    sizes
        Default: as on a cluster.
    parallel
        How many calls the cluster runs side by side that sizes are chosen for.
    """

    parallel = 1

    def __init__(self, folder: Path, sizes: Sizes | None = None, parallel: int = 1) -> None:
        super().__init__(folder)
        self._sizes = sizes
        self.parallel = parallel
        self.seconds: dict[str, float] = defaultdict(float)
        self.read_bytes: dict[str, int] = defaultdict(int)
        self.written_bytes: dict[str, int] = defaultdict(int)
        self.gathered_bytes = 0
        self.num_calls = 0

    def run_calls(self, calls: Sequence[Call], stage: Path, label: str | None) -> list[Any]:
        """Run calls one after another."""
        return [self._run(call) for call in calls]

    def _run(self, call: Call) -> Any:
        name = _name_function(call)
        counting = replace(call, function=self._count_mapped(call, name))
        read, started = _count_read(), time.process_time()
        value = counting.run()
        self.seconds[name] += time.process_time() - started
        self.read_bytes[name] += _count_read() - read
        self.num_calls += 1
        if call.path is not None:
            self.written_bytes[name] += call.path.stat().st_size
        else:
            self.gathered_bytes += _count_bytes(value)
        return value

    def _count_mapped(self, call: Call, name: str) -> Callable[..., Any]:
        """Note the bytes of files that a function looks at in memory."""

        def run(*job: Any) -> Any:
            mapped = _count_resident()
            value = call.function(*job)
            self.read_bytes[name] += max(0, _count_resident() - mapped)
            return value

        def run_generator(*job: Any) -> Iterator[Any]:
            mapped = _count_resident()
            yield from call.function(*job)
            self.read_bytes[name] += max(0, _count_resident() - mapped)

        return run_generator if call.is_generator else run


def _name_function(call: Call) -> str:
    """Name the function of a call; of one on a shard, the function that is called on it."""
    function = call.job[0] if call.function is call_on_shard else call.function
    return str(function.__name__)


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
    calls : float
        Calls for each shard.
    per_pair : float
        Seconds of one core for each pair of shards.
    """

    seconds: dict[str, float]
    read: dict[str, float]
    written: dict[str, float]
    gathered: float
    calls: float
    per_pair: float


def measure(users: int) -> Model:
    """Run the plan function by function on one core."""
    rows = min(SHARD_ROWS, users * LENGTH // 2)
    for size in (SMALL, users):
        engine = run_plan(make_log(size, "integer"), min(rows, size * LENGTH // 2))
    check_stages(engine)
    total = users * LENGTH

    def per_instant(counts: dict[str, Any]) -> dict[str, float]:
        return {stage: sum(counts[n] for n in names) / total for stage, names in STAGES.items()}

    return Model(
        per_instant(engine.seconds),
        per_instant(engine.read_bytes),
        per_instant(engine.written_bytes),
        engine.gathered_bytes / total,
        engine.num_calls * rows / total,
        measure_pairs(),
    )


def check_stages(engine: MeasuringEngine) -> None:
    """Raise if the plan has a function that belongs to no stage."""
    unknown = set(engine.seconds) - {name for names in STAGES.values() for name in names}
    if unknown:
        raise SystemExit(f"{', '.join(sorted(unknown))}: belongs to no stage; add it to STAGES")


def measure_pairs() -> float:
    """Measure what a pair of shards costs: what grows as the square of their number."""
    table = pq.read_table(make_log(SMALL, "integer"))
    path = RESULTS / "pairs.parquet"
    seconds = []
    for shards in MANY_SHARDS:
        rows = table.num_rows // shards
        pq.write_table(table, path, row_group_size=-(-rows // 2))
        seconds.append(sum(run_plan(path, rows).seconds.values()))
    path.unlink()
    square, *_ = np.polyfit(MANY_SHARDS, seconds, 2)
    return float(square)


def run_plan(log: Path, rows: int) -> MeasuringEngine:
    """Run the plan with shards of so many rows."""
    scratch = Scratch(RESULTS)
    engine = MeasuringEngine(scratch.folder, Sizes(rows, rows))
    release = RESULTS / "measured"
    shutil.rmtree(release, ignore_errors=True)
    columns = LogColumns(requests=("category", "detail"))
    made = anonymize_on(engine, log, columns, Options(k=K, algorithm="traj-anon"))
    before, started = sum(engine.seconds.values()), time.process_time()
    made.write(release)
    # The client joins the row groups, besides the calls that encode them.
    engine.seconds[JOINING] = time.process_time() - started - sum(engine.seconds.values()) + before
    engine.read_bytes[JOINING] = engine.written_bytes["encode_group"]
    engine.written_bytes[JOINING] = sum(file.stat().st_size for file in release.iterdir())
    shutil.rmtree(release)
    scratch.close()
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
        Of the unevenness of shards and cores.
    """
    rng = np.random.default_rng(seed)
    total = users * LENGTH
    slots = cluster.workers * cluster.cores
    shards = count_shards(total, slots)
    seconds: dict[str, float] = {}
    files = 0.0
    for stage, cost in model.seconds.items():
        shares = np.full(shards, 1 / shards)
        if stage in SKEWED:
            # Ranges come out up to twice as large as wanted, before those of equal keys.
            shares = rng.uniform(0.5, 1.5, shards)
            shares = np.append((1 - same) * shares / shares.sum(), same)
        if stage == JOINING:
            shares = np.array([1.0])
        work = total * cost * shares * rng.lognormal(0, 0.1, len(shares))
        seconds[stage] = _schedule(work, slots)
        moved = total * (model.read[stage] + model.written[stage])
        worst = max(1 / cluster.workers, shares.max())
        files += max(moved * worst / cluster.bandwidth, moved / cluster.storage)
    seconds["files"] = files
    seconds["pieces"] = shards * shards * model.per_pair / min(slots, shards)
    seconds["client"] = total * model.gathered / cluster.bandwidth
    seconds["scheduler"] = cluster.per_task * model.calls * shards
    return seconds


def count_shards(rows: int, parallel: int) -> int:
    """Count the shards of a log on a cluster that runs so many calls side by side."""
    return -(-rows // MeasuringEngine(RESULTS, parallel=parallel).choose_sizes(rows).rows)


def _schedule(work: Any, slots: int) -> float:
    """Give each task to the core that is free first; returns when the last one ends."""
    free = [0.0] * min(slots, len(work))
    for task in sorted(work.tolist(), reverse=True):
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def measure_scheduler(tasks: int = 2000) -> float:
    """Measure the time that the scheduler and a client need for a task that does nothing."""
    from trajcloak.engines.dask import open_dask

    with open_dask(RESULTS, workers=2) as engine:
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
        f"To the client: {model.gathered:.2f} bytes per user and instant. Calls: {model.calls:.0f} "
        f"for each shard. Pieces: {1e6 * model.per_pair:.0f} microseconds for each pair of shards."
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
        shards = count_shards(users * LENGTH, 1)
        rows = users * LENGTH / shards
        console.print(
            f"{users:,} users: {shards:,} shards of {rows / 1e6:.1f} million rows, "
            f"{rows * model.written['join users'] / GIB:.2f} GiB."
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
