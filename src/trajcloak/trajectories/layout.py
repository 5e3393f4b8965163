"""Lay out a log in time and space, and check it: all that is wrong with it is said at once."""

from typing import NamedTuple

from trajcloak.errors import NotEnoughUsersError, Refusals
from trajcloak.log import ShardedLog
from trajcloak.log.clean import check_misplaced
from trajcloak.options import HOLD, Options
from trajcloak.space import Region, choose_region, default_height, place_log
from trajcloak.trajectories.grid import (
    Ranges,
    TimeGrid,
    build_time_grid,
    cut_windows,
    parse_duration,
)
from trajcloak.trajectories.ingest import is_dense
from trajcloak.trajectories.reports import Reports, check_conflicts, compare_all_reports
from trajcloak.trajectories.schedule import check_schedule

DEFAULT_GAP = 2
"""Default of ``max_gap``, in steps of the grid."""


class Layout(NamedTuple):
    """What is decided for the whole log before its shards are cut into windows."""

    asked: Options
    grid: TimeGrid
    max_gap: int  # In the unit of the log's times.
    ranges: Ranges  # The instants of each window.
    region: Region
    crs: str | None  # Coordinate system of the plane; None if it is not known.
    is_one_window: bool  # Whether all rows of the log are in one window.


def lay_out(log: ShardedLog, asked: Options) -> tuple[ShardedLog, Layout]:
    """Choose instants, windows and region, and place the log on the plane.

    If that cannot be done, the error says what is wrong with times and with places.
    """
    facts = log.facts
    refusals = Refusals()
    with refusals.collecting():
        grid = build_time_grid(log, _parse(asked.every, log, "every"), hold=asked.missing == HOLD)
        max_gap = _parse(asked.max_gap, log, "max-gap") or DEFAULT_GAP * grid.every
        ranges = cut_windows(log, grid, length=asked.length, align=asked.align, hours=asked.windows)
    with refusals.collecting():
        region = None
        if asked.region is None:
            check_misplaced(log)
        else:
            x_min, y_min, side = map(float, asked.region)
            height = asked.height or default_height(side, in_metres=facts.crs is not None)
            region = Region(x_min, y_min, side, height)
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


def _parse(text: str | None, log: ShardedLog, name: str) -> int | None:
    if text is None:
        return None
    return parse_duration(str(text), has_timestamps=log.facts.has_timestamps, name=name)


def check_log(
    log: ShardedLog, asked: Options, refusals: Refusals
) -> tuple[ShardedLog, Layout, Reports | None]:
    """Lay out a log in time and space, and check its rows.

    Returns the log on the plane, and how the rows of each user follow each other: None if each user
    very probably has one row at each instant. Raises an error that says everything that is wrong,
    with what ``refusals`` hold already.
    """
    placed, layout = log, None
    with refusals.collecting():
        placed, layout = lay_out(log, asked)
    dense = layout is not None and not refusals.reasons and is_dense(log.facts, layout.grid)
    reports = None
    if not dense:
        reports = compare_all_reports(placed, 0 if layout is None else layout.max_gap)
    check_rows(placed, asked, reports, refusals)
    refusals.check()
    assert layout is not None
    return placed, layout, reports


def too_few_users(most_users: int, num_users: int, members: int) -> NotEnoughUsersError:
    """Build the error for a log of which no window has enough users.

    ``most_users`` take part in the window with most of them, of ``num_users`` in all.
    """
    if num_users < members:
        return NotEnoughUsersError(
            f"the log has {num_users:,} users; expected at least {members:,} for a bundle; lower "
            f"--k or --members"
        )
    return NotEnoughUsersError(
        f"at most {most_users:,} of {num_users:,} users take part in a window, since the location "
        f"of the others is not known at all of its instants, the first and the last included; "
        f"expected at least {members:,}; pass what trajcloak inspect proposes as --every, "
        f"--max-gap and --length, keep more users with --missing=hold, or lower --k or --members"
    )


def check_rows(
    log: ShardedLog, asked: Options, reports: Reports | None, refusals: Refusals
) -> None:
    """Note if rows contradict each other, or some stand out as if they carried requests.

    ``reports`` are those of the log; None if each user has one row at each instant.
    """
    if reports is not None:
        with refusals.collecting():
            check_conflicts(reports, log.facts.files)
    if log.facts.is_one_log and log.kinds.num_columns and not asked.rows_alike:
        with refusals.collecting():
            check_schedule(log, reports)
