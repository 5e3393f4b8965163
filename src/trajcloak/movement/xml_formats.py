"""XML formats: GPX tracks, and floating-car data of SUMO.

Files are read incrementally: only the points of the next batch are kept in memory.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log.csv_text import find_unreadable
from trajcloak.movement.movement_source import (
    MovementSource,
    add_user,
    check_one_file_per_user,
    find_bad_place,
    name_axes,
    strip_suffixes,
)
from trajcloak.xml_files import XmlFile

CHUNK_BYTES = 1 << 18
BATCH_ROWS = 1 << 16

_EXPECTED = {pa.float64(): "a number", pa.timestamp("us", "UTC"): "an ISO 8601 date and time"}

NO_TIME = "no_time"
OTHER_POINTS = {"wpt": "waypoint", "rtept": "route_point"}
POINT = "trkpt"
CHILDREN = ("time", "ele")
MAX_TEXT = 10_000
_UNREAD_FRACTION = r"(\.\d{6})\d+"
_ZONE = r"(?:Z|[+-]\d\d(?::?\d\d)?)$"
CONTAINER = "container"
"""Reason to skip a point: a container is freight, not a person."""

MILLISECONDS = 1000
MAX_SECONDS = 10**12
_PREFIXES = {"vehicle": "", "person": "person:"}
"""Vehicles and persons may share an id, so ids of persons get a prefix."""

_GEOGRAPHIC = re.compile(r"<fcd-output\.geo\s+value=[\"'](true|t|yes|on|x|1)[\"']", re.IGNORECASE)
"""Matches the configuration that SUMO writes into a comment at the top of the file."""


class PointParser(XmlFile):
    """Parser of one file; ``start`` and ``end`` of a subclass append points to ``rows``."""

    geographic = True  # Whether coordinates are longitude and latitude.

    def __init__(self, source: MovementSource, file: Path) -> None:
        super().__init__(file)
        self.source = source
        self.rows: list[tuple[str | int | None, ...]] = []

    @abstractmethod
    def build_batch(self, *columns: Any) -> pa.RecordBatch:
        """Build a batch of the columns of ``rows``; the last holds the line of each point."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the points of the file, some ten thousand at a time."""
        for _ in self.feed(self.source.read_chunks(self.file, CHUNK_BYTES)):
            if len(self.rows) >= BATCH_ROWS:
                yield self._take_batch()
        if self.rows:
            yield self._take_batch()

    def _take_batch(self) -> pa.RecordBatch:
        *columns, lines = zip(*self.rows, strict=True)
        self.rows.clear()
        batch = self.build_batch(*columns, lines)
        if self.geographic and (bad := find_bad_place(batch, geographic=True)):
            raise self.error(f"{bad[1]}; correct or remove the point", lines[bad[0]])
        return batch

    def check_root(self, name: str, expected: str) -> None:
        """Raise unless the first element, which is being read, has the right name."""
        if name != expected:
            raise self.error(
                f"the first element is not <{expected}>; expected a file of this format; pass "
                f"another --format"
            )

    def cast(self, lines: Sequence[int], name: str, texts: Any, type_: pa.DataType) -> pa.Array:
        """Turn texts into another type; raises an error with the line of the first bad one."""
        column = pa.array(texts, pa.string())
        options = pc.CastOptions(type_)
        try:
            values = column.cast(options=options)
            bad = pc.index(pc.is_finite(values), False).as_py() if type_ == pa.float64() else -1
            fault = "is not finite; expected a number"
        except pa.ArrowInvalid:
            # Arrow's own message would quote the value, which may be a place.
            bad = int(find_unreadable(column, options)[0])
            fault = f"cannot be read; expected {_EXPECTED[type_]}"
        if bad >= 0:
            raise self.error(f"'{name}' {fault}; correct or remove the point", lines[bad])
        return values


def read_gpx_points(source: MovementSource) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, GPX 1.0 or 1.1; each is named after its one user.

    The points of all tracks and segments are read. Skipped and counted are routes and
    waypoints, which are plans and marks rather than reports, and points without a time.
    """
    check_one_file_per_user(source.files, strip_suffixes)
    for file in source.files:
        tables = (pa.Table.from_batches([batch]) for batch in _GpxParser(source, file).read())
        yield from add_user(source, strip_suffixes(file), tables)


class _GpxParser(PointParser):
    def __init__(self, source: MovementSource, file: Path) -> None:
        super().__init__(source, file)
        self._names: dict[str, str] = {}
        self._point_depth = 0
        self._place: tuple[str | None, str | None] = None, None
        self._line = 0
        self._texts: dict[str, str] = {}
        self._child = ""

    def start(self, name: str, attributes: dict[str, str], depth: int) -> None:
        local = self._names.get(name)
        if self._point_depth:
            if depth == self._point_depth + 1 and local in CHILDREN:
                self._child = local
                self._texts[local] = ""
                self.parser.CharacterDataHandler = self._add_text
        elif local == POINT:
            self._point_depth, self._line = depth, self.parser.CurrentLineNumber
            self._place = attributes.get("lon"), attributes.get("lat")
        elif local in OTHER_POINTS:
            self.source.skip(OTHER_POINTS[local])
        elif depth == 1:
            self._start_root(name)

    def _start_root(self, name: str) -> None:
        """Set the names to look for; elements of another namespace are extensions."""
        space, separator, local = name.rpartition(" ")
        self.check_root(local, "gpx")
        for wanted in (POINT, *CHILDREN, *OTHER_POINTS):
            self._names[space + separator + wanted] = wanted

    def _add_text(self, text: str) -> None:
        self._texts[self._child] += text
        if len(self._texts[self._child]) > MAX_TEXT:
            raise self.error(
                f"a <{self._child}> holds more than {MAX_TEXT:,} characters; expected one value; "
                f"do not trust the file's origin"
            )

    def end(self, name: str, depth: int) -> None:
        if depth == self._point_depth + 1:
            self.parser.CharacterDataHandler = None
        elif depth == self._point_depth:
            self._add_point()
            self._point_depth = 0
            self._texts = {}

    def _add_point(self) -> None:
        time = self._texts.get("time", "").strip()
        altitude = self._texts.get("ele", "").strip()
        if not time:
            self.source.skip(NO_TIME)
            return
        if None in self._place:
            raise self.error(
                "a <trkpt> lacks its lat or lon; expected both; correct or remove the point",
                self._line,
            )
        self.rows.append((time, *self._place, altitude or None, self._line))

    def build_batch(self, *columns: Any) -> pa.RecordBatch:
        times, lons, lats, altitudes, lines = columns
        moments = self.cast(lines, "time", _to_zoned(times), pa.timestamp("us", "UTC"))
        numbers = {
            name: self.cast(lines, name, texts, pa.float64())
            for name, texts in (("lon", lons), ("lat", lats), ("altitude", altitudes))
        }
        return pa.record_batch({"time": moments, **numbers})


def _to_zoned(times: tuple[str, ...]) -> pa.Array:
    """Take times without a zone as UTC, as GPX defines, and cut fractions to microseconds."""
    texts = pc.utf8_upper(pa.array(times, pa.string()))
    texts = pc.replace_substring_regex(texts, _UNREAD_FRACTION, r"\1")
    is_zoned = pc.match_substring_regex(texts, _ZONE)
    return pc.if_else(is_zoned, texts, pc.binary_join_element_wise(texts, "Z", ""))


def read_sumo_points(source: MovementSource) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, which are parts of one run of SUMO.

    SUMO counts time in milliseconds, and so does the log: no step is rounded, and the unit does
    not depend on the data.
    """
    geographic = None
    for file in source.files:
        reader = _SumoParser(source, file)
        for batch in reader.read():
            if geographic not in (None, reader.geographic):
                raise InputError(
                    f"{file}: holds planar coordinates and an earlier file longitude and latitude, "
                    f"or the other way round; expected one kind; convert them one by one, or pass "
                    f"--geographic if all hold longitude and latitude"
                )
            geographic = reader.geographic
            yield batch


class _SumoParser(PointParser):
    def __init__(self, source: MovementSource, file: Path) -> None:
        super().__init__(source, file)
        self.geographic = source.geographic
        self.parser.CommentHandler = self._look_for_configuration
        self._time: int | None = None

    def _look_for_configuration(self, comment: str) -> None:
        if _GEOGRAPHIC.search(comment):
            self.geographic = True

    def start(self, name: str, attributes: dict[str, str], depth: int) -> None:
        if depth == 1:
            self.check_root(name, "fcd-export")
            self.parser.CommentHandler = None
        elif name in _PREFIXES:
            self._add_point(name, attributes)
        elif name == "timestep":
            self._time = self._read_time(attributes)
        elif name == CONTAINER:
            self.source.skip(CONTAINER)

    def end(self, name: str, depth: int) -> None:
        if name == "timestep":
            self._time = None

    def _add_point(self, name: str, attributes: dict[str, str]) -> None:
        if self._time is None:
            raise self.error(
                f"a <{name}> is not inside a <timestep>; expected its time; let SUMO write the "
                f"file again"
            )
        get = attributes.get
        user, x, y = get("id"), get("x"), get("y")
        if not user or x is None or y is None:
            raise self.error(
                f"a <{name}> lacks its id, x or y; expected all three; let SUMO write them"
            )
        self.rows.append(
            (
                _PREFIXES[name] + user, self._time, x, y,
                get("speed"), get("type"), get("lane"), self.parser.CurrentLineNumber,
            )
        )  # fmt: skip

    def _read_time(self, attributes: dict[str, str]) -> int:
        try:
            time = Decimal(attributes["time"]) * MILLISECONDS
            if time == time.to_integral_value() and abs(time) < MAX_SECONDS * MILLISECONDS:
                return int(time)
        except (KeyError, ArithmeticError):
            pass
        raise self.error(
            "a <timestep> has no time in seconds, to the millisecond; expected one such as "
            "12.50; let SUMO write it so (without --human-readable-time)"
        )

    def build_batch(self, *columns: Any) -> pa.RecordBatch:
        users, times, xs, ys, speeds, types, lanes, lines = columns
        first, second = name_axes(self.geographic)
        numbers = {
            name: self.cast(lines, name, texts, pa.float64())
            for name, texts in ((first, xs), (second, ys), ("speed", speeds))
        }
        return pa.record_batch(
            {
                "user_id": pa.array(users, pa.string()),
                "time": pa.array(times, pa.int64()),
                **numbers,
                "type": pa.array(types, pa.string()),
                "lane": pa.array(lanes, pa.string()),
            }
        )
