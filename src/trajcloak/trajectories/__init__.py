"""A log to dense trajectories: instants, windows, gaps.

The rules are in ``docs/data-model.md``, "From rows to trajectories".
"""

from trajcloak.trajectories.clock import Ranges, cut_windows
from trajcloak.trajectories.grid import (
    SumSpans,
    TimeGrid,
    build_grid,
    format_duration,
    parse_duration,
    sum_spans,
)
from trajcloak.trajectories.ingest import (
    Ingest,
    Located,
    build_ingest,
    format_moment,
    sum_up_ingest,
)
from trajcloak.trajectories.reports import Reports, compare_reports
from trajcloak.trajectories.windows import Window, judge_conflicts, stream_windows

__all__ = [
    "Ingest",
    "Located",
    "Ranges",
    "Reports",
    "SumSpans",
    "TimeGrid",
    "Window",
    "build_grid",
    "build_ingest",
    "compare_reports",
    "cut_windows",
    "format_duration",
    "format_moment",
    "judge_conflicts",
    "parse_duration",
    "stream_windows",
    "sum_spans",
    "sum_up_ingest",
]
