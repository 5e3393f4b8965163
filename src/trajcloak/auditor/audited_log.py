"""The auditor's own reading of a log: rows by user and time, requests apart.

Only the decoding of files to columns of Arrow is shared with what is judged. Rows wait in
shards, each with all rows of some users: in memory, or in files of a private folder.
"""

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyproj

from trajcloak.auditor.audited_requests import Kinds, RequestValues
from trajcloak.auditor.audited_rows import (
    EARTH,
    compare_with_next,
    find_lower_median,
    find_step,
    mark_conflicts,
    mark_swapped,
    mark_teleports,
    measure_spread,
    sort_rows_by_user,
)
from trajcloak.auditor.audited_values import (
    PLAIN_INTEGER,
    Codes,
    Floats,
    Ints,
    Mask,
    NumberedValues,
    decode_array,
    local_to_utc,
    read_times,
    try_cast,
)
from trajcloak.errors import InputError, OptionError
from trajcloak.log.files import (
    LogPath,
    LogSystem,
    count_rows,
    find_system,
    list_files,
    stream_batches,
)
from trajcloak.options import LogColumns
from trajcloak.progress import Progress

ROWS_PER_CHUNK = 1 << 24
"""Rows that are read before their users are numbered."""

BYTES_PER_ROW = 128
"""Memory that a row of a shard may take while the shard is worked on."""

MOST_SHARDS = 1024
FASTEST = 340.0
REASONS_TO_DROP = (
    "clip", "empty", "out-of-range", "null-island", "swapped", "conflict", "teleport"
)  # fmt: skip
TRUTHS = {"false": False, "0": False, "true": True, "1": True}
STAGE = "reading log"


@dataclass(frozen=True)
class Rows:
    """All rows of some users, by user and time.

    Attributes
    ----------
    first
        Where the rows of each user start.
    time
        In ticks.
    x, y
        As the log has them.
    request_user, request_time, request_kind
        The requests of these users: who, when, and what (see ``Log.kind_number``).
    """

    first: Ints
    time: Ints
    x: Floats
    y: Floats
    request_user: Codes
    request_time: Ints
    request_kind: Codes

    @property
    def user(self) -> Ints:
        """The user of each row."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


@dataclass
class Log:
    """A log, or its locations and a second log of requests.

    Attributes
    ----------
    ids
        Arrow array of the distinct user ids: int64 or text. User ``u`` is the user ``u //
        num_shards`` of shard ``u % num_shards``.
    shards
        Load them with :meth:`load`.
    requests
        Collects the requests while the log is read.
    one_log
        Whether rows carry the requests.
    stamped, zoned
        Whether times are timestamps, in microseconds, and whether these have a zone, and so
        are in UTC.
    clock
        Name of the zone whose clock windows follow; None: the log's own times.
    geographic, crs
        Whether coordinates are longitude and latitude, and their system.
    num_read, dropped, num_rows, num_users
        Rows of the files, how many were dropped, by reason, and what is left.
    earliest, latest, step
        Of the times, and the greatest common divisor of their differences.
    bounds, eastern
        Least x and y, greatest x and y; least and greatest longitude if those in the west
        are continued beyond 180 degrees.
    repeated, gaps
        Rows at the time of another of the same user; how often reports follow each other
        after each number of ticks.
    num_fast
        Rows that are faster than allowed, where such rows are refused.
    origin
        Some time of the log, from which ``step`` is found.
    kinds, kind_number
        The distinct requests, and which of them each ``request_kind`` of a shard is.
    """

    ids: Any
    shards: list[Any]
    requests: RequestValues
    one_log: bool
    stamped: bool
    zoned: bool
    clock: str | None
    geographic: bool
    crs: str | None
    num_read: int
    dropped: dict[str, int]
    ambiguous: int
    nonexistent: int
    num_rows: int = 0
    num_users: int = 0
    earliest: int = 2**62
    latest: int = -(2**62)
    step: int = 0
    bounds: tuple[float, ...] = (np.inf, np.inf, -np.inf, -np.inf)
    eastern: tuple[float, float] = (np.inf, -np.inf)
    repeated: int = 0
    gaps: dict[int, int] = field(default_factory=dict)
    num_fast: int = 0
    origin: int = 0
    kinds: Kinds = field(default_factory=lambda: Kinds([], [], [], False))
    kind_number: Codes = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def num_shards(self) -> int:
        """How many shards there are."""
        return len(self.shards)

    def load(self, shard: int) -> Rows:
        """Load the rows of a shard."""
        stored = self.shards[shard]
        return stored if isinstance(stored, Rows) else Rows(**np.load(stored))

    @property
    def crosses_meridian(self) -> bool:
        """Whether the log is around the 180th meridian."""
        west, _, east, _ = self.bounds
        low, high = self.eastern
        return self.geographic and east - west > 180.0 and high - low <= 180.0

    def project(self, rows: Rows, crs: str | None) -> tuple[Floats, Floats]:
        """Compute planar coordinates of rows; not finite where the projection has none."""
        if not self.geographic or crs is None:
            return rows.x, rows.y
        lon = continue_east(rows.x) if self.crosses_meridian else rows.x
        transformer = pyproj.Transformer.from_crs(self.crs, crs, always_xy=True)
        x, y = transformer.transform(lon, rows.y)
        return x, y


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
) -> Log:
    """Read a log, and check its rows as ``docs/data-model.md`` says.

    Parameters
    ----------
    source, columns, request_log
        As for :func:`trajcloak.read_log`.
    memory
        Bytes that rows may take, the others waiting in files; None: no limit.
    stack
        Closes the folder of these files.
    progress

    Raises
    ------
    InputError
        If a file or a row breaks a rule.
    """
    one_log = request_log is None and columns.is_report is None
    files = list_files(source)
    num_shards = _count_shards(files, memory)
    folder = None
    if num_shards > 1:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trajcloak-audit-")))
    waiting = WaitingRows(num_shards, folder)
    system = find_system(files, columns)
    located = replace(columns, requests=columns.requests if one_log else ())
    requests = RequestValues(located.requests, system.has_text)
    reader = LogReader(system, located, requests, waiting)
    reader.read(files, progress)
    if not one_log:
        # Requests of a second input, or of all rows of the same one, need no place.
        sent = files if request_log is None else list_files(request_log)
        asked = replace(columns, is_report=None)
        told = find_system(sent, asked, has_place=False)
        requests = RequestValues(columns.requests, told.has_text)
        second = LogReader(told, asked, requests, waiting, after=reader)
        second.read(sent, progress)
    log = reader.build(requests, one_log)
    _drop_swapped(log, waiting, columns)
    for shard in range(num_shards):
        rows = _finish_shard(log, waiting, shard, columns)
        log.shards.append(rows if folder is None else _store(rows, folder / f"{shard}.npz"))
    if not log.num_rows:
        raise InputError(
            "the log has no rows; expected at least one that is not dropped; check the path"
        )
    log.kinds, log.kind_number = requests.finish()
    progress(STAGE, log.num_rows, log.num_rows)
    return log


def _count_shards(files: Sequence[Any], memory: int | None) -> int:
    if memory is None:
        return 1
    # Rows of text have at least this many bytes.
    num_rows = (
        count_rows(files) or sum(f.stat().st_size for f in files if isinstance(f, Path)) // 16
    )
    return min(max(1, -(-num_rows * BYTES_PER_ROW // memory)), MOST_SHARDS)


def _store(rows: Rows, file: Path) -> Path:
    np.savez(file, **vars(rows))
    return file


class WaitingRows:
    """Columns of rows on their way into shards: in memory, or in files of a private folder."""

    def __init__(self, num_shards: int, folder: Path | None) -> None:
        self.num_shards = num_shards
        self._folder = folder
        self._parts: dict[tuple[int, str], list[npt.NDArray[Any]]] = {}
        self.counts = np.zeros(num_shards, np.int64)

    def add(self, shard: int, columns: dict[str, npt.NDArray[Any]]) -> None:
        """Append rows, or requests, to a shard."""
        for name, values in columns.items():
            parts = self._parts.setdefault((shard, name), [])
            if self._folder is None:
                parts.append(values)
                continue
            # An empty part keeps the type of what is in the file.
            parts[:] = [values[:0]]
            with (self._folder / f"{shard}-{name}").open("ab") as file:
                values.tofile(file)

    def look(self, shard: int, name: str) -> npt.NDArray[Any]:
        """Join a column of a shard."""
        parts = self._parts.get((shard, name), [np.zeros(0, np.int32)])
        if self._folder is not None and (shard, name) in self._parts:
            return np.fromfile(self._folder / f"{shard}-{name}", parts[0].dtype)
        if len(parts) > 1:
            parts[:] = [np.concatenate(parts)]
        return parts[0]

    def take(self, shard: int, name: str) -> npt.NDArray[Any]:
        """Join a column of a shard, and forget it."""
        values = self.look(shard, name)
        if self._parts.pop((shard, name), None) is not None and self._folder is not None:
            (self._folder / f"{shard}-{name}").unlink()
        return values


class LogReader:
    """Reads the files of a log, or of a request log, batch by batch into shards.

    Parameters
    ----------
    system
        What the files say about all rows.
    columns
        What to read.
    requests
        Collects the requests.
    waiting
        Where rows go.
    after
        The reader of the locations, if the files are those of requests.
    """

    def __init__(
        self,
        system: LogSystem,
        columns: LogColumns,
        requests: RequestValues,
        waiting: WaitingRows,
        after: "LogReader | None" = None,
    ) -> None:
        self._system, self._columns = system, columns
        self._requests, self._waiting, self._after = requests, waiting, after
        self._users = NumberedValues()
        self._kind: tuple[bool, bool] | None = None
        self.num_read = self._num_seen = 0
        self.dropped = dict.fromkeys(REASONS_TO_DROP, 0)
        self.ambiguous = self.nonexistent = 0

    def read(self, files: Sequence[Any], progress: Progress) -> None:
        """Read all files."""
        has_place = self._after is None
        expected = count_rows(files)
        chunk = _Chunk()
        for batch in stream_batches(files, self._columns, has_place=has_place):
            self._add(batch, chunk)
            self._num_seen += batch.num_rows
            # Sorting is still to come, so that the stage ends only after it.
            progress(STAGE, self._num_seen, expected + 1 if expected else 0)
            if chunk.num_rows >= ROWS_PER_CHUNK:
                self._end_chunk(chunk)
                chunk = _Chunk()
        self._end_chunk(chunk)

    def _add(self, batch: Any, chunk: "_Chunk") -> None:
        """Check the rows of a batch; the first columns are user, time and place."""
        if self._after is not None:
            rows, values = self._requests.take(batch)
            batch = batch.take(pa.array(rows))
            keep = np.ones(len(rows), bool)
            if "empty" in self._columns.drop:
                keep = ~_find_empty(batch.columns[:2])
            batch, values = batch.filter(pa.array(keep)), [v.filter(pa.array(keep)) for v in values]
        else:
            batch = self._drop_rows(batch)
        for name, column in zip(
            batch.schema.names, batch.columns[: 2 if self._after else 4], strict=False
        ):
            if column.null_count:
                raise InputError(
                    f"column '{name}' of the log is empty in a row; expected a value in every row; "
                    f"correct it, or drop such rows with --drop empty"
                )
        if not batch.num_rows:
            return
        chunk.users.append(self._take_users(batch.column(0)))
        chunk.times.append(self._take_times(batch.column(1)))
        if self._after is not None:
            chunk.values.append(values)
            chunk.request_rows.append(np.arange(batch.num_rows) + chunk.num_rows)
        else:
            for axis, places in enumerate((chunk.x, chunk.y)):
                places.append(self._take_coordinate(batch.column(2 + axis), axis))
            rows, values = self._requests.take(batch)
            chunk.values.append(values)
            chunk.request_rows.append(rows + chunk.num_rows)
        chunk.num_rows += batch.num_rows

    def _drop_rows(self, batch: Any) -> Any:
        """Choose location reports, leave out rows for their own values, and count them."""
        columns, keep = self._columns, np.ones(batch.num_rows, bool)
        if columns.is_report is not None:
            keep = _read_truths(batch.column(columns.is_report), columns.is_report)
        self.num_read += int(keep.sum())
        if columns.clip is not None or columns.drop:
            for reason, bad in _find_bad_rows(batch, columns, self._system.geographic).items():
                self.dropped[reason] += int((bad & keep).sum())
                keep &= ~bad
        return batch if keep.all() else batch.filter(pa.array(keep))

    def _take_users(self, column: Any) -> Any:
        column = decode_array(column)
        if pa.types.is_integer(column.type):
            column = pc.cast(column, pa.string() if self._has_text_ids else pa.int64())
        elif not pa.types.is_string(column.type):
            raise InputError(
                f"column '{self._columns.user}' is of type {column.type}; expected integers or "
                f"text; convert the user ids"
            )
        return column

    @property
    def _has_text_ids(self) -> bool:
        """Whether ids may be numbers that are written as text."""
        own = self._system.has_text_ids
        return own if self._after is None else own or self._after._has_text_ids

    def _take_times(self, column: Any) -> Ints:
        times = read_times(decode_array(column))
        kind = None if times is None else (times.stamped, times.zoned)
        self._kind = self._kind or kind
        if times is None or kind != self._kind:
            raise InputError(
                f"column '{self._columns.time}' of the log holds times of different kinds, or "
                f"none; expected integers, timestamps or ISO 8601 text, all with a zone or all "
                f"without; convert the times"
            )
        if self._columns.tz is None or times.zoned:
            return times.ticks
        if not times.stamped:
            raise OptionError(
                "a time zone is given for a log with integer times; expected timestamps; leave it "
                "out"
            )
        ticks, ambiguous, nonexistent = local_to_utc(times.ticks, self._columns.tz)
        self.ambiguous += ambiguous
        self.nonexistent += nonexistent
        return ticks

    def _take_coordinate(self, column: Any, axis: int) -> Floats:
        values = try_cast(column, pa.float64())
        bound = (180.0, 90.0)[axis] if self._system.geographic else np.inf
        numbers = None if values is None else values.to_numpy(zero_copy_only=False)
        if numbers is None or not (np.isfinite(numbers) & (np.abs(numbers) <= bound)).all():
            raise InputError(
                "the log holds coordinates that are no numbers, not finite, or beyond -180..180 "
                "and -90..90 degrees; expected places; are longitude and latitude swapped? correct "
                "them, or drop such rows with --drop out-of-range"
            )
        return np.ascontiguousarray(numbers)

    def _end_chunk(self, chunk: "_Chunk") -> None:
        """Number the users of a chunk, and hand its rows or requests to their shards."""
        if not chunk.num_rows:
            return
        time = np.concatenate(chunk.times)
        codes = self._requests.number(chunk.values) if self._requests.numbered else []
        named_codes: dict[str, Any] = {f"code{a}": code for a, code in enumerate(codes)}
        num_shards = self._waiting.num_shards
        if self._after is not None:
            user = self._after.find_users(chunk.users)
            sent = {"request_user": user // num_shards, "request_time": time, **named_codes}
            for shard in range(num_shards):
                mine = (user % num_shards == shard) & (user >= 0)
                self._waiting.add(shard, {name: values[mine] for name, values in sent.items()})
            return
        number = self._number_users(chunk)
        rows = {"user": number // np.int32(num_shards), "time": time}
        rows |= {"x": np.concatenate(chunk.x), "y": np.concatenate(chunk.y)}
        request_row = np.concatenate(chunk.request_rows)
        if num_shards == 1:
            sent = {"request_row": request_row + self._waiting.counts[0], **named_codes}
            self._waiting.add(0, rows | sent)
            self._waiting.counts[0] += chunk.num_rows
            return
        for shard in range(num_shards):
            mine = number % num_shards == shard
            chosen = mine[request_row]
            place = np.cumsum(mine)[request_row[chosen]] - 1 + self._waiting.counts[shard]
            sent = {name: code[chosen] for name, code in named_codes.items()}
            of_shard = {name: values[mine] for name, values in rows.items()}
            self._waiting.add(shard, of_shard | sent | {"request_row": place})
            self._waiting.counts[shard] += int(mine.sum())

    def _number_users(self, chunk: "_Chunk") -> Codes:
        if len({str(part.type) for part in chunk.users}) > 1:
            raise InputError(
                f"column '{self._columns.user}' of the log holds integers and text; expected one "
                f"type; convert the user ids"
            )
        return self._users.number_all(chunk.users)

    def find_users(self, parts: Sequence[Any]) -> Ints:
        """Find the numbers of users by their ids; -1 for those without a row."""
        ids = self._users.values
        found = [match_ids(part, ids) for part in parts]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def build(self, requests: RequestValues, one_log: bool) -> Log:
        """Build the log, to be completed shard by shard."""
        stamped, zoned = self._kind or (False, False)
        ids = self._users.values
        is_text = self._system.has_text_ids and len(ids)
        if is_text and pc.all(pc.match_substring_regex(ids, PLAIN_INTEGER)).as_py():
            ids = ids.cast(pa.int64())
        return Log(
            ids=ids,
            shards=[],
            requests=requests,
            one_log=one_log,
            stamped=stamped,
            zoned=zoned or (stamped and self._columns.tz is not None),
            clock=self._columns.tz,
            geographic=self._system.geographic,
            crs=self._system.crs,
            num_read=self.num_read,
            dropped=self.dropped,
            ambiguous=self.ambiguous,
            nonexistent=self.nonexistent,
        )


@dataclass
class _Chunk:
    """Rows that were read, and whose users are not numbered yet."""

    num_rows: int = 0
    users: list[Any] = field(default_factory=list)
    times: list[Ints] = field(default_factory=list)
    x: list[Floats] = field(default_factory=list)
    y: list[Floats] = field(default_factory=list)
    request_rows: list[Ints] = field(default_factory=list)
    values: list[list[Any]] = field(default_factory=list)


def match_ids(wanted: Any, ids: Any) -> Ints:
    """Find the places of ids in a list of distinct ones; -1 for those that are not there."""
    if wanted.type != ids.type:
        wanted, ids = pc.cast(wanted, pa.string()), pc.cast(ids, pa.string())
    place: Ints = pc.fill_null(pc.index_in(wanted, value_set=ids), -1).to_numpy().astype(np.int64)
    return place


def _find_empty(columns: Sequence[Any]) -> Mask:
    empty = np.zeros(len(columns[0]), dtype=bool)
    for column in columns:
        empty |= column.is_null().to_numpy(zero_copy_only=False)
    return empty


def _find_bad_rows(batch: Any, columns: LogColumns, geographic: bool) -> dict[str, Mask]:
    """Mark, by reason, the rows of a batch that are to be dropped for their own values."""
    places = batch.columns[2:4]
    x, y = (_to_floats(column) for column in places)
    wild = np.zeros(batch.num_rows, dtype=bool)
    for column, values, bound in zip(places, (x, y), (180.0, 90.0), strict=True):
        good = np.isfinite(values) & (np.abs(values) <= (bound if geographic else np.inf))
        wild |= ~good & column.is_valid().to_numpy(zero_copy_only=False)
    found = {
        "empty": _find_empty(batch.columns[:4]),
        "out-of-range": wild,
        "null-island": (x == 0.0) & (y == 0.0),
    }
    chosen = {reason: mask for reason, mask in found.items() if reason in columns.drop}
    if columns.clip is not None:
        low_x, low_y, high_x, high_y = columns.clip
        chosen["clip"] = (x < low_x) | (y < low_y) | (x > high_x) | (y > high_y)
    return chosen


def _to_floats(column: Any) -> Floats:
    values = try_cast(decode_array(column), pa.float64())
    if values is None:
        return np.full(len(column), np.nan)
    numbers: Floats = values.to_numpy(zero_copy_only=False)
    return numbers


def _read_truths(column: Any, name: str) -> Mask:
    texts = try_cast(decode_array(column), pa.string())
    texts = pa.nulls(len(column), pa.string()) if texts is None else pc.utf8_lower(texts)
    code = pc.fill_null(pc.index_in(texts, value_set=pa.array(list(TRUTHS))), -1).to_numpy()
    if (code < 0).any():
        raise InputError(
            f"column '{name}' does not say of every row whether it is a location report; expected "
            f"true or false, or 1 or 0; correct it"
        )
    truths: Mask = np.array(list(TRUTHS.values()))[code]
    return truths


def _drop_swapped(log: Log, waiting: WaitingRows, columns: LogColumns) -> None:
    """Mark rows whose axes are swapped, for :func:`_finish_shard` to drop."""
    if "swapped" not in columns.drop or not log.geographic:
        return
    shards = range(waiting.num_shards)
    count = int(waiting.counts.sum())

    def look(name: str) -> Iterator[Floats]:
        return (waiting.look(shard, name) for shard in shards)

    def look_at_spread() -> Iterator[Floats]:
        return (measure_spread(x, y, centre) for x, y in zip(look("x"), look("y"), strict=True))

    if count:
        centre = (
            find_lower_median(lambda: look("x"), count),
            find_lower_median(lambda: look("y"), count),
        )
        reach = 4 * max(find_lower_median(look_at_spread, count), 0.01)
        for shard, x, y in zip(shards, look("x"), look("y"), strict=True):
            waiting.add(shard, {"swapped": mark_swapped(x, y, centre, reach)})


def _finish_shard(log: Log, waiting: WaitingRows, shard: int, columns: LogColumns) -> Rows:
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
    time, x, y = time[order], waiting.take(shard, "x")[order], waiting.take(shard, "y")[order]
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
    rows = Rows(first, time, x, y, sender.astype(np.int32), sent.astype(np.int64), kind)
    _add_up(log, rows)
    return rows


def _add_up(log: Log, rows: Rows) -> None:
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
            f"at another place; expected one place; remove such rows, or pass --drop conflict"
        )
    log.repeated += repeated
    ticks, counts = np.unique(gaps[:others], return_counts=True)
    for tick, count in [(usual, regular), *zip(ticks.tolist(), counts.tolist(), strict=True)]:
        if count:
            log.gaps[tick] = log.gaps.get(tick, 0) + count
    if not log.num_rows:
        log.origin = int(time[0])
    log.step = math.gcd(log.step, int(find_step(time, log.origin)))
    log.num_rows += len(time)
    log.num_users += int((np.diff(first) > 0).sum())
    log.earliest = min(log.earliest, int(time.min()))
    log.latest = max(log.latest, int(time.max()))
    low_x, low_y, high_x, high_y = log.bounds
    log.bounds = (
        min(low_x, float(x.min())),
        min(low_y, float(y.min())),
        max(high_x, float(x.max())),
        max(high_y, float(y.max())),
    )
    if log.geographic:
        east = continue_east(x)
        low, high = log.eastern
        log.eastern = min(low, float(east.min())), max(high, float(east.max()))
