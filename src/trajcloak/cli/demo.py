"""``trajcloak demo``."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trajcloak.cli.anonymize import print_summary
from trajcloak.cli.audit import EXIT_BREACH, print_report
from trajcloak.cli.common import PATH, json_option, out, print_json, progress_bars
from trajcloak.options import LogColumns, Options

if TYPE_CHECKING:
    from trajcloak.generator import GeneratedLog

USERS = 20_000
LENGTH = 30
K = 50
NAMES = {
    "log": "log.parquet",
    "release": "release",
    "policy": "policy.parquet",
    "report": "report.html",
}


@click.command("demo")
@click.option(
    "-o",
    "--output",
    default=Path("trajcloak-demo"),
    show_default=True,
    type=PATH,
    help="Folder for the log, the release, the policy file and the report, to be created.",
)
@click.option("--users", default=USERS, show_default=True, type=int, help="How many users.")
@click.option(
    "--k", default=K, show_default=True, type=int, help="Least number of users in a bundle."
)
@click.option("--seed", default=0, show_default=True, type=int, help="Same seed, same city life.")
@json_option
def command(output: Path, users: int, k: int, seed: int, as_json: bool) -> None:
    """Generate a city's log, publish it, and check the result: the whole path in one go."""
    from trajcloak.auditor import audit
    from trajcloak.generator import generate_log
    from trajcloak.log import read_log
    from trajcloak.output import new_folder
    from trajcloak.pipeline import anonymize
    from trajcloak.report import write_report

    Options(k=k)
    with new_folder(output) as folder:
        log, release, policy, page = (folder / name for name in NAMES.values())
        with progress_bars(hidden=as_json) as progress:
            generated = generate_log(log, users=users, length=LENGTH, seed=seed, progress=progress)
            columns = LogColumns(requests=generated.request_columns)
            started = time.monotonic()
            result = anonymize(read_log(log, columns, progress=progress), k, progress=progress)
            result.write(release, policy, progress=progress)
            seconds = time.monotonic() - started
        with progress_bars(hidden=as_json, kernel=None) as progress:
            report = audit(log, release, policy, columns, progress=progress)
            write_report(
                release, page, log=log, policy=policy, columns=columns, network="city",
                progress=progress,
            )  # fmt: skip
    paths = {what: output / name for what, name in NAMES.items()}
    manifest = result.release.manifest
    if as_json:
        print_json(
            {what: str(path) for what, path in paths.items()}
            | {"seconds": round(seconds, 3), "manifest": manifest, "audit": report.to_dict()}
        )
    else:
        print_log(generated)
        out.print("[bold]2. A release.[/] People who moved alike were put into bundles.\n")
        print_summary(manifest, paths["release"], paths["policy"], seconds)
        out.print("\n[bold]3. An audit[/], which shares no code with what made the release.\n")
        print_report(report)
    if not report.passed:
        sys.exit(EXIT_BREACH)
    if not as_json:
        print_meaning(manifest)
        out.print(f"\nAll of this on a page for a browser: {paths['report']}", soft_wrap=True)
        print_commands(users, k, seed, columns)


def print_log(generated: "GeneratedLog") -> None:
    """Say what the log holds."""
    out.print(
        f"\n[bold]1. A log.[/] {generated.users:,} people moved through a city for {LENGTH} "
        f"minutes and sent {generated.requests:,} requests: where is a pharmacy, a clinic, a "
        f"party's office? Whoever holds this log knows who asked for what.\n"
    )


def print_meaning(manifest: dict[str, Any]) -> None:
    """Say in plain words what was hidden, and from whom."""
    out.print(
        f"\n[bold]What was hidden, and from whom.[/] Somebody who knows where every one of the "
        f"{manifest['users']:,} people was at every minute, who knows this program and all its "
        f"settings, and who has all the computers of the world, still cannot tell who sent a "
        f"request: for each published request at least {manifest['smallest_bundle']:,} people fit "
        f"equally well. What a reader of the release does learn: what was asked for, in which "
        f"area, along which way."
    )


def print_commands(users: int, k: int, seed: int, columns: LogColumns) -> None:
    """Show how to do the same step by step."""
    requests = " ".join(f"--request {name}" for name in columns.requests)
    out.print(
        f"\nThe same by hand:\n"
        f"  trajcloak generate -o log.parquet --users {users} --length {LENGTH} --seed {seed}\n"
        f"  trajcloak anonymize log.parquet -o release --k {k} \\\n"
        f"      {requests} --policy policy.parquet\n"
        f"  trajcloak audit log.parquet release \\\n"
        f"      {requests} --policy policy.parquet",
        soft_wrap=True,
    )
