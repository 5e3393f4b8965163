"""``trajcloak audit``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from trajcloak.cli.common import PATH, json_option, log_options, out, print_json, progress_bars
from trajcloak.options import LogColumns

if TYPE_CHECKING:
    from trajcloak.auditor import AuditReport

EXIT_BREACH = 3


@click.command("audit")
@click.argument("log", type=PATH)
@click.argument("release", type=PATH)
@click.option("--policy", required=True, type=PATH, help="The private map from users to bundles.")
@log_options
@json_option
def command(log: Path, release: Path, policy: Path, columns: LogColumns, as_json: bool) -> None:
    """Check RELEASE against the LOG it was made from, file by file and row by row.

    Shares no code with what made the release. Exit code 3 if a check fails.
    """
    from trajcloak.auditor import audit

    with progress_bars(hidden=as_json) as progress:
        report = audit(log, release, policy, columns, progress=progress)
    if as_json:
        print_json(report.to_dict())
    else:
        print_report(report)
    if not report.passed:
        sys.exit(EXIT_BREACH)


def print_report(report: "AuditReport") -> None:
    """Show every check, and the verdict in a sentence."""
    table = Table(title="Audit", title_justify="left")
    table.add_column("check", style="bold")
    table.add_column("result")
    table.add_column("checked", justify="right")
    table.add_column("finding", overflow="fold")
    for check in report.checks:
        result = "[green]passed" if check.passed else "[bold red]FAILED"
        table.add_row(check.name, result, f"{check.checked:,}", check.detail)
    out.print(table)
    if report.passed:
        out.print(f"[bold green]Passed[/]: all {len(report.checks)} checks hold.")
    else:
        failed = sum(not check.passed for check in report.checks)
        out.print(
            f"[bold red]Breach[/]: {failed} of {len(report.checks)} checks failed. "
            f"Do not publish this release."
        )
