"""What an audit found: one line for each check, always in the same order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

CHECKS = {
    "release folder": "The release has its three files, and nothing else.",
    "manifest": "The manifest can be read, and has settings that a release can have.",
    "log": "The log can be read as the settings say; all its places are inside the region.",
    "policy": "The policy file is outside the release; only its owner can read it; it names users "
    "of the log.",
    "one bundle per user": "Everybody who takes part is in exactly one bundle of each window.",
    "at least k users": "Every bundle has at least k members.",
    "cloaks": "Every member is inside the area of the bundle at every instant. The numbers of "
    "bundles tell nothing about people.",
    "possible senders": "At least k members can have sent each published request.",
    "bundles": "The published areas are exactly those that follow from log and policy file.",
    "requests": "The published requests are exactly those that were sent, less those that the "
    "rules withhold.",
    "figures": "Every number of the manifest, computed again, is the same.",
    "bytes": "The files hold nothing else, not even where readers do not look.",
    "replay": "The algorithm, run again, makes the same groups: no request has chosen them.",
}
"""What each check asks for, in the order of the report; ``replay`` only where it was asked for."""

SHOWN = 3
"""Numbers that are listed of many."""

NOT_RUN = "not run: it needs what a failed check above could not supply"


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes
    ----------
    name
        One of :data:`CHECKS`, or of those of a foreign table.
    passed
        Whether every item keeps the rule; false for a check that could not be run.
    checked
        How many items (rows, users, bundles, ...) were looked at.
    detail
        What was looked at or what is wrong: row numbers, bundle ids and counts,
        never user ids or coordinates (invariant 6 of ``docs/guarantee.md``).
    """

    name: str
    passed: bool
    checked: int
    detail: str


@dataclass(frozen=True, repr=False)
class AuditReport:
    """The outcome of an audit.

    Attributes
    ----------
    k
        The ``k`` that the release claims; None if its manifest cannot be read.
    checks
        One for each of :data:`CHECKS`, or of those of a foreign table, in that order.
    attacker
        The strongest attackers that the release is safe from; None if that is not known.
    notes
        What the verdict leaves open, in sentences.
    """

    k: int | None
    checks: tuple[Check, ...]
    attacker: str | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"AuditReport({self.verdict})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{'passed' if check.passed else 'failed'}</td><td>{escape(check.name)}</td>"
            f"<td>{escape(check.detail)}</td></tr>"
            for check in self.checks
        )
        return f"<table><caption>{escape(self.verdict)}</caption>{rows}</table>"

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def verdict(self) -> str:
        """The outcome in a sentence."""
        failed = sum(not check.passed for check in self.checks)
        promise = (
            f"at least {self.k} possible senders for every request, against the {self.attacker} "
            f"attacker"
        )
        if failed:
            unproven = "" if self.attacker is None else f"Not proven: {promise}. "
            return (
                f"Breach: {failed} of {len(self.checks)} checks failed. {unproven}"
                f"Do not publish this release."
            )
        if self.attacker is None:
            return f"Passed: all {len(self.checks)} checks hold."
        return f"Passed: {promise}."

    def __getitem__(self, name: str) -> Check:
        """Find a check by its name."""
        return next(check for check in self.checks if check.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain dicts and lists, for JSON."""
        return {
            "passed": self.passed,
            "verdict": self.verdict,
            "k": self.k,
            "attacker": self.attacker,
            "notes": list(self.notes),
            "checks": [
                {
                    "check": check.name,
                    "passed": check.passed,
                    "checked": check.checked,
                    "detail": check.detail,
                }
                for check in self.checks
            ],
        }


@dataclass
class Findings:
    """Collects the outcomes; what is never recorded counts as failed."""

    names: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    _recorded: dict[str, Check] = field(default_factory=dict)

    def record(self, name: str, checked: int, problems: Sequence[str], what: str) -> None:
        """Record a check of the items that ``what`` names; passed if there are no problems."""
        assert name in self.names
        assert name not in self._recorded
        detail = "; ".join(problems) if problems else f"{what}: {checked:,}"
        self._recorded[name] = Check(name, not problems, checked, detail)

    @property
    def passed(self) -> bool:
        """Whether all checks passed that were recorded so far."""
        return all(check.passed for check in self._recorded.values())

    def report(self, k: int | None, attacker: str | None = None) -> AuditReport:
        """List all checks, with those that could not be run."""
        checks = (self._recorded.get(name, Check(name, False, 0, NOT_RUN)) for name in self.names)
        return AuditReport(k, tuple(checks), attacker, tuple(self.notes))


def first_few(numbers: Sequence[int] | Any) -> str:
    """List the first few of many numbers: ``4, 7, 9, ...``."""
    listed = ", ".join(str(int(number)) for number in numbers[:SHOWN])
    return listed + (", ..." if len(numbers) > SHOWN else "")


def find_rows(wrong: Any, what: str) -> list[str]:
    """Say what is wrong in which rows, as a list of one problem, or of none if no row is wrong."""
    rows = np.flatnonzero(wrong)
    return [f"{what} in {first_rows(rows)}"] if len(rows) else []


def first_rows(rows: Any) -> str:
    """Name rows, given from 0, by their numbers from 1: ``3 rows (4, 7, 9)``."""
    plural = "row" if len(rows) == 1 else "rows"
    return f"{len(rows):,} {plural} ({first_few(rows + 1)})"
