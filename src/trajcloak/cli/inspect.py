"""``trajcloak inspect``."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, bundle_option, option
from trajcloak.cli.printing import (
    ValueTable,
    facts_table,
    out,
    print_json,
    progress_bars,
    to_markup,
)
from trajcloak.cli.shared_options import name_log
from trajcloak.errors import Refusals
from trajcloak.options import NULL_ISLAND, SWAPPED, TELEPORT, LogColumns
from trajcloak.quantities import Unit, list_ingest_facts, show_duration

if TYPE_CHECKING:
    from trajcloak.inspection import Inspection
    from trajcloak.kept_counts import Choice
    from trajcloak.plan import Plan

SUSPECTED = {
    NULL_ISLAND: "at longitude and latitude 0",
    SWAPPED: "far from most others, and among them with longitude and latitude swapped",
    TELEPORT: "too far from the same user's report before to be reached",
}


@click.command("inspect", cls=GroupedCommand)
@shared.log_argument
@partial(shared.log_options, request_help="Request attribute; never looked at here.")
@option(
    "--k",
    type=click.IntRange(min=2),
    default=10,
    help="Least number of possible senders of a request.",
)
@shared.build_time_options("proposed", ("every", "length", "max_gap"))
@bundle_option(
    "--members",
    type=click.IntRange(min=2),
    help="Least number of users in a bundle, if it is decided already.  [default: proposed]",
)
@shared.region_option
@shared.rows_alike_option
@bundle_option(
    "--plan",
    "plans",
    is_flag=True,
    help="Also bundle users for this k and a few choices of --parts and --length, and measure "
    "areas and the errors of answers.",
)
@shared.threads_option
@shared.json_option
def command(
    log: list[Path],
    columns: LogColumns,
    request_log: Path | None,
    k: int,
    plans: bool,
    threads: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Report on LOG, and propose the command that anonymizes it.

    Nothing is written, and no request is looked at. Tables show which shares of users, reports
    and sets of requests each choice would keep, with --missing withhold. Exit code 2 if anonymize
    would refuse the log.
    """
    from trajcloak.inspection import inspect_rows
    from trajcloak.log import read_all_rows
    from trajcloak.log.files import describe_columns, list_other_columns
    from trajcloak.plan import plan_rows

    with progress_bars(hidden=as_json) as progress:
        read = read_all_rows(log, columns, request_log, threads=threads, progress=progress)
        found = inspect_rows(read, k=k, threads=threads, progress=progress, **options)
        plan = None
        if plans and not found.refusals:
            choice = found.proposed
            plan = plan_rows(
                read,
                every=str(choice.every),
                max_gap=str(choice.max_gap),
                length=choice.length,
                k=k,
                members=choice.members,
                threads=threads,
                progress=progress,
            )
    proposed = None
    if not found.refusals:
        proposed = build_command(log, columns, request_log, k, found.proposed, options)
    read_as = describe_columns(log, columns)
    if as_json:
        measured = {} if plan is None else {"plan": asdict(plan)}
        print_json({**found.to_dict(), **measured, "columns": read_as, "command": proposed})
    else:
        print_inspection(found, read_as, rows_alike=options["rows_alike"])
        if plan is not None:
            print_plan(plan)
        others = [] if columns.requests else list_other_columns(log, columns)
        if others and proposed is not None:
            out.print(
                f"No request is named, so none would be published. Columns that could be, with "
                f"--request: {to_markup(', '.join(others))}."
            )
        if proposed is not None:
            out.print("To anonymize the log:")
            out.print(f"[bold]{to_markup(proposed)}[/]", soft_wrap=True)
    Refusals(found.refusals).check()


def build_command(
    log: Sequence[Path],
    columns: LogColumns,
    request_log: Path | None,
    k: int,
    proposed: "Choice",
    options: Mapping[str, Any],
) -> str:
    """Write the command that anonymizes a log as proposed."""
    single = {
        **vars(columns),
        "request_log": request_log,
        "every": show_duration(proposed.every),
        "max_gap": show_duration(proposed.max_gap),
        "length": proposed.length,
        "members": None if proposed.members in (None, k) else proposed.members,
        "region": options["region"],
        "rows_alike": options["rows_alike"] or None,
        "policy": "policy.parquet",
    }
    repeated = {"request": single.pop("requests"), "drop": single.pop("drop")}
    words = ["trajcloak", "anonymize", *map(name_log, log), "-o", "release", "--k", str(k)]
    for name, value in [
        *((name, value) for name, values in repeated.items() for value in values),
        *((name, value) for name, value in single.items() if value is not None),
    ]:
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    return shlex.join(words)


def print_inspection(found: "Inspection", read_as: Mapping[str, str], *, rows_alike: bool) -> None:
    """Show the figures of the log, and a table of choices for each option."""
    out.print(facts_table("Log", [*read_as.items(), *list_ingest_facts(found.ingest.to_dict())]))
    for name in ("every", "max_gap", "length", "members"):
        choices = getattr(found, f"by_{name}")
        if choices:
            out.print(_choices_table(name, choices, found.proposed))
    sets = (
        " 'sets': sets of requests that would be published. 'rows': rows in such a set."
        if found.proposed.sets is not None
        else ""
    )
    out.print(
        f"Columns are shares. 'users': users who take part in at least one window. 'reports': "
        f"reports of users who take part in their window. 'guessed': locations without a report in "
        f"their instant.{sets}"
    )
    for suspect in found.suspects:
        if not any(f"--drop={suspect.reason}" in refusal for refusal in found.refusals):
            out.print(f"{suspect.named} {SUSPECTED[suspect.reason]} (--drop {suspect.reason})")
    odd = found.schedule
    is_odd = odd.odd_times or odd.odd_phases or odd.odd_places
    if is_odd and not rows_alike and not found.refusals:
        out.print(
            f"Rows follow a schedule with exceptions ({odd.odd_times:,} times between reports, "
            f"{odd.odd_phases:,} moments, {odd.odd_places:,} places of another precision): a log "
            f"of requests needs --request-log, --is-report, or --rows-alike."
        )
    proposed = found.proposed
    out.print(
        f"Proposed: instants of {show_duration(proposed.every)}, gaps of up to "
        f"{show_duration(proposed.max_gap)}, windows of {proposed.length:,} instants. "
        f"{proposed.guessed:.1%} of the locations would be interpolated, without a report in their "
        f"instant."
    )
    if found.doubts:
        out.print("[bold red]This log can hardly be published usefully with these settings:[/]")
        for doubt in found.doubts:
            out.print(f"- {doubt}")
        out.print("Try a smaller --k, longer instants (--every), or shorter windows (--length).")


def print_plan(plan: "Plan") -> None:
    """Show what each choice would give."""
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
        "Plan", "k", ("parts", "side", "counts", "moves", "users", "sets"), caption=caption
    )
    unit = Unit(plan.in_metres)
    length = None
    for choice in plan.choices:
        if choice.length != length:
            table.add_group(f"length: {choice.length:,}")
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
            "guessed",
            *(("members", "sets", "rows") if has_sets else ()),
        ),
    )
    keeps_all = False
    for choice in choices:
        kept = [choice.users, choice.reports]
        of_sets = []
        if choice.sets is not None and choice.rows is not None:
            kept += [choice.sets, choice.rows]
            of_sets = [f"{choice.members:,}", f"{choice.sets:.1%}", f"{choice.rows:.1%}"]
        kept_all, keeps_all = keeps_all, all(f"{share:.1%}" == "100.0%" for share in kept)
        if kept_all and keeps_all and choice != proposed:
            continue
        table.add_row(
            show_duration(choice.every),
            show_duration(choice.max_gap),
            f"{choice.length:,}",
            *(f"{share:.1%}" for share in (choice.users, choice.reports, choice.guessed)),
            *of_sets,
            style="bold green" if choice == proposed else "",
        )
    return table
