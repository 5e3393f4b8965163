"""Cost and time of ``refined`` against everything else, as ratios within one run.

``make bench`` runs it on logs that nothing was tuned on: seeds of their own, and a
network of another size. ``--network PATH`` (repeatable) adds road networks, given as
``trajcloak generate`` takes them. A run that misses a target ends with exit code 1.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from prototype import solve_plainly
from reference.partitions import best_partition
from run import LENGTH, RESULTS, K, console, measure, print_targets
from trajcloak.algorithms import build_algorithm
from trajcloak.generator import generate_log
from trajcloak.kernels.threads import default_threads
from trajcloak.log import read_in_memory
from trajcloak.options import Options
from trajcloak.pipeline import prepare

RIVALS = ("traj-anon", "baseline", "fast-clustering", "slow-clustering", "hilbert-clustering")
SMALL, MIDDLE, LARGE = 20_000, 200_000, 2_000_000
SMALL_LOGS = 200
DRAWN = 8 * SMALL
"""Users of whom some, at least one in eight, are still on their first trip at the end."""

Targets = list[tuple[str, float, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", action="append", default=[], help="more road networks")
    parser.add_argument("--largest", type=int, default=LARGE, help="users of the largest log")
    asked = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    targets: Targets = []
    logs: list[tuple[str, dict[str, Any]]] = [
        ("city", {"seed": 101}),
        ("city, slow", {"seed": 102, "speed": "slow"}),
        ("smaller city", {"seed": 103, "junctions": 5000}),
        ("city, first trips", {"seed": 108, "on_arrival": "stay"}),
    ]
    compare_networks(logs + list_networks(asked.network), targets)
    compare_sizes(targets)
    compare_settings(targets)
    measure_large(asked.largest, targets)
    print_gaps()
    sys.exit(print_targets(targets))


def list_networks(paths: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """List two logs for each road network: of users on many trips, and on their first."""
    logs: list[tuple[str, dict[str, Any]]] = []
    for path in paths:
        name = Path(path).stem
        logs.append((name, {"seed": 104, "network": path}))
        first = {"seed": 109, "network": path, "on_arrival": "stay"}
        logs.append((f"{name}, first trips", first))
    return logs


def dense(name: str, users: int, **options: Any) -> tuple[np.ndarray, int]:
    """Generate a log, once, and build its dense array.

    Where users stay at the end of their first trip, of those who are still on it.
    """
    stays = options.get("on_arrival") == "stay"
    path = RESULTS / f"{name.replace(', ', '-').replace(' ', '-')}-{users}.parquet"
    if not path.exists():
        drawn = DRAWN if stays else users
        generate_log(path, users=drawn, length=LENGTH, request_share=0.0, **options)
    prepared = prepare(read_in_memory(path), Options(k=2), threads=default_threads())
    cells = next(prepared.windows()).cells
    if stays:
        cells = cells[(cells[:, -1] != cells[:, -2]).any(axis=1)][:users]
    return np.ascontiguousarray(cells), prepared.layout.region.height


def solve(
    name: str, cells: np.ndarray, height: int, k: int = K, cloak: str = "mbr", **settings: str
) -> tuple[float, float]:
    """Return the cost of an algorithm's bundles and the seconds that they took."""
    algorithm = build_algorithm(name, **settings)
    start = time.perf_counter()
    policy = algorithm.solve(cells, height, k, cloak, threads=default_threads())
    return policy.cost(), time.perf_counter() - start


def compare_networks(logs: list[tuple[str, dict[str, Any]]], targets: Targets) -> None:
    """Compare with slow clustering and the plain version, and quad cloaks with the tree's own."""
    table = Table(title=f"{SMALL:,} users, k = {K}", title_justify="left")
    for column in ("log", "slow / traj-anon", "plain", "low", "normal", "high", "normal / plain"):
        table.add_column(column, justify="left" if column == "log" else "right")
    table.add_column("quad", justify="right")
    for name, options in logs:
        cells, height = dense(name, SMALL, **options)
        slow, _ = solve("slow-clustering", cells, height)
        tree, _ = solve("traj-anon", cells, height)
        plain = solve_plainly(cells, K).cost() / slow
        low, normal, high = (
            solve("refined", cells, height, effort=effort)[0] / slow
            for effort in ("low", "normal", "high")
        )
        quad = (
            solve("refined", cells, height, cloak="quad")[0]
            / solve("traj-anon", cells, height, cloak="quad")[0]
        )
        ratios = (plain, low, normal, high, normal / plain, quad)
        table.add_row(name, f"{slow / tree:.2f}", *(f"{ratio:.3f}" for ratio in ratios))
        targets.append((f"refined / slow clustering, {name}", normal, 0.75))
        targets.append((f"refined / its plain version, {name}", normal / plain, 0.91))
        targets.append((f"refined / traj-anon, quad cloaks, {name}", quad, 0.85))
    console.print(table)
    console.print(
        "plain: blocks, greedy bundles and exchanges alone; low, normal, high: refined; each its "
        "cost with boxes, of slow clustering's.\n"
    )


def compare_sizes(targets: Targets) -> None:
    """Compare ten times the users: the cost with the tree's, the time with a tenth's."""
    small = dense("city", SMALL, seed=101)
    middle = dense("city", MIDDLE, seed=105)
    seconds = [min(solve("refined", *log)[1] for _ in range(2)) for log in (small, middle)]
    ratio = solve("refined", *middle)[0] / solve("traj-anon", *middle)[0]
    console.print(f"{SMALL:,} users: {seconds[0]:.1f} s, {MIDDLE:,} users: {seconds[1]:.1f} s.\n")
    targets.append((f"refined / traj-anon, {MIDDLE:,} users", ratio, 0.30))
    targets.append((f"time of {MIDDLE:,} / time of {SMALL:,} users", seconds[1] / seconds[0], 12.0))


def compare_settings(targets: Targets) -> None:
    """Compare with every rival for several k and lengths, and with more effort for one instant."""
    whole, height = dense("city", SMALL, seed=101)
    table = Table(title="Cost of the best rival, of refined's", title_justify="left")
    for column in ("instants", *(f"k = {k}" for k in (5, 10, 50, 100))):
        table.add_column(column, justify="right")
    worst = 0.0
    above_best = []
    for length in (1, 6, 10, 30):
        cells = np.ascontiguousarray(whole[:, :length])
        row = [str(length)]
        for k in (5, 10, 50, 100):
            costs = {name: solve(name, cells, height, k)[0] for name in RIVALS}
            ours, _ = solve("refined", cells, height, k)
            best = min(costs, key=lambda name: costs[name])
            row.append(f"{costs[best] / ours:.2f} {best.removesuffix('-clustering')}")
            worst = max(worst, ours / costs[best])
            if length == 1:
                high, _ = solve("refined", cells, height, k, effort="high")
                above_best.append(ours / min(high, costs[best]))
        table.add_row(*row)
    console.print(table)
    found = ", ".join(f"{ratio:.3f}" for ratio in above_best)
    console.print(f"One instant, cost of the best that is known (high, or a rival): {found}.\n")
    targets.append(("refined / best rival, worst of k and instants", worst, 1.0))
    targets.append(("refined / best known, one instant, worst of k", max(above_best), 1.02))


def measure_large(users: int, targets: Targets) -> None:
    """Time the largest log in a process of its own."""
    dense_path = RESULTS / f"city-{users}.parquet"
    if not dense_path.exists():
        generate_log(dense_path, users=users, length=LENGTH, seed=106, request_share=0.0)
    large = measure("refined", dense_path, K)
    console.print(
        f"{large['users']:,} users, dense array to policy: {large['seconds']:.1f} s, "
        f"{large['ratio']:.3f} of traj-anon's cost.\n"
    )
    targets.append((f"seconds, {users:,} users", large["seconds"], 60.0))
    targets.append((f"peak memory in GiB, {users:,} users", large["peak_gib"], 6.0))


def print_gaps() -> None:
    """Compare with the best partition of small logs, found by trying all."""
    random = np.random.default_rng(107)
    gaps = []
    for _ in range(SMALL_LOGS):
        k = int(random.integers(2, 4))
        cells = random.integers(0, 64, (int(random.integers(2 * k, 8)), 3, 2)).astype(np.uint32)
        trajectories = [[tuple(map(int, cell)) for cell in trajectory] for trajectory in cells]
        best, _ = best_partition(trajectories, k, 6, "box")
        gaps.append(solve("refined", cells, 6, k)[0] / float(best))
    console.print(
        f"{SMALL_LOGS} small logs, cost of the best partition: median {np.median(gaps):.3f}, "
        f"worst {max(gaps):.3f}.\n"
    )


if __name__ == "__main__":
    main()
