"""Read logs of JSON objects, one per line, some megabytes of lines at a time."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from trajcloak.errors import InputError
from trajcloak.log.bad_rows import BadRows, Trouble, find_bad
from trajcloak.log.formats import TEXT_BLOCK_BYTES, open_text
from trajcloak.log.types import join_types

LOOK_AHEAD = 1 << 20
"""Bytes of a file from which the types of its fields are guessed."""

MAX_DEPTH = 32
"""Most levels of objects and lists within each other."""

BOM = b"\xef\xbb\xbf"
JSON_BLANKS = b" \t\r"


def guess_schema(file: Path) -> pa.Schema:
    """Guess types from the first lines: the type of most values of a field, or text.

    A field that holds objects is a struct of all their fields.
    """
    with open_text(file) as stream:
        head = stream.read(LOOK_AHEAD).removeprefix(BOM)
    types: dict[str, Counter[pa.DataType]] = {}
    # A last line that is cut off is no object.
    for line in head.split(b"\n"):
        for name, value in (_parse(line) or {}).items():
            types.setdefault(name, Counter())[_find_type(value)] += 1
    if not types:
        raise pa.ArrowInvalid("no object")
    return pa.schema([(name, _choose_type(found)) for name, found in types.items()])


def open_lines(
    file: Path, own: list[str], rows_before: int, bad: BadRows
) -> Iterator[pa.RecordBatch]:
    """Stream the fields ``own`` of a file, a batch for each block of lines.

    ``bad`` notes the lines that cannot be read; they are yielded as rows without values.
    """
    schema = guess_schema(file)
    schema = pa.schema([schema.field(name) for name in own])
    row = rows_before
    for lines in _read_blocks(file):
        table = _read_rows(lines, schema)
        if table is None:
            table = _read_around(lines, schema, row, bad)
        row += len(lines)
        yield from table.combine_chunks().to_batches()


def _read_around(lines: list[bytes], schema: pa.Schema, rows_before: int, bad: BadRows) -> pa.Table:
    """Read the lines that can be read, and note the others."""
    found: dict[Trouble, list[int]] = {}
    good = list(lines)
    for number in find_bad(lambda a, b: _read_rows(lines[a:b], schema) is not None, len(lines)):
        found.setdefault(_explain(lines[number], schema), []).append(number)
        good[number] = b"{}"
    for trouble, numbers in found.items():
        bad.add_unreadable(trouble, np.array(numbers) + rows_before)
    table = _read_rows(good, schema)
    if table is None:
        raise pa.ArrowInvalid("lines that can be read one by one, and not together")
    return table


def _read_blocks(file: Path) -> Iterator[list[bytes]]:
    """Yield the lines of a file that are not blank, some megabytes at a time."""
    row, rest = 0, b""
    with open_text(file) as stream:
        text = stream.read(TEXT_BLOCK_BYTES).removeprefix(BOM)
        while text:
            *whole, rest = (rest + text).split(b"\n")
            lines = [line for line in whole if line.strip()]
            if lines:
                yield lines
            row += len(lines)
            if len(rest) > TEXT_BLOCK_BYTES:
                raise InputError(
                    f"{file}: row {row + 1} is longer than {TEXT_BLOCK_BYTES:,} bytes; expected a "
                    f"JSON object on each line; write one object per line"
                )
            text = stream.read(TEXT_BLOCK_BYTES)
    if rest.strip():
        yield [rest]


def _read_rows(lines: list[bytes], schema: pa.Schema) -> pa.Table | None:
    """Read lines as rows; None if a line is no object, or does not fit the schema."""
    parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    # Arrow's parser crashes the process if the first line is null.
    if not all(line.lstrip(JSON_BLANKS).startswith(b"{") for line in lines):
        return None
    text = b"\n".join(lines)
    read = pyarrow.json.ReadOptions(block_size=len(text) + 1)
    try:
        text.decode("utf-8")
        table = pyarrow.json.read_json(pa.BufferReader(text), read, parse)
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    # With two objects on one line, or one on two lines, row numbers would be wrong.
    return table.select(schema.names) if table.num_rows == len(lines) else None


def _explain(line: bytes, schema: pa.Schema) -> Trouble:
    """Say what is wrong with a line."""
    record = _parse(line)
    if record is None:
        return Trouble(
            "no JSON object",
            f"one on each line, in UTF-8 and no more than {MAX_DEPTH} levels deep",
            "correct or remove the row",
        )
    # A number too large for Arrow makes it refuse all fields of the line; Python reads it as inf.
    too_large = [name for name, value in record.items() if value in (math.inf, -math.inf)]
    for field in schema:
        is_named = field.name in (too_large or record)
        if is_named and _read_rows([line], pa.schema([field])) is None:
            return Trouble(
                f"field '{field.name}' is of another type than in the first rows",
                str(field.type),
                "correct or remove the row",
            )
    return Trouble(
        "the line cannot be read",
        "a JSON object with each field once",
        "correct or remove the row",
    )


def _parse(line: bytes) -> dict[str, Any] | None:
    """Parse a line; None if it is no object, or nested too deeply."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and not _is_deeper(record, MAX_DEPTH) else None


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists are nested more than ``levels`` deep."""
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(part, levels - 1) for part in inside)


def _find_type(value: Any) -> pa.DataType:
    try:
        return pa.infer_type([value])
    except pa.ArrowException:
        # For example a list of several types, which could not be published anyway.
        return pa.list_(pa.null()) if isinstance(value, list) else pa.null()


def _choose_type(found: Counter[pa.DataType]) -> pa.DataType:
    """Choose the type of most values, widened to hold values of other types where possible."""
    joined = pa.null()
    for type_, _ in found.most_common():
        with suppress(pa.ArrowException):
            joined = join_types(joined, type_)
    return _without_null(joined)


def _without_null(type_: pa.DataType) -> pa.DataType:
    """Replace null types, of fields without any value in the first lines, by text."""
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _without_null(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_without_null(type_.value_type))
    return pa.string() if pa.types.is_null(type_) else type_
