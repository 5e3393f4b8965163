"""What parts save: areas of ``refined`` with parts, of those without, on the same users.

Three areas are shown, each once for every user and instant: that of the user's own part, which
counts of users and moves rest on; that of all parts of the bundle together, which is where a
request comes from; and that of the box around the bundle. Since bundles of parts have larger boxes
than bundles without, the own part is also compared with the box that it lies in. ``--network PATH``
(repeatable) adds road networks, given as ``trajcloak generate`` takes them, each with users who set
out again and again, and with users on their first trip. A run that misses a target ends with exit
code 1.
"""

import argparse
import sys
import time
from typing import Any

import numpy as np
from rich.table import Table

from refined import LARGE, SMALL, Targets, dense, list_networks
from run import LENGTH, RESULTS, K, console, measure, print_targets
from trajcloak.algorithms import Policy, build_algorithm
from trajcloak.cloaks import compute_union_areas
from trajcloak.generator import generate_log
from trajcloak.kernels.threads import default_threads
from trajcloak.parts import Parts, PartSettings, build_parts

TARGETS = {(10, "window"): 0.26, (5, "window"): 0.11, (10, "instant"): 0.09}
"""Area of the own part, of the whole cloak's; by the least size of parts and what they are per."""

SETTINGS = [(least, per) for per in ("window", "instant") for least in (25, 10, 5)]
REPEATS = 2
"""Runs of which the quicker one counts, after one that may compile kernels."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", action="append", default=[], help="more road networks")
    parser.add_argument("--largest", type=int, default=LARGE, help="users of the largest log")
    asked = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    targets: Targets = []
    logs: list[tuple[str, dict[str, Any]]] = [("city", {"seed": 101})]
    logs += list_networks(asked.network)
    for name, options in logs:
        compare_settings(name, *dense(name, SMALL, **options), targets)
    measure_large(asked.largest, targets)
    sys.exit(print_targets(targets))


def compare_settings(name: str, cells: np.ndarray, height: int, targets: Targets) -> None:
    """Compare areas and processor time with those of bundles without parts."""
    table = Table(title=f"{name}: {len(cells):,} users, k = {K}", title_justify="left")
    for column in ("parts of", "per", "own part", "all parts", "box of all", "own / box", "time"):
        table.add_column(column, justify="left" if column == "per" else "right")
    policy, _, seconds = show(cells, height, None, "window")
    whole = policy.cost()
    for least, per in SETTINGS:
        policy, parts, taken = show(cells, height, least, per)
        own = measure_own(parts) / whole
        union = measure_union(policy, parts) / whole
        ratios = own, union, policy.cost() / whole, own * whole / policy.cost()
        table.add_row(str(least), per, *(f"{r:.3f}" for r in ratios), f"{taken / seconds:.2f}")
        if (least, per) in TARGETS:
            label = f"{name}, parts of {least} per {per}"
            targets.append((f"own part / whole cloak, {label}", own, TARGETS[least, per]))
            targets.append((f"time with parts / without, {label}", taken / seconds, 1.3))
    console.print(table)


def show(
    cells: np.ndarray, height: int, least: int | None, per: str
) -> tuple[Policy, Parts | None, float]:
    """Bundle users and show them in parts; returns also the least processor time of some runs."""
    algorithm = build_algorithm("refined", parts=least, parts_per=per)
    threads = default_threads()
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.process_time()
        policy = algorithm.solve(cells, height, K, "mbr", threads=threads)
        parts = None
        if least is not None:
            parts = build_parts(cells, policy, PartSettings(least, per), "mbr", threads)
        seconds.append(time.process_time() - start)
    return policy, parts, min(seconds[1:])


def measure_own(parts: Parts) -> float:
    """Sum the areas of parts, once for each of their users."""
    sides = parts.cloaks[:, 2:].astype(np.float64) - parts.cloaks[:, :2]
    return float(sides.prod(axis=1) @ parts.sizes)


def measure_union(policy: Policy, parts: Parts) -> float:
    """Sum the areas that the parts of a bundle cover together, once for each of its users."""
    areas = compute_union_areas(parts.cloaks, parts.first, default_threads())
    return float(areas @ np.repeat(policy.sizes, parts.counts.shape[1]))


def measure_large(users: int, targets: Targets) -> None:
    """Time the largest log, each setting in a process of its own."""
    path = RESULTS / f"city-{users}.parquet"
    if not path.exists():
        generate_log(path, users=users, length=LENGTH, seed=106, request_share=0.0)
    for per in ("window", "instant"):
        large = measure("parts", path, K, 10, per)
        label = f"{users:,} users, parts of 10 per {per}"
        console.print(f"{label}: {large['rows']:,} rectangles in {large['seconds']:.1f} s.")
        targets.append((f"seconds, {label}", large["seconds"], 60.0))
        targets.append((f"peak memory in GiB, {label}", large["peak_gib"], 4.0))


if __name__ == "__main__":
    main()
