"""Reads the files of a log, or of a request log, batch by batch; rows wait in shards.

Only the decoding of files to columns of Arrow is shared with what is judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_columns import (
    PLAIN_INTEGER,
    Codes,
    Floats,
    Ints,
    Mask,
    NumberedValues,
    match_ids,
    to_floats,
    try_cast,
)
from trajcloak.auditor.audited_requests import RequestValues
from trajcloak.auditor.audited_times import local_to_utc, read_ticks
from trajcloak.errors import InputError, OptionError, OutputError
from trajcloak.log.file_columns import LogSystem
from trajcloak.log.files import count_rows, stream_batches
from trajcloak.log.types import to_plain
from trajcloak.options import DROPPABLE, LogColumns
from trajcloak.progress import Progress

READING = "reading log"
NO_CLIP = (-np.inf, -np.inf, np.inf, np.inf)


class WaitingRows:
    """Columns of rows on their way into shards: in memory, or in files of a private folder.

    ``chunk`` rows are read before their users are numbered, and they are handed to shards.
    ``counts`` are the rows of each shard so far.
    """

    def __init__(self, num_shards: int, chunk: int, folder: Path | None) -> None:
        self.num_shards = num_shards
        self.chunk = chunk
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
            try:
                with (self._folder / f"{shard}-{name}").open("ab") as file:
                    file.write(values.tobytes())
            except OSError as error:
                raise OutputError(
                    f"{self._folder}: cannot be written ({error.strerror}); expected room for the "
                    f"rows of the log; free some, or pass a larger --memory"
                ) from error

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

    ``system`` is what the files say about all rows. ``after`` is the reader of the locations, if
    the files are those of requests.
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
        # Whether ids may be numbers that are written as text.
        self._has_text_ids: bool = system.has_text_ids or (
            after is not None and after._has_text_ids
        )
        self._own_kind: tuple[bool, bool] | None = None
        self.num_read = 0
        self.dropped = dict.fromkeys(("clip", *DROPPABLE), 0)
        self.ambiguous = self.nonexistent = 0

    def read(self, files: Sequence[Any], progress: Progress) -> None:
        """Read all files."""
        expected, num_seen = count_rows(files), 0
        chunk = _Chunk()
        for batch in stream_batches(files, self._columns):
            self._add(batch, chunk)
            num_seen += batch.num_rows
            # Sorting is still to come, so that the stage ends only after it.
            progress(READING, num_seen, expected + 1 if expected else 0)
            if chunk.num_rows >= self._waiting.chunk:
                self._end_chunk(chunk)
                chunk = _Chunk()
        self._end_chunk(chunk)

    def _add(self, batch: Any, chunk: "_Chunk") -> None:
        """Check the rows of a batch; the first columns are user, time and place."""
        if self._after is None:
            batch = self._drop_rows(batch)
            _check_filled(batch, batch.schema.names[:4])
            if not batch.num_rows:
                return
            rows, values = self._requests.take(batch)
            for axis, places in enumerate((chunk.x, chunk.y)):
                places.append(self._take_coordinate(batch.column(2 + axis), axis))
        else:
            rows, values = self._requests.take(batch)
            batch = batch.take(pa.array(rows))
            if "empty" in self._columns.drop:
                filled = pa.array(~_find_empty(batch.columns[:2]))
                batch, values = batch.filter(filled), [v.filter(filled) for v in values]
            _check_filled(batch, batch.schema.names[:2])
            if not batch.num_rows:
                return
            rows = np.arange(batch.num_rows)
        chunk.users.append(self._take_users(batch.column(0)))
        chunk.times.append(self._take_times(batch.column(1)))
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
            (x, wild_x), (y, wild_y) = (
                _read_coordinate(batch.column(2 + axis), axis, self._system.geographic)
                for axis in (0, 1)
            )
            low_x, low_y, high_x, high_y = columns.clip or NO_CLIP
            for reason, bad in (
                ("empty", _find_empty(batch.columns[:4])),
                ("out-of-range", wild_x | wild_y),
                ("null-island", (x == 0.0) & (y == 0.0)),
                ("clip", (x < low_x) | (y < low_y) | (x > high_x) | (y > high_y)),
            ):
                if reason in ("clip", *columns.drop):
                    self.dropped[reason] += int((bad & keep).sum())
                    keep &= ~bad
        return batch if keep.all() else batch.filter(pa.array(keep))

    def _take_users(self, column: Any) -> Any:
        column = to_plain(column)
        if pa.types.is_integer(column.type):
            column = pc.cast(column, pa.string() if self._has_text_ids else pa.int64())
        elif not pa.types.is_string(column.type):
            raise InputError(
                f"column '{self._columns.user}' is of type {column.type}; expected integers or "
                f"text; convert the user ids"
            )
        return column

    def _take_times(self, column: Any) -> Ints:
        times = read_ticks(to_plain(column))
        kind = None if times is None else (times.stamped, times.zoned)
        self._own_kind = self._own_kind or kind
        if times is None or kind != self._own_kind:
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

    @property
    def kind(self) -> tuple[bool, bool] | None:
        """Whether times are timestamps, and whether in UTC; None before the first row."""
        if self._own_kind is None:
            return None
        stamped, zoned = self._own_kind
        return stamped, zoned or (stamped and self._columns.tz is not None)

    def _take_coordinate(self, column: Any, axis: int) -> Floats:
        values, wild = _read_coordinate(column, axis, self._system.geographic)
        if wild.any():
            raise InputError(
                "the log holds coordinates that are no numbers, not finite, or beyond -180..180 "
                "and -90..90 degrees; expected places; are longitude and latitude swapped? correct "
                "them, or drop such rows with --drop=out-of-range"
            )
        return values

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
        return np.concatenate([match_ids(part, self._users.values) for part in parts])

    @property
    def ids(self) -> Any:
        """The distinct user ids: integers if all texts of a text file are plain ones."""
        ids = self._users.values
        is_text = self._system.has_text_ids and len(ids)
        if is_text and pc.all(pc.match_substring_regex(ids, PLAIN_INTEGER)).as_py():
            return ids.cast(pa.int64())
        return ids


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


def _check_filled(batch: Any, names: Sequence[str]) -> None:
    """Raise if a value of some columns is missing."""
    for name in names:
        if batch.column(name).null_count:
            raise InputError(
                f"column '{name}' of the log is empty in a row; expected a value in every row; "
                f"correct it, or drop such rows with --drop=empty"
            )


def _find_empty(columns: Sequence[Any]) -> Mask:
    empty = np.zeros(len(columns[0]), dtype=bool)
    for column in columns:
        empty |= column.is_null().to_numpy(zero_copy_only=False)
    return empty


def _read_coordinate(column: Any, axis: int, geographic: bool) -> tuple[Floats, Mask]:
    """Read a column as longitudes or x (axis 0), or latitudes or y; marks what is no place."""
    values = to_floats(to_plain(column))
    bound = (180.0, 90.0)[axis] if geographic else np.inf
    is_place = np.isfinite(values) & (np.abs(values) <= bound)
    return values, ~is_place & column.is_valid().to_numpy(zero_copy_only=False)


def _read_truths(column: Any, name: str) -> Mask:
    # As text, so that no number but 0 and 1 is taken for a truth.
    texts = try_cast(to_plain(column), pa.string())
    truths = None if texts is None else try_cast(texts, pa.bool_())
    if truths is None or truths.null_count:
        raise InputError(
            f"column '{name}' does not say of every row whether it is a location report; expected "
            f"true or false, or 1 or 0; correct it"
        )
    return np.asarray(truths)
