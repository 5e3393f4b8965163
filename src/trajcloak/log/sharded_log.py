"""A log in shards, each of which holds all rows of some users.

Rules about a whole log are written once: as a function of a shard, and a way to combine its
results. A log in memory is one shard.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.engines.engine import Engine, Handle, Job, MemoryEngine
from trajcloak.errors import InputError
from trajcloak.log.bad_rows import FileRows, SomeRows
from trajcloak.log.request_values import Requests
from trajcloak.log.times import copy_times

Change = dict[str, Any]
"""Fields of a shard that a stage changed; all other fields stay as an earlier stage wrote them."""

Bounds = tuple[float, float, float, float]
"""Least x and y, greatest x and y."""


@dataclass(frozen=True, kw_only=True)
class CommonFacts:
    """What is known of a log, whether its rows are there or not."""

    has_timestamps: bool  # Whether times are in microseconds.
    zone: str | None  # "UTC" where the log's timestamps have a zone.
    geographic: bool  # Whether ``x`` and ``y`` are longitude and latitude.
    step: int  # Greatest common divisor of all time differences; 0 if all times are equal.
    time_range: tuple[int, int]  # The earliest and the latest time.
    bounds: Bounds  # Least x and y, greatest x and y.
    # Zone of the clock that windows can follow; None: the zone of the times themselves.
    clock: str | None = None
    crs: str | None = None  # Coordinate system of ``x`` and ``y``; None if it is not known.
    # Two inputs: how many requests were left out, because their user is not in the log.
    unknown_requests: int = 0
    dropped_requests: int = 0  # How many requests were left out with rows that were dropped.
    # Whether requests were read from a text file, so that their values are all text.
    has_text_requests: bool = False
    # How many rows of the files were dropped, by reason.
    dropped: Mapping[str, int] = field(default_factory=dict)
    files: FileRows = field(default_factory=FileRows)  # Which rows are in which file.
    # What is wrong with rows that were left out: messages about a log that is refused.
    refusals: tuple[str, ...] = ()
    # How many local times are ``ambiguous`` or ``nonexistent`` in their zone.
    shifted: Mapping[str, int] = field(default_factory=dict)
    # How the log was read, in the words of the manifest.
    reading: Mapping[str, object] = field(default_factory=dict)

    def list_common(self) -> dict[str, Any]:
        """List these facts by name."""
        return {one.name: getattr(self, one.name) for one in fields(CommonFacts)}


@dataclass(frozen=True, kw_only=True, repr=False)
class RequestLog(CommonFacts):
    """A checked log; row numbers count from 0 here, from 1 in messages."""

    # The distinct user ids, ascending: integers or text. The order decides ties between identical
    # trajectories, and nothing else.
    users: pa.Array
    user: npt.NDArray[np.int32]  # (rows,): position of each row's user in ``users``.
    time: npt.NDArray[np.int64]  # (rows,): instants, or microseconds since 1970.
    x: npt.NDArray[np.float64]  # (rows,): longitude and latitude in degrees, or planar coordinates.
    y: npt.NDArray[np.float64]
    requests: Requests
    # (rows,): the number, from 0, of each row in the files; None if none was dropped.
    file_row: npt.NDArray[np.int64] | None = None
    # (rows,): planar coordinates, if ``x`` and ``y`` had to be projected.
    plane_x: npt.NDArray[np.float64] | None = None
    plane_y: npt.NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        """Show counts only: notebook output gets saved, so no ids."""
        return (
            f"{type(self).__name__}(rows={self.num_rows}, users={self.num_users}, "
            f"requests={self.num_requests})"
        )

    @property
    def num_rows(self) -> int:
        """How many rows the log has."""
        return len(self.user)

    @property
    def num_requests(self) -> int:
        """How many requests the log has."""
        return len(self.requests.kind)

    @property
    def is_one_log(self) -> bool:
        """Whether requests came with rows of the log, not from a second input."""
        return self.requests.row is not None

    @property
    def request_user(self) -> npt.NDArray[np.int32]:
        """Position of each request's user in ``users``: (requests,) int32."""
        requests = self.requests
        if requests.row is not None:
            return self.user[requests.row]
        assert requests.user is not None
        return requests.user

    @property
    def request_time(self) -> npt.NDArray[np.int64]:
        """When each request was sent, as in ``time``: (requests,) int64."""
        requests = self.requests
        if requests.row is not None:
            return self.time[requests.row]
        assert requests.time is not None
        return requests.time

    @property
    def num_users(self) -> int:
        """How many users the log has."""
        return len(self.users)

    def number_rows(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Number rows as messages do: from 1, over the files in order."""
        return (rows if self.file_row is None else self.file_row[rows]) + 1

    @property
    def plane(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Planar coordinates of the rows: projected ones, or ``x`` and ``y`` of a planar log."""
        if self.plane_x is None or self.plane_y is None:
            return self.x, self.y
        return self.plane_x, self.plane_y

    def find_ends(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Find the earliest and the latest time, each with the number of its first row."""
        ends = np.array([self.time.argmin(), self.time.argmax()])
        (early, late), (one, other) = self.time[ends].tolist(), self.number_rows(ends).tolist()
        return (early, one), (late, other)

    def name_rows(self, rows: npt.NDArray[np.int64]) -> str:
        """Count rows and name the first few, for a message: ``3 rows (4, 7, 9) are``."""
        return str(SomeRows([self.number_rows(rows)], self.files))


@dataclass(frozen=True, kw_only=True)
class LogFacts(CommonFacts):
    """Facts about a log, or a shard, without its rows."""

    num_rows: int
    num_users: int
    num_requests: int  # Those of unknown users and of dropped rows included.
    has_integer_ids: bool
    is_one_log: bool


def describe(log: RequestLog) -> LogFacts:
    """List the facts about a shard."""
    return LogFacts(
        **log.list_common(),
        num_rows=log.num_rows,
        num_users=log.num_users,
        num_requests=log.num_requests + log.unknown_requests + log.dropped_requests,
        has_integer_ids=pa.types.is_integer(log.users.type),
        is_one_log=log.is_one_log,
    )


def merge_facts(shards: Sequence[LogFacts]) -> LogFacts:
    """Combine the facts of all shards."""
    # The step of the whole log divides the differences between times of two shards, too.
    starts = [s.time_range[0] - shards[0].time_range[0] for s in shards]
    return replace(
        shards[0],
        num_rows=sum(s.num_rows for s in shards),
        num_users=sum(s.num_users for s in shards),
        num_requests=sum(s.num_requests for s in shards),
        step=math.gcd(*(s.step for s in shards), *starts),
        time_range=(min(s.time_range[0] for s in shards), max(s.time_range[1] for s in shards)),
        bounds=merge_bounds([s.bounds for s in shards]),
    )


def mixed_ids(name: str | None) -> InputError:
    """Build the error for user ids of several types."""
    return InputError(
        f"column '{name}' holds numbers in one file and text in another; expected one type; "
        f"convert the user ids"
    )


def bound_places(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> Bounds:
    """Compute the bounds of places."""
    return float(x.min()), float(y.min()), float(x.max()), float(y.max())


def measure_rows(
    time: npt.NDArray[np.int64], x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]
) -> Change:
    """Compute the step, the range and the bounds of the rows of a log, by name."""
    # Copied onto itself.
    low, high, step = map(int, copy_times(time, time[0], 0, time))
    return {"step": step, "time_range": (low, high), "bounds": bound_places(x, y)}


def merge_bounds(bounds: Sequence[Bounds]) -> Bounds:
    """Compute the bounds of several boxes together."""
    left, bottom, right, top = zip(*bounds, strict=True)
    return min(left), min(bottom), max(right), max(top)


def add_counts(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Add counts by name."""
    total: Counter[str] = Counter()
    for some in counts:
        total.update(some)
    return dict(total)


@dataclass(frozen=True)
class ShardedLog:
    """A log in shards."""

    engine: Engine  # Holds the shards.
    # For each shard, its rows, followed by the changes that later stages made.
    shards: list[list[Handle]]
    facts: LogFacts
    kinds: pa.Table  # The distinct requests of the whole log.

    def ask(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Call ``function(shard, *args)`` for every shard and return the results, small ones."""
        return self.engine.ask(call_on_shard, self.jobs(function, *args))

    def derive(self, function: Callable[..., Any], *args: Any) -> Sequence[Handle]:
        """Call ``function(shard, *args)`` for every shard and return handles of the results."""
        return self.engine.derive(call_on_shard, self.jobs(function, *args))

    def jobs(self, function: Callable[..., Any], *args: Any) -> list[Job]:
        """List the arguments of :func:`call_on_shard` for every shard."""
        return [(function, shard, *args) for shard in self.shards]

    def change(self, changes: Sequence[Handle]) -> "ShardedLog":
        """Add a :data:`Change` to every shard."""
        shards = [[*shard, more] for shard, more in zip(self.shards, changes, strict=True)]
        return replace(self, shards=shards)

    def find_rows(self, find: Callable[..., npt.NDArray[np.bool_]], *args: Any) -> SomeRows:
        """Count the rows that ``find(shard, *args)`` marks, and name the first few."""
        return SomeRows(self.ask(number_marked, find, *args), self.facts.files)

    def drop(self) -> None:
        """Free the shards, which are no longer needed."""
        for shard in self.shards:
            self.engine.drop(shard)

    def find_end_rows(self) -> tuple[int, int]:
        """Number the first row with the earliest time, and the first with the latest."""
        early, late = zip(*self.ask(RequestLog.find_ends), strict=True)
        return min(early)[1], min((-time, row) for time, row in late)[1]

    def name_ends(self) -> str:
        """Name these two rows, for a message."""
        return self.facts.files.name_two(*self.find_end_rows())


def call_on_shard(function: Callable[..., Any], shard: Sequence[Any], *args: Any) -> Any:
    """Build a shard from its rows and its changes, and call a function on it."""
    return function(build_shard(shard), *args)


def build_shard(parts: Sequence[Any]) -> RequestLog:
    """Build a shard from its rows and its changes."""
    log: RequestLog = parts[0]
    changes: Change = {}
    for change in parts[1:]:
        changes |= change
    if not changes:
        return log
    requests = changes.pop("requests", log.requests)
    renumbered = {name: changes.pop(name) for name in ("kind", "kinds") if name in changes}
    return replace(log, requests=replace(requests, **renumbered), **changes)


def number_marked(
    log: RequestLog, find: Callable[..., npt.NDArray[np.bool_]], *args: Any
) -> npt.NDArray[np.int64]:
    """Number the rows of a shard that a function marks."""
    return log.number_rows(np.flatnonzero(find(log, *args)))


def hold_in_memory(log: RequestLog, engine: MemoryEngine | None = None) -> ShardedLog:
    """Wrap a log in memory as a log of one shard."""
    return ShardedLog(engine or MemoryEngine(1), [[log]], describe(log), log.requests.kinds)


def renumber_kinds(
    log: ShardedLog, kinds: pa.Table, numbers: Sequence[npt.NDArray[np.int32]]
) -> ShardedLog:
    """Number the requests of all shards as rows of one table.

    ``numbers`` holds, for each shard, the row in ``kinds`` of each of its distinct requests.
    """
    if not all(np.array_equal(number, np.arange(kinds.num_rows)) for number in numbers):
        jobs = [(_renumber, *job) for job in zip(log.shards, numbers, strict=True)]
        log = log.change(log.engine.derive(call_on_shard, jobs))
    shared = log.engine.put({"kinds": kinds})
    return replace(log.change([shared] * len(log.shards)), kinds=kinds)


def _renumber(log: RequestLog, number: npt.NDArray[np.int32]) -> Change:
    return {"kind": number[log.requests.kind]}
