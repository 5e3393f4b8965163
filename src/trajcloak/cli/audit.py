"""``trajcloak audit``."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from trajcloak.cli.common import (
    PATH,
    TIME_DEFAULTS,
    json_option,
    log_options,
    out,
    print_json,
    progress_bars,
    time_options,
)
from trajcloak.errors import InputError, OptionError
from trajcloak.options import LogColumns

if TYPE_CHECKING:
    from trajcloak.auditor import AuditReport

EXIT_BREACH = 3


@click.command("audit")
@click.argument("log", nargs=-1, required=True, type=PATH)
@click.argument("release", type=PATH)
@click.option("--policy", required=True, type=PATH, help="The private map from users to bundles.")
@partial(
    log_options,
    request_help="Request attribute that was to be published; repeat for more.  "
    "[default: those of the release]",
)
@partial(time_options, defaults=dict.fromkeys(TIME_DEFAULTS, "as the release says"))
@json_option
def command(
    log: tuple[Path, ...],
    release: Path,
    policy: Path,
    columns: LogColumns,
    as_json: bool,
    **time: Any,
) -> None:
    """Check RELEASE against the LOG it was made from, file by file and row by row.

    Shares no code with what made the release. Exit code 3 if a check fails. A time
    option that is given must be the one that the release was made with.
    """
    from trajcloak.auditor import audit

    asked = {name: value for name, value in time.items() if value is not None}
    if asked:
        check_time(release, asked)
    with progress_bars(hidden=as_json, kernel=None) as progress:
        report = audit(list(log), release, policy, columns, progress=progress)
    if as_json:
        print_json(report.to_dict())
    else:
        print_report(report)
    if not report.passed:
        sys.exit(EXIT_BREACH)


def check_time(release: Path, asked: dict[str, Any]) -> None:
    """Raise if a time option is not the one that a release was made with.

    What cannot be read in the manifest is left to the audit to find.
    """
    from trajcloak.published import read_manifest

    try:
        made = read_manifest(release).get("parameters")
    except InputError:
        return
    for name, value in asked.items():
        if isinstance(made, dict) and name in made and not _is_same(name, value, made[name]):
            option = name.replace("_", "-")
            shown = "the whole log" if made[name] is None else made[name]
            raise OptionError(
                f"{release}: the release was made with {option} = {shown}; expected {value}, as "
                f"--{option} says; leave --{option} out, or check the path of the release"
            )


def _is_same(name: str, asked: Any, made: Any) -> bool:
    """Compare a time option with the manifest, durations by their value."""
    if name not in ("every", "max_gap"):
        return bool(asked == made)
    from trajcloak.trajectories import parse_duration

    read = partial(
        parse_duration, has_timestamps=isinstance(made, str), name=name.replace("_", "-")
    )
    try:
        found = read(str(made))
    except OptionError:
        return True
    return bool(read(asked) == found)


def print_report(report: "AuditReport") -> None:
    """Show every check, and the verdict in a sentence."""
    table = Table(title="Audit", title_justify="left")
    table.add_column("check", style="bold", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("finding", overflow="fold")
    for check in report.checks:
        result = "[green]passed" if check.passed else "[bold red]FAILED"
        table.add_row(check.name, result, escape(check.detail))
    out.print(table)
    if report.passed:
        out.print(f"[bold green]Passed[/]: all {len(report.checks)} checks hold.")
    else:
        failed = sum(not check.passed for check in report.checks)
        out.print(
            f"[bold red]Breach[/]: {failed} of {len(report.checks)} checks failed. "
            f"Do not publish this release."
        )
