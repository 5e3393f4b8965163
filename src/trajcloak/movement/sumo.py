"""Floating-car data of SUMO: ``<fcd-export>`` with a ``<timestep>`` per moment.

A time step holds ``<vehicle>``, ``<person>`` and ``<container>`` elements with the
attributes id, x, y, speed, type, lane and others. SUMO counts time in milliseconds,
and so does the log: no step is rounded, and the unit does not depend on the data.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from trajcloak.errors import InputError
from trajcloak.movement.markup import BATCH_ROWS, Document, cast_texts
from trajcloak.movement.places import find_bad_place, name_axes
from trajcloak.movement.source import Source

CONTAINER = "container"
"""Reason to skip a point: freight is nobody."""

MILLISECONDS = 1000
MAX_SECONDS = 10**12

_PREFIXES = {"vehicle": "", "person": "person:"}
"""Vehicles and persons may share an id; a person's is marked."""

_GEOGRAPHIC = re.compile(r"<fcd-output\.geo\s+value=[\"'](true|t|yes|on|x|1)[\"']", re.IGNORECASE)
"""In the configuration that SUMO writes into a comment at the top."""

_ROOT_DEPTH, _STEP_DEPTH, _POINT_DEPTH = 1, 2, 3


def read(source: Source) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, which are parts of one run of SUMO."""
    geographic = None
    for file in source.files:
        reader = _Reader(source, file)
        for batch in reader.read():
            if geographic not in (None, reader.geographic):
                raise InputError(
                    f"{file}: holds planar coordinates and an earlier file longitude and latitude, "
                    f"or the other way round; expected one kind; convert them one by one, or pass "
                    f"--geographic if all hold longitude and latitude"
                )
            geographic = reader.geographic
            yield batch


class _Reader:
    """Reads one file."""

    def __init__(self, source: Source, file: Path) -> None:
        self.geographic = source.geographic
        self._document = Document(file, self._start)
        self._parser = self._document.parser
        self._parser.CommentHandler = self._look_for_configuration
        self._source = source
        self._time: int | None = None
        self._rows: list[tuple[str | int | None, ...]] = []

    def read(self) -> Iterator[pa.RecordBatch]:
        for _ in self._document.read(self._source):
            if len(self._rows) >= BATCH_ROWS:
                yield self._take_batch()
        if self._rows:
            yield self._take_batch()

    def _look_for_configuration(self, comment: str) -> None:
        if _GEOGRAPHIC.search(comment):
            self.geographic = True

    def _start(self, name: str, attributes: dict[str, str], depth: int) -> None:
        if depth == _POINT_DEPTH and name in _PREFIXES and self._time is not None:
            self._add_point(name, attributes)
        elif depth == _STEP_DEPTH and name == "timestep":
            self._time = self._read_time(attributes)
        elif depth == _ROOT_DEPTH:
            self._document.check_root(name, "fcd-export")
            self._parser.CommentHandler = None
        else:
            self._look_at_other(name, depth)

    def _look_at_other(self, name: str, depth: int) -> None:
        if depth == _STEP_DEPTH:
            self._time = None
        if name == CONTAINER:
            self._source.skip(CONTAINER)
        elif name in _PREFIXES:
            raise self._document.error(
                f"a <{name}> is not directly inside a <timestep>; expected its time; let SUMO "
                f"write the file anew"
            )

    def _add_point(self, name: str, attributes: dict[str, str]) -> None:
        get = attributes.get
        user, x, y = get("id"), get("x"), get("y")
        if not user or x is None or y is None:
            raise self._document.error(
                f"a <{name}> lacks its id, x or y; expected all three; let SUMO write them"
            )
        self._rows.append(
            (
                _PREFIXES[name] + user, self._time, x, y,
                get("speed"), get("type"), get("lane"), self._parser.CurrentLineNumber,
            )
        )  # fmt: skip

    def _read_time(self, attributes: dict[str, str]) -> int:
        try:
            time = Decimal(attributes["time"]) * MILLISECONDS
            if time == time.to_integral_value() and abs(time) < MAX_SECONDS * MILLISECONDS:
                return int(time)
        except (KeyError, ArithmeticError):
            pass
        raise self._document.error(
            "a <timestep> has no time in seconds, to the millisecond; expected one such as "
            "12.50; let SUMO write it so (without --human-readable-time)"
        )

    def _take_batch(self) -> pa.RecordBatch:
        users, times, xs, ys, speeds, types, lanes, lines = zip(*self._rows, strict=True)
        self._rows.clear()
        first, second = name_axes(self.geographic)
        numbers = {
            name: cast_texts(self._document, lines, name, texts, pa.float64())
            for name, texts in ((first, xs), (second, ys), ("speed", speeds))
        }
        batch = pa.record_batch(
            {
                "user_id": pa.array(users, pa.string()),
                "time": pa.array(times, pa.int64()),
                **numbers,
                "type": pa.array(types, pa.string()),
                "lane": pa.array(lanes, pa.string()),
            }
        )
        if self.geographic and (bad := find_bad_place(batch, geographic=True)):
            raise self._document.error(f"{bad[1]}; correct or remove the point", lines[bad[0]])
        return batch
