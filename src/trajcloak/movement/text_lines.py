"""Read lines of text as Arrow tables: blocks of whole lines, parsed column by column."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv

from trajcloak.errors import InputError
from trajcloak.movement.movement_source import MovementSource

BLOCK_BYTES = 1 << 23
"""Bytes that are parsed at a time; this bounds the memory."""

MAX_LINE_BYTES = 1 << 16

CUT_OFF = "cut_off"
"""Reason to skip a last line that has no line end and cannot be read."""

_BOM = b"\xef\xbb\xbf"
_TRAILING_BLANKS = re.compile(rb"(?<![ \t])[ \t]+\n")
_SEPARATORS = {"\t": "tabs", " ": "single spaces", ",": "commas"}
_EXPECTED = {pa.float64(): "a number", pa.int64(): "a whole number", pa.string(): "text in UTF-8"}


class BadLine(Exception):  # noqa: N818
    """A line breaks a rule of its format; the message says which, and what was expected."""


@dataclass(frozen=True)
class LineLayout:
    """How the lines of a format are laid out.

    Parameters
    ----------
    separator
        The character between two fields.
    fields
        Names of the fields, in order.
    types
        Types of the fields that are read; others are ignored.
    header_lines
        How many lines come before the first point.
    """

    separator: str
    fields: tuple[str, ...]
    types: dict[str, pa.DataType]
    header_lines: int = 0


class _Block(NamedTuple):
    """Some lines of a file; ``is_whole`` is False for a last line without a line end."""

    first_line: int
    text: bytes
    is_whole: bool


def read_tables(
    source: MovementSource, file: Path, layout: LineLayout, shape: Callable[[pa.Table], pa.Table]
) -> Iterator[pa.Table]:
    """Yield the points of a text file, some megabytes of lines at a time.

    If the last line has no line end and cannot be read, it is skipped and counted: the
    program that wrote the file was stopped.

    Parameters
    ----------
    source
        Where bytes come from and skipped points are counted.
    file
        The file.
    layout
        How its lines are laid out.
    shape
        Checks the fields that were read and turns them into the columns of a log;
        raises BadLine if a line breaks a rule.

    Raises
    ------
    InputError
        If a line cannot be read or breaks a rule; names the file and the line.
    """
    for block in _read_blocks(source, file, layout.header_lines):
        try:
            yield shape(_parse(block.text, layout))
        except BadLine:
            if block.is_whole:
                raise _explain(file, block, layout, shape) from None
            source.skip(CUT_OFF)


def _read_blocks(source: MovementSource, file: Path, header_lines: int) -> Iterator[_Block]:
    """Cut a file into blocks of whole lines, without the header."""
    line, rest = 1, b""
    for chunk in _unify_line_ends(source.read_chunks(file, BLOCK_BYTES)):
        text = rest + chunk
        stop = text.rfind(b"\n") + 1
        num_lines = text.count(b"\n", 0, stop)
        start = _find_line(text, max(header_lines - line + 1, 0), stop)
        whole = _strip_line_ends(text[start:stop])
        if whole.strip():
            yield _Block(line + text.count(b"\n", 0, start), whole, True)
        line, rest = line + num_lines, text[stop:]
        if len(rest) > MAX_LINE_BYTES:
            raise InputError(
                f"{file}: line {line} is longer than {MAX_LINE_BYTES:,} bytes; expected lines of "
                f"text; is it a file of this format? pass another --format"
            )
    if rest.strip() and line > header_lines:
        yield _Block(line, rest.rstrip(b" \t"), False)


def _unify_line_ends(chunks: Iterator[bytes]) -> Iterator[bytes]:
    r"""Turn ``\r\n`` and ``\r`` into ``\n``, and drop a byte order mark."""
    held = b""
    for number, chunk in enumerate(chunks):
        text = held + (chunk.removeprefix(_BOM) if number == 0 else chunk)
        # The next chunk may start with the other half of this line end.
        held = b"\r" if text.endswith(b"\r") else b""
        text = text[: len(text) - len(held)]
        yield text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text
    if held:
        yield b"\n"


def _strip_line_ends(text: bytes) -> bytes:
    """Remove blanks before line ends."""
    if b" \n" in text or b"\t\n" in text:
        return _TRAILING_BLANKS.sub(b"\n", text)
    return text


def _find_line(text: bytes, number: int, stop: int) -> int:
    """Find where line ``number`` of a text, from 0, begins; ``stop`` if there are fewer."""
    start = 0
    for _ in range(number):
        start = text.find(b"\n", start, stop) + 1
        if start == 0:
            return stop
    return start


def _parse(text: bytes, layout: LineLayout, names: list[str] | None = None) -> pa.Table:
    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(text),
            read_options=pyarrow.csv.ReadOptions(column_names=list(layout.fields)),
            parse_options=pyarrow.csv.ParseOptions(delimiter=layout.separator, quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=layout.types,
                include_columns=names or list(layout.types),
                null_values=[],
            ),
        )
    except pa.ArrowInvalid:
        # Arrow's own message would quote the line, which holds places.
        raise BadLine from None


def _explain(
    file: Path, block: _Block, layout: LineLayout, shape: Callable[[pa.Table], pa.Table]
) -> InputError:
    """Find the first bad line of a block by bisection, and say what is wrong with it."""

    def find_fault(lines: list[bytes]) -> BadLine | None:
        text = b"\n".join(lines)
        try:
            if text.strip():
                shape(_parse(text, layout))
        except BadLine as fault:
            return fault
        return None

    lines = block.text.split(b"\n")
    start, stop = 0, len(lines)
    while stop - start > 1:
        middle = (start + stop) // 2
        if find_fault(lines[start:middle]):
            stop = middle
        else:
            start = middle
    fault = _name_bad_field(lines[start], layout) or str(find_fault(lines[start:stop]))
    return InputError(
        f"{file}: line {block.first_line + start}: {fault}; correct or remove the line, or pass "
        f"another --format"
    )


def _name_bad_field(line: bytes, layout: LineLayout) -> str | None:
    found, expected = len(line.split(layout.separator.encode())), len(layout.fields)
    if found != expected:
        return (
            f"has {found} fields; expected {expected}, separated by "
            f"{_SEPARATORS[layout.separator]}: {', '.join(layout.fields)}"
        )
    for name, type_ in layout.types.items():
        try:
            _parse(line, layout, [name])
        except BadLine:
            return f"field '{name}' cannot be read; expected {_EXPECTED[type_]}"
    return None
