"""``trajcloak demo``."""

import sys
import time
from pathlib import Path

import click

from trajcloak.cli import story
from trajcloak.cli.audit import EXIT_BREACH
from trajcloak.cli.common import PATH, json_option, print_json, progress_bars
from trajcloak.cli.generate import KERNEL
from trajcloak.errors import OptionError
from trajcloak.options import LogColumns, Options

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
    """Generate a city's log, attack it, publish it, and check the result, all in one go."""
    from trajcloak.attackers import attack
    from trajcloak.auditor import audit
    from trajcloak.generator import generate_log
    from trajcloak.log import read_log
    from trajcloak.output import new_folder
    from trajcloak.pipeline import anonymize
    from trajcloak.report import write_report
    from trajcloak.utility import measure_utility

    Options(k=k)
    if users < k:
        raise OptionError(
            f"users is {users}; expected at least k = {k}; pass more --users, or a lower --k"
        )
    tell = story.Teller(silent=as_json)
    with new_folder(output) as folder:
        log, release, policy, page = (folder / name for name in NAMES.values())
        with progress_bars(hidden=as_json, kernel=KERNEL, transient=True) as progress:
            generated = generate_log(log, users=users, length=LENGTH, seed=seed, progress=progress)
        tell(story.tell_log(generated, LENGTH))
        columns = LogColumns(requests=generated.request_columns)
        with progress_bars(hidden=as_json, kernel=None, transient=True) as progress:
            request_log = read_log(log, columns, progress=progress)
            started = time.monotonic()
            result = anonymize(request_log, k, progress=progress)
            result.write(release, policy, progress=progress)
            seconds = time.monotonic() - started
            manifest = result.manifest
            attacked = attack(request_log, k, algorithms=[manifest["algorithm"]], progress=progress)
        tell(story.tell_attack(attacked, k))
        tell(story.tell_release(manifest, output / NAMES["release"], seconds))
        tell(story.tell_attackers(attacked, manifest))
        with progress_bars(hidden=as_json, kernel=None, transient=True) as progress:
            utility = measure_utility(request_log, release, policy=policy, progress=progress)
        tell(story.tell_price(manifest, utility))
        with progress_bars(hidden=as_json, kernel=None, transient=True) as progress:
            report = audit(log, release, policy, columns, progress=progress)
        tell(story.tell_audit(report))
        with progress_bars(hidden=as_json, kernel=None, transient=True) as progress:
            write_report(
                release, page, log=log, policy=policy, columns=columns, network="city",
                progress=progress,
            )  # fmt: skip
    paths = {what: output / name for what, name in NAMES.items()}
    if as_json:
        print_json(
            {what: str(path) for what, path in paths.items()}
            | {
                "seconds": round(seconds, 3),
                "manifest": manifest,
                "attack": [finding.to_dict() for finding in attacked.findings],
                "utility": [answered.to_dict() for answered in utility],
                "audit": report.to_dict(),
            }
        )
    if not report.passed:
        sys.exit(EXIT_BREACH)
    tell(story.tell_files(paths))
    tell(story.tell_meaning(manifest))
    tell(story.tell_commands(users, LENGTH, k, seed, columns))
