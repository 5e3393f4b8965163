"""What is done with a part of the log that holds some users with all their rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.engines.shares import Share
from trajcloak.engines.sources import load
from trajcloak.log import LogSummary, RequestLog
from trajcloak.log.clean import (
    find_contradictions,
    has_contradictions,
    keep_rows,
)
from trajcloak.log.exchange import join_logs, split_log
from trajcloak.log.misplaced import Bulk, Find, Measure, count_measures, number_found
from trajcloak.log.read import read_part
from trajcloak.log.summary import summarise
from trajcloak.manifest import LeftOut
from trajcloak.options import TELEPORT, LogColumns, Options
from trajcloak.pipeline import Prepared
from trajcloak.space import (
    Bounds,
    Places,
    Projection,
    Region,
    Stretches,
    bound_east,
    count_places,
    find_beyond,
    find_far,
    find_outside,
)
from trajcloak.trajectories import (
    Located,
    Ranges,
    Reports,
    TimeGrid,
    Window,
    compare_reports,
    sum_spans,
)

P = ParamSpec("P")
T = TypeVar("T")

Reading = tuple[dict[str, int], dict[str, int]]
"""How many rows were dropped while reading, and how many times were shifted, by reason."""


def read_and_split(
    content: Any,
    first_row: int,
    columns: LogColumns,
    head: pa.Table,
    parts: int,
    threads: int,
) -> list[Any]:
    """Read some rows and give each to the part of its user; the last piece is a :data:`Reading`."""
    log, dropped = read_part(
        load(content, columns), columns, head=head, first_row=first_row, threads=threads
    )
    if log is None:
        return [*[None] * parts, (dropped, {})]
    return [*split_log(log, parts, first_row), (dropped, dict(log.shifted))]


class Cleaned(NamedTuple):
    """A part of the log.

    Attributes
    ----------
    log : RequestLog or None
        None if nothing is left of it.
    dropped : dict
        How many rows were dropped, by reason.
    far : int64
        Numbers of the rows that cannot be reached and are not to be dropped.
    """

    log: RequestLog | None
    dropped: dict[str, int]
    far: npt.NDArray[np.int64]


def join_and_clean(pieces: Sequence[RequestLog | None], columns: LogColumns) -> Cleaned:
    """Put the rows of some users together, and drop those that contradict others."""
    log = join_logs(pieces, columns.user, columns.time)
    far = np.empty(0, np.int64)
    if log is None or not has_contradictions(columns):
        return Cleaned(log, {}, far)
    found = find_contradictions(log, columns)
    if TELEPORT not in columns.drop:
        far = log.number_rows(found.far)
    return Cleaned(keep_rows(log, found.keep) if found.keep.any() else None, found.dropped, far)


class Description(NamedTuple):
    """What is known of a part without its rows; see :class:`Cleaned`."""

    summary: LogSummary | None
    kinds: pa.Table | None
    dropped: dict[str, int]
    far: npt.NDArray[np.int64]


def describe(part: Cleaned) -> Description:
    """Summarise a part: its rows, its distinct requests, and what was dropped."""
    if part.log is None:
        return Description(None, None, part.dropped, part.far)
    return Description(summarise(part.log), part.log.requests.kinds, part.dropped, part.far)


@dataclass(frozen=True)
class Placement:
    """What changes when a part of the log is laid on the plane.

    Attributes
    ----------
    plane : (float64, float64) or None
        Planar coordinates of the rows; None if they are those of the log.
    bounds : Bounds
        Of the rows on the plane.
    kind : int32
        Numbers of the requests, as those of the whole log are numbered.
    kinds : pyarrow.Table
        The distinct requests of the whole log.
    whole : LogSummary
        Of the whole log.
    """

    plane: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None
    bounds: Bounds
    kind: npt.NDArray[np.int32]
    kinds: pa.Table
    whole: LogSummary


@dataclass(frozen=True)
class Placed:
    """A part of the log on the plane, its requests numbered as those of the whole log are."""

    log: RequestLog
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]


def place(
    part: Cleaned,
    whole: LogSummary,
    kinds: pa.Table,
    number: npt.NDArray[np.int32],
    projection: Projection,
    threads: int,
) -> Placement:
    """Project a part of the log if need be."""
    assert part.log is not None
    x, y = projection.place(part.log, threads)
    return Placement(
        (x, y) if projection.is_needed else None,
        (float(x.min()), float(y.min()), float(x.max()), float(y.max())),
        number[part.log.requests.kind],
        kinds,
        whole,
    )


def of_placed(
    function: Callable[Concatenate[Placed, P], T],
) -> Callable[Concatenate[Cleaned, Placement, P], T]:
    """Let a function of a :class:`Placed` take the part and its :class:`Placement`.

    These are files of their own: most of a part stays as it is.
    """

    @wraps(function)
    def run(part: Cleaned, placement: Placement, /, *args: P.args, **kwargs: P.kwargs) -> T:
        assert part.log is not None
        log = replace(
            part.log,
            requests=replace(part.log.requests, kind=placement.kind, kinds=placement.kinds),
            time_range=placement.whole.time_range,
            step=placement.whole.step,
            bounds=placement.whole.bounds,
        )
        x, y = placement.plane or (log.x, log.y)
        return function(Placed(log, x, y), *args, **kwargs)

    return run


def count_part_measures(
    part: Cleaned, measure: Measure, found: np.uint64, shift: int
) -> npt.NDArray[np.int64]:
    """Count the rows of a part by digits of a measure."""
    assert part.log is not None
    return count_measures(part.log, measure, found, shift)


def number_part_found(
    part: Cleaned, bounds: Bounds, find: Find, bulk: Bulk
) -> npt.NDArray[np.int64]:
    """Number the misplaced rows of a part of a log with those bounds and that bulk."""
    assert part.log is not None
    return number_found(replace(part.log, bounds=bounds), find, bulk)


def bound_part_turned(part: Cleaned) -> tuple[float, float]:
    """Bound the longitudes of a part beyond the 180th meridian."""
    assert part.log is not None
    return bound_east(part.log)


@of_placed
def sum_part_spans(part: Placed, step: int) -> int:
    """Sum the spans of the users of a part."""
    return sum_spans(part.log, step)


@of_placed
def compare_part_reports(part: Placed, max_gap: int, threads: int) -> Reports:
    """Compare the reports of the users of a part."""
    return compare_reports(part.log, max_gap, threads)


def get_bounds(placement: Placement) -> Bounds:
    """Bound a part on the plane."""
    return placement.bounds


@of_placed
def count_part_places(
    part: Placed, bounds: Bounds, threads: int
) -> dict[int, npt.NDArray[np.int64]]:
    """Count the rows of a part in even bins of each long axis."""
    return count_places(part.x, part.y, bounds, threads)


@of_placed
def find_part_far(
    part: Placed, stretches: Stretches
) -> tuple[npt.NDArray[np.int64], Bounds | None]:
    """Number the rows of a part outside crowded stretches, and bound the others."""
    return find_far(part.log, part.x, part.y, stretches)


@of_placed
def find_part_beyond(part: Placed) -> npt.NDArray[np.int64]:
    """Number the rows of a part that are too far out."""
    return find_beyond(part.log, part.x, part.y)


@of_placed
def find_part_outside(part: Placed, region: Region) -> npt.NDArray[np.int64]:
    """Number the rows of a part that are not strictly inside a region."""
    return find_outside(part.log, part.x, part.y, region)


class Attendance(NamedTuple):
    """Who takes part in which window.

    Attributes
    ----------
    num_users : int
    windows : list of Window
        Without trajectories, and of the requests only their senders.
    """

    num_users: int
    windows: list[Window]


class Scene(NamedTuple):
    """What is decided for the whole log before its parts are cut into windows."""

    asked: Options
    grid: TimeGrid
    max_gap: int
    ranges: Ranges
    region: Region
    crs: str | None


@of_placed
def build_shares(part: Placed, number: int, scene: Scene, threads: int) -> list[Any]:
    """Build the participants of each window of a part; the last piece is an Attendance."""
    places = Places(part.x, part.y, scene.region, scene.crs)
    prepared = Prepared(
        part.log, scene.asked, scene.grid, scene.max_gap, places, scene.ranges, threads
    )
    shares = []
    windows = []
    none = np.empty(0, np.int32)
    for window in prepared.windows():
        ids = part.log.users.take(pa.array(window.user))
        shares.append(Share(window, ids, np.full(len(window.user), number, np.int32)))
        windows.append(
            replace(window, cells=window.cells[:0], request_instant=none, request_kind=none)
        )
    return [*shares, Attendance(part.log.num_users, windows)]


def count_participants(attendance: Attendance) -> tuple[list[int], Located]:
    """Count the participants of each window, and how all users are located."""
    located = Located()
    for window in attendance.windows:
        located = located.plus(window.located)
    return [len(window.user) for window in attendance.windows], located


def count_left_out(
    attendance: Attendance,
    number: int,
    is_published: Sequence[bool],
    suppressed: Sequence[Sequence[tuple[Any, Any]]],
) -> LeftOut:
    """Count who of a part is not published, and why.

    ``suppressed`` are, window by window, the parts and positions of users left out.
    """
    left_out = LeftOut(attendance.num_users)
    for window, published, gone in zip(attendance.windows, is_published, suppressed, strict=True):
        left_out.add_missing(window)
        if not published:
            left_out.add_below_k(window)
            continue
        mine = [user[part == number] for part, user in gone]
        users = np.concatenate([np.empty(0, np.int32), *mine])
        left_out.mark_users(np.setdiff1d(window.user, users), users)
    return left_out
