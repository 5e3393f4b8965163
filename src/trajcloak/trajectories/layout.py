"""The layout of a log in time and space, chosen before it is cut into windows."""

from typing import NamedTuple

from trajcloak.errors import Refusals
from trajcloak.log import ShardedLog
from trajcloak.log.misplaced import check_misplaced
from trajcloak.options import HOLD, Options
from trajcloak.space import (
    Region,
    check_height,
    choose_region,
    default_height,
    place_log,
)
from trajcloak.trajectories.clock import Ranges, cut_windows
from trajcloak.trajectories.grid import TimeGrid, build_time_grid, parse_duration

DEFAULT_GAP = 2
"""Default of ``max_gap``, in steps of the grid."""


class Layout(NamedTuple):
    """What is decided for the whole log before its shards are cut into windows.

    Attributes
    ----------
    asked : Options
    grid : TimeGrid
    max_gap : int
        In the unit of the log's times.
    ranges : Ranges
        The instants of each window.
    region : Region
    crs : str or None
        Coordinate system of the plane; None if it is not known.
    is_one_window : bool
        Whether all rows of the log are in one window.
    """

    asked: Options
    grid: TimeGrid
    max_gap: int
    ranges: Ranges
    region: Region
    crs: str | None
    is_one_window: bool


def lay_out(log: ShardedLog, asked: Options) -> tuple[ShardedLog, Layout]:
    """Choose instants, windows and region, and place the log on the plane.

    Raises
    ------
    TrajcloakError
        If the log cannot be laid out; says what is wrong with times and with places.
    """
    check_height(asked.height)
    facts = log.facts
    refusals = Refusals()
    with refusals.collecting():
        grid = build_time_grid(log, _parse(asked.every, log, "every"), hold=asked.missing == HOLD)
        max_gap = _parse(asked.max_gap, log, "max-gap") or DEFAULT_GAP * grid.every
        ranges = cut_windows(log, grid, length=asked.length, align=asked.align, hours=asked.windows)
    with refusals.collecting():
        region = (
            None if asked.region is None else _build_region(asked, in_metres=facts.crs is not None)
        )
        if region is None:
            check_misplaced(log)
        log, crs, bounds = place_log(log)
        region = choose_region(
            log, bounds, height=asked.height, region=region, in_metres=crs is not None
        )
    refusals.check()
    is_one_window = _is_one_window(log, grid, ranges)
    return log, Layout(asked, grid, max_gap, ranges, region, crs, is_one_window)


def change_times(
    log: ShardedLog, layout: Layout, *, every: int, max_gap: int, length: int
) -> Layout:
    """Lay a log out on other instants and windows, in the same place."""
    grid = build_time_grid(log, every)
    ranges = cut_windows(log, grid, length=length, align=layout.asked.align, hours=None)
    return layout._replace(
        grid=grid,
        max_gap=max_gap,
        ranges=ranges,
        is_one_window=_is_one_window(log, grid, ranges),
    )


def _is_one_window(log: ShardedLog, grid: TimeGrid, ranges: Ranges) -> bool:
    return ranges.tolist() == [[0, grid.num_instants]] and grid.origin <= log.facts.time_range[0]


def _build_region(asked: Options, *, in_metres: bool) -> Region:
    assert asked.region is not None
    x_min, y_min, side = map(float, asked.region)
    return Region(x_min, y_min, side, asked.height or default_height(side, in_metres=in_metres))


def _parse(text: str | None, log: ShardedLog, name: str) -> int | None:
    if text is None:
        return None
    return parse_duration(str(text), has_timestamps=log.facts.has_timestamps, name=name)
