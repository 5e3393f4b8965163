"""Publish location-request logs without giving their senders away.

::

    import trajcloak as tc

    columns = tc.LogColumns(requests=("category",))
    release = tc.anonymize("log.parquet", k=50, columns=columns)
    release.write("release", policy="policy.parquet")
    report = tc.audit("log.parquet", "release", "policy.parquet", columns)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trajcloak.version import __version__

if TYPE_CHECKING:
    from trajcloak.attackers import Attack, attack
    from trajcloak.auditor import AuditReport, audit, audit_foreign
    from trajcloak.comparison import Comparison, compare
    from trajcloak.errors import (
        InputError,
        NotEnoughUsersError,
        OptionError,
        OutputError,
        TrajcloakError,
    )
    from trajcloak.generator import generate_log
    from trajcloak.inspection import Inspection, inspect_log
    from trajcloak.log import RequestLog, read_log
    from trajcloak.movement import convert_log
    from trajcloak.options import LogColumns, Options
    from trajcloak.pipeline import anonymize
    from trajcloak.plan import Plan, plan_log
    from trajcloak.query import Answer, PublishedRelease, build_route, open_release
    from trajcloak.release.reading import read_manifest
    from trajcloak.release.result import Release
    from trajcloak.report import Report, write_report
    from trajcloak.utility import Utility, measure_utility

__all__ = [
    "Answer",
    "Attack",
    "AuditReport",
    "Comparison",
    "InputError",
    "Inspection",
    "LogColumns",
    "NotEnoughUsersError",
    "OptionError",
    "Options",
    "OutputError",
    "Plan",
    "PublishedRelease",
    "Release",
    "Report",
    "RequestLog",
    "TrajcloakError",
    "Utility",
    "__version__",
    "anonymize",
    "attack",
    "audit",
    "audit_foreign",
    "build_route",
    "compare",
    "convert_log",
    "generate_log",
    "inspect_log",
    "measure_utility",
    "open_release",
    "plan_log",
    "read_log",
    "read_manifest",
    "write_report",
]

_HOMES = {
    "trajcloak.attackers": ("Attack", "attack"),
    "trajcloak.comparison": ("Comparison", "compare"),
    "trajcloak.auditor": ("AuditReport", "audit", "audit_foreign"),
    "trajcloak.errors": (
        "InputError",
        "NotEnoughUsersError",
        "OptionError",
        "OutputError",
        "TrajcloakError",
    ),
    "trajcloak.generator": ("generate_log",),
    "trajcloak.inspection": ("Inspection", "inspect_log"),
    "trajcloak.log": ("RequestLog", "read_log"),
    "trajcloak.movement": ("convert_log",),
    "trajcloak.options": ("LogColumns", "Options"),
    "trajcloak.pipeline": ("anonymize",),
    "trajcloak.plan": ("Plan", "plan_log"),
    "trajcloak.release.reading": ("read_manifest",),
    "trajcloak.query": ("Answer", "PublishedRelease", "build_route", "open_release"),
    "trajcloak.release.result": ("Release",),
    "trajcloak.report": ("Report", "write_report"),
    "trajcloak.utility": ("Utility", "measure_utility"),
}


def __getattr__(name: str) -> Any:
    """Import a public name from its home when it is first asked for.

    The command line answers ``--help`` without loading compilers and readers.
    """
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'trajcloak' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
