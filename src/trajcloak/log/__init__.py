"""Files to a :class:`RequestLog`: every row checked, columns kept as arrays."""

from trajcloak.log.clean import sort_rows
from trajcloak.log.files import LogPath
from trajcloak.log.read import read_log
from trajcloak.log.request_log import RequestLog, SomeRows
from trajcloak.log.requests import Requests
from trajcloak.log.summary import AnyLog, LogSummary

__all__ = [
    "AnyLog",
    "LogPath",
    "LogSummary",
    "RequestLog",
    "Requests",
    "SomeRows",
    "read_log",
    "sort_rows",
]
