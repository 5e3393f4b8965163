"""What a Parquet file holds beside its values: places where something could be hidden."""

import io
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.files import plain_type
from trajcloak.auditor.parts import ARROW_SCHEMA, Part

WRITER = re.compile(r"parquet-cpp-arrow version [0-9]{1,3}(\.[0-9]{1,3}){2}(-SNAPSHOT)?")
MAGIC = b"PAR1"
FRAME = 12
"""Bytes around the footer: the magic at both ends, and the footer's length."""


def find_footer_problems(part: Part, allowed: set[bytes], file: str) -> list[str]:
    """Look for bytes and metadata that the format does not have."""
    problems = []
    others = len((part.metadata.keys() | part.inner_metadata.keys()) - allowed)
    if others:
        problems.append(f"{file} has {others} metadata keys that the format does not have")
    differing = [
        key
        for key, value in part.inner_metadata.items()
        if key in allowed and part.metadata.get(key) != value
    ]
    if differing or (ARROW_SCHEMA in part.metadata and not part.schema_bytes):
        problems.append(f"{file} has an Arrow schema that is not that of its columns")
    if part.field_metadata:
        problems.append(f"{file} has metadata on {len(part.field_metadata)} columns")
    if not WRITER.fullmatch(part.created_by):
        problems.append(f"{file} names no known writer")
    hidden = sum(map(len, part.outside)) - part.footer.serialized_size - FRAME
    if hidden:
        problems.append(f"{file} has {hidden:,} bytes that belong to no column")
    known = io.BytesIO()
    part.footer.write_metadata_file(known)
    # Fields that Arrow does not know are gone when it writes a footer again.
    if not part.outside[-1].endswith(known.getvalue()[len(MAGIC) :]):
        problems.append(f"{file} has fields in its footer that Parquet does not have")
    chunks = [
        part.footer.row_group(group).column(number)
        for group in range(part.footer.num_row_groups)
        for number in range(part.footer.num_columns)
    ]
    noted = sum(bool(getattr(chunk, "metadata", None) or chunk.file_path) for chunk in chunks)
    if noted:
        problems.append(f"{file} has metadata on {noted} pieces of columns")
    return problems


def find_statistics_problems(part: Part, file: str) -> list[str]:
    """Compare the statistics of numbers and text with the values; columns are not nested."""
    wrong = start = 0
    for number in range(part.footer.num_row_groups):
        group = part.footer.row_group(number)
        rows = part.table.slice(start, group.num_rows)
        start += group.num_rows
        wrong += sum(
            _is_wrong(group.column(at).statistics, column) for at, column in enumerate(rows.columns)
        )
    return [f"{file} has wrong statistics on {wrong} pieces of columns"] if wrong else []


def _is_wrong(statistics: Any, column: Any) -> bool:
    if statistics is None:
        return False
    if statistics.has_distinct_count or (
        statistics.has_null_count and statistics.null_count != column.null_count
    ):
        return True
    kind = plain_type(column.type)
    is_comparable = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    )
    if not is_comparable or not statistics.has_min_max:
        return False
    found = pc.min_max(pc.cast(column, kind)).as_py()
    return bool(statistics.min != found["min"] or statistics.max != found["max"])
