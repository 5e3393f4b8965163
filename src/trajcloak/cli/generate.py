"""``trajcloak generate``."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, option
from trajcloak.cli.printing import facts_table, out, print_json, progress_bars


@click.command("generate", cls=GroupedCommand)
@option("-o", "--output", required=True, type=shared.PATH, help="Log to create: .parquet or .csv.")
@option("--users", required=True, type=int, help="How many users.")
@option("--length", required=True, type=int, help="How many instants.")
@option(
    "--network",
    default="city",
    metavar="city|PATH",
    help="Roads to move on: those of the built-in city; a .node or .edge file of Brinkhoff's "
    "generator, its sibling beside it; a folder with nodes.csv and edges.csv; a .graphml file.",
)
@option("--junctions", default=20_000, help="About how many junctions the built-in city has.")
@option("--seed", default=0, help="Same seed, same bytes.")
@option(
    "--speed",
    default="middle",
    type=click.Choice(["slow", "middle", "fast"]),
    help="The fastest users cover 1/250, 1/50 or 1/10 of the network's width plus height from "
    "one instant to the next, whatever --every is.",
)
@option("--classes", default=5, help="Classes of users, each half as fast as the one before.")
@option(
    "--on-arrival",
    default="continue",
    type=click.Choice(["stay", "continue"]),
    help="Stay at the end of the first trip, or continue with another.",
)
@option("--congestion", is_flag=True, help="Roads slow down when too many users are on them.")
@option("--request-share", default=0.2, type=float, help="Share of rows with a request, 0 to 1.")
@option(
    "--every",
    default=60,
    type=click.IntRange(1, 86_400),
    metavar="SECONDS",
    help="Time from one instant to the next. It changes the times, not the places.",
)
@option(
    "--request-log",
    type=shared.PATH,
    metavar="FILE",
    help="Write the requests to this file, at random seconds, and the locations alone to the log.",
)
@option("--string-ids", is_flag=True, help="User ids as text instead of numbers.")
@shared.json_option
def command(
    output: Path, every: int, request_log: Path | None, as_json: bool, **options: Any
) -> None:
    """Make a request log: people who move along roads and ask for things.

    They move as the objects of Brinkhoff's generator do. The log has the columns
    user_id, time, x and y (metres, or the network's own unit), category and detail.
    """
    from trajcloak.generator import generate_log

    with progress_bars(hidden=as_json) as progress:
        log = generate_log(
            output, every_seconds=every, request_log=request_log, progress=progress, **options
        )
    if as_json:
        written = {"log": str(output), "request_log": request_log and str(request_log)}
        print_json({**written, **asdict(log)})
        return
    facts = [
        ("users", f"{log.users:,}"),
        ("instants", f"{log.instants:,}"),
        ("rows", f"{log.rows:,}"),
        ("requests", f"{log.requests:,}"),
        ("request columns", ", ".join(log.request_columns)),
        ("junctions", f"{log.junctions:,}"),
        ("roads", f"{log.roads:,}"),
    ]
    if log.junctions_left_out:
        facts.append(("junctions left out (not connected)", f"{log.junctions_left_out:,}"))
    if request_log is not None:
        facts.append(("request log", str(request_log)))
    out.print(facts_table(f"Log: {output}", facts))
