"""Logs of JSON objects, one per line."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajcloak.errors import InputError
from trajcloak.log.formats import open_text

LOOK_AHEAD = 1 << 20
"""Bytes of a file that tell the types of its fields."""


def guess_schema(file: Path) -> pa.Schema:
    """Look at the first lines: a field has the type of its values there; else it is text."""
    with open_text(file) as stream:
        head = stream.read(LOOK_AHEAD)
    lines = head.split(b"\n")
    if len(head) == LOOK_AHEAD and len(lines) > 1:
        lines.pop()
    types: dict[str, pa.DataType | None] = {}
    for line in lines:
        record = _parse(line)
        for name, value in record.items() if isinstance(record, dict) else ():
            found = _find_type(value)
            if found == pa.float64() and types.get(name) == pa.int64():
                types[name] = found
            types[name] = types.get(name) or found
    if not types:
        raise pa.ArrowInvalid("no object")
    return pa.schema([(name, type_ or pa.string()) for name, type_ in types.items()])


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _find_type(value: Any) -> pa.DataType | None:
    for kind, type_ in ((bool, pa.bool_()), (int, pa.int64()), (float, pa.float64())):
        if isinstance(value, kind):
            return type_
    return pa.string() if isinstance(value, str) else None


def explain_bad_lines(file: Path, schema: pa.Schema, names: list[str], rows_before: int) -> None:
    """Read a file again, slowly, and name the first line that cannot be read."""
    row = rows_before
    with open_text(file) as stream:
        content = stream.read()
    for line in content.split(b"\n"):
        if not line.strip():
            continue
        row += 1
        record = _parse(line)
        if not isinstance(record, dict):
            raise InputError(
                f"{file}: row {row} is no JSON object; expected one on each line; correct or "
                f"remove the row"
            ) from None
        for name in names:
            found, expected = _find_type(record.get(name)), schema.field(name).type
            fits = found in (None, expected) or (found, expected) == (pa.int64(), pa.float64())
            if not fits or isinstance(record.get(name), dict | list):
                raise InputError(
                    f"{file}: row {row}: field '{name}' is of another type than in the first rows; "
                    f"expected {expected}; correct or remove the row"
                ) from None
