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

from trajcloak.engines.engine import Engine, Handle, Job
from trajcloak.engines.memory import MemoryEngine
from trajcloak.log.bad_rows import FileRows
from trajcloak.log.request_log import RequestLog
from trajcloak.log.row_checks import mixed_ids, mixed_times

Change = dict[str, Any]
"""Fields of a shard that a stage changed; all other fields stay as an earlier stage wrote them."""

Bounds = tuple[float, float, float, float]
"""Least x and y, greatest x and y."""


@dataclass(frozen=True)
class LogFacts:
    """Facts about a log, or a shard, without its rows; fields as in :class:`RequestLog`.

    Attributes
    ----------
    num_requests : int
        Those of unknown users and of dropped rows included.
    some_time : int
        Any time of the shard. Differences of these times between shards are needed to
        compute the step of the whole log.
    """

    num_rows: int
    num_users: int
    num_requests: int
    has_integer_ids: bool
    some_time: int
    has_timestamps: bool
    zone: str | None
    geographic: bool
    step: int
    time_range: tuple[int, int]
    bounds: Bounds
    clock: str | None
    crs: str | None
    dropped: Mapping[str, int]
    shifted: Mapping[str, int]
    reading: Mapping[str, object]
    is_one_log: bool
    unknown_requests: int
    dropped_requests: int
    has_text_requests: bool
    files: FileRows = field(default_factory=FileRows)
    refusals: tuple[str, ...] = ()


def describe(log: RequestLog) -> LogFacts:
    """List the facts about a shard."""
    names = [one.name for one in fields(LogFacts) if hasattr(log, one.name)]
    return LogFacts(
        **{
            **{name: getattr(log, name) for name in names},
            "num_requests": log.num_requests + log.unknown_requests + log.dropped_requests,
            "has_integer_ids": pa.types.is_integer(log.users.type),
            "some_time": int(log.time[0]),
        }
    )


def merge_facts(
    shards: Sequence[LogFacts], user_column: str | None, time_column: str | None
) -> LogFacts:
    """Combine the facts of all shards into those of the log.

    Raises
    ------
    InputError
        If their ids or times are of different kinds.
    """
    one = shards[0]
    if len(shards) == 1:
        return one
    if any(s.has_integer_ids != one.has_integer_ids for s in shards):
        raise mixed_ids(user_column)
    if any((s.has_timestamps, s.zone) != (one.has_timestamps, one.zone) for s in shards):
        raise mixed_times(time_column, [(s.has_timestamps, s.zone) for s in shards])
    return replace(
        one,
        num_rows=sum(s.num_rows for s in shards),
        num_users=sum(s.num_users for s in shards),
        num_requests=sum(s.num_requests for s in shards),
        step=math.gcd(*(s.step for s in shards), *(s.some_time - one.some_time for s in shards)),
        time_range=(min(s.time_range[0] for s in shards), max(s.time_range[1] for s in shards)),
        bounds=merge_bounds([s.bounds for s in shards]),
        dropped=add_counts([s.dropped for s in shards]),
        shifted=add_counts([s.shifted for s in shards]),
    )


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
    """A log in shards.

    Attributes
    ----------
    engine : Engine
        Holds the shards.
    shards : list of list of Handle
        For each shard, its rows, followed by the changes that later stages made.
    facts : LogFacts
    kinds : pyarrow.Table
        The distinct requests of the whole log.
    """

    engine: Engine
    shards: list[list[Handle]]
    facts: LogFacts
    kinds: pa.Table

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

    def drop(self) -> None:
        """Free the shards, which are no longer needed."""
        for shard in self.shards:
            self.engine.drop(shard)

    def find_ends(self) -> tuple[int, int]:
        """Number the first row with the earliest time, and the first with the latest."""
        early, late = zip(*self.ask(RequestLog.find_ends), strict=True)
        return min(early)[1], min((-time, row) for time, row in late)[1]


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


def hold_in_memory(log: RequestLog, engine: MemoryEngine | None = None) -> ShardedLog:
    """Wrap a log in memory as a log of one shard."""
    return ShardedLog(engine or MemoryEngine(1), [[log]], describe(log), log.requests.kinds)


def renumber_kinds(
    log: ShardedLog, kinds: pa.Table, numbers: Sequence[npt.NDArray[np.int32]]
) -> ShardedLog:
    """Number the requests of all shards as rows of one table.

    ``numbers`` holds, for each shard, the row in ``kinds`` of each of its distinct requests.
    """
    if len(log.shards) == 1 and np.array_equal(numbers[0], np.arange(kinds.num_rows)):
        return replace(log.change([log.engine.put({"kinds": kinds})]), kinds=kinds)
    jobs = [(_renumber, shard, number) for shard, number in zip(log.shards, numbers, strict=True)]
    changed = log.change(log.engine.derive(call_on_shard, jobs))
    shared = log.engine.put({"kinds": kinds})
    return replace(changed.change([shared] * len(log.shards)), kinds=kinds)


def _renumber(log: RequestLog, number: npt.NDArray[np.int32]) -> Change:
    return {"kind": number[log.requests.kind]}
