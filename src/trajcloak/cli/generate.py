"""``trajcloak generate``."""

from pathlib import Path

import click

from trajcloak.cli.common import PATH, facts_table, json_option, out, print_json, progress_bars

KERNEL = ("trajcloak.generator.splitmix", "scramble")
"""Compiled by the first run that generates."""


@click.command("generate")
@click.option("-o", "--output", required=True, type=PATH, help="Log to create: .parquet or .csv.")
@click.option("--users", required=True, type=int, help="How many users.")
@click.option("--length", required=True, type=int, help="How many instants.")
@click.option(
    "--network",
    default="city",
    show_default=True,
    type=click.Choice(["city"]),
    help="Streets to move on: those of the built-in city.",
)
@click.option("--seed", default=0, show_default=True, type=int, help="Same seed, same bytes.")
@click.option(
    "--request-share",
    default=0.2,
    show_default=True,
    type=float,
    help="Share of rows with a request, 0 to 1.",
)
@click.option(
    "--every",
    default=60,
    show_default=True,
    type=click.IntRange(1, 86_400),
    metavar="SECONDS",
    help="Time from one instant to the next.",
)
@click.option("--string-ids", is_flag=True, help="User ids as text instead of numbers.")
@json_option
def command(
    output: Path,
    users: int,
    length: int,
    network: str,
    seed: int,
    request_share: float,
    every: int,
    string_ids: bool,
    as_json: bool,
) -> None:
    """Make a request log: people who move along the streets of a city and ask for things.

    The log has the columns user_id, time, x and y (metres), category and detail.
    """
    from trajcloak.generator import generate_log

    with progress_bars(hidden=as_json, kernel=KERNEL) as progress:
        log = generate_log(
            output,
            users=users,
            length=length,
            seed=seed,
            request_share=request_share,
            string_ids=string_ids,
            every_seconds=every,
            progress=progress,
        )
    if as_json:
        print_json(
            {
                "log": str(output),
                "users": log.users,
                "instants": log.instants,
                "rows": log.rows,
                "requests": log.requests,
                "request_columns": list(log.request_columns),
            }
        )
        return
    facts = [
        ("users", f"{log.users:,}"),
        ("instants", f"{log.instants:,}"),
        ("rows", f"{log.rows:,}"),
        ("requests", f"{log.requests:,}"),
        ("request columns", ", ".join(log.request_columns)),
    ]
    out.print(facts_table(f"Log: {output}", facts))
