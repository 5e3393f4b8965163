"""Read files into a log in shards: every row is checked, columns are kept as arrays."""

from trajcloak.log.bad_rows import FileRows, SomeRows
from trajcloak.log.clean import sort_rows
from trajcloak.log.file_columns import LogPath
from trajcloak.log.read import read_all_rows, read_in_memory, read_shards
from trajcloak.log.sharded_log import (
    Bounds,
    Change,
    LogFacts,
    RequestLog,
    ShardedLog,
    hold_in_memory,
)

__all__ = [
    "Bounds",
    "Change",
    "FileRows",
    "LogFacts",
    "LogPath",
    "RequestLog",
    "ShardedLog",
    "SomeRows",
    "hold_in_memory",
    "read_all_rows",
    "read_in_memory",
    "read_shards",
    "sort_rows",
]
