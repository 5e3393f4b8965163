"""One Parquet file from row groups that were encoded apart, by threads or by workers.

A row group refers to its place in the file by a few offsets in the footer, and by nothing
else. So each group is encoded as a file of its own; joined, the groups are copied one after
the other, and their footers are merged with the offsets moved. The result is, byte for
byte, the file that one writer would have written. Page indexes, which have offsets of their
own, are not asked of Arrow, and refused should it write them.
"""

from collections.abc import Iterable
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.parquet.thrift import (
    CHUNK_METADATA,
    COLUMNS,
    DATA_PAGE,
    DICTIONARY_PAGE,
    GROUP_OFFSET,
    MAGIC,
    NUM_ROWS,
    ORDINAL,
    OTHER_OFFSETS,
    ROW_GROUPS,
    TAIL,
    Items,
    Struct,
    decode_struct,
    encode_struct,
)

ROWS_PER_GROUP = 1 << 17
"""Rows in a row group, of several windows if need be."""

COMPRESSION = "zstd"
COMPRESSION_LEVEL = 1


def encode_row_group(batch: pa.RecordBatch, *, store_schema: bool) -> pa.Buffer:
    """Encode a batch as a Parquet file of one row group; of none if the batch is empty."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        batch.schema,
        compression=COMPRESSION,
        compression_level=COMPRESSION_LEVEL,
        write_page_index=False,
        store_schema=store_schema,
    ) as writer:
        if batch.num_rows:
            writer.write_batch(batch, row_group_size=batch.num_rows)
    return sink.getvalue()


def join_row_groups(parts: Iterable[pa.Buffer], file: BinaryIO) -> None:
    """Write one Parquet file from those of its row groups: at least one, all of one schema.

    They are from :func:`encode_row_group`; ``file`` is empty, and open for writing.
    """
    position = file.write(MAGIC)
    footer: Struct = {}
    # As bytes, which take little memory: a stream's policy file has a row group for each epoch.
    groups: list[bytes] = []
    num_rows = 0
    for part in parts:
        view = memoryview(part)
        length = int.from_bytes(view[-TAIL : -len(MAGIC)], "little")
        end = len(view) - TAIL - length
        own = decode_struct(bytes(view[end:-TAIL]))
        for group in cast(list[Struct], cast(Items, own[ROW_GROUPS].value).items):
            _move(group, position - len(MAGIC), len(groups))
            groups.append(encode_struct(group))
        num_rows += cast(int, own[NUM_ROWS].value)
        position += file.write(view[len(MAGIC) : end])
        footer = footer or own
    footer[NUM_ROWS].value = num_rows
    cast(Items, footer[ROW_GROUPS].value).items = list(groups)
    text = encode_struct(footer)
    file.write(text + len(text).to_bytes(TAIL - len(MAGIC), "little") + MAGIC)


def _move(group: Struct, shift: int, ordinal: int) -> None:
    """Move a row group by so many bytes, and give it its number in the file."""
    if ORDINAL in group:
        group[ORDINAL].value = ordinal
    _add(group, GROUP_OFFSET, shift)
    for chunk in cast(list[Struct], cast(Items, group[COLUMNS].value).items):
        if OTHER_OFFSETS & set(chunk):
            raise AssertionError("a row group has a page index, whose offsets are not moved")
        metadata = cast(Struct, chunk[CHUNK_METADATA].value)
        for number in (DATA_PAGE, DICTIONARY_PAGE):
            _add(metadata, number, shift)


def _add(struct: Struct, number: int, shift: int) -> None:
    if number in struct:
        struct[number].value = cast(int, struct[number].value) + shift
