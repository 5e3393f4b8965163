"""``trajcloak audit``."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.table import Table

from trajcloak.cli import EXIT_BREACH
from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, option
from trajcloak.cli.printing import out, print_json, progress_bars, to_markup
from trajcloak.options import LogColumns

if TYPE_CHECKING:
    from trajcloak.auditor import AuditReport

OF_RELEASES = (
    "replay", "vocabulary", "rewrite", "memory", "request_log", "length", "align", "windows",
)  # fmt: skip
"""Options that do not go with --foreign."""


@click.command("audit", cls=GroupedCommand)
@shared.log_argument
@click.argument("release", type=shared.PATH)
@option("--policy", type=shared.PATH, help="The private map from users to bundles.")
@option(
    "--foreign",
    is_flag=True,
    help="RELEASE is a table of another tool: a rectangle and a time per row.",
)
@option("--k", type=int, help="Least number of possible senders that the audit demands.")
@option("--replay", is_flag=True, help="Run the algorithm again: it must give the same groups.")
@shared.vocabulary_option
@option(
    "--rewrite",
    type=shared.PATH,
    metavar="DIR",
    help="Write a clean copy of the checked tables, to be published instead.",
)
@option("--memory", metavar="SIZE", help="Most memory for rows of the log, such as 4GiB.")
@option(
    "--group",
    metavar="COLUMN",
    help="With --foreign: column whose equal values are known to link rows. Every other column is "
    "tried, too.",
)
@shared.released_log_options
@shared.json_option
def command(
    log: list[Path],
    release: Path,
    policy: Path | None,
    foreign: bool,
    k: int | None,
    group: str | None,
    columns: LogColumns,
    as_json: bool,
    **options: Any,
) -> None:
    """Check RELEASE against the LOG it was made from, byte for byte.

    Computes with code of its own what must have been published, and compares the two. Exit code
    3 if a check fails. Time options need not be given; if they are, they must be those that the
    release was made with.

    With --foreign RELEASE is a .csv or .parquet table that any tool published: how
    many users could be in each of its rectangles, or groups of rectangles?
    """
    from trajcloak.auditor import audit_files, audit_foreign_table
    from trajcloak.engines.folder import parse_memory

    time = {name: options.pop(name) for name in shared.TIME_OPTIONS}
    if foreign:
        if k is None:
            raise click.UsageError("Missing option '--k', which --foreign needs.")
        for name, value in {**options, **time}.items():
            if value and name in OF_RELEASES:
                raise click.UsageError(f"--{name.replace('_', '-')} does not go with --foreign.")
    elif group is not None:
        raise click.UsageError("--group goes with --foreign only.")
    elif policy is None:
        raise click.UsageError("Missing option '--policy'.")
    else:
        shared.check_release_time(release, time)
    if options["memory"] is not None:
        options["memory"] = parse_memory(options["memory"])
    with progress_bars(hidden=as_json) as progress:
        if foreign:
            report = audit_foreign_table(
                log, release, k or 0, columns, policy=policy, group=group, progress=progress,
                every=time["every"], max_gap=time["max_gap"], missing=time["missing"],
            )  # fmt: skip
        else:
            assert policy is not None
            report = audit_files(log, release, policy, columns, k=k, progress=progress, **options)
    if as_json:
        print_json(report.to_dict())
    else:
        for piece in describe_checks(report):
            out.print(piece)
    if not report.passed:
        sys.exit(EXIT_BREACH)


def describe_checks(report: "AuditReport") -> Iterator[RenderableType]:
    """Lay out every check, and the verdict in a sentence."""
    table = Table(title="Audit", title_justify="left")
    table.add_column("check", style="bold", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("finding", overflow="fold")
    for check in report.checks:
        result = "[green]passed" if check.passed else "[bold red]FAILED"
        table.add_row(check.name, result, to_markup(check.detail))
    yield table
    word, rest = report.verdict.split(":", 1)
    yield f"[bold {'green' if report.passed else 'red'}]{word}[/]:{to_markup(rest)}"
    for note in report.notes:
        yield to_markup(note)
