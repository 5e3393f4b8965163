"""Publish location-request logs without giving their senders away."""

__version__ = "0.1.0"

from trajcloak.log import RequestLog, read_log
from trajcloak.options import LogColumns
from trajcloak.pipeline import Options, Result, anonymize
from trajcloak.release import Release

__all__ = [
    "LogColumns",
    "Options",
    "Release",
    "RequestLog",
    "Result",
    "__version__",
    "anonymize",
    "read_log",
]
