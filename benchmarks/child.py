"""One measurement, in a process of its own, so that its peak memory is its own.

``python benchmarks/child.py NAME ARGUMENT...`` prints one JSON object.
"""

import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

GIB = 2**30
REQUESTS = ("category", "detail")

TIMED = {
    "read": ("trajcloak.pipeline", "read_shards"),
    "grid and region": ("trajcloak.trajectories.layout", "lay_out"),
    "schedule": ("trajcloak.trajectories.layout", "check_schedule"),
    "pivot": ("trajcloak.window_inputs", "cut_input"),
    "sort keys": ("trajcloak.algorithms.traj_anon", "sort_keys"),
    "build tree": ("trajcloak.algorithms.traj_anon", "build_gtree"),
    "solve rows": ("trajcloak.algorithms.traj_anon", "solve_rows"),
    "read configuration": ("trajcloak.algorithms.traj_anon", "solve_configuration"),
    "assign": ("trajcloak.algorithms.traj_anon", "assign_bundles"),
    "cloaks": ("trajcloak.algorithms.traj_anon", "build_bounding_boxes"),
    "bundle requests": ("trajcloak.bundling.runs", "bundle_input"),
    "decide requests": ("trajcloak.pipeline", "decide_requests"),
}
"""Stages of a run in memory: the module that calls a function, and the function that is timed."""

MANIFEST = "manifest"
"""The stage with the rest of a run: to add up what is published and what is not."""

WRITING = "write release"


def bare_read(log: str) -> dict[str, Any]:
    """Read the whole Parquet file into Arrow, and nothing else: the yardstick."""
    import pyarrow.parquet as pq

    start = time.perf_counter()
    table = pq.read_table(log)
    return {"seconds": time.perf_counter() - start, "rows": table.num_rows}


def stages(log: str, k: str) -> dict[str, Any]:
    """Time the whole path stage by stage, kernels compiled before."""
    _warm_up()
    import trajcloak as tc

    clock = _Clock()
    for stage, (module_name, function) in TIMED.items():
        module = import_module(module_name)
        setattr(module, function, partial(clock, stage, getattr(module, function)))
    start = time.perf_counter()
    release = tc.anonymize(log, k=int(k), requests=REQUESTS, algorithm="traj-anon")
    clock.seconds[MANIFEST] = time.perf_counter() - start - sum(clock.seconds.values())
    folder = Path(tempfile.mkdtemp(dir=Path(log).parent))
    try:
        clock(WRITING, release.save, folder / "release")
    finally:
        shutil.rmtree(folder)
    seconds = sum(clock.seconds.values())
    return {"stages": clock.seconds, "seconds": seconds, "bundles": release.manifest["bundles"]}


def dense_to_policy(log: str, k: str, users: str) -> dict[str, Any]:
    """Time dense array to policy on a sample of the users, the best of three runs."""
    _warm_up()
    from trajcloak.algorithms.traj_anon import TrajAnon
    from trajcloak.kernels.threads import default_threads

    cells, height = _dense(log, int(users))
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        policy = TrajAnon().solve(cells, height, int(k), "mbr", threads=default_threads())
        seconds.append(time.perf_counter() - start)
    return {"seconds": min(seconds), "users": len(cells), "bundles": policy.num_bundles}


def bounds(log: str, k: str, users: str) -> dict[str, Any]:
    """Time the rows with 2k - 2 entries against the paper's k (h + 1) on the same tree."""
    _warm_up()
    from trajcloak.algorithms.traj_anon import (
        build_gtree,
        build_layout,
        solve_rows,
        sort_keys,
    )

    cells, height = _dense(log, int(users))
    length = cells.shape[1]
    layout = build_layout(length, height)
    keys = sort_keys(cells, layout, 1)
    tree = build_gtree(keys, layout, int(k))
    level = np.zeros(len(tree.start), np.int64)
    for node in range(len(level) - 1, -1, -1):
        child = node - 1
        while child > node - tree.below[node]:
            level[child] = level[node] + 1
            child -= tree.below[child]
    paper = int(k) * (level + 1)
    ours = np.full(len(level), 2 * int(k) - 2)
    result: dict[str, Any] = {"users": len(cells), "deepest": int(level.max())}
    for name, limit in (("ours", ours), ("paper", paper)):
        start = time.perf_counter()
        rows = solve_rows(tree, int(k), 1, limit)
        result[name] = time.perf_counter() - start
        result[f"{name}_cost"] = float(rows.cost[rows.first[-2]])
    return result


def refined(log: str, k: str) -> dict[str, Any]:
    """Time ``refined`` from dense array to policy, and compare its cost with the tree's."""
    _warm_up()
    from trajcloak.algorithms import build_algorithm
    from trajcloak.kernels.threads import default_threads

    cells, height = _dense(log, None)
    threads = default_threads()
    start = time.perf_counter()
    cost = build_algorithm("refined").solve(cells, height, int(k), "mbr", threads=threads).cost()
    seconds = time.perf_counter() - start
    tree = build_algorithm("traj-anon").solve(cells, height, int(k), "mbr", threads=threads).cost()
    return {"seconds": seconds, "users": len(cells), "ratio": cost / tree}


def parts(log: str, k: str, least: str, per: str) -> dict[str, Any]:
    """Time ``refined`` with parts, from dense array to rectangles."""
    _warm_up()
    from trajcloak.algorithms import build_algorithm
    from trajcloak.kernels.threads import default_threads
    from trajcloak.parts import PartSettings, build_parts

    threads = default_threads()

    def show(cells: np.ndarray, height: int) -> int:
        algorithm = build_algorithm("refined", parts=int(least), parts_per=per)
        policy = algorithm.solve(cells, height, int(k), "mbr", threads=threads)
        settings = PartSettings(int(least), per)
        return len(build_parts(cells, policy, settings, "mbr", threads).sizes)

    cells, height = _dense(log, None)
    show(cells[: 20 * int(k)], height)
    start = time.perf_counter()
    rows = show(cells, height)
    return {"seconds": time.perf_counter() - start, "users": len(cells), "rows": rows}


class _Clock:
    """Calls functions and adds up the seconds under a name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, function: Callable[..., Any], *args: Any, **more: Any) -> Any:
        start = time.perf_counter()
        result = function(*args, **more)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        return result


def _dense(log: str, users: int | None) -> tuple[np.ndarray, int]:
    """Build the dense array of a log's first users, or of all."""
    from trajcloak.log import read_in_memory
    from trajcloak.options import Options
    from trajcloak.pipeline import prepare

    prepared = prepare(read_in_memory(log), Options(k=2), threads=1)
    window = next(prepared.windows())
    return np.ascontiguousarray(window.cells[:users]), prepared.layout.region.height


def _warm_up() -> None:
    """Compile, or load, every kernel on a small log of both kinds of ids."""
    import trajcloak as tc

    with tempfile.TemporaryDirectory() as folder:
        for string_ids, algorithm in ((False, "traj-anon"), (True, "refined")):
            path = Path(folder) / f"{algorithm}.parquet"
            tc.generate_log(path, users=500, length=5, junctions=2000, string_ids=string_ids)
            release = tc.anonymize(path, k=5, requests=REQUESTS, algorithm=algorithm)
            release.save(Path(folder) / algorithm)


MEASUREMENTS = {f.__name__: f for f in (bare_read, stages, dense_to_policy, bounds, refined, parts)}

if __name__ == "__main__":
    measured = MEASUREMENTS[sys.argv[1]](*sys.argv[2:])
    measured["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
    print(json.dumps(measured))
