"""``trajcloak compare``."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, option
from trajcloak.cli.printing import (
    ValueTable,
    note_whole_parts,
    out,
    print_json,
    progress_bars,
    to_markup,
)
from trajcloak.options import ALGORITHMS, LogColumns
from trajcloak.quantities import Unit, show_number

if TYPE_CHECKING:
    from trajcloak.comparison import Comparison


@click.command("compare", cls=GroupedCommand)
@shared.log_argument
@shared.k_option
@shared.algorithms_option(
    ",".join(name for name in ALGORITHMS if name != "exact"),
    "Which to compare, separated by commas; traj-anon:TREE or refined:EFFORT for a variant.",
)
@shared.log_options
@shared.time_options
@shared.height_option
@shared.seed_option
@shared.cloak_option
@shared.parts_options
@option("--time-limit", type=float, metavar="SECONDS", help="Most time for each algorithm.")
@shared.threads_option
@shared.json_option
def command(
    log: list[Path],
    k: int,
    columns: LogColumns,
    request_log: Path | None,
    threads: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run algorithms on the same LOG and show cost and time side by side.

    Algorithms lower the cost of areas of the kind that --cloak names. Costs are recomputed from
    the bundles: with bounding boxes (mbr), and with the smallest quadrants and semi-quadrants
    around each bundle (quad). With --parts also by the area of the part that each user is in,
    and by that of all parts of the bundle.
    """
    from trajcloak.comparison import compare_algorithms
    from trajcloak.log import read_in_memory

    options = {name: value for name, value in options.items() if value is not None}
    note_whole_parts(options.get("parts"), options.get("members") or k)
    with progress_bars(hidden=as_json) as progress:
        read = read_in_memory(log, columns, request_log, threads=threads, progress=progress)
        results = compare_algorithms(read, k, threads=threads, progress=progress, **options)
    if as_json:
        print_json({"results": [asdict(result) for result in results]})
    else:
        print_comparisons(results, Unit(in_metres=read.crs is not None))


def print_comparisons(results: Sequence["Comparison"], unit: Unit) -> None:
    """Show cost and time side by side."""
    done = [r for r in results if r.cost_mbr is not None]
    best_mbr = min((r.cost_mbr or 0 for r in done), default=0) or 1
    best_quad = min((r.cost_quad or 0 for r in done), default=0) or 1
    one, name = unit.scale(math.sqrt(best_mbr))

    def show_cost(cost: float | None) -> str:
        return show_number((cost or 0) / one**2)

    costs = ValueTable(
        "Cost, recomputed from the bundles",
        "algorithm",
        (f"mbr, {name}²", "of best", f"quad, {name}²", "of best", "of optimum"),
    )
    runs = ValueTable(
        "Time and bundles",
        "algorithm",
        ("seconds", "bundles", "smallest", "largest", "median side"),
    )
    parts = ValueTable(
        "Cost with parts",
        "algorithm",
        (f"own part, {name}²", "of mbr", f"all parts, {name}²", "of mbr"),
        caption="area of the part that each user is in; area that all parts of the user's "
        "bundle cover; both also as shares of the cost of bounding boxes",
    )
    sign = "" if any(r.algorithm == "exact" for r in done) else "<= "
    for r in done:
        costs.add_row(
            r.algorithm,
            show_cost(r.cost_mbr),
            f"{(r.cost_mbr or 0) / best_mbr:.2f}",
            show_cost(r.cost_quad),
            f"{(r.cost_quad or 0) / best_quad:.2f}",
            f"{sign}{r.within_quad:.2f}",
        )
        runs.add_row(
            r.algorithm,
            f"{r.seconds:.2f}",
            f"{r.bundles:,}",
            f"{r.smallest_bundle:,}",
            f"{r.largest_bundle:,}",
            unit.length(r.median_side or 0),
        )
        own, union, whole = r.cost_parts or 0, r.cost_union or 0, r.cost_mbr or 1
        parts.add_row(
            r.algorithm,
            show_cost(own),
            f"{own / whole:.2f}",
            show_cost(union),
            f"{union / whole:.2f}",
        )
    out.print(costs, runs)
    if any(r.cost_parts is not None for r in done):
        out.print(parts)
    out.print("of optimum: how many times the best possible quad cost (<=: at most so many).")
    for r in results:
        if r.status != "ok":
            out.print(f"[bold red]{r.algorithm}[/]: {to_markup(r.status)}")
