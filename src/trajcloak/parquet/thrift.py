"""Thrift's compact protocol, as far as Parquet files use it in footers and page headers.

First the numbers of fields in Parquet's structures.

Only the shape of a structure is read: which field has which type and value. What is read
and written again has the same bytes. Bytes that are no structure raise a ``ValueError``.
"""

from dataclasses import dataclass
from typing import TypeAlias

MAGIC = b"PAR1"
TAIL = 8
"""Bytes after the footer: its length, and the magic again."""

NUM_ROWS, ROW_GROUPS = 3, 4
"""Of the footer."""

COLUMNS, GROUP_ROWS, GROUP_OFFSET, ORDINAL = 1, 3, 5, 7
"""Of a row group."""

CHUNK_METADATA = 3
OTHER_OFFSETS = {4, 5, 6, 7}
"""Of a column chunk; Arrow does not write the latter by default: places of page indexes."""

NUM_VALUES, CHUNK_BYTES, DATA_PAGE, DICTIONARY_PAGE = 5, 7, 9, 11
"""Of the metadata of a column chunk; pages by their offsets."""

UNPACKED_BYTES, PACKED_BYTES, DATA_HEADER, DATA_HEADER_V2 = 2, 3, 5, 8
"""Of a page header."""

ENCODING, ENCODING_V2 = 2, 4
"""Of the headers of data pages of both versions."""

DELTA_BYTE_ARRAY = 7
"""An encoding in which each value may repeat all of the one before."""

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST = range(10)
STRUCT = 12
LONG_LIST = 15
"""Lists of so many items or more write their length apart."""

MAX_DEPTH = 32
MAX_SHIFT = 63
"""Of the last seven bits of a number."""

Value: TypeAlias = "bool | int | bytes | Items | Struct"


@dataclass
class Items:
    """A list: the type of its items, and the items."""

    type: int
    items: "list[Value]"


@dataclass
class Field:
    """A field of a structure: its type and value."""

    type: int
    value: "Value"


Struct: TypeAlias = dict[int, Field]


def decode_struct(data: bytes) -> Struct:
    """Read a structure, whose bytes are all of ``data``."""
    struct, size = decode_first(data)
    if size != len(data):
        raise ValueError("the structure ends before its bytes do")
    return struct


def decode_first(data: bytes) -> tuple[Struct, int]:
    """Read the structure that ``data`` starts with; returns it, and how many bytes it takes."""
    reader = _Reader(data)
    return reader.read_struct(), reader.position


def encode_struct(struct: Struct) -> bytes:
    """Write a structure."""
    out = bytearray()
    _write_struct(struct, out)
    return bytes(out)


class ThriftEndError(ValueError):
    """The bytes end before the structure does."""


class _Reader:
    """Reads values one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def read_struct(self, depth: int = 0) -> Struct:
        struct: Struct = {}
        number = 0
        while (head := self._read_byte()) != STOP:
            step, type_ = head >> 4, head & 15
            number = number + step if step else self._read_signed()
            struct[number] = Field(type_, self._read_value(type_, depth, in_list=False))
        return struct

    def _read_value(self, type_: int, depth: int, *, in_list: bool) -> Value:
        if depth > MAX_DEPTH:
            raise ValueError(f"structures are nested more than {MAX_DEPTH} deep")
        if type_ in (TRUE, FALSE):
            # The type of a field is its value; items of a list have a byte each.
            return (self._read_byte() if in_list else type_) == TRUE
        if type_ in (I16, I32, I64):
            return self._read_signed()
        if type_ == STRUCT:
            return self.read_struct(depth + 1)
        if type_ == LIST:
            head = self._read_byte()
            size, item_type = head >> 4, head & 15
            if size == LONG_LIST:
                size = self._read_unsigned()
            items = [self._read_value(item_type, depth + 1, in_list=True) for _ in range(size)]
            return Items(item_type, items)
        if type_ in (BYTE, DOUBLE, BINARY):
            size = {BYTE: 1, DOUBLE: 8}.get(type_) or self._read_unsigned()
            return self._read_bytes(size)
        raise ValueError(f"type {type_} is not known in a Parquet file")

    def _read_byte(self) -> int:
        return self._read_bytes(1)[0]

    def _read_bytes(self, size: int) -> bytes:
        self.position += size
        if self.position > len(self._data):
            raise ThriftEndError("the bytes end before the structure does")
        return self._data[self.position - size : self.position]

    def _read_unsigned(self) -> int:
        number = shift = 0
        while shift <= MAX_SHIFT:
            byte = self._read_byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
        raise ValueError("a number has more than 64 bits")

    def _read_signed(self) -> int:
        number = self._read_unsigned()
        return number >> 1 ^ -(number & 1)


def _write_struct(struct: Struct, out: bytearray) -> None:
    last = 0
    for number, field in struct.items():
        type_ = field.type
        if 0 < number - last <= 15:
            out.append(number - last << 4 | type_)
        else:
            out.append(type_)
            _write_signed(number, out)
        if type_ not in (TRUE, FALSE):
            _write_value(type_, field.value, out)
        last = number
    out.append(STOP)


def _write_value(type_: int, value: Value, out: bytearray) -> None:
    if isinstance(value, dict):
        _write_struct(value, out)
    elif isinstance(value, Items):
        size = len(value.items)
        out.append(min(size, LONG_LIST) << 4 | value.type)
        if size >= LONG_LIST:
            _write_unsigned(size, out)
        for item in value.items:
            _write_value(value.type, item, out)
    elif isinstance(value, bytes):
        if type_ == BINARY:
            _write_unsigned(len(value), out)
        out += value
    elif isinstance(value, bool):
        out.append(TRUE if value else FALSE)
    else:
        _write_signed(value, out)


def _write_unsigned(number: int, out: bytearray) -> None:
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _write_signed(number: int, out: bytearray) -> None:
    _write_unsigned(number << 1 if number >= 0 else (-number << 1) - 1, out)
