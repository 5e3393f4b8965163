"""Read XML files incrementally: only the points of the next batch are kept in memory.

The files may come from anybody. A document type is refused, and with it every declaration
of an entity. Refused as well is all that would fill the parser's memory: deeply nested
elements, very long tags, very many names.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.parsers import expat

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log.csv_text import find_unreadable
from trajcloak.movement.movement_source import MovementSource
from trajcloak.xml_encodings import is_read

CHUNK_BYTES = 1 << 18
BATCH_ROWS = 1 << 16
MAX_DEPTH = 64
MAX_TOKEN_BYTES = 1 << 20
MAX_NAMES = 10_000

_EXPECTED = {pa.float64(): "a number", pa.timestamp("us", "UTC"): "an ISO 8601 date and time"}


class PointParser:
    """Parser of one XML file; each format has a subclass.

    A subclass appends points to ``rows`` in ``start`` and ``end``, and makes a batch of
    them in ``build_batch``.

    Parameters
    ----------
    source
        Where bytes come from and skipped points are counted.
    file
        The file.
    """

    def __init__(self, source: MovementSource, file: Path) -> None:
        self.source = source
        self.file = file
        self.rows: list[tuple[str | int | None, ...]] = []
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.XmlDeclHandler = self._check_encoding
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self._depth = 0

    def start(self, name: str, attributes: dict[str, str], depth: int) -> None:
        """Called where an element starts; ``depth`` is 1 for the first element.

        ``name`` is the namespace, a space and the local name, or just the name.
        """
        raise NotImplementedError

    def end(self, name: str, depth: int) -> None:
        """Called where an element ends."""

    def build_batch(self, *columns: Any) -> pa.RecordBatch:
        """Build a batch of the columns of ``rows``; the last holds the line of each point."""
        raise NotImplementedError

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the points of the file, some ten thousand at a time.

        Raises
        ------
        InputError
            If the file is not well formed, or would use too much memory.
        """
        fed = 0
        try:
            for chunk in self.source.read_chunks(self.file, CHUNK_BYTES):
                self.parser.Parse(chunk, False)
                fed += len(chunk)
                self._check_held(fed - self.parser.CurrentByteIndex)
                if len(self.rows) >= BATCH_ROWS:
                    yield self._take_batch()
            self.parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise self.error(
                f"not well-formed XML ({expat.ErrorString(error.code)}); expected a whole "
                f"document; the file is damaged or cut off: fetch or make it again",
                error.lineno,
            ) from None
        if self.rows:
            yield self._take_batch()

    def _take_batch(self) -> pa.RecordBatch:
        columns = zip(*self.rows, strict=True)
        self.rows.clear()
        return self.build_batch(*columns)

    def error(self, what: str, line: int | None = None) -> InputError:
        """Make an error that names the file and a line, by default the one being read."""
        return InputError(f"{self.file}: line {line or self.parser.CurrentLineNumber}: {what}")

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
        except pa.ArrowInvalid:
            # Arrow's own message would quote the value, which may be a place.
            bad = int(find_unreadable(column, options)[0])
            raise self.error(
                f"'{name}' cannot be read; expected {_EXPECTED[type_]}; correct or remove the "
                f"point",
                lines[bad],
            ) from None
        bad = pc.index(pc.is_finite(values), False).as_py() if pa.types.is_floating(type_) else -1
        if bad >= 0:
            raise self.error(
                f"'{name}' is not finite; expected a number; correct or remove the point",
                lines[bad],
            )
        return values

    def _check_held(self, num_bytes: int) -> None:
        """Raise if the parser holds a long unfinished token, or many names."""
        if num_bytes > MAX_TOKEN_BYTES:
            raise self.error(
                f"a tag or comment is longer than {MAX_TOKEN_BYTES:,} bytes; expected short ones; "
                f"do not trust the file's origin"
            )
        if len(self.parser.intern) > MAX_NAMES:
            raise self.error(
                f"more than {MAX_NAMES:,} names of elements and attributes; expected few; do not "
                f"trust the file's origin"
            )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth = depth = self._depth + 1
        if depth > MAX_DEPTH:
            raise self.error(
                f"elements are nested more than {MAX_DEPTH} deep; expected few levels; do not "
                f"trust the file's origin"
            )
        self.start(name, attributes, depth)

    def _end(self, name: str) -> None:
        self.end(name, self._depth)
        self._depth -= 1

    def _check_encoding(self, version: str, encoding: str | None, standalone: int) -> None:
        """Raise if a file names an encoding that is not read."""
        if not is_read(encoding):
            raise self.error(
                "the text has an encoding that is not read; expected UTF-8; convert it, such as "
                "with iconv"
            )

    def _refuse_doctype(self, *_: Any) -> None:
        raise self.error(
            "a document type is declared, which may define entities that grow without bound; "
            "expected none; remove the <!DOCTYPE ...> if you trust the file's origin"
        )
