"""The auditor's own reading of a log: rows by user and time, requests apart.

Rows wait in shards, each with all rows of some users: in memory, or in files of a private
folder.
"""

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyproj

from trajcloak.auditor.audited_columns import Codes, Floats, Ints, Mask
from trajcloak.auditor.audited_log_files import READING, LogReader, WaitingRows
from trajcloak.auditor.audited_requests import AuditedKinds, RequestValues
from trajcloak.auditor.rows_by_user import (
    EARTH,
    compare_with_next,
    find_lower_median,
    mark_conflicts,
    mark_teleports,
    measure_spread,
    sort_rows_by_user,
)
from trajcloak.errors import InputError
from trajcloak.log.file_columns import LogPath, find_system, recognise_columns
from trajcloak.log.files import count_rows, list_files
from trajcloak.options import LogColumns
from trajcloak.progress import Progress

ROWS_PER_CHUNK = 1 << 24
BYTES_PER_ROW = 128
"""Memory that a row of a shard may take while the shard is worked on."""

MOST_SHARDS = 1024
FASTEST = 340.0
"""Metres per second, where no other speed is given."""

PROJECTION = "+proj=laea +lat_0={lat} +lon_0={lon} +datum=WGS84 +units=m +no_defs"

Box = tuple[float, ...]
"""Least x and y, greatest x and y."""

EMPTY_BOX = (np.inf, np.inf, -np.inf, -np.inf)


@dataclass(frozen=True)
class AuditedRows:
    """All rows of some users, by user and time, and their requests: who, when, and what."""

    first: Ints  # where the rows of each user start
    time: Ints  # in ticks
    x: Floats  # as the log has it, unless projected
    y: Floats
    request_user: Codes
    request_time: Ints
    request_kind: Codes  # see ``AuditedLog.kind_number``


@dataclass
class AuditedLog:
    """A log, or its locations and a second log of requests."""

    # Arrow array of the distinct user ids: int64 or text. User ``u`` is the user ``u //
    # num_shards`` of shard ``u % num_shards``.
    ids: Any
    shards: list[Any]  # load them with :meth:`load`
    requests: RequestValues  # collects the requests while the log is read
    one_log: bool  # whether rows carry the requests
    stamped: bool  # whether times are timestamps, in microseconds
    zoned: bool  # whether these have a zone, and so are in UTC
    clock: str | None  # name of the zone whose clock windows follow; None: the log's own times
    geographic: bool  # whether coordinates are longitude and latitude
    crs: str | None  # their system
    num_read: int  # rows of the files
    dropped: dict[str, int]  # by reason
    ambiguous: int  # local times that occur twice
    nonexistent: int  # local times that are skipped
    num_rows: int = 0  # that are left
    num_users: int = 0
    earliest: int = 2**62
    latest: int = -(2**62)
    step: int = 0  # the greatest common divisor of the differences of times
    bounds: Box = EMPTY_BOX
    # Least and greatest longitude if those in the west are continued beyond 180 degrees.
    eastern: tuple[float, float] = (np.inf, -np.inf)
    repeated: int = 0  # rows at the time of another of the same user
    gaps: dict[int, int] = field(default_factory=dict)  # how often reports are so far apart
    num_fast: int = 0  # rows that are faster than allowed, where such rows are refused
    kinds: AuditedKinds = field(default_factory=lambda: AuditedKinds([], [], [], False))
    kind_number: Codes = field(default_factory=lambda: np.zeros(0, np.int32))  # of ``request_kind``

    @property
    def num_shards(self) -> int:
        """How many shards there are."""
        return len(self.shards)

    def load(self, shard: int) -> AuditedRows:
        """Load the rows of a shard."""
        stored = self.shards[shard]
        return stored if isinstance(stored, AuditedRows) else AuditedRows(**np.load(stored))

    @property
    def crosses_meridian(self) -> bool:
        """Whether the log is around the 180th meridian."""
        west, _, east, _ = self.bounds
        low, high = self.eastern
        return self.geographic and east - west > 180.0 and high - low <= 180.0

    @property
    def plane_crs(self) -> str | None:
        """The coordinate system of the plane: the log's own, or a projection.

        It is centred on the log, to two decimals of a degree.
        """
        if not self.geographic:
            return self.crs
        west, south, east, north = self.bounds
        if self.crosses_meridian:
            west, east = self.eastern
        lon, lat = round((west + east) / 2, 2), round((south + north) / 2, 2)
        return PROJECTION.format(lat=lat, lon=lon)

    def project(self, rows: AuditedRows) -> AuditedRows:
        """Project rows to the plane; coordinates are not finite where it has no place for them."""
        if not self.geographic:
            return rows
        lon = continue_east(rows.x) if self.crosses_meridian else rows.x
        transformer = pyproj.Transformer.from_crs(self.crs, self.plane_crs, always_xy=True)
        x, y = transformer.transform(lon, rows.y)
        return replace(rows, x=x, y=y)


def continue_east(longitude: Floats) -> Floats:
    """Number the longitudes of the western hemisphere from 180 to 360."""
    return np.where(longitude < 0, longitude + 360.0, longitude)


def read_audited_log(
    source: LogPath,
    columns: LogColumns,
    request_log: LogPath | None,
    memory: int | None,
    stack: ExitStack,
    progress: Progress,
) -> AuditedLog:
    """Read a log, and check its rows as ``docs/data-model.md`` says.

    Rows may take ``memory`` bytes, and others wait in files, whose folder ``stack`` closes; None:
    no limit.
    """
    one_log = request_log is None and columns.is_report is None
    files = list_files(source)
    asked, columns = columns, recognise_columns(files[0], columns)
    num_shards = 1 if memory is None else _count_shards(files, memory)
    folder, chunk = None, ROWS_PER_CHUNK
    if memory is not None and num_shards > 1:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trajcloak-audit-")))
        chunk = min(chunk, memory // BYTES_PER_ROW)
    waiting = WaitingRows(num_shards, chunk, folder)
    system = find_system(files, columns)
    located = replace(columns, requests=columns.requests if one_log else ())
    requests = RequestValues(located.requests, system.has_text)
    reader = LogReader(system, located, requests, waiting)
    reader.read(files, progress)
    if not one_log:
        # Requests of a second input, or of all rows of the same one, need no place.
        sent = files if request_log is None else list_files(request_log)
        asked = replace(recognise_columns(sent[0], asked, has_place=False), is_report=None)
        request_system = find_system(sent, asked)
        requests = RequestValues(columns.requests, request_system.has_text)
        second = LogReader(request_system, asked, requests, waiting, after=reader)
        second.read(sent, progress)
        if second.kind not in (None, reader.kind):
            raise InputError(
                "locations and requests have times of different kinds; expected integers in both, "
                "or timestamps, with a zone in both or in neither; convert the times of one"
            )
    stamped, zoned = reader.kind or (False, False)
    log = AuditedLog(
        ids=reader.ids,
        shards=[],
        requests=requests,
        one_log=one_log,
        stamped=stamped,
        zoned=zoned,
        clock=columns.tz,
        geographic=system.geographic,
        crs=system.crs,
        num_read=reader.num_read,
        dropped=reader.dropped,
        ambiguous=reader.ambiguous,
        nonexistent=reader.nonexistent,
    )
    # What Arrow keeps for the next file would count as memory in use.
    pa.default_memory_pool().release_unused()
    _mark_swapped_rows(log, waiting, columns)
    for shard in range(num_shards):
        rows: AuditedRows | Path = _finish_shard(log, waiting, shard, columns)
        if folder is not None:
            np.savez(folder / f"{shard}.npz", **vars(rows))
            rows = folder / f"{shard}.npz"
        log.shards.append(rows)
    if not log.num_rows:
        raise InputError(
            "the log has no rows; expected at least one that is not dropped; check the path"
        )
    log.kinds, log.kind_number = requests.finish()
    progress(READING, log.num_rows, log.num_rows)
    return log


def _count_shards(files: Sequence[Any], memory: int) -> int:
    # Rows of text have at least this many bytes.
    num_rows = (
        count_rows(files) or sum(f.stat().st_size for f in files if isinstance(f, Path)) // 16
    )
    return min(max(1, -(-num_rows * BYTES_PER_ROW // memory)), MOST_SHARDS)


def _mark_swapped_rows(log: AuditedLog, waiting: WaitingRows, columns: LogColumns) -> None:
    """Mark rows whose axes are swapped, for :func:`_finish_shard` to drop."""
    shards, count = range(waiting.num_shards), int(waiting.counts.sum())
    if "swapped" not in columns.drop or not log.geographic or not count:
        return

    def look(name: str) -> Iterator[Floats]:
        return (waiting.look(shard, name) for shard in shards)

    def look_at_spread() -> Iterator[Floats]:
        return (measure_spread(x, y, centre) for x, y in zip(look("x"), look("y"), strict=True))

    centre = (
        find_lower_median(lambda: look("x"), count),
        find_lower_median(lambda: look("y"), count),
    )
    reach = 4 * max(find_lower_median(look_at_spread, count), 0.01)
    for shard, x, y in zip(shards, look("x"), look("y"), strict=True):
        # Far from the middle of the log, but near it with their axes swapped.
        is_far = measure_spread(x, y, centre) > 2 * reach
        is_near = measure_spread(y, x, centre) <= reach
        waiting.add(shard, {"swapped": is_far & is_near})


def _finish_shard(
    log: AuditedLog, waiting: WaitingRows, shard: int, columns: LogColumns
) -> AuditedRows:
    """Sort the rows of a shard, drop those that contradict others, and add up what is left."""
    user, time = waiting.take(shard, "user"), waiting.take(shard, "time")
    if log.one_log:
        request_row = waiting.take(shard, "request_row")
        sender, sent = user[request_row], time[request_row]
    else:
        sender, sent = waiting.take(shard, "request_user"), waiting.take(shard, "request_time")
    kind = log.requests.number_kinds(
        [waiting.take(shard, f"code{a}") for a in range(len(log.requests.numbered))]
    )
    num_users = -(-(len(log.ids) - shard) // waiting.num_shards)
    order, first = sort_rows_by_user(user, time, num_users)
    del user
    # One after another, so that no two columns are there twice.
    time = time[order]
    x = waiting.take(shard, "x")[order]
    y = waiting.take(shard, "y")[order]
    swapped = waiting.take(shard, "swapped")

    def remove(reason: str, bad: Mask) -> None:
        nonlocal order, first, time, x, y
        log.dropped[reason] += int(bad.sum())
        if bad.any():
            owner = np.repeat(np.arange(num_users), np.diff(first))[~bad]
            first = np.append(0, np.cumsum(np.bincount(owner, minlength=num_users)))
            order, time, x, y = order[~bad], time[~bad], x[~bad], y[~bad]

    if len(swapped):
        remove("swapped", swapped[order])
    if "conflict" in columns.drop:
        bad = np.zeros(len(time), bool)
        mark_conflicts(first, time, x, y, bad)
        remove("conflict", bad)
    if "teleport" in columns.drop or columns.max_speed is not None:
        bad = np.zeros(len(time), bool)
        speed = (columns.max_speed or FASTEST) / (1e6 if log.stamped else 1.0)
        mark_teleports(first, time, x, y, speed, EARTH if log.geographic else 0.0, bad)
        if "teleport" in columns.drop:
            remove("teleport", bad)
        else:
            log.num_fast += int(bad.sum())
    if log.one_log and len(order) < waiting.counts[shard]:
        is_left = np.zeros(waiting.counts[shard], bool)
        is_left[order] = True
        left = is_left[request_row]
        sender, sent, kind = sender[left], sent[left], kind[left]
    rows = AuditedRows(first, time, x, y, sender.astype(np.int32), sent.astype(np.int64), kind)
    _add_up(log, rows)
    return rows


def _add_up(log: AuditedLog, rows: AuditedRows) -> None:
    """Add what a shard has to the figures of the whole log."""
    first, time, x, y = rows.first, rows.time, rows.x, rows.y
    if not len(time):
        return
    gaps = np.empty(len(time), np.int64)
    usual = int(time[1] - time[0]) if first[1] > 1 else 0
    repeated, disagreeing, regular, others = compare_with_next(first, time, x, y, usual, gaps)
    if disagreeing:
        raise InputError(
            f"the log has {disagreeing:,} rows of a user at the time of another of their rows and "
            f"at another place; expected one place; remove such rows, or pass --drop=conflict"
        )
    log.repeated += repeated
    ticks, counts = np.unique(gaps[:others], return_counts=True)
    for tick, count in [(usual, regular), *zip(ticks.tolist(), counts.tolist(), strict=True)]:
        if count:
            log.gaps[tick] = log.gaps.get(tick, 0) + count
    some_time = log.earliest if log.num_rows else time[0]
    log.step = math.gcd(log.step, int(np.gcd.reduce(time - some_time)))
    log.num_rows += len(time)
    log.num_users += int((np.diff(first) > 0).sum())
    log.earliest = min(log.earliest, int(time.min()))
    log.latest = max(log.latest, int(time.max()))
    log.bounds = widen(log.bounds, x, y)
    if log.geographic:
        east = continue_east(x)
        low, high = log.eastern
        log.eastern = min(low, float(east.min())), max(high, float(east.max()))


def widen(bounds: Box, x: Floats, y: Floats) -> Box:
    """Widen a box to more places."""
    if not len(x):
        return bounds
    low = np.minimum(bounds[:2], [x.min(), y.min()])
    high = np.maximum(bounds[2:], [x.max(), y.max()])
    return (*low.tolist(), *high.tolist())
