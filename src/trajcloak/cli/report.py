"""``trajcloak report``."""

import sys
from pathlib import Path
from typing import Any

import click

from trajcloak.cli import EXIT_BREACH
from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, option
from trajcloak.cli.printing import out, print_json, progress_bars, to_markup


@click.command("report", cls=GroupedCommand)
@click.argument("release", type=shared.PATH)
@option("-o", "--output", required=True, type=shared.PATH, help="Page to create, an .html file.")
@option(
    "--log",
    multiple=True,
    type=shared.PATH,
    help="The private log; repeat for more. Adds the audit and the attack, and makes the page "
    "private.",
)
@option("--policy", type=shared.PATH, help="The private policy file; goes with --log.")
@shared.vocabulary_option
@option(
    "--network",
    metavar="city|PATH",
    help="Streets to draw under the cloaks, as generate takes them.",
)
@option(
    "--outline",
    type=shared.PATH,
    metavar="FILE",
    help="GeoJSON file to draw under the cloaks: a coast, a border, districts.",
)
@option("--replay", is_flag=True, help="With --log: the audit also runs the algorithm again.")
@option("--no-attack", is_flag=True, help="With --log: leave out the attack.")
@shared.released_log_options
@shared.threads_option
@shared.json_option
def command(
    release: Path,
    output: Path,
    log: tuple[Path, ...],
    no_attack: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show RELEASE on one page: map, guarantee, figures. It works offline.

    Reads the release alone, so that the page may be published with it. With --log and
    --policy the page also has the audit and what attackers learn, and is private. Exit
    code 3 if a check fails; the page is written and says so.
    """
    from trajcloak.report import write_report_page

    shared.check_release_time(release, {name: options.pop(name) for name in shared.TIME_OPTIONS})
    with progress_bars(hidden=as_json) as progress:
        report = write_report_page(
            release,
            output,
            log=list(log) or None,
            attack=not no_attack,
            progress=progress,
            **options,
        )
    if as_json:
        print_json({"report": str(output), **report.to_dict()})
    else:
        colour = "yellow" if report.allowed else "green"
        out.print(f"[bold {colour if report.passed else 'red'}]{to_markup(report.verdict)}[/].")
        if report.bundles_drawn < report.bundles:
            out.print(f"The map shows {report.bundles_drawn:,} of {report.bundles:,} bundles.")
        out.print(f"Report: {to_markup(str(output))} ({report.size / 1e6:.1f} MB)", soft_wrap=True)
        if report.private:
            out.print("[bold red]It is private[/]: it was made with the log. Do not publish it.")
    if not report.passed:
        sys.exit(EXIT_BREACH)
