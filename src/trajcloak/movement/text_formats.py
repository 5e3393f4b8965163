"""Text formats with one line per point: Brinkhoff's generator, cab traces, GeoLife.

Blocks of whole lines are parsed column by column.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from trajcloak.errors import InputError
from trajcloak.log.bad_rows import find_bad
from trajcloak.movement.movement_source import (
    MovementSource,
    add_user,
    check_one_file_per_user,
    find_bad_place,
    strip_suffixes,
)

BLOCK_BYTES = 1 << 23
"""Bytes that are parsed at a time; this bounds the memory."""

MAX_LINE_BYTES = 1 << 16

CUT_OFF = "cut_off"
"""Reason to skip a last line that has no line end and cannot be read."""

_BOM = b"\xef\xbb\xbf"
_TRAILING_BLANKS = re.compile(rb"(?<![ \t])[ \t]+\n")
_SEPARATORS = {"\t": "tabs", " ": "single spaces", ",": "commas"}
_EXPECTED = {pa.float64(): "a number", pa.int64(): "a whole number", pa.string(): "text in UTF-8"}

ACTIONS = pa.array(["newpoint", "point", "disappearpoint"])
CAB_PREFIX = "new_"
FIRST_SECOND, LAST_SECOND = 1_000_000_000, 9_999_999_999
"""Times have ten digits: with fewer, a time was cut off; with more, it is in milliseconds."""

GEOLIFE_FOLDER = "trajectory"
METRES_PER_FOOT = 0.3048
UNKNOWN_FEET = -777
_MOMENT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$"


class BadLine(Exception):  # noqa: N818
    """A line breaks a rule of its format; the message says which, and what was expected."""


@dataclass(frozen=True)
class LineLayout:
    """How the lines of a format are laid out."""

    separator: str  # The character between two fields.
    fields: tuple[str, ...]  # Names of the fields, in order.
    types: dict[str, pa.DataType]  # Types of the fields that are read; others are ignored.
    header_lines: int = 0  # How many lines come before the first point.


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
    program that wrote the file was stopped. ``shape`` checks the fields that were read and turns
    them into the columns of a log; it raises BadLine if a line breaks a rule.
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
    for number, chunk in enumerate(source.read_chunks(file, BLOCK_BYTES)):
        text = rest + chunk
        if number == 0:
            text = text.removeprefix(_BOM)
        while line <= header_lines and b"\n" in text:
            text = text.partition(b"\n")[2]
            line += 1
        stop = text.rfind(b"\n") + 1
        whole = text[:stop].replace(b"\r\n", b"\n")
        if b" \n" in whole or b"\t\n" in whole:
            whole = _TRAILING_BLANKS.sub(b"\n", whole)
        if whole.strip():
            yield _Block(line, whole, True)
        line, rest = line + text.count(b"\n", 0, stop), text[stop:]
        if len(rest) > MAX_LINE_BYTES:
            raise InputError(
                f"{file}: line {line} is longer than {MAX_LINE_BYTES:,} bytes; expected lines of "
                f"text; is it a file of this format? pass another --format"
            )
    if rest.strip() and line > header_lines:
        yield _Block(line, rest.rstrip(b" \t"), False)


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
    bad = next(find_bad(lambda a, b: find_fault(lines[a:b]) is None, len(lines)))
    fault = _name_bad_field(lines[bad], layout) or str(find_fault([lines[bad]]))
    return InputError(
        f"{file}: line {block.first_line + bad}: {fault}; correct or remove the line, or pass "
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


BRINKHOFF = LineLayout(
    separator="\t",
    fields=("action", "id", "report", "class", "time", "x", "y", "speed", "next_x", "next_y"),
    types={"action": pa.string()}
    | dict.fromkeys(("id", "class", "time"), pa.int64())
    | dict.fromkeys(("x", "y", "speed"), pa.float64()),
)


def read_brinkhoff_points(source: MovementSource) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, which are parts of one run of Brinkhoff's generator."""
    for file in source.files:
        for table in read_tables(source, file, BRINKHOFF, _shape_brinkhoff):
            yield from table.to_batches()


def _shape_brinkhoff(table: pa.Table) -> pa.Table:
    if not pc.all(pc.is_in(table["action"], ACTIONS)).as_py():
        raise BadLine(
            f"field 'action' is not known; expected one of {', '.join(ACTIONS.to_pylist())}"
        )
    if bad := find_bad_place(table, geographic=False):
        raise BadLine(bad[1])
    if not pc.all(pc.is_finite(table["speed"])).as_py():
        raise BadLine("field 'speed' is not finite; expected a number")
    columns = ["id", "time", "x", "y", "class", "speed"]
    return table.select(columns).rename_columns({"id": "user_id"})


CABS = LineLayout(
    separator=" ",
    fields=("lat", "lon", "occupied", "time"),
    types=dict.fromkeys(("lat", "lon"), pa.float64())
    | dict.fromkeys(("occupied", "time"), pa.int64()),
)


def read_cab_points(source: MovementSource) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, each of one cab: ``new_NAME.txt``, ``NAME`` is the user.

    Points come newest first, or in any other order. ``occupied``: whether a passenger was aboard.
    """
    check_one_file_per_user(source.files, _name_cab)
    for file in source.files:
        tables = read_tables(source, file, CABS, _shape_cabs)
        yield from add_user(source, _name_cab(file), tables)


def _name_cab(file: Path) -> str:
    user = strip_suffixes(file).removeprefix(CAB_PREFIX)
    if not user:
        raise InputError(
            f"{file}: its name has nothing between '{CAB_PREFIX}' and the ending; expected the "
            f"name of a cab; rename the file"
        )
    return user


def _shape_cabs(table: pa.Table) -> pa.Table:
    if bad := find_bad_place(table, geographic=True):
        raise BadLine(bad[1])
    if not pc.all(pc.is_in(table["occupied"], pa.array([0, 1]))).as_py():
        raise BadLine("field 'occupied' is neither 0 nor 1; expected one of them")
    seconds = table["time"]
    is_good = pc.and_(pc.greater_equal(seconds, FIRST_SECOND), pc.less_equal(seconds, LAST_SECOND))
    if not pc.all(is_good).as_py():
        raise BadLine("field 'time' has not ten digits; expected seconds since 1970")
    return pa.table(
        {
            "time": seconds.cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC")),
            "lon": table["lon"],
            "lat": table["lat"],
            "occupied": table["occupied"].cast(pa.bool_()),
        }
    )


GEOLIFE = LineLayout(
    separator=",",
    fields=("lat", "lon", "zero", "feet", "days", "date", "clock"),
    types=dict.fromkeys(("lat", "lon", "feet"), pa.float64())
    | dict.fromkeys(("date", "clock"), pa.string()),
    header_lines=6,
)


def read_geolife_points(source: MovementSource) -> Iterator[pa.RecordBatch]:
    """Yield the points of all files, ``USER/Trajectory/NAME.plt``; a user may have many.

    Dates and times are in GMT; ``days`` since 1899-12-30 say the same once more.
    """
    users = [_name_geolife_user(file) for file in source.files]
    for file, user in zip(source.files, users, strict=True):
        yield from add_user(source, user, read_tables(source, file, GEOLIFE, _shape_geolife))


def _name_geolife_user(file: Path) -> str:
    folder = file.absolute().parent
    if folder.name.lower() != GEOLIFE_FOLDER or not folder.parent.name:
        raise InputError(
            f"{file}: no folder names its user; expected a path that ends in "
            f"USER/Trajectory/NAME.plt; put the file into such folders"
        )
    return folder.parent.name


def _shape_geolife(table: pa.Table) -> pa.Table:
    if bad := find_bad_place(table, geographic=True):
        raise BadLine(bad[1])
    feet = table["feet"]
    if not pc.all(pc.is_finite(feet)).as_py():
        raise BadLine("field 'feet' is not finite; expected a number")
    metres = pc.multiply(feet, METRES_PER_FOOT)
    return pa.table(
        {
            "time": _to_moments(table["date"], table["clock"]),
            "lon": table["lon"],
            "lat": table["lat"],
            "altitude": pc.if_else(pc.equal(feet, UNKNOWN_FEET), None, metres),
        }
    )


def _to_moments(date: pa.ChunkedArray, clock: pa.ChunkedArray) -> pa.ChunkedArray:
    """Join date and time; strict, because a time that was cut off would be a wrong time."""
    text = pc.binary_join_element_wise(date, clock, "T")
    if pc.all(pc.match_substring_regex(text, _MOMENT)).as_py():
        with suppress(pa.ArrowInvalid):
            return pc.assume_timezone(text.cast(pa.timestamp("us")), "UTC")
    raise BadLine("fields 'date' and 'clock' are no moment; expected YYYY-MM-DD and HH:MM:SS")
