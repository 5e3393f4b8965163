"""``trajcloak inspect``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from trajcloak.cli.common import (
    PATH,
    ingest_facts,
    json_option,
    log_options,
    out,
    print_json,
    progress_bars,
    threads_option,
)
from trajcloak.cli.tables import ValueTable, facts_table
from trajcloak.options import NULL_ISLAND, SWAPPED, TELEPORT, LogColumns

if TYPE_CHECKING:
    from trajcloak.inspection import Choice, Inspection

BAR = 10
SUSPECTED = {
    NULL_ISLAND: "at longitude and latitude 0",
    SWAPPED: "far from most others, and among them with longitude and latitude swapped",
    TELEPORT: "too far from the same user's report before to be reached",
}


@click.command("inspect")
@click.argument("log", nargs=-1, required=True, type=PATH)
@partial(log_options, request_help="Request attribute; rows that have one count as requests.")
@click.option("--every", metavar="DURATION", help="Keep this step.  [default: proposed]")
@click.option("--max-gap", metavar="DURATION", help="Keep this gap.  [default: proposed]")
@click.option("--length", type=click.IntRange(min=1), help="Keep this length.  [default: proposed]")
@threads_option
@json_option
def command(
    log: tuple[Path, ...],
    columns: LogColumns,
    request_log: Path | None,
    every: str | None,
    max_gap: str | None,
    length: int | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Report on LOG, and propose --every, --max-gap and --length for it.

    Nothing is written. The shares say whom and what a choice would keep with
    --missing withhold, before k is looked at.
    """
    from trajcloak.inspection import inspect_log
    from trajcloak.log import read_log

    with progress_bars(hidden=as_json) as progress:
        read = read_log(list(log), columns, request_log, threads=threads, progress=progress)
        found = inspect_log(
            read,
            every=every,
            max_gap=max_gap,
            length=length,
            threads=threads,
            progress=progress,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        print_inspection(found)


def print_inspection(found: "Inspection") -> None:
    """Show the figures of the log, and a table of choices for each option."""
    out.print(facts_table("Log", ingest_facts(found.ingest.to_dict())))
    for name, choices in (
        ("every", found.by_every),
        ("max_gap", found.by_max_gap),
        ("length", found.by_length),
    ):
        out.print(_choices_table(name, choices, found.proposed))
    for suspect in found.suspects:
        out.print(f"{suspect.named} {SUSPECTED[suspect.reason]} (--drop {suspect.reason})")
    proposed = found.proposed
    out.print(
        f"Proposed: [bold]--every {proposed.every} --max-gap {proposed.max_gap} "
        f"--length {proposed.length}[/]"
    )


def _choices_table(name: str, choices: "list[Choice]", proposed: "Choice") -> ValueTable:
    """Lay out choices; of those that keep everything only the first and the proposed one."""
    table = ValueTable(
        f"Kept, by {name.replace('_', '-')}",
        "every",
        ("max-gap", "length", "users", "reports", "requests"),
        bars="reports kept",
    )
    keeps_all = False
    for choice in choices:
        requests = "-" if choice.requests is None else f"{choice.requests:.1%}"
        shares = f"{choice.users:.1%}", f"{choice.reports:.1%}", requests
        if keeps_all and set(shares) <= {"100.0%", "-"} and choice != proposed:
            continue
        keeps_all = set(shares) <= {"100.0%", "-"}
        table.add_row(
            escape(str(choice.every)),
            escape(str(choice.max_gap)),
            f"{choice.length:,}",
            *shares,
            "█" * round(BAR * choice.reports),
            style="bold green" if choice == proposed else "",
        )
    return table
