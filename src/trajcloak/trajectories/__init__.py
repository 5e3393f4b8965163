"""Turn a log into dense trajectories: instants, windows, gaps.

The rules are in ``docs/data-model.md``, "From rows to trajectories".
"""

from trajcloak.trajectories.fill import NOWHERE
from trajcloak.trajectories.grid import (
    TimeGrid,
    build_time_grid,
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
    Layout,
    change_times,
    check_log,
    check_rows,
    lay_out,
    too_few_users,
)
from trajcloak.trajectories.reports import check_conflicts, compare_all_reports
from trajcloak.trajectories.windows import Window, WindowCutter, join_marks

__all__ = [
    "NOWHERE",
    "Ingest",
    "Layout",
    "Located",
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
    "format_duration",
    "format_moment",
    "is_dense",
    "join_marks",
    "lay_out",
    "parse_duration",
    "too_few_users",
]
