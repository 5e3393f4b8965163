"""How much memory a Parquet file would take, found before its values are read.

Parquet repeats values by counts. So a file of a few bytes may claim billions of rows, or hold
pages that grow without bound when they are unpacked. Arrow believes what a file says and
allocates; and it crashes on some damaged footers. Here the footer and the headers of all pages
are read first, and must agree with each other and with the size of the file.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from trajcloak.parquet.thrift import (
    CHUNK_BYTES,
    CHUNK_METADATA,
    COLUMNS,
    DATA_HEADER,
    DATA_HEADER_V2,
    DATA_PAGE,
    DELTA_BYTE_ARRAY,
    DICTIONARY_PAGE,
    ENCODING,
    ENCODING_V2,
    GROUP_ROWS,
    MAGIC,
    NUM_ROWS,
    NUM_VALUES,
    PACKED_BYTES,
    ROW_GROUPS,
    TAIL,
    UNPACKED_BYTES,
    Items,
    Struct,
    ThriftEndError,
    decode_first,
)

MAX_GROWTH = 100
SMALL = 1 << 29
"""A file may need this many bytes of memory, or ``MAX_GROWTH`` times its own size."""

VALUE_BYTES = 8
HEADER_BYTES = 1 << 10
MAX_HEADER_BYTES = 1 << 24
"""Of a page: what is read at first, and at most."""

T = TypeVar("T")


def check_parquet(path: Path) -> None:
    """Raise a ValueError if a file is no Parquet file that Arrow can read in little memory.

    So if footer or pages are damaged, disagree, or claim more than the file can hold. The message
    says what is wrong, without the file's name.
    """
    if not path.is_file():
        raise ValueError("it is no file")
    size = path.stat().st_size
    with path.open("rb") as file:
        footer = _read_footer(file, size)
        needed = packed = num_rows = 0
        for group in _structs(footer, ROW_GROUPS):
            rows = _number(group, GROUP_ROWS)
            num_rows += rows
            for chunk in _structs(group, COLUMNS):
                metadata = _take(chunk, CHUNK_METADATA, dict, "structure")
                packed += _number(metadata, CHUNK_BYTES)
                if packed > size:
                    raise ValueError("its columns claim more bytes than the file has")
                values = _number(metadata, NUM_VALUES)
                if values < rows:
                    raise ValueError("a column has fewer values than its row group has rows")
                if values:
                    needed += values * VALUE_BYTES + sum(_list_unpacked(file, metadata, size))
        if num_rows != _number(footer, NUM_ROWS):
            raise ValueError("its number of rows is not that of its row groups")
    if needed > max(SMALL, MAX_GROWTH * size):
        raise ValueError(
            f"its {size:,} bytes claim {num_rows:,} rows, which would take {needed:,} bytes of "
            f"memory"
        )


def _read_footer(file: BinaryIO, size: int) -> Struct:
    if size < len(MAGIC) + TAIL:
        raise ValueError("it is too short")
    head = file.read(len(MAGIC))
    file.seek(size - TAIL)
    tail = file.read(TAIL)
    length = int.from_bytes(tail[: -len(MAGIC)], "little")
    if head != MAGIC or tail[-len(MAGIC) :] != MAGIC or length > size - len(MAGIC) - TAIL:
        raise ValueError("it does not start and end as Parquet files do")
    file.seek(size - TAIL - length)
    return decode_first(file.read(length))[0]


def _list_unpacked(file: BinaryIO, metadata: Struct, size: int) -> Iterator[int]:
    """List the sizes of the pages of a column chunk when they are unpacked."""
    position = _number(metadata, DATA_PAGE)
    if DICTIONARY_PAGE in metadata:
        position = min(position, _number(metadata, DICTIONARY_PAGE) or position)
    end = position + _number(metadata, CHUNK_BYTES)
    if end > size:
        raise ValueError("a column ends after the file does")
    while position < end:
        header, length = _read_header(file, position)
        for number, encoding in ((DATA_HEADER, ENCODING), (DATA_HEADER_V2, ENCODING_V2)):
            if number in header:
                data_header = _take(header, number, dict, "structure")
                if _number(data_header, encoding) == DELTA_BYTE_ARRAY:
                    raise ValueError("a column has an encoding that grows without bound")
        yield _number(header, UNPACKED_BYTES)
        position += length + _number(header, PACKED_BYTES)


def _read_header(file: BinaryIO, position: int) -> tuple[Struct, int]:
    """Read the header of the page at a position; returns it and its length."""
    num_bytes = HEADER_BYTES
    while True:
        file.seek(position)
        data = file.read(num_bytes)
        try:
            return decode_first(data)
        except ThriftEndError:
            if len(data) < num_bytes or num_bytes >= MAX_HEADER_BYTES:
                raise
        num_bytes *= 16


def _take(struct: Struct, number: int, type_: type[T], what: str) -> T:
    value = struct[number].value if number in struct else None
    if not isinstance(value, type_):
        raise ValueError(f"field {number} of its footer or of a page is no {what}")
    return value


def _number(struct: Struct, number: int) -> int:
    """Take a count or a size out of a structure."""
    value = _take(struct, number, int, "count")
    if value < 0:
        raise ValueError(f"field {number} of its footer or of a page is no count")
    return value


def _structs(struct: Struct, number: int) -> Iterator[Struct]:
    for item in _take(struct, number, Items, "list").items:
        if not isinstance(item, dict):
            raise ValueError(f"field {number} of its footer is no list of structures")
        yield item
