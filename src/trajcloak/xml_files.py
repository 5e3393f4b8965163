"""Read XML files that may come from anybody.

A document type is refused, and with it every declaration of an entity. Refused as well is all that
would fill the parser's memory: deeply nested elements, very long tags, very many names.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

from trajcloak.errors import InputError

MAX_DEPTH = 64
MAX_TOKEN_BYTES = 1 << 20
MAX_NAMES = 10_000

# Expat knows these encodings, or they have one byte for each character. For all others expat asks
# Python's codecs, which raise errors of many kinds.
_KNOWN_ENCODING = re.compile(
    r"utf-8|utf-16(le|be)?|us-ascii|iso-8859-(1[013-6]|[1-9])|windows-125[0-8]|koi8-[ru]", re.I
)


class XmlFile(ABC):
    """An XML file that is parsed chunk by chunk; each format has a subclass."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.XmlDeclHandler = self._check_encoding
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self._depth = 0

    @abstractmethod
    def start(self, name: str, attributes: dict[str, str], depth: int) -> None:
        """Called where an element starts; ``depth`` is 1 for the first element.

        ``name`` is the namespace, a space and the local name, or just the name.
        """

    def end(self, name: str, depth: int) -> None:  # noqa: B027
        """Called where an element ends."""

    def feed(self, chunks: Iterable[bytes]) -> Iterator[None]:
        """Parse the bytes of the file; yields after each chunk."""
        fed = 0
        try:
            for chunk in chunks:
                self.parser.Parse(chunk, False)
                fed += len(chunk)
                self._check_held(fed - self.parser.CurrentByteIndex)
                yield
            self.parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise self.error(
                f"not well-formed XML ({expat.ErrorString(error.code)}); expected a whole "
                f"document; the file is damaged or cut off: fetch or make it again",
                error.lineno,
            ) from None

    def error(self, what: str, line: int | None = None) -> InputError:
        """Make an error that names the file and a line, by default the one being read."""
        return InputError(f"{self.file}: line {line or self.parser.CurrentLineNumber}: {what}")

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
        if encoding is not None and not _KNOWN_ENCODING.fullmatch(encoding):
            raise self.error(
                "the text has an encoding that is not read; expected UTF-8; convert it, such as "
                "with iconv"
            )

    def _refuse_doctype(self, *_: Any) -> None:
        raise self.error(
            "a document type is declared, which may define entities that grow without bound; "
            "expected none; remove the <!DOCTYPE ...> if you trust the file's origin"
        )
