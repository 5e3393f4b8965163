"""The private part of a report: what only the holder of log and policy file can find out."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from trajcloak.attackers import ATTACKERS, Attack, Breach, Finding, attack_release
from trajcloak.auditor import CHECKS, AuditReport, audit_files
from trajcloak.kernels.threads import choose_threads
from trajcloak.log import LogPath, read_in_memory
from trajcloak.log.files import list_files
from trajcloak.options import LogColumns
from trajcloak.progress import Progress
from trajcloak.quantities import show_count, show_k, show_share
from trajcloak.query import PublishedRelease
from trajcloak.release.manifest import REASONS
from trajcloak.release.manifest_schema import Manifest
from trajcloak.release.reading import name_private_files
from trajcloak.replay import recount_requests
from trajcloak.report.charts import Bar, draw_shares
from trajcloak.report.figures import PublicCheck, digest_files
from trajcloak.report.html_elements import (
    Child,
    Element,
    TableRows,
    details,
    element,
    facts,
    mark_options,
    section,
    table,
)
from trajcloak.report.sections import list_checks

KNOWS = {
    "policy-unaware": "knows where everybody was",
    "policy-aware": "also knows the software and its settings",
    "trajectory-aware": "links the requests of one sender over time",
    "tp-aware": "knows all of this: the guarantee is about this one, if there are two inputs",
    "report-aware": "also knows who has a row when: the guarantee is about this one, in one log",
    "linking": "also takes equal requests, in all windows, for those of one sender",
}
"""What each attacker knows, in a few words."""

POLICIES = {"k-inside": "Snapshots, k-inside", "bulk-dp": "Snapshots, bulk-dp"}
"""Policies that hide each instant on its own."""


@dataclass(frozen=True)
class PrivateFindings:
    """What audit and attack found; after a failed audit there is but that."""

    audit: AuditReport
    attack: Attack | None
    sent: dict[str, Any] | None  # As :attr:`trajcloak.Release.figures`.
    digests: dict[str, str]  # SHA-256 of the log and of the policy files.


def audit_and_attack(
    release: PublishedRelease,
    log: LogPath,
    policy: Path,
    columns: LogColumns,
    *,
    request_log: LogPath | None = None,
    vocabulary: Mapping[str, Sequence[Any]] | None = None,
    replay: bool,
    with_attack: bool,
    threads: int | None,
    progress: Progress,
) -> PrivateFindings:
    """Audit a release against its log; if the audit passed, count its requests and attack it."""
    report = audit_files(
        log,
        release.path,
        policy,
        columns,
        request_log=request_log,
        vocabulary=vocabulary,
        replay=replay,
        progress=progress,
    )
    parts = release.manifest["parts"]
    digests = _digest_private(
        [log] if request_log is None else [log, request_log],
        name_private_files(policy, None if parts is None else parts["per"]),
    )
    # Attacks and counts of requests are about windows in which nobody leaves.
    is_stream = "stream" in release.manifest["parameters"]
    if is_stream or not (report.passed and (with_attack or release.attributes)):
        return PrivateFindings(report, None, None, digests)
    columns = columns.complete(release.manifest["parameters"])
    read = read_in_memory(log, columns, request_log, threads=threads, progress=progress)
    found = None
    if with_attack:
        found = attack_release(read, release, policy, threads=threads, progress=progress)
    sent = None
    if release.attributes:
        sent = recount_requests(
            read, release, policy, vocabulary, threads=choose_threads(threads), progress=progress
        )
    return PrivateFindings(report, found, sent, digests)


def _digest_private(logs: Sequence[LogPath], policies: Sequence[Path]) -> dict[str, str]:
    """Compute the SHA-256 of the log and of each policy file.

    For a log of several files it is the SHA-256 of the list of theirs, one per line, as
    ``sha256sum FILES | cut -c 1-64`` prints it.
    """
    files = [Path(file) for log in logs for file in list_files(log)]
    digests = digest_files(files)
    name, whole = f"log: {files[0].name}", digests[0]
    if len(files) > 1:
        name = f"log: list of the SHA-256 of its {len(files):,} files"
        whole = hashlib.sha256("".join(f"{digest}\n" for digest in digests).encode()).hexdigest()
    # An audit may have found that one is missing.
    there = [file for file in policies if file.is_file()]
    named = zip(there, digest_files(there), strict=True)
    return {name: whole, **{f"policy file: {file.name}": digest for file, digest in named}}


def build_private_sections(found: PrivateFindings, manifest: Manifest) -> list[Element]:
    """Show the audit, what attackers learn, and what became of the requests."""
    return [
        _build_audit_section(found.audit),
        _build_attack_section(found, manifest),
        _build_sent_section(found, manifest),
    ]


def _build_audit_section(report: AuditReport) -> Element:
    """Show every check of the audit."""
    checks = [PublicCheck(c.name, c.passed, c.detail, CHECKS[c.name]) for c in report.checks]
    return section(
        "audit",
        "Audit against the log",
        element(
            "p",
            element("strong", report.verdict),
            " The audit computes from log and policy file, with code of its own, what must have "
            "been published, and compares it with the release byte for byte. ",
            " ".join(report.notes),
        ),
        list_checks(checks),
    )


def _build_attack_section(private: PrivateFindings, manifest: Manifest) -> Element:
    """Show what each attacker learns from this release, and from policies without bundles."""
    attack, k = private.attack, manifest["k"]
    if attack is None:
        otherwise = "it was left out when this page was made"
        words = _explain_absence(private, manifest, "Not run", otherwise)
        return section("attack", "What each attacker learns", element("p", words))

    def name_policy(finding: Finding) -> str:
        return POLICIES.get(finding.policy, f"This release ({finding.policy})")

    charts = [
        draw_shares(name, [_draw_finding(finding) for finding in findings])
        for name, findings in groupby(attack.findings, name_policy)
    ]
    rows: list[list[Child]] = []
    for f in attack.findings:
        numbers = f.requests, f.breaches, f.identified, f.smallest_candidate_set
        rows.append([name_policy(f), f.attacker, *(f"{number:,}" for number in numbers)])
    head = ["policy", "attacker", "requests", "fewer than k", "identified", "smallest set"]
    return section(
        "attack",
        "What each attacker learns",
        element(
            "p",
            *mark_options(
                f"Each attacker narrows down who can have sent a request. Red: the share of "
                f"requests for which fewer than {show_k(k)} candidates are left. The first two "
                f"policies hide each instant on its own, as services commonly do; the last is this "
                f"release as published. Linking attackers take equal requests for those of one "
                f"sender, whether they are or not; --link-safe withholds what would leave them "
                f"fewer than k."
            ),
        ),
        facts(((name, KNOWS[name]) for name in ATTACKERS), class_="knows"),
        element("div", *charts, class_="charts attack"),
        _describe_breach(attack.breach),
        details("Data as a table", table(head, rows, class_="numeric wide")),
    )


def _explain_absence(
    private: PrivateFindings, manifest: Manifest, what: str, otherwise: str
) -> str:
    """Say why something was not found out; ``otherwise`` is the reason if there is no other."""
    reason = otherwise
    if "stream" in manifest["parameters"]:
        reason = "this is not available for releases of streams, whose members may leave"
    elif not private.audit.passed:
        reason = "the audit failed, so that log, release and policy file may not belong together"
    return f"{what}: {reason}."


def _draw_finding(finding: Finding) -> Bar:
    share = finding.breaches / max(finding.requests, 1)
    known = finding.identified / max(finding.requests, 1)
    note = f"fewest candidates: {finding.smallest_candidate_set:,}"
    if known:
        note += f"; {show_share(known)} identified"
    return Bar(finding.attacker, share, show_share(share) if share else "none", note)


def _describe_breach(breach: Breach | None) -> Child:
    if breach is None:
        return None
    steps = [
        element(
            "li",
            f"Instant {step.instant}: the published area fits {show_count(step.fitting, 'user')}; "
            f"{step.left:,} of them fit{'s' if step.left == 1 else ''} all requests so far.",
        )
        for step in breach.steps
    ]
    return element(
        "div",
        element("h3", "How one sender would be found"),
        element(
            "p",
            f"Were the same log published by {breach.policy}, one sender's requests, linked by "
            f"their pseudonym, would leave:",
        ),
        element("ol", *steps),
        element(
            "p",
            f"In this release the same requests have {breach.bundle_candidates:,} possible senders "
            f"each.",
        ),
        class_="breach",
    )


def _build_sent_section(private: PrivateFindings, manifest: Manifest) -> Element:
    """Show what became of the requests of the log, or why they were not counted."""
    title, sent = "What became of the requests", private.sent
    if sent is None:
        otherwise = "the release has no request attribute"
        words = _explain_absence(private, manifest, "Not counted", otherwise)
        return section("sent", title, element("p", words))
    below = manifest["parameters"]["rare_below"]
    counted = [
        ("in the log", sent["requests"]),
        ("published, distinct in their bundle and instant", sent["published"]),
        ("equal to another one of their bundle and instant", sent["equal"]),
        *((f"withheld: {REASONS[reason]}", number) for reason, number in sent["withheld"].items()),
        ("published with a rare value replaced", sent["replaced"]),
        (
            f"published though fewer than {below:,} bundles of their window show them",
            sent["kept_rare"],
        ),
    ]
    rows: TableRows = [
        [what, f"{number:,}", show_share(number / max(sent["requests"], 1))]
        for what, number in counted
        if number
    ]
    return section(
        "sent",
        title,
        element(
            "p",
            "Counted in the log when this page was made. The release says nothing of this, for it "
            "depends on who sent what.",
        ),
        table(["requests", "number", "share"], rows, class_="numeric"),
    )
