"""Turn batches of a log into plain columns, and check every row."""

import math
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError, OptionError
from trajcloak.kernels.intern import IntegerIds, TextIds, rank_ids, renumber
from trajcloak.kernels.threads import run_sliced
from trajcloak.log.bad_rows import BadRows, Trouble
from trajcloak.log.csv_text import find_unreadable
from trajcloak.log.file_columns import LogSystem
from trajcloak.log.filter import RowFilter, to_array, to_floats
from trajcloak.log.geometry import DEGREES
from trajcloak.log.request_values import RequestBuilder, SentRequests
from trajcloak.log.sharded_log import LogFacts, RequestLog, mixed_ids
from trajcloak.log.times import (
    ISO_FORMS,
    MAX_TIME_SPAN,
    WHOLE_NUMBERS,
    WITH_ZONE,
    WITHOUT_ZONE,
    choose_time_type,
    copy_times,
    mixed_times,
    name_kind,
    to_utc,
)
from trajcloak.log.types import to_plain
from trajcloak.options import LogColumns

FIRST_ROWS = 1 << 16
"""Rows to make room for where nobody knows how many there are."""


class RowColumns(NamedTuple):
    """Columns to be filled with checked rows: users by number, times, coordinates."""

    user: npt.NDArray[np.int32]
    time: npt.NDArray[np.int64]
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]

    @classmethod
    def empty(cls, size: int, *, has_place: bool = True) -> "RowColumns":
        """Allocate ``size`` rows; without a place, no coordinates."""
        placed = size if has_place else 0
        return cls(
            np.empty(size, np.int32),
            np.empty(size, np.int64),
            np.empty(placed, np.float64),
            np.empty(placed, np.float64),
        )

    def cut(self, start: int, stop: int) -> "RowColumns":
        """Take a half-open range of the rows, without a copy."""
        part = slice(start, stop)
        return RowColumns(self.user[part], self.time[part], self.x[part], self.y[part])


class RowReader:
    """Checks the rows of a log batch by batch, numbers their users, and collects them.

    ``pool`` checks the columns of a batch in parallel. ``bad`` notes the rows that are refused.
    ``first_row``: rows of the log that come before. ``num_expected``: about how many will be added.
    """

    def __init__(
        self,
        columns: LogColumns,
        system: LogSystem,
        pool: ThreadPoolExecutor,
        bad: BadRows,
        first_row: int,
        num_expected: int,
    ) -> None:
        self.first_row = first_row
        self._has_place = columns.place is not None
        self._rows = RowColumns.empty(max(num_expected, FIRST_ROWS), has_place=self._has_place)
        self._num_rows = 0
        self._file_rows: list[range | npt.NDArray[np.int64]] = []
        self._pool = pool
        self._bad = bad
        self._columns = columns
        self._system = system
        self.filter = RowFilter(columns, bad, geographic=system.geographic)
        self.filter.num_read = first_row
        self._requests = RequestBuilder(columns.requests, has_text=system.has_text)
        # Whether some file has ids that are numbers, although other files may have text.
        self.has_integer_ids = False
        self._ids: IntegerIds | TextIds | None = None
        self._time_kind: str | None = None
        self._origin: int | None = None
        self._step = 0
        self.shifted = dict.fromkeys(("ambiguous", "nonexistent"), 0)
        self._time_range = (2**63 - 1, -(2**63))
        self._bounds = [math.inf, math.inf, -math.inf, -math.inf]

    @property
    def num_read(self) -> int:
        """How many rows were read so far, dropped ones included."""
        return self.filter.num_read

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch that are neither dropped nor refused."""
        batch = self.filter.apply(batch)
        start, stop = self._num_rows, self._num_rows + batch.num_rows
        self._reserve(stop)
        self._num_rows += self._check(batch, self._rows.cut(start, stop), start)
        if self._has_place:
            self._file_rows.append(self.filter.rows)

    def _reserve(self, num_rows: int) -> None:
        size = len(self._rows.user)
        if num_rows > size:
            larger = RowColumns.empty(max(num_rows, 2 * size), has_place=self._has_place)
            for name in RowColumns._fields:
                getattr(larger, name)[:size] = getattr(self._rows, name)
            self._rows = larger

    def _check(self, batch: pa.RecordBatch, rows: RowColumns, first_row: int) -> int:
        """Check the rows of a batch that the filter kept, and write them to ``rows``.

        ``first_row`` is the number of the batch's first row, for its requests. Returns how many
        rows are left: those that are refused are noted, and left out.
        """
        batch, times = self._read_times(batch)
        places: list[npt.NDArray[np.float64]] = []
        if self._has_place:
            batch, times, places = self._read_places(batch, times)
        if batch.num_rows == 0:
            # The names and types of the attributes are known even if there is no request.
            if not self._has_place:
                self._requests.add(batch, first_row)
            return 0
        rows = rows.cut(0, batch.num_rows)
        # Columns are checked in parallel; if several are bad, the first one is reported.
        jobs = [
            self._pool.submit(self._add_users, batch.column(0), batch.schema.names[0], rows.user),
            self._pool.submit(self._add_times, times, batch.schema.names[1], rows.time),
            self._pool.submit(self._requests.add, batch, first_row),
            *(
                self._pool.submit(self._add_coordinates, axis, values, out)
                for axis, (values, out) in enumerate(zip(places, (rows.x, rows.y), strict=False))
            ),
        ]
        wait(jobs)
        for job in jobs:
            job.result()
        return int(batch.num_rows)

    @property
    def has_rows(self) -> bool:
        """Whether any row was kept so far."""
        return self._ids is not None

    @property
    def _kind_of_times(self) -> str:
        """The kind of the times as they are kept; there must be a row."""
        assert self._time_kind is not None
        return WITH_ZONE if self._columns.tz else self._time_kind

    def list_kinds(self) -> set[tuple[bool, str]]:
        """Whether ids are numbers, and the kind of the times; nothing if no row was kept."""
        if not self.has_rows:
            return set()
        return {(isinstance(self._ids, IntegerIds), self._kind_of_times)}

    def _number_users(self, threads: int) -> tuple[pa.Array, RowColumns]:
        """List the users in the order of their ids, and number the rows' users likewise."""
        assert self._ids is not None
        rows = self._rows.cut(0, self._num_rows)
        users, rank = rank_ids(self._ids.distinct())
        if (np.diff(rank) != 1).any():
            run_sliced(lambda a, b: renumber(rows.user[a:b], rank), len(rows.user), threads)
        return users, rows

    def _check_like(self, locations: LogFacts) -> None:
        """Raise unless the rows of a request log have times and ids as the locations have."""
        kind = self._kind_of_times
        expected = name_kind(
            has_timestamps=locations.has_timestamps, has_zone=locations.zone is not None
        )
        if kind != expected:
            raise InputError(
                f"column '{self._columns.time}' holds {kind}, and the locations have {expected}; "
                f"expected one kind; convert the times of one"
            )
        is_text = isinstance(self._ids, TextIds) and not self.has_integer_ids
        if is_text == locations.has_integer_ids and not (is_text and self._system.has_text_ids):
            raise InputError(
                f"column '{self._columns.user}' holds {'text' if is_text else 'numbers'}, and the "
                f"locations have {'numbers' if is_text else 'text'}; expected one type; convert "
                f"the user ids of one"
            )

    def finish(self, threads: int) -> RequestLog:
        """Build a log of the rows; there must be one."""
        counted = self._pool.submit(self._requests.finish)
        users, rows = self._number_users(threads)
        file_row = None
        if self.filter.has_left_out:
            file_row = np.concatenate([to_array(rows) for rows in self._file_rows])
        low_x, low_y, high_x, high_y = self._bounds
        return RequestLog(
            users=users,
            user=rows.user,
            time=rows.time,
            x=rows.x,
            y=rows.y,
            requests=counted.result(),
            has_text_requests=self._system.has_text,
            has_timestamps=self._kind_of_times != WHOLE_NUMBERS,
            zone="UTC" if self._kind_of_times == WITH_ZONE else None,
            clock=self._columns.tz,
            crs=self._system.crs,
            file_row=file_row,
            reading=self._columns.reading,
            geographic=self._system.geographic,
            step=self._step,
            time_range=self._time_range,
            bounds=(low_x, low_y, high_x, high_y),
        )

    def finish_requests(self, locations: LogFacts, threads: int) -> SentRequests:
        """Build the requests of a request log, each of which has a row."""
        requests = self._requests.finish()
        users, rows = pa.array([], pa.int64()), self._rows.cut(0, 0)
        if self.has_rows:
            self._check_like(locations)
            users, rows = self._number_users(threads)
        # No instant is that early or late: such a request is outside all windows, and is no
        # reason to refuse the others. Differences of times must not overflow.
        time = np.clip(rows.time, -MAX_TIME_SPAN - 1, MAX_TIME_SPAN - 1)
        return SentRequests(users, rows.user, time, requests.kind, requests.kinds)

    def _add_users(self, column: pa.Array, name: str, out: npt.NDArray[np.int32]) -> None:
        column = to_plain(column)
        if pa.types.is_integer(column.type) and self._system.has_text_ids:
            # Ids from text files stay text until all of them are known.
            self.has_integer_ids = True
            column = column.cast(pa.string())
        is_integer = pa.types.is_integer(column.type)
        if not (is_integer or pa.types.is_string(column.type)):
            raise InputError(
                f"column '{name}' is of type {column.type}; expected whole numbers or text; "
                f"convert the user ids"
            )
        if self._ids is None:
            self._ids = IntegerIds() if is_integer else TextIds()
        if is_integer != isinstance(self._ids, IntegerIds):
            raise mixed_ids(name)
        if is_integer:
            column = self._cast_ids(column, name)
        out[:] = self._ids.intern(column)

    def _add_times(self, column: pa.Array, name: str, out: npt.NDArray[np.int64]) -> None:
        is_timestamp = pa.types.is_timestamp(column.type)
        has_zone = is_timestamp and column.type.tz is not None
        kind = name_kind(has_timestamps=is_timestamp, has_zone=has_zone)
        values = column.cast(pa.int64()).to_numpy()
        if self._time_kind is None:
            self._time_kind = kind
        if kind != self._time_kind:
            raise mixed_times(name, [self._time_kind, kind])
        tz = self._columns.tz
        if tz is not None and kind == WHOLE_NUMBERS:
            raise OptionError(
                f"tz is '{tz}', and the log has integer instants; expected timestamps; leave out "
                f"--tz, or convert the times"
            )
        if tz is not None and kind == WITHOUT_ZONE:
            values, ambiguous, nonexistent = to_utc(values, tz)
            self.shifted["ambiguous"] += ambiguous
            self.shifted["nonexistent"] += nonexistent
        if self._origin is None:
            self._origin = int(values[0])
        low, high, self._step = map(int, copy_times(values, self._origin, self._step, out))
        first, last = self._time_range
        self._time_range = min(first, low), max(last, high)

    def _add_coordinates(
        self, axis: int, values: npt.NDArray[np.float64], out: npt.NDArray[np.float64]
    ) -> None:
        out[:] = values
        self._bounds[axis] = min(self._bounds[axis], float(values.min()))
        self._bounds[2 + axis] = max(self._bounds[2 + axis], float(values.max()))

    def _read_places(
        self, batch: pa.RecordBatch, times: pa.Array
    ) -> tuple[pa.RecordBatch, pa.Array, list[npt.NDArray[np.float64]]]:
        """Refuse rows with a coordinate that is not finite, or else out of range.

        Returns the others, their ``times`` and their coordinates by axis.
        """
        limits = DEGREES if self._system.geographic else (math.inf, math.inf)
        names = batch.schema.names[2:4]
        places = [to_floats(batch.column(name), name) for name in names]
        for axis, (name, limit) in enumerate(zip(names, limits, strict=True)):
            low, high = places[axis].min(initial=0.0), places[axis].max(initial=0.0)
            # Neither is finite if one coordinate is NaN.
            if np.isfinite(low) and np.isfinite(high) and max(-low, high) <= limit:
                continue
            not_finite = Trouble(
                f"column '{name}' is not a finite number",
                "a coordinate",
                "correct or remove the row, or pass --drop=out-of-range",
            )
            out_of_range = Trouble(
                f"column '{name}' is out of range",
                f"-{limit:.0f}..{limit:.0f} degrees",
                "are longitude and latitude swapped? pass --lon and --lat, or --x and --y for "
                "planar coordinates; or --drop=out-of-range",
            )
            for trouble, most in ((not_finite, sys.float_info.max), (out_of_range, limit)):
                is_good = np.abs(places[axis]) <= most
                if not is_good.all():
                    example = str(places[axis][~is_good][0])
                    batch = self.filter.refuse(batch, ~is_good, trouble, example)
                    times = times.filter(pa.array(is_good))
                    places = [values[is_good] for values in places]
        return batch, times, places

    def _read_times(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
        """Convert times to whole numbers or microseconds; refuses rows whose time is unreadable."""
        name, column = batch.schema.names[1], to_plain(batch.column(1))
        if not len(column):
            return batch, column
        # Fractions of a microsecond are cut off.
        type_ = choose_time_type(column, name)
        options = pc.CastOptions(type_, allow_time_truncate=True)
        try:
            return batch, column.cast(options=options)
        except pa.ArrowInvalid:
            unreadable = find_unreadable(column, options)
        expected, example = "a value of that type", None
        if pa.types.is_string(column.type):
            expected = f"{ISO_FORMS[type_.tz is not None]}, or pass --time-format"
            example = column[int(unreadable[0])].as_py()
        trouble = Trouble(
            f"column '{name}' cannot be read as {type_}",
            expected,
            "correct the row, or convert the column",
        )
        wrong = np.zeros(len(column), np.bool_)
        wrong[unreadable] = True
        left = self.filter.refuse(batch, wrong, trouble, example)
        return left, column.filter(pa.array(~wrong)).cast(options=options)

    def _cast_ids(self, column: pa.Array, name: str) -> pa.Array:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            # Arrow's own message would quote the value, which may be an id.
            bad = find_unreadable(column, pc.CastOptions(pa.int64()))[0]
            raise InputError(
                f"{self._bad.files.name_row(int(self.filter.rows[bad]) + 1)}: column '{name}' "
                f"cannot be read as int64; expected a value of that type; correct the row, or "
                f"convert the column"
            ) from None


def no_rows(num_read: int, source: object, is_report: str | None) -> InputError:
    """Build the error for a log that is empty, or was dropped completely."""
    if num_read:
        return InputError(
            f"all {num_read:,} rows of the log are dropped; expected some to be left; check "
            f"--drop and --clip"
        )
    if is_report is not None:
        return InputError(
            f"{source}: no row is a location report, as column '{is_report}' says; expected at "
            f"least one; check the path, or name another column with --is-report"
        )
    return InputError(
        f"{source}: the log has no rows; expected at least one location report; check the path"
    )
