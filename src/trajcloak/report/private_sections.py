"""The private sections of the page: the audit, and what each attacker learns."""

from trajcloak.attackers import ATTACKERS, Attack, Breach, Finding
from trajcloak.auditor import AuditReport
from trajcloak.report.charts import Bar, draw_shares
from trajcloak.report.markup import Child, Element, Rows, details, element, section, table
from trajcloak.report.sections import mark
from trajcloak.report.words import count, show_share

KNOWS = {
    "policy-unaware": "knows where everybody was",
    "policy-aware": "also knows the software and its settings",
    "trajectory-aware": "links the requests of one sender over time",
    "tp-aware": "knows all of this: the one that the guarantee is about",
}
"""What each attacker knows, in a few words."""

MEANINGS = {
    "release folder": "three files, and nothing else",
    "manifest": "readable, every field of the right form",
    "bundles file": "columns, types and metadata as documented",
    "requests file": "columns, types and metadata as documented",
    "policy file": "columns and types as documented",
    "policy private": "outside the release, readable by its owner only",
    "parameters": "settings that fit the log and its instants",
    "region": "holds every report",
    "bundle rows": "one row for each bundle and instant",
    "bundle order": "numbered by their cloaks, so that numbers name nobody",
    "instants": "times of the instants as the settings say",
    "cloaks": "rectangles of whole cells inside the region",
    "geometry": "shapes equal to the cloaks",
    "windows": "cut as the settings say, none linked to another",
    "one bundle per user": "everybody who takes part is in exactly one bundle of a window",
    "at least k users": "the members of every bundle, counted",
    "locations": "every location inside its bundle's cloak",
    "request rows": "sorted, each once",
    "requests": "exactly those that the members sent",
    "rare values": "treated as the settings say",
    "counts": "as the manifest says",
    "costs": "as the manifest says",
    "withheld": "left out exactly those who had to be",
    "ingest": "the manifest's report on the log, recounted",
    "user ids": "no id of a user anywhere in the release",
}
"""What each check of the audit asks for."""

POLICIES = {
    "k-inside": "Snapshots, k-inside",
    "bulk-dp": "Snapshots, bulk-dp",
}
"""Policies that hide each instant on its own."""


def build_audit(report: AuditReport) -> Element:
    """Show every check of the audit."""
    failed = sum(not check.passed for check in report.checks)
    verdict = (
        f"{failed} of {len(report.checks)} checks failed. Do not publish this release."
        if failed
        else f"All {len(report.checks)} checks hold."
    )
    rows: Rows = (
        [check.name, mark(check.passed), check.detail, MEANINGS.get(check.name, "")]
        for check in report.checks
    )
    return section(
        "audit",
        "Audit against the log",
        element(
            "p",
            element("strong", verdict),
            " The audit reads log, release and policy file, and shares no code with what made "
            "them.",
        ),
        table(["check", "result", "finding", "what it asks for"], rows, class_="checks"),
    )


def build_attack(attack: Attack | None, k: int) -> Element:
    """Show what each attacker learns from this release, and from policies without bundles."""
    if attack is None:
        return section("attack", "What each attacker learns", element("p", _NOT_RUN))
    by_policy: dict[str, list[Finding]] = {}
    for finding in attack.findings:
        by_policy.setdefault(finding.policy, []).append(finding)
    charts = [
        draw_shares(
            POLICIES.get(policy, f"This release ({policy})"),
            [_draw_finding(finding) for finding in findings],
        )
        for policy, findings in by_policy.items()
    ]
    rows = [
        [
            POLICIES.get(f.policy, f"This release ({f.policy})"),
            f.attacker,
            f"{f.requests:,}",
            f"{f.breaches:,}",
            f"{f.identified:,}",
            f"{f.smallest_candidate_set:,}",
        ]
        for f in attack.findings
    ]
    head = ["policy", "attacker", "requests", "fewer than k", "identified", "smallest set"]
    return section(
        "attack",
        "What each attacker learns",
        element(
            "p",
            f"Each attacker narrows down who can have sent a request. Red: the share of requests "
            f"for which fewer than k = {k:,} candidates are left. The first two policies hide each "
            f"instant on its own, as services commonly do; the last is this release as published.",
        ),
        element(
            "dl",
            *(
                element("div", element("dt", name), element("dd", KNOWS[name]))
                for name in ATTACKERS
            ),
            class_="knows",
        ),
        element("div", *charts, class_="charts attack"),
        _tell_breach(attack.breach),
        details("Data as a table", table(head, rows, class_="numeric")),
    )


_NOT_RUN = (
    "Not run: it was left out when this page was made, or the audit failed, so that log, release "
    "and policy file may not belong together."
)


def _draw_finding(finding: Finding) -> Bar:
    share = finding.breaches / max(finding.requests, 1)
    known = finding.identified / max(finding.requests, 1)
    note = f"fewest candidates: {finding.smallest_candidate_set:,}"
    if known:
        note += f"; {show_share(known)} identified"
    return Bar(finding.attacker, share, show_share(share) if share else "none", note)


def _tell_breach(breach: Breach | None) -> Child:
    if breach is None:
        return None
    steps = [
        element(
            "li",
            f"Instant {step.instant}: the published area fits {count(step.fitting, 'user')}; "
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
