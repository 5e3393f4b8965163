"""Turn a log into dense trajectories: instants, windows, gaps.

The rules are in ``docs/data-model.md``, "From rows to trajectories".
"""

from trajcloak.trajectories.grid import (
    Ranges,
    TimeGrid,
    build_time_grid,
    cut_windows,
    format_duration,
    parse_duration,
)
from trajcloak.trajectories.ingest import (
    Ingest,
    Located,
    build_ingest,
    format_moment,
    is_dense,
)
from trajcloak.trajectories.layout import (
    CheckedLog,
    Layout,
    change_times,
    check_log,
    check_rows,
    lay_out,
    too_few_users,
)
from trajcloak.trajectories.reports import Reports, check_conflicts, compare_all_reports
from trajcloak.trajectories.windows import NOWHERE, Window, WindowCutter, join_marks

__all__ = [
    "NOWHERE",
    "CheckedLog",
    "Ingest",
    "Layout",
    "Located",
    "Ranges",
    "Reports",
    "TimeGrid",
    "Window",
    "WindowCutter",
    "build_ingest",
    "build_time_grid",
    "change_times",
    "check_conflicts",
    "check_log",
    "check_rows",
    "compare_all_reports",
    "cut_windows",
    "format_duration",
    "format_moment",
    "is_dense",
    "join_marks",
    "lay_out",
    "parse_duration",
    "too_few_users",
]
