"""A log to dense trajectories: instants, windows, gaps.

The rules are in ``docs/data-model.md``, "From rows to trajectories".
"""

from trajcloak.trajectories.clock import Ranges, cut_windows
from trajcloak.trajectories.grid import TimeGrid, build_grid, format_duration, parse_duration
from trajcloak.trajectories.ingest import Ingest, Located, build_ingest, format_moment
from trajcloak.trajectories.windows import Window, stream_windows

__all__ = [
    "Ingest",
    "Located",
    "Ranges",
    "TimeGrid",
    "Window",
    "build_grid",
    "build_ingest",
    "cut_windows",
    "format_duration",
    "format_moment",
    "parse_duration",
    "stream_windows",
]
