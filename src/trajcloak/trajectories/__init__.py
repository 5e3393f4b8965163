"""Turn a log into dense trajectories: instants, windows, gaps.

The rules are in ``docs/data-model.md``, "From rows to trajectories".
"""

from trajcloak.trajectories.clock import Ranges, cut_windows
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
from trajcloak.trajectories.layout import Layout, lay_out
from trajcloak.trajectories.reports import Reports, check_conflicts, compare_all_reports
from trajcloak.trajectories.schedule import check_schedule
from trajcloak.trajectories.windows import NOWHERE, Window, WindowCutter, join_marks

__all__ = [
    "NOWHERE",
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
    "check_conflicts",
    "check_schedule",
    "compare_all_reports",
    "cut_windows",
    "format_duration",
    "format_moment",
    "is_dense",
    "join_marks",
    "lay_out",
    "parse_duration",
]
