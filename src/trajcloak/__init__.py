"""Publish location-request logs without giving their senders away.

::

    import trajcloak as tc

    release = tc.anonymize(frame, k=50, user="device", requests=["category"], every="60s")
    release.plot()
    release.count((0, 0, 5000, 5000)).to_pandas()
    release.save("release", policy="policy.parquet")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trajcloak.version import __version__

if TYPE_CHECKING:
    from trajcloak.algorithms.group_algorithm import CustomAlgorithm
    from trajcloak.algorithms.refined import Refined
    from trajcloak.algorithms.traj_anon import TrajAnon
    from trajcloak.auditor import AuditReport, Check
    from trajcloak.errors import (
        InputError,
        NotEnoughUsersError,
        OptionError,
        OutputError,
        RefusedLogError,
        TrajcloakError,
        TrajcloakWarning,
    )
    from trajcloak.generator import GeneratedLog, generate_log
    from trajcloak.inspection import Inspection, Suspect
    from trajcloak.interface.anonymizing import anonymize
    from trajcloak.interface.audits import audit, audit_foreign, write_report
    from trajcloak.interface.logs import Log, read_log
    from trajcloak.interface.releases import Release, open_release
    from trajcloak.interface.studies import (
        attack,
        compare,
        inspect_log,
        measure_utility,
        plan_log,
    )
    from trajcloak.kept_counts import Choice
    from trajcloak.movement import ConvertedLog, convert_log
    from trajcloak.online import OnlineAnonymizer, OnlineOptions, PublishedInstant
    from trajcloak.report import Report
    from trajcloak.space import Region
    from trajcloak.trajectories import Ingest, Located
    from trajcloak.trajectories.schedule import Schedule

__all__ = [
    "AuditReport",
    "Check",
    "Choice",
    "ConvertedLog",
    "CustomAlgorithm",
    "GeneratedLog",
    "Ingest",
    "InputError",
    "Inspection",
    "Located",
    "Log",
    "NotEnoughUsersError",
    "OnlineAnonymizer",
    "OnlineOptions",
    "OptionError",
    "OutputError",
    "PublishedInstant",
    "Refined",
    "RefusedLogError",
    "Region",
    "Release",
    "Report",
    "Schedule",
    "Suspect",
    "TrajAnon",
    "TrajcloakError",
    "TrajcloakWarning",
    "__version__",
    "anonymize",
    "attack",
    "audit",
    "audit_foreign",
    "compare",
    "convert_log",
    "generate_log",
    "inspect_log",
    "measure_utility",
    "open_release",
    "plan_log",
    "read_log",
    "write_report",
]

_HOMES = {
    "trajcloak.algorithms.group_algorithm": ("CustomAlgorithm",),
    "trajcloak.algorithms.refined": ("Refined",),
    "trajcloak.algorithms.traj_anon": ("TrajAnon",),
    "trajcloak.auditor": ("AuditReport", "Check"),
    "trajcloak.errors": (
        "InputError",
        "NotEnoughUsersError",
        "OptionError",
        "OutputError",
        "RefusedLogError",
        "TrajcloakError",
        "TrajcloakWarning",
    ),
    "trajcloak.generator": ("GeneratedLog", "generate_log"),
    "trajcloak.inspection": ("Inspection", "Suspect"),
    "trajcloak.interface.anonymizing": ("anonymize",),
    "trajcloak.interface.audits": ("audit", "audit_foreign", "write_report"),
    "trajcloak.interface.logs": ("Log", "read_log"),
    "trajcloak.interface.releases": ("Release", "open_release"),
    "trajcloak.interface.studies": (
        "attack",
        "compare",
        "inspect_log",
        "measure_utility",
        "plan_log",
    ),
    "trajcloak.kept_counts": ("Choice",),
    "trajcloak.movement": ("ConvertedLog", "convert_log"),
    "trajcloak.online": ("OnlineAnonymizer", "OnlineOptions", "PublishedInstant"),
    "trajcloak.report": ("Report",),
    "trajcloak.space": ("Region",),
    "trajcloak.trajectories": ("Ingest", "Located"),
    "trajcloak.trajectories.schedule": ("Schedule",),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that ``--help`` loads no compilers."""
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'trajcloak' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
