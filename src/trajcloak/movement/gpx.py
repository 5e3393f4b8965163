"""GPX 1.0 and 1.1: one file per user, named by the file.

The points of all tracks and segments are read. Routes and waypoints are plans and
marks, not reports of where somebody was, and points without a time say nothing of
when; all are skipped and counted.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.movement.markup import BATCH_ROWS, Document, cast_texts
from trajcloak.movement.places import find_bad_place
from trajcloak.movement.repeats import RepeatFilter
from trajcloak.movement.source import Source, check_one_file_per_user, strip_suffixes

NO_TIME = "no_time"
OTHER_POINTS = {"wpt": "waypoint", "rtept": "route_point"}
POINT = "trkpt"
CHILDREN = ("time", "ele")
MAX_TEXT = 10_000

_UNREAD_FRACTION = r"(\.\d{6})\d+"
_ZONE = r"(?:Z|[+-]\d\d(?::?\d\d)?)$"


def read(source: Source) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, each of which is a user."""
    check_one_file_per_user(source.files, strip_suffixes)
    for file in source.files:
        user = pa.scalar(strip_suffixes(file))
        repeats = RepeatFilter(source)
        for batch in _Reader(source, file).read():
            kept = repeats.filter(pa.Table.from_batches([batch]))
            ids = pa.repeat(user, kept.num_rows)
            yield from kept.add_column(0, "user_id", ids).to_batches()


class _Reader:
    """Reads one file."""

    def __init__(self, source: Source, file: Path) -> None:
        self._source = source
        self._document = Document(file, self._start, self._end)
        self._parser = self._document.parser
        self._names: dict[str, str] = {}
        self._rows: list[tuple[str | int | None, ...]] = []
        self._point_depth = 0
        self._place: tuple[str | None, str | None] = None, None
        self._line = 0
        self._texts: dict[str, str] = {}
        self._child = ""

    def read(self) -> Iterator[pa.RecordBatch]:
        for _ in self._document.read(self._source):
            if len(self._rows) >= BATCH_ROWS:
                yield self._take_batch()
        if self._rows:
            yield self._take_batch()

    def _start(self, name: str, attributes: dict[str, str], depth: int) -> None:
        local = self._names.get(name)
        if self._point_depth:
            if depth == self._point_depth + 1 and local in CHILDREN:
                self._child = local
                self._texts[local] = ""
                self._parser.CharacterDataHandler = self._hear
        elif local == POINT:
            self._point_depth, self._line = depth, self._parser.CurrentLineNumber
            self._place = attributes.get("lon"), attributes.get("lat")
        elif local in OTHER_POINTS:
            self._source.skip(OTHER_POINTS[local])
        elif depth == 1:
            self._start_root(name)

    def _start_root(self, name: str) -> None:
        """Learn the names to look for; what has another namespace is an extension."""
        space, separator, local = name.rpartition(" ")
        self._document.check_root(local, "gpx")
        for wanted in (POINT, *CHILDREN, *OTHER_POINTS):
            self._names[space + separator + wanted] = wanted

    def _hear(self, text: str) -> None:
        self._texts[self._child] += text
        if len(self._texts[self._child]) > MAX_TEXT:
            raise self._document.error(
                f"a <{self._child}> holds more than {MAX_TEXT:,} characters; expected one value; "
                f"do not trust the file's origin"
            )

    def _end(self, name: str, depth: int) -> None:
        if depth == self._point_depth + 1:
            self._parser.CharacterDataHandler = None
        elif depth == self._point_depth:
            self._add_point()
            self._point_depth = 0
            self._texts = {}

    def _add_point(self) -> None:
        time = self._texts.get("time", "").strip()
        altitude = self._texts.get("ele", "").strip()
        if not time:
            self._source.skip(NO_TIME)
            return
        if None in self._place:
            raise self._document.error(
                "a <trkpt> lacks its lat or lon; expected both; correct or remove the point",
                self._line,
            )
        self._rows.append((time, *self._place, altitude or None, self._line))

    def _take_batch(self) -> pa.RecordBatch:
        times, lons, lats, altitudes, lines = zip(*self._rows, strict=True)
        self._rows.clear()
        moments = cast_texts(
            self._document, lines, "time", _to_zoned(times), pa.timestamp("us", "UTC")
        )
        numbers = {
            name: cast_texts(self._document, lines, name, texts, pa.float64())
            for name, texts in (("lon", lons), ("lat", lats), ("altitude", altitudes))
        }
        batch = pa.record_batch({"time": moments, **numbers})
        if bad := find_bad_place(batch, geographic=True):
            raise self._document.error(f"{bad[1]}; correct or remove the point", lines[bad[0]])
        return batch


def _to_zoned(times: tuple[str, ...]) -> pa.Array:
    """Give times without a zone that of the format, UTC, and cut fractions to microseconds."""
    texts = pc.utf8_upper(pa.array(times, pa.string()))
    texts = pc.replace_substring_regex(texts, _UNREAD_FRACTION, r"\1")
    is_zoned = pc.match_substring_regex(texts, _ZONE)
    return pc.if_else(is_zoned, texts, pc.binary_join_element_wise(texts, "Z", ""))
