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
from pathlib import Path
from typing import Any

import numpy as np

GIB = 2**30
REQUESTS = ("category", "detail")


def bare_read(log: str) -> dict[str, Any]:
    """Read the whole Parquet file into Arrow, and nothing else: the yardstick."""
    import pyarrow.parquet as pq

    start = time.perf_counter()
    table = pq.read_table(log)
    return {"seconds": time.perf_counter() - start, "rows": table.num_rows}


def stages(log: str, k: str) -> dict[str, Any]:
    """Run the whole path stage by stage, kernels compiled before."""
    _warm_up()
    from trajcloak.algorithms.policy import Policy
    from trajcloak.algorithms.traj_anon import (
        assign_bundles,
        build_gtree,
        build_layout,
        solve_configuration,
        solve_rows,
        sort_keys,
        suppress_nobody,
    )
    from trajcloak.bundles import build_bundles
    from trajcloak.cloaks import build_bounding_boxes
    from trajcloak.kernels.threads import default_threads
    from trajcloak.log import read_log
    from trajcloak.options import LogColumns, Options
    from trajcloak.pipeline import build_release, check_requests, prepare
    from trajcloak.release.manifest import LeftOut

    threads = default_threads()
    clock = _Clock()
    request_log = clock("read", read_log, log, LogColumns(requests=REQUESTS))
    prepared = clock("grid and region", prepare, request_log, Options(k=int(k)), threads)
    clock("request hygiene", check_requests, prepared)
    window = clock("pivot", lambda: next(prepared.windows()))
    cells, height = window.cells, prepared.layout.region.height
    length = cells.shape[1]
    layout = build_layout(length, height)
    keys = clock("sort keys", sort_keys, cells, layout, threads)
    tree = clock("build tree", build_gtree, keys, layout, int(k))
    rows = clock("solve rows", solve_rows, tree, int(k), threads)
    passed_up = clock(
        "read configuration", solve_configuration, tree, rows, int(k), suppress_nobody(tree)
    )
    bundle, node = clock("assign", assign_bundles, tree, keys, passed_up)
    boxes = clock("cloaks", build_bounding_boxes, cells, bundle, len(node), threads)
    policy = Policy(bundle, boxes)
    bundles = clock(
        "bundle requests",
        build_bundles, window, policy, request_log.requests.kinds.num_rows, int(k), None, threads,
    )  # fmt: skip
    left_out = LeftOut(request_log.num_users)
    left_out.add_missing(window)
    left_out.add_suppressed(window, bundles)
    folder = Path(tempfile.mkdtemp(dir=Path(log).parent))
    try:
        release = clock(
            "manifest",
            build_release, prepared, [bundles], None, left_out,
        )  # fmt: skip
        clock("write release", release.write, folder / "release")
    finally:
        shutil.rmtree(folder)
    return {"stages": clock.seconds, "seconds": sum(clock.seconds.values()), "bundles": len(node)}


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
    from trajcloak.log import read_log
    from trajcloak.options import Options
    from trajcloak.pipeline import prepare

    prepared = prepare(read_log(log), Options(k=2), threads=1)
    window = next(prepared.windows())
    return np.ascontiguousarray(window.cells[:users]), prepared.layout.region.height


def _warm_up() -> None:
    """Compile, or load, every kernel on a small log of both kinds of ids."""
    from trajcloak.generator import generate_log
    from trajcloak.log import read_log
    from trajcloak.options import LogColumns
    from trajcloak.pipeline import anonymize

    with tempfile.TemporaryDirectory() as folder:
        for string_ids in (False, True):
            path = Path(folder) / f"{string_ids}.parquet"
            generate_log(path, users=500, length=5, junctions=2000, string_ids=string_ids)
            log = read_log(path, LogColumns(requests=REQUESTS))
            anonymize(log, k=5).write(Path(folder) / f"release{string_ids}")


MEASUREMENTS = {f.__name__: f for f in (bare_read, stages, dense_to_policy, bounds, refined)}

if __name__ == "__main__":
    measured = MEASUREMENTS[sys.argv[1]](*sys.argv[2:])
    measured["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
    print(json.dumps(measured))
