"""XML files, read incrementally: nothing is kept but the points of the next batch.

The files may come from anybody. A document type is refused, and with it every
declaration of an entity; so is what the parser would have to hold in memory:
elements nested deeply, tags without end, ever new names.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.parsers import expat

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log.csv_text import find_bad_value
from trajcloak.movement.source import Source

CHUNK_BYTES = 1 << 18
BATCH_ROWS = 1 << 16
MAX_DEPTH = 64
MAX_TOKEN_BYTES = 1 << 20
MAX_NAMES = 10_000

_EXPECTED = {pa.float64(): "a number", pa.timestamp("us", "UTC"): "an ISO 8601 date and time"}


class Document:
    """One XML file and its parser.

    Parameters
    ----------
    file
        The file.
    start, end
        Called where an element starts and ends, with its name, its attributes at the
        start, and its depth: 1 for the first element. A namespace stands before the
        name, separated by a space.

    Attributes
    ----------
    parser
        The parser, for handlers of other events.
    """

    def __init__(
        self,
        file: Path,
        start: Callable[[str, dict[str, str], int], None],
        end: Callable[[str, int], None] | None = None,
    ) -> None:
        self.file = file
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self._depth = 0
        self._tell_start = start
        self._tell_end = end

    def read(self, source: Source) -> Iterator[None]:
        """Feed the parser; yields after each chunk of the file.

        Raises
        ------
        InputError
            If the file is not well formed or may not be trusted.
        """
        fed = 0
        try:
            for chunk in source.read_chunks(self.file, CHUNK_BYTES):
                self.parser.Parse(chunk, False)
                fed += len(chunk)
                self._check_held(fed - self.parser.CurrentByteIndex)
                yield
            self.parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise self.error(
                f"not well-formed XML ({expat.ErrorString(error.code)}); expected a whole "
                f"document; the file is damaged or cut off: fetch or make it anew",
                error.lineno,
            ) from None
        yield

    def error(self, what: str, line: int | None = None) -> InputError:
        """Make an error that names the file and a line, by default the one being read."""
        return InputError(f"{self.file}: line {line or self.parser.CurrentLineNumber}: {what}")

    def check_root(self, name: str, expected: str) -> None:
        """Raise unless the first element, whose start is being told, is the right one."""
        if name != expected:
            raise self.error(
                f"the first element is not <{expected}>; expected a file of this format; pass "
                f"another --format"
            )

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
        self._tell_start(name, attributes, depth)

    def _end(self, name: str) -> None:
        if self._tell_end is not None:
            self._tell_end(name, self._depth)
        self._depth -= 1

    def _refuse_doctype(self, *_: Any) -> None:
        raise self.error(
            "a document type is declared, which may define entities that grow without bound; "
            "expected none; remove the <!DOCTYPE ...> if you trust the file's origin"
        )


def cast_texts(
    document: Document, lines: Sequence[int], name: str, texts: Any, type_: pa.DataType
) -> pa.Array:
    """Turn texts into another type; raise an error that names the line of the first bad one."""
    column = pa.array(texts, pa.string())
    options = pc.CastOptions(type_)
    try:
        values = column.cast(options=options)
    except pa.ArrowInvalid:
        # Arrow's own message quotes the value.
        bad = find_bad_value(column, options) or 0
        raise document.error(
            f"'{name}' cannot be read; expected {_EXPECTED[type_]}; correct or remove the point",
            lines[bad],
        ) from None
    bad = pc.index(pc.is_finite(values), False).as_py() if pa.types.is_floating(type_) else -1
    if bad >= 0:
        raise document.error(
            f"'{name}' is not finite; expected a number; correct or remove the point", lines[bad]
        )
    return values
