"""``trajcloak demo``: the command, and what it prints after each step."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from trajcloak.cli import EXIT_BREACH
from trajcloak.cli import shared_options as shared
from trajcloak.cli.audit import describe_checks
from trajcloak.cli.grouped import GroupedCommand, option
from trajcloak.cli.printing import (
    ValueTable,
    facts_table,
    out,
    print_json,
    progress_bars,
    to_markup,
)
from trajcloak.errors import OptionError
from trajcloak.options import LogColumns, Options
from trajcloak.quantities import Unit

if TYPE_CHECKING:
    from trajcloak.attackers import Attack
    from trajcloak.auditor import AuditReport
    from trajcloak.generator import GeneratedLog
    from trajcloak.release.result import RunResult
    from trajcloak.utility import Utility

USERS = 20_000
LENGTH = 30
K = 50

OPEN = "All of this on a page. Open in a browser: "
WIDTH = 88
"""Columns after which prose is wrapped on wider terminals."""

KNOWLEDGE = {
    "policy-unaware": "where everybody was at that minute",
    "policy-aware": "... and how areas are chosen",
    "trajectory-aware": "where everybody was at all times",
    "tp-aware": "... and how areas are chosen",
    "report-aware": "... and who reported at that minute",
    "linking": "... and takes equal requests for those of one person",
}
"""What each class of attacker knows."""

QUESTIONS = {
    "count": "How many people were here at that minute?",
    "moves": "How many went from here to there?",
    "requests": "How many asked for this, around here?",
}
"""The kinds of questions whose answers are measured."""

FILES = {
    "log": ("log.parquet", "private", "who was where, and asked for what"),
    "release": ("release", "public", "what may be given away"),
    "policy": ("policy.parquet", "private", "who is in which bundle; the audit needs it"),
    "report": ("report.html", "private", "all of this on a page, for a browser"),
}
"""What is made: its name, who may have it, and what is in it."""

Paragraphs = Iterator[RenderableType]


@click.command("demo", cls=GroupedCommand)
@option(
    "-o",
    "--output",
    default=Path("trajcloak-demo"),
    type=shared.PATH,
    help="Folder for the log, the release, the policy file and the report, to be created.",
)
@option("--users", default=USERS, type=int, help="How many users.")
@option("--k", default=K, type=int, help="Least number of users in a bundle.")
@option("--seed", default=0, help="Same seed, same city life.")
@shared.json_option
def command(output: Path, users: int, k: int, seed: int, as_json: bool) -> None:
    """Generate a city's log, attack it, publish it, and check the result, all in one go."""
    from trajcloak.attackers import attack_policies
    from trajcloak.auditor import audit_files
    from trajcloak.compilation import follow_compilation
    from trajcloak.generator import generate_log
    from trajcloak.log import read_in_memory
    from trajcloak.output import new_folder
    from trajcloak.pipeline import anonymize_log
    from trajcloak.report import write_report_page
    from trajcloak.utility import measure_answers

    Options(k=k)
    if users < k:
        raise OptionError(
            f"users is {users}; expected at least k = {k}; pass more --users, or a lower --k"
        )

    def show(part: Paragraphs) -> None:
        """Print prose in narrow columns, and lines to be copied as they are."""
        if as_json:
            return
        for piece in part:
            # Commands are to be pasted: no line of them is cut in two.
            width = min(WIDTH, out.width) if isinstance(piece, str) else None
            out.print(piece, width=width, soft_wrap=isinstance(piece, Text))
        out.print()

    paths = {what: output / name for what, (name, *_) in FILES.items()}
    with new_folder(output) as folder:
        log, release, policy, page = (folder / path.name for path in paths.values())
        with progress_bars(hidden=as_json, transient=True) as progress:
            generated = generate_log(log, users=users, length=LENGTH, seed=seed, progress=progress)
        show(describe_log(generated, LENGTH))
        columns = LogColumns(requests=generated.request_columns)
        with progress_bars(hidden=as_json, transient=True) as progress:
            request_log = read_in_memory(log, columns, progress=progress)
            started = time.monotonic()
            with follow_compilation() as compilation:
                result = anonymize_log(request_log, Options(k=k), progress=progress)
                result.write(release, policy, progress=progress)
            seconds = time.monotonic() - started - compilation.seconds
            manifest = result.manifest
            attacked = attack_policies(
                request_log, k, algorithms=[manifest["algorithm"]], progress=progress
            )
        show(describe_attack(attacked, k))
        show(describe_release(result, paths["release"], seconds))
        show(compare_attackers(attacked, manifest))
        with progress_bars(hidden=as_json, transient=True) as progress:
            utility = measure_answers(request_log, release, policy, progress=progress)
        show(describe_accuracy(manifest, utility))
        with progress_bars(hidden=as_json, transient=True) as progress:
            report = audit_files(log, release, policy, columns, k=k, replay=True, progress=progress)
        show(describe_audit(report))
        with progress_bars(hidden=as_json, transient=True) as progress:
            write_report_page(
                release, page, log=log, policy=policy, columns=columns, network="city",
                replay=True, progress=progress,
            )  # fmt: skip
    if as_json:
        print_json(
            {what: str(path) for what, path in paths.items()}
            | {
                "seconds": round(seconds, 3),
                "manifest": manifest,
                "attack": [asdict(finding) for finding in attacked.findings],
                "utility": [asdict(answered) for answered in utility],
                "audit": report.to_dict(),
            }
        )
    if not report.passed:
        sys.exit(EXIT_BREACH)
    show(list_written_files(paths))
    show(explain_guarantee(manifest))
    show(list_same_commands(users, LENGTH, k, seed, columns))
    show(iter([Text.assemble((OPEN, "bold"), str(paths["report"]))]))


def describe_log(generated: "GeneratedLog", minutes: int) -> Paragraphs:
    """Say what the log holds."""
    yield _heading(1, "A log")
    yield (
        f"{generated.users:,} people moved through a city for {minutes} minutes and sent "
        f"{generated.requests:,} requests: where is a pharmacy, a clinic, a party's office? "
        f"Whoever holds this log knows who asked for what."
    )


def describe_attack(attacked: "Attack", k: int) -> Paragraphs:
    """Say how snapshot policies fail, with one sender as the example."""
    yield _heading(2, "The usual protection, and how it fails")
    yield (
        f"Names are replaced by pseudonyms, and each request is published with an area that "
        f"held at least {k:,} people at that minute. Then somebody comes who knows where people "
        f"were: a phone company, an app, a friend."
    )
    breach = attacked.breach
    if breach is None:
        yield "In this log nobody is found in this way: it is too small, or requests are too few."
        return
    yield ""
    yield "One pseudonym, and who fits its requests:"
    steps = Table.grid(padding=(0, 2))
    for step in breach.steps:
        steps.add_row(
            f"  minute {step.instant}",
            f"[dim]the area held[/] {step.fitting:,} people",
            f"[dim]fit so far:[/] [bold]{step.left:,}",
        )
    yield steps
    left = breach.steps[-1].left
    verdict = "One person is left: found." if left == 1 else f"{left} are left, fewer than {k}."
    yield Text(verdict, style="bold red")


def describe_release(release: "RunResult", path: Path, seconds: float) -> Paragraphs:
    """Say what was published instead."""
    manifest, figures = release.manifest, release.figures
    yield _heading(3, "Bundles instead")
    yield (
        f"People who moved alike [bold]all the time[/] are put into bundles of at least "
        f"{manifest['k']:,}. A bundle has one area per minute and the set of requests that were "
        f"sent there: no names, no pseudonyms, no places. A request that only one bundle would "
        f"show is withheld: somebody might know who asks for such a thing."
    )
    yield facts_table(
        f"Release: {path}",
        [
            ("people", f"{manifest['users']:,}"),
            ("bundles", f"{manifest['bundles']:,}"),
            ("smallest bundle", f"{manifest['smallest_bundle']:,} people"),
            ("requests", f"{manifest['requests']:,} (distinct per bundle and minute)"),
            (
                "withheld",
                f"{sum(figures['withheld'].values()):,} requests, "
                f"{manifest['withheld']['users']:,} people",
            ),
            ("made in", f"{seconds:.1f} s ({manifest['algorithm']})"),
        ],
    )


def compare_attackers(attacked: "Attack", manifest: Mapping[str, Any]) -> Paragraphs:
    """Compare what attackers find in snapshots and in bundles."""
    yield _heading(4, "The same attack on both")
    policies = list(dict.fromkeys(finding.policy for finding in attacked.findings))
    table = ValueTable(
        "Requests whose sender is found for certain",
        "the attacker knows",
        ["bundles" if policy == manifest["algorithm"] else policy for policy in policies],
        caption="k-inside, bulk-dp: two ways to choose an area for each minute",
    )
    for attacker, knowledge in KNOWLEDGE.items():
        found = [finding for finding in attacked.findings if finding.attacker == attacker]
        table.add_row(
            knowledge,
            *(
                f"[{'bold red' if finding.identified else 'green'}]"
                f"{finding.identified / max(finding.requests, 1):.1%}"
                for finding in found
            ),
        )
    yield table
    if not manifest["requests"]:
        yield (
            "No request is published in bundles: there is only one, and what a single bundle shows "
            "is withheld."
        )
        return
    ours = [finding for finding in attacked.findings if finding.policy == manifest["algorithm"]]
    least = min(finding.smallest_candidate_set for finding in ours)
    yield (
        f"In bundles every request keeps at least [bold green]{least:,} suspects[/], "
        f"whoever attacks."
    )


def describe_accuracy(manifest: Mapping[str, Any], utility: "Sequence[Utility]") -> Paragraphs:
    """Say how coarse the areas are, and how large the errors of answers."""
    yield _heading(5, "The price")
    unit = Unit(in_metres=True)
    yield (
        f"Areas are coarse: {unit.square(manifest['mean_cloak_area'])} in the mean, in a city of "
        f"{unit.square(manifest['region']['side'] ** 2)}. "
        f"Many people together can still be counted:"
    )
    table = ValueTable(
        "Error of the answers, against the log (half of them are better)",
        "question",
        ("error", "within bounds", "withheld"),
        caption="withheld: people whom a question is about, and whom the release leaves out",
    )
    for answered in utility:
        table.add_row(
            QUESTIONS[answered.question],
            f"{answered.median_error:.0%}",
            f"[{'green' if answered.within == 1 else 'bold red'}]{answered.within:.0%}",
            f"{answered.withheld:.0%}",
        )
    yield table


def describe_audit(report: "AuditReport") -> Paragraphs:
    """Say whether the audit passed; show all checks if it failed."""
    yield _heading(6, "An audit")
    yield (
        "The audit computes with code of its own what must have been published, compares it byte "
        "for byte with the files, and runs the algorithm again. Is everybody in one bundle, inside "
        "all its areas, among enough people? Were exactly these requests sent? Is nothing else in "
        "the files?"
    )
    if report.passed:
        yield f"[bold green]{report.verdict}[/]"
    else:
        yield from describe_checks(report)


def list_written_files(paths: Mapping[str, Path]) -> Paragraphs:
    """List the files, and which of them may be published."""
    yield Text("Where the files are", style="bold")
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    for what, (_, access, meaning) in FILES.items():
        style = "green" if access == "public" else "red"
        table.add_row(f"  {to_markup(str(paths[what]))}", f"[{style}]{access}", meaning)
    yield table


def explain_guarantee(manifest: Mapping[str, Any]) -> Paragraphs:
    """Say in plain words what was hidden, and from whom."""
    yield Text("What was hidden, and from whom", style="bold")
    yield (
        f"Somebody who knows where every one of the {manifest['users']:,} people was at every "
        f"minute, who knows this program and all its settings, and who has all the computers of "
        f"the world, still cannot tell who sent a request: for each published request at least "
        f"{manifest['k']:,} people fit equally well. A reader of the release does learn what "
        f"was asked for, in which area, and along which way."
    )


def list_same_commands(
    users: int, length: int, k: int, seed: int, columns: LogColumns
) -> Paragraphs:
    """Show how to do the same step by step."""
    requests = " ".join(f"--request {name}" for name in columns.requests)
    yield Text("The same by hand:", style="bold")
    for line in (
        f"trajcloak generate -o log.parquet --users {users} --length {length} --seed {seed}",
        f"trajcloak anonymize log.parquet -o release --k {k} \\",
        f"    {requests} --policy policy.parquet",
        "trajcloak audit log.parquet release --replay \\",
        f"    {requests} --policy policy.parquet",
        f"trajcloak attack log.parquet --k {k} --algorithms refined \\",
        f"    {requests} --example",
        "trajcloak utility log.parquet release --policy policy.parquet",
        "trajcloak report release -o report.html --network city --replay \\",
        f"    {requests} --log log.parquet \\",
        "    --policy policy.parquet",
    ):
        yield Text(f"  {line}")


def _heading(number: int, title: str) -> Text:
    return Text(f"{number}. {title}", style="bold magenta")
