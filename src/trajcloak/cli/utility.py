"""``trajcloak utility``."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trajcloak.cli import EXIT_BREACH
from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, option
from trajcloak.cli.printing import (
    ValueTable,
    facts_table,
    out,
    print_json,
    print_note,
    progress_bars,
)
from trajcloak.options import LogColumns
from trajcloak.quantities import Unit

if TYPE_CHECKING:
    from trajcloak.utility import Utility


@click.command("utility", cls=GroupedCommand)
@shared.log_argument
@click.argument("release", type=shared.PATH)
@option("--policy", type=shared.PATH, required=True, help="Private policy file of the release.")
@option("--queries", default=1000, help="Questions of each kind.")
@option("--seed", default=0, help="Decides the questions.")
@shared.released_log_options
@shared.threads_option
@shared.json_option
def command(
    log: list[Path],
    release: Path,
    policy: Path,
    queries: int,
    seed: int,
    columns: LogColumns,
    request_log: Path | None,
    threads: int | None,
    as_json: bool,
    **time: Any,
) -> None:
    """Ask RELEASE random questions and compare its answers with those of LOG.

    The questions depend on the log and the seed alone, so that releases of one log
    can be compared. Exit code 3 if a true answer is not within its bounds.
    """
    from trajcloak.log import read_in_memory
    from trajcloak.query import open_published
    from trajcloak.utility import measure_answers, measure_areas

    shared.check_release_time(release, time)
    published = open_published(release)
    columns = columns.complete(published.manifest["parameters"])
    with progress_bars(hidden=as_json) as progress:
        read = read_in_memory(log, columns, request_log, threads=threads, progress=progress)
        results = measure_answers(
            read, release, policy, queries=queries, seed=seed, threads=threads, progress=progress
        )
    areas = measure_areas(published)
    if as_json:
        print_json({"areas": asdict(areas), "results": [asdict(result) for result in results]})
    else:
        print_utility(results)
        unit = Unit(in_metres=published.manifest["crs"] is not None)
        out.print(
            facts_table(
                "Area in which a user is shown, mean over users and instants",
                [
                    ("the user's own rectangle", unit.area(areas.own)),
                    ("all rectangles of the user's bundle", unit.area(areas.union)),
                ],
            )
        )
    if any(result.within < 1 for result in results):
        print_note(
            "a true answer is not within its bounds: the release breaks a rule, or the log or the "
            "policy file is not its own; trajcloak audit tells"
        )
        sys.exit(EXIT_BREACH)


def print_utility(results: list["Utility"]) -> None:
    """Show the errors of each kind of question."""
    table = ValueTable(
        "Error of the answers",
        "question",
        ("queries", "mean error", "median", "width", "within", "withheld"),
        caption="error, its median, and mean width (upper less lower bound) in percent of the true "
        "answer; within: true answers within the bounds; withheld: users, or senders, in question "
        "whom the release leaves out; true answers do not count them",
    )
    for r in results:
        table.add_row(
            r.question,
            f"{r.queries:,}",
            f"{r.mean_error:.1%}",
            f"{r.median_error:.1%}",
            f"{r.mean_width:,.0%}",
            f"[{'green' if r.within == 1 else 'bold red'}]{r.within:.1%}",
            f"{r.withheld:.1%}",
        )
    out.print(table)
