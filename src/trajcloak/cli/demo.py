"""``trajcloak demo``."""

import time
from pathlib import Path

import click

from trajcloak.cli.anonymize import print_summary
from trajcloak.cli.audit import EXIT_BREACH, print_report
from trajcloak.cli.common import PATH, out, progress_bars

USERS = 20_000
LENGTH = 30
K = 50


@click.command("demo")
@click.option(
    "-o",
    "--output",
    default=Path("trajcloak-demo"),
    show_default=True,
    type=PATH,
    help="Folder for the log, the release and the policy file; new.",
)
@click.option("--users", default=USERS, show_default=True, type=int, help="How many users.")
@click.option("--k", default=K, show_default=True, type=int, help="Least users in a bundle.")
@click.option("--seed", default=0, show_default=True, type=int, help="Same seed, same city life.")
@click.pass_context
def command(context: click.Context, output: Path, users: int, k: int, seed: int) -> None:
    """Generate a city's log, publish it, and check the result: the whole path in one go."""
    from trajcloak.auditor import audit
    from trajcloak.generator import generate_log
    from trajcloak.log import read_log
    from trajcloak.options import LogColumns
    from trajcloak.output import new_folder
    from trajcloak.pipeline import anonymize

    names = {"log": "log.parquet", "release": "release", "policy": "policy.parquet"}
    started = time.monotonic()
    with new_folder(output) as folder, progress_bars() as progress:
        log, release, policy = (folder / name for name in names.values())
        generated = generate_log(log, users=users, length=LENGTH, seed=seed, progress=progress)
        columns = LogColumns(requests=generated.request_columns)
        result = anonymize(read_log(log, columns, progress=progress), k, progress=progress)
        result.write(release, policy, progress=progress)
        report = audit(log, release, policy, columns, progress=progress)
    manifest = result.release.manifest
    out.print(
        f"\n[bold]1. A log.[/] {generated.users:,} people moved through a city for {LENGTH} "
        f"minutes and sent {generated.requests:,} requests: where is a pharmacy, a clinic, a "
        f"party's office? Whoever holds this log knows who asked for what.\n"
    )
    out.print("[bold]2. A release.[/] People who moved alike were put into bundles.\n")
    seconds = time.monotonic() - started
    print_summary(manifest, output / names["release"], output / names["policy"], seconds)
    out.print("\n[bold]3. An audit[/], which shares no code with what made the release.\n")
    print_report(report)
    if not report.passed:
        context.exit(EXIT_BREACH)
    out.print(
        f"\n[bold]What was hidden, and from whom.[/] Somebody who knows where every one of the "
        f"{manifest['users']:,} people was at every minute, who knows this program and all its "
        f"settings, and who has all the computers of the world, still cannot tell who sent a "
        f"request: for each published request at least {manifest['smallest_bundle']} people fit "
        f"equally well. What a reader of the release does learn: what was asked for, in which "
        f"area, along which way."
    )
    requests = " ".join(f"--request {name}" for name in columns.requests)
    out.print(
        f"\nThe same by hand:\n"
        f"  trajcloak generate -o log.parquet --users {users} --length {LENGTH} --seed {seed}\n"
        f"  trajcloak anonymize log.parquet -o release --k {k} {requests} --policy policy.parquet\n"
        f"  trajcloak audit log.parquet release {requests} --policy policy.parquet\n",
        soft_wrap=True,
    )
