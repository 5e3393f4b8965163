"""``trajcloak attack``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import GroupedCommand, option
from trajcloak.cli.printing import ValueTable, out, print_json, progress_bars
from trajcloak.options import ALGORITHMS, LogColumns

if TYPE_CHECKING:
    from trajcloak.attackers import Attack, Breach


@click.command("attack", cls=GroupedCommand)
@shared.log_argument
@shared.k_option
@shared.algorithms_option(
    "traj-anon", f"Bundles to attack, separated by commas: {', '.join(ALGORITHMS)}."
)
@shared.log_options
@shared.time_options
@shared.height_option
@shared.request_options
@shared.seed_option
@shared.threads_option
@option("--example", is_flag=True, help="Walk through one breach, step by step.")
@shared.json_option
def command(
    log: list[Path],
    k: int,
    columns: LogColumns,
    request_log: Path | None,
    threads: int | None,
    example: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Attack snapshot policies and bundles of LOG, as each class of attacker would.

    The attack is on what each policy would publish. Without --request, every row counts as a
    request.
    """
    from trajcloak.attackers import attack_policies
    from trajcloak.log import read_in_memory

    options = {name: value for name, value in options.items() if value is not None}
    with progress_bars(hidden=as_json) as progress:
        read = read_in_memory(log, columns, request_log, threads=threads, progress=progress)
        found = attack_policies(read, k, threads=threads, progress=progress, **options)
    if as_json:
        print_json({"results": [asdict(finding) for finding in found.findings]})
        return
    print_findings(found, k)
    if example:
        print_breach(found.breach, k)


def print_findings(found: "Attack", k: int) -> None:
    """Show what each attacker learns."""
    table = ValueTable(
        f"What attackers learn (k = {k})",
        "attacker",
        ("requests", "breaches", "smallest", "identified"),
        caption="smallest: the smallest candidate set; identified: requests with one candidate",
    )
    last = None
    for finding in found.findings:
        if finding.policy != last:
            table.add_group(f"policy: {finding.policy}")
        share = finding.identified / max(finding.requests, 1)
        style = "red" if finding.breaches else "green"
        table.add_row(
            finding.attacker,
            f"{finding.requests:,}",
            f"[{style}]{finding.breaches:,}",
            f"{finding.smallest_candidate_set:,}",
            f"{share:.1%}",
        )
        last = finding.policy
    out.print(table)


def print_breach(breach: "Breach | None", k: int) -> None:
    """Show how one sender is found."""
    if breach is None:
        out.print("No request of these policies has fewer than k candidates: nothing to show.")
        return
    out.print(
        f"\n[bold]One breach, step by step.[/] Policy {breach.policy}, attacker "
        f"{breach.attacker}. One sender's requests carry one pseudonym. The attacker knows where "
        f"everybody was, and the policy.\n"
    )
    for step in breach.steps:
        out.print(
            f"  instant {step.instant}: the cloak fits {step.fitting:,} users; "
            f"{step.left:,} of them fit all requests so far"
        )
    last = breach.steps[-1].left
    verdict = "The sender is identified." if last == 1 else f"{last} suspects are fewer than {k}."
    out.print(f"\n[bold red]{verdict}[/]")
    out.print(
        f"In bundles of {breach.bundle_algorithm} the same requests have "
        f"{breach.bundle_candidates:,} possible senders each.\n"
    )
