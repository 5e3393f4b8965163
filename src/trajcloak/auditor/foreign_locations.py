"""Where users are at instants, for tables of other tools: whole users, block by block."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_log import read_audited_log
from trajcloak.auditor.audited_values import Codes, Floats, Ints
from trajcloak.log.files import LogPath
from trajcloak.options import LogColumns
from trajcloak.progress import Progress

BLOCK = 1 << 22
"""Rows, or locations, of a block; a user with more has a block of their own."""

MAX_OF_USER = 2**27
MAX_IN_ALL = 2**34
"""Bounds on locations: far beyond any log, but not beyond a wrong time."""


@dataclass(frozen=True)
class LocationLog:
    """All rows of a log, by user and time; see :class:`.audited_log.AuditedLog`."""

    ids: Any
    user: Codes
    time: Ints
    x: Floats
    y: Floats
    stamped: bool
    zoned: bool
    geographic: bool

    @property
    def num_users(self) -> int:
        """How many users the log has."""
        return len(self.ids)


def read_locations(source: LogPath, columns: LogColumns, progress: Progress) -> LocationLog:
    """Read the locations of a log."""
    with ExitStack() as stack:
        log = read_audited_log(source, columns, None, None, stack, progress)
        rows = log.load(0)
        user = rows.user.astype(np.int32)
    return LocationLog(
        log.ids, user, rows.time, rows.x, rows.y, log.stamped, log.zoned, log.geographic
    )


@dataclass(frozen=True)
class Locations:
    """Known locations, in order of user and instant.

    Attributes
    ----------
    user, instant
        Whose, and when.
    x, y
        Where.
    reported
        Whether it is that of a report, not interpolated.
    held
        Whether it is that of a report made at another moment.
    """

    user: Ints
    instant: Ints
    x: Floats
    y: Floats
    reported: npt.NDArray[np.bool_]
    held: npt.NDArray[np.bool_]

    def choose(self, mask: npt.NDArray[np.bool_]) -> "Locations":
        """Keep some of the locations."""
        if mask.all():
            return self
        return Locations(*(values[mask] for values in vars(self).values()))


def _weigh_users(log: LocationLog, grid: InstantGrid) -> tuple[Ints, Ints, Ints]:
    """Find where the rows of each user start and stop, and a bound on the user's locations."""
    stop = np.flatnonzero(np.diff(log.user, append=-1)) + 1
    start = np.concatenate([[0], stop[:-1]])
    rows = stop - start
    if grid.hold:
        return start, stop, np.maximum(rows, grid.num_instants)
    spanned = (log.time[stop - 1] - log.time[start]) // grid.every + 1
    bridged = rows * (grid.max_gap // grid.every + 1.0)
    return start, stop, np.maximum(rows, np.minimum(spanned, bridged)).astype(np.int64)


def find_size_problems(log: LocationLog, grid: InstantGrid) -> list[str]:
    """Refuse parameters that make too much of a log to be followed."""
    _, _, weight = _weigh_users(log, grid)
    if int(weight.max()) > MAX_OF_USER or float(weight.sum(dtype=np.float64)) > MAX_IN_ALL:
        return ["the parameters make more locations of the log than can be followed"]
    return []


def list_blocks(log: LocationLog, grid: InstantGrid) -> Iterator[slice]:
    """Cut the rows of a log into blocks of whole users."""
    start, stop, weight = _weigh_users(log, grid)
    block = np.cumsum(weight) // BLOCK
    first = np.flatnonzero(np.diff(block, prepend=-1))
    for one, other in zip(first, [*first[1:], len(start)], strict=True):
        yield slice(int(start[one]), int(stop[other - 1]))


def locate(user: Ints, time: Ints, x: Floats, y: Floats, grid: InstantGrid) -> Locations:
    """Find the known locations of users at the instants.

    The arguments are rows in order of user and time; users are whole. Each instant
    is looked up from the last report at or before it: a report is good for the
    instants from its own moment up to, not including, that of the next report.
    """
    again = (user[1:] == user[:-1]) & (time[1:] == time[:-1])
    kept = np.flatnonzero(np.append(True, ~again))
    user, time, x, y = user[kept], time[kept], x[kept], y[kept]

    offset = time - grid.origin
    begin = -(-offset // grid.every)
    exact = offset % grid.every == 0
    is_last = np.append(user[1:] != user[:-1], True)
    next_begin = np.where(is_last, grid.num_instants, np.append(begin[1:], 0))
    gap = np.where(is_last, 0, np.append(time[1:], 0) - time)
    bridged = ~is_last & (gap <= grid.max_gap)
    if grid.hold:
        is_first = np.append(True, user[1:] != user[:-1])
        begin = np.where(is_first, 0, begin)
        count = next_begin - begin
    else:
        count = np.where(bridged, next_begin - begin, exact)

    report = np.repeat(np.arange(len(user)), count)
    within = np.arange(len(report)) - np.repeat(np.cumsum(count) - count, count)
    instant = begin[report] + within
    since = grid.origin + instant * grid.every - time[report]
    between = bridged[report] & (since > 0)
    following = np.minimum(report + 1, len(user) - 1)
    share = np.where(between, since / np.maximum(gap[report], 1), 0.0)
    return Locations(
        user=user[report],
        instant=instant,
        x=x[report] + share * (x[following] - x[report]),
        y=y[report] + share * (y[following] - y[report]),
        reported=~between,
        held=~between & (since != 0),
    )


def find_runs(ascending: Ints) -> tuple[Ints, Ints]:
    """List the distinct values of ascending ones, and how often each occurs."""
    if not len(ascending):
        return ascending, np.zeros(0, dtype=np.int64)
    start = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    return ascending[start], np.diff(np.append(start, len(ascending)))
