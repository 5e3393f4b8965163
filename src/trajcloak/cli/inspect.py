"""``trajcloak inspect``."""

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

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
from trajcloak.cli.tables import ValueTable, facts_table, to_markup
from trajcloak.options import NULL_ISLAND, SWAPPED, TELEPORT, LogColumns

if TYPE_CHECKING:
    from trajcloak.inspection import Choice, Inspection
    from trajcloak.plan import Plan

BAR = 10
SUSPECTED = {
    NULL_ISLAND: "at longitude and latitude 0",
    SWAPPED: "far from most others, and among them with longitude and latitude swapped",
    TELEPORT: "too far from the same user's report before to be reached",
}


@click.command("inspect")
@click.argument("log", nargs=-1, required=True, type=PATH)
@partial(log_options, request_help="Request attribute; never looked at here.")
@click.option(
    "--k",
    type=click.IntRange(min=2),
    help="Also count the sets of requests that would be withheld, and propose --members.",
)
@click.option("--every", metavar="DURATION", help="Keep this step.  [default: proposed]")
@click.option("--max-gap", metavar="DURATION", help="Keep this gap.  [default: proposed]")
@click.option("--length", type=click.IntRange(min=1), help="Keep this length.  [default: proposed]")
@click.option("--members", type=click.IntRange(min=2), help="Keep this many.  [default: proposed]")
@click.option(
    "--plan",
    "plans",
    is_flag=True,
    help="Also bundle users for a few choices of k, --parts and --length, and measure areas and "
    "the errors of answers.",
)
@threads_option
@json_option
def command(
    log: tuple[Path, ...],
    columns: LogColumns,
    request_log: Path | None,
    k: int | None,
    every: str | None,
    max_gap: str | None,
    length: int | None,
    members: int | None,
    plans: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Report on LOG, and propose --every, --max-gap and --length for it.

    Nothing is written, and no request is looked at. The shares say whom and
    what a choice would keep with --missing withhold.
    """
    from trajcloak.inspection import inspect_log
    from trajcloak.log import read_log
    from trajcloak.plan import plan_log

    with progress_bars(hidden=as_json) as progress:
        read = read_log(list(log), columns, request_log, threads=threads, progress=progress)
        found = inspect_log(
            read,
            k=k,
            every=every,
            max_gap=max_gap,
            length=length,
            members=members,
            threads=threads,
            progress=progress,
        )
        plan = None
        if plans:
            proposed = found.proposed
            plan = plan_log(
                read,
                every=str(proposed.every),
                max_gap=str(proposed.max_gap),
                length=proposed.length,
                k=k,
                members=proposed.members,
                threads=threads,
                progress=progress,
            )
    if as_json:
        print_json({**found.to_dict(), **({} if plan is None else {"plan": plan.to_dict()})})
        return
    print_inspection(found, k)
    if plan is not None:
        print_plan(plan)


def print_inspection(found: "Inspection", k: int | None) -> None:
    """Show the figures of the log, and a table of choices for each option."""
    out.print(facts_table("Log", ingest_facts(found.ingest.to_dict())))
    for name, choices in (
        ("every", found.by_every),
        ("max_gap", found.by_max_gap),
        ("length", found.by_length),
        ("members", found.by_members),
    ):
        if choices:
            out.print(_choices_table(name, choices, found.proposed))
    for suspect in found.suspects:
        out.print(f"{suspect.named} {SUSPECTED[suspect.reason]} (--drop {suspect.reason})")
    odd = found.schedule
    if odd.odd_times or odd.odd_phases or odd.odd_places:
        out.print(
            f"Rows follow a schedule with exceptions ({odd.odd_times:,} times between reports, "
            f"{odd.odd_phases:,} moments, {odd.odd_places:,} places of another precision): a log "
            f"of requests needs --request-log, --is-report, or --rows-alike."
        )
    proposed = found.proposed
    members = "" if proposed.members in (None, k) else f" --members {proposed.members}"
    out.print(
        f"Proposed: [bold]--every {proposed.every} --max-gap {proposed.max_gap} "
        f"--length {proposed.length}{members}[/]"
    )


def print_plan(plan: "Plan") -> None:
    """Show what each choice would give."""
    from trajcloak.quantities import Unit

    caption = (
        "side: of a square as large as the mean area in which a user is shown; counts, moves: mean "
        "error of answers about users in a region, and about users who move between two regions "
        "within a window; users, sets: withheld. With parts, sides and errors do not depend on k. "
        "Measured at --effort low; anonymize itself shows somewhat smaller areas."
    )
    if plan.sampled < plan.users:
        caption += (
            f" Measured on whole neighbourhoods with {plan.sampled:,} users of a window in all: "
            f"users there are as dense as in the log. Errors are those of questions about so many "
            f"users; about more users, they are smaller."
        )
    table = ValueTable(
        "Plan",
        "k",
        ("parts", "side", "counts", "moves", "users", "sets"),
        group="length",
        caption=caption,
    )
    unit = Unit(plan.in_metres)
    length = None
    for choice in plan.choices:
        if choice.length != length:
            table.add_group(f"{choice.length:,}")
            length = choice.length
        side = None if choice.area is None else math.sqrt(choice.area)
        shares = choice.count_error, choice.move_error, choice.users, choice.sets
        table.add_row(
            f"{choice.k:,}"
            if choice.members == choice.k
            else f"{choice.k:,} of {choice.members:,}",
            "" if choice.parts is None else f"{choice.parts:,}",
            "" if side is None else unit.length(side),
            *("" if share is None else f"{share:.1%}" for share in shares),
        )
    out.print(table)


def _choices_table(name: str, choices: "list[Choice]", proposed: "Choice") -> ValueTable:
    """Lay out choices; of those that keep everything only the first and the proposed one."""
    has_sets = proposed.sets is not None
    table = ValueTable(
        f"Kept, by {name.replace('_', '-')}",
        "every",
        (
            "max-gap",
            "length",
            "users",
            "reports",
            *(("members", "sets", "rows") if has_sets else ()),
        ),
        bars="rows kept" if has_sets else "reports kept",
    )
    keeps_all = False
    for choice in choices:
        kept = [choice.users, choice.reports]
        bar = choice.reports
        if choice.sets is not None and choice.rows is not None:
            kept += [choice.sets, choice.rows]
            bar = choice.rows
        shares = [f"{share:.1%}" for share in kept]
        if keeps_all and set(shares) == {"100.0%"} and choice != proposed:
            continue
        keeps_all = set(shares) == {"100.0%"}
        if has_sets:
            shares.insert(2, f"{choice.members:,}")
        table.add_row(
            to_markup(str(choice.every)),
            to_markup(str(choice.max_gap)),
            f"{choice.length:,}",
            *shares,
            "█" * round(BAR * bar),
            style="bold green" if choice == proposed else "",
        )
    return table
