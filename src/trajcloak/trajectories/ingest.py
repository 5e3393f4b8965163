"""The ingest report: what was read from a log, and how it fits its grid of instants."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trajcloak.log import LogFacts
from trajcloak.options import DROPPABLE
from trajcloak.trajectories.grid import TimeGrid, format_duration
from trajcloak.trajectories.reports import Reports, round_gap

DROPPED = ("clip", *DROPPABLE)
"""Reasons for which rows are dropped."""

QUANTILES = {"p5": 0.05, "median": 0.5, "p95": 0.95}


class Located(NamedTuple):
    """How many locations of users at instants are known, and how.

    Attributes
    ----------
    reported
        By a report at that moment.
    interpolated
        Between two reports.
    held
        From the nearest report, however long ago.
    missing
        Not known at all.
    """

    reported: int = 0
    interpolated: int = 0
    held: int = 0
    missing: int = 0

    def plus(self, other: "Located") -> "Located":
        """Add the counts of another stretch of instants."""
        return Located(*(one + two for one, two in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Ingest:
    """What was read, and what became of it.

    It depends only on who was where and when.

    Attributes
    ----------
    rows : int
        Rows of the files.
    dropped : dict
        How many of them were dropped, by reason.
    repeated : int
        Rows with the user, the time and the place of a row before them; their
        requests are kept.
    users : int
    start, end : int or str
        First instant, and end of the last.
    instants : int
    interval : dict or None
        The 5% quantile, the median and the 95% quantile of the times between two
        reports of a user, to two significant digits; None if nobody has two.
    long_gaps : int
        How many of these times are longer than ``max_gap``.
    user_instants : Located
        Counts over all users and the instants of all windows.
    crs : str or None
        Coordinate system of the log; None if it is not known.
    zone : str or None
        Time zone of the log; None for integer instants and for times without one.
    ambiguous, nonexistent : int
        Local times that occur twice (the first is taken) or are skipped (moved later by
        the length of the gap) where clocks are changed.
    """

    rows: int
    dropped: Mapping[str, int]
    repeated: int
    users: int
    start: int | str
    end: int | str
    instants: int
    interval: Mapping[str, int | str] | None
    long_gaps: int
    user_instants: Located
    crs: str | None
    zone: str | None
    ambiguous: int
    nonexistent: int

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, as the manifest has them."""
        return {
            **vars(self),
            "dropped": dict(self.dropped),
            "interval": None if self.interval is None else dict(self.interval),
            "user_instants": self.user_instants._asdict(),
        }


def is_dense(facts: LogFacts, grid: TimeGrid) -> bool:
    """Whether a log has as many rows as users times instants, all on the grid.

    Then each user very probably has one report at each instant.
    """
    return grid.on_grid and facts.num_rows == facts.num_users * grid.num_instants


def build_ingest(
    facts: LogFacts, grid: TimeGrid, max_gap: int, located: Located, reports: Reports | None
) -> Ingest:
    """Build the ingest report of a log.

    ``reports`` is None if each user has one report at each instant.
    """
    if reports is not None:
        repeated, long_gaps = reports.num_repeated - reports.num_conflicts, reports.num_long
        shares = QUANTILES if reports.num_gaps else {}
        gaps = {name: reports.quantile(share) for name, share in shares.items()}
    else:
        repeated, long_gaps = 0, (facts.num_rows - facts.num_users) * (grid.every > max_gap)
        gaps = dict.fromkeys(QUANTILES if grid.num_instants > 1 else (), round_gap(grid.every))
    interval = {
        name: format_duration(gap, has_timestamps=facts.has_timestamps)
        for name, gap in gaps.items()
    }
    return Ingest(
        rows=facts.num_rows + sum(facts.dropped.values()),
        dropped={reason: facts.dropped.get(reason, 0) for reason in DROPPED},
        repeated=repeated,
        users=facts.num_users,
        start=format_moment(facts, grid.origin),
        end=format_moment(facts, grid.origin + grid.num_instants * grid.every),
        instants=grid.num_instants,
        interval=interval or None,
        long_gaps=long_gaps,
        user_instants=located,
        crs=facts.crs,
        zone=facts.clock or facts.zone,
        ambiguous=facts.shifted.get("ambiguous", 0),
        nonexistent=facts.shifted.get("nonexistent", 0),
    )


def format_moment(facts: LogFacts, moment: int) -> int | str:
    """Write a moment as the manifest does: an integer instant, or ISO 8601 text."""
    if not facts.has_timestamps:
        return moment
    return str(np.datetime64(moment, "us")) + ("Z" if facts.zone else "")
