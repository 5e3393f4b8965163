"""The Parquet files of a release, and the policy file: contents, types, metadata."""

import base64
import binascii
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajcloak.auditor.audited_values import decode_column, decoded_type

Column = tuple[str, Any]

KEYS = (
    ("window", pa.int32()),
    ("bundle_id", pa.int64()),
    ("instant", pa.int32()),
)
RECTANGLE = ("x_min", "y_min", "x_max", "y_max")
ARROW_SCHEMA = b"ARROW:schema"

WRITER = re.compile(r"parquet-cpp-arrow version [0-9]{1,3}(\.[0-9]{1,3}){2}(-SNAPSHOT)?")
MAGIC = b"PAR1"
FRAME = 12
"""Bytes around the footer: the magic at both ends, and the footer's length."""


@dataclass(frozen=True)
class ParquetContents:
    """A Parquet file that could be read.

    Attributes
    ----------
    table
        Its contents.
    metadata
        Its key-value metadata.
    outside
        All its bytes that are not column data: the footer, and whatever lies between
        columns, piece by piece.
    footer
        The footer as Arrow reads it.
    schema_bytes, inner_metadata
        The Arrow schema that the metadata holds, decoded, and the metadata in it; empty
        if there is none.
    field_metadata
        Key-value metadata of the columns, without Parquet's own field ids.
    created_by
        What the file says about its writer.
    unused
        How many values of text columns stand in the file and in none of its rows.
    """

    table: Any
    metadata: dict[bytes, bytes]
    outside: list[bytes]
    footer: Any
    schema_bytes: bytes
    inner_metadata: dict[bytes, bytes]
    field_metadata: list[tuple[bytes, bytes]]
    created_by: str
    unused: int


def read_parquet(path: Path) -> ParquetContents | None:
    """Read a Parquet file whole; None if it cannot be."""
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
            footer = file.metadata
        outside = _read_outside(path, footer)
        unused = _count_unused(path, table)
    except (pa.ArrowException, OSError, ValueError):
        return None
    metadata = dict(footer.metadata or {})
    schema_bytes, inner = _decode_schema(metadata.get(ARROW_SCHEMA, b""))
    field_metadata = [
        (key, value)
        for field in [*table.schema, *inner]
        for key, value in (field.metadata or {}).items()
        if key != b"PARQUET:field_id"
    ]
    return ParquetContents(
        table,
        metadata,
        outside,
        footer,
        schema_bytes,
        dict(inner.metadata or {}),
        field_metadata,
        str(footer.created_by or ""),
        unused,
    )


def _decode_schema(encoded: bytes) -> tuple[bytes, Any]:
    """Decode an Arrow schema: its bytes, and the schema; both empty if it cannot be decoded."""
    try:
        decoded = base64.b64decode(encoded, validate=True)
        return decoded, pa.ipc.read_schema(pa.py_buffer(decoded))
    except (binascii.Error, pa.ArrowException, OSError):
        return b"", pa.schema([])


def _count_unused(path: Path, table: Any) -> int:
    """Count the values in dictionary pages of text columns that no row refers to."""
    names = [field.name for field in table.schema if pa.types.is_string(decoded_type(field.type))]
    if len(set(names)) < len(names):
        # Such a file is refused for its columns.
        return 0
    unused = 0
    with pq.ParquetFile(path, read_dictionary=names) as file:
        for name in names:
            used = set(decode_column(table.column(name)).unique().to_pylist())
            for group in range(file.num_row_groups):
                for chunk in file.read_row_group(group, columns=[name]).column(name).chunks:
                    if pa.types.is_dictionary(chunk.type):
                        unused += len(set(chunk.dictionary.to_pylist()) - used)
    return unused


def _read_outside(path: Path, footer: Any) -> list[bytes]:
    """Read all bytes of a Parquet file that belong to no column."""
    stretches = []
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            column = footer.row_group(group).column(number)
            start = column.data_page_offset
            if column.has_dictionary_page:
                start = min(start, column.dictionary_page_offset)
            stretches.append((start, start + column.total_compressed_size))
    pieces = []
    position = 0
    with path.open("rb") as file:
        for start, stop in sorted(stretches):
            file.seek(position)
            pieces.append(file.read(max(start - position, 0)))
            position = max(position, stop)
        file.seek(position)
        pieces.append(file.read())
    return pieces


def list_bundle_columns(stamped: bool, zoned: bool) -> list[Column]:
    """List the columns of ``bundles.parquet`` for a kind of log."""
    moment = pa.timestamp("us", "UTC" if zoned else None)
    return [
        *KEYS,
        *([("t_start", moment), ("t_end", moment)] if stamped else []),
        *((name, pa.float64()) for name in RECTANGLE),
        ("users", pa.int32()),
        ("geometry", pa.binary()),
    ]


def find_schema_problems(
    part: ParquetContents, expected: Sequence[Column], file: str, as_in_log: Sequence[str] = ()
) -> list[str]:
    """Compare names, types and order of columns; an expected type of None is any that is plain.

    The columns ``as_in_log`` may also be dictionaries, another kind of text, or what
    Parquet makes of their type by itself. The names that were found are not quoted: one
    could be a user's.
    """
    found = part.table.schema
    problems = []
    if len(found) != len(expected):
        problems.append(f"{file} has {len(found)} columns; expected {len(expected)}")
    for number, (name, kind) in enumerate(expected[: len(found)]):
        field = found.field(number)
        if field.name != name:
            problems.append(f"column {number + 1} of {file} is not '{name}'")
        elif kind is None:
            if not _is_plain(field.type):
                problems.append(f"column '{name}' of {file} holds no plain values")
        elif field.type == kind:
            continue
        elif name not in as_in_log or decoded_type(field.type) not in _stored_types(kind):
            problems.append(f"column '{name}' of {file} is not of type {kind}")
    return problems


def _is_plain(kind: Any) -> bool:
    """Whether values of a type can be published: one in each row, that all readers know."""
    kind = decoded_type(kind)
    return not (pa.types.is_nested(kind) or pa.types.is_interval(kind) or kind == pa.float16())


def _stored_types(kind: Any) -> list[Any]:
    """List the types that a column may have once it was in a Parquet file."""
    kinds = [kind]
    for store_schema in (True, False):
        file = pa.BufferOutputStream()
        pq.write_table(pa.table({"values": pa.array([], kind)}), file, store_schema=store_schema)
        kinds.append(pq.read_schema(pa.BufferReader(file.getvalue())).field("values").type)
    return kinds


def find_nulls(part: ParquetContents, names: Sequence[str], file: str) -> list[str]:
    """Look for nulls in columns that must not have any."""
    return [
        f"column '{name}' of {file} has {part.table[name].null_count} nulls"
        for name in names
        if part.table[name].null_count
    ]


@dataclass(frozen=True)
class BundleColumns:
    """The columns of ``bundles.parquet``; the moments are microseconds, or None."""

    window: npt.NDArray[np.int32]
    bundle_id: npt.NDArray[np.int64]
    instant: npt.NDArray[np.int32]
    t_start: npt.NDArray[np.int64] | None
    t_end: npt.NDArray[np.int64] | None
    rectangle: npt.NDArray[np.float64]
    users: npt.NDArray[np.int32]
    geometry: Any

    @property
    def num_rows(self) -> int:
        """How many rows the file has."""
        return len(self.window)


def take_bundle_columns(part: ParquetContents) -> BundleColumns:
    """Take the columns of ``bundles.parquet``, whose schema was found right.

    ``rectangle`` has one row for each of the file, in the order of ``RECTANGLE``.
    """
    table = part.table
    moments: list[Any] = [None, None]
    if "t_start" in table.column_names:
        moments = [table[name].cast(pa.int64()).to_numpy() for name in ("t_start", "t_end")]
    return BundleColumns(
        window=table["window"].to_numpy(),
        bundle_id=table["bundle_id"].to_numpy(),
        instant=table["instant"].to_numpy(),
        t_start=moments[0],
        t_end=moments[1],
        rectangle=np.column_stack([table[name].to_numpy() for name in RECTANGLE]),
        users=table["users"].to_numpy(),
        geometry=table["geometry"],
    )


def find_footer_problems(part: ParquetContents, allowed: set[bytes], file: str) -> list[str]:
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


def find_statistics_problems(part: ParquetContents, file: str) -> list[str]:
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
    kind = decoded_type(column.type)
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
