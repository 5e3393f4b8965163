"""Kinds of log files, recognised by their names."""

import io
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

CSV = "csv"
PARQUET = "parquet"
ARROW = "arrow"
JSON = "json"
KINDS = {
    ".csv": CSV,
    ".tsv": CSV,
    ".parquet": PARQUET,
    ".arrow": ARROW,
    ".feather": ARROW,
    ".jsonl": JSON,
    ".ndjson": JSON,
}
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
NAMES = {
    CSV: "delimited text in UTF-8",
    PARQUET: "Parquet",
    ARROW: "Arrow IPC",
    JSON: "JSON, one object per line",
}
EXPECTED = ".csv, .tsv, .jsonl or .ndjson (also .gz, .bz2, .zst), .parquet, .arrow or .feather"
DELIMITERS = (",", ";", "\t", "|")
MAX_HEADER = 1 << 20

TEXT_BLOCK_BYTES = 1 << 24
NOT_ASCII = bytes(range(128)) + b"?" * 128
"""A table that turns each byte that is not ASCII into a question mark."""


class WantedColumns(NamedTuple):
    """Names of the columns to read."""

    user: str
    time: str
    place: tuple[str, ...] = ()  # The two coordinates; none in a request log.
    requests: tuple[str, ...] = ()  # The request attributes; a struct counts as one.
    is_report: str | None = None  # Says which rows are location reports.
    # How times are written; see :class:`trajcloak.options.LogColumns`.
    time_unit: str | None = None
    time_format: str | None = None
    delimiter: str | None = None  # Between cells of a CSV file; default: the one in its header.

    @property
    def names(self) -> list[str]:
        """All columns, in the order of the batches."""
        marks = [] if self.is_report is None else [self.is_report]
        return [self.user, self.time, *self.place, *self.requests, *marks]


def find_kind(file: Path) -> str | None:
    """Find the kind of a file by its name; None if it is not known."""
    suffixes = [suffix.lower() for suffix in file.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        kind = KINDS.get(suffixes[-2]) if len(suffixes) > 1 else None
        return kind if kind in (CSV, JSON) else None
    return KINDS.get(suffixes[-1]) if suffixes else None


def open_text(file: Path) -> Any:
    """Open a file of text as a stream of bytes, decompressed."""
    return pa.input_stream(str(file), compression=COMPRESSIONS.get(file.suffix.lower()))


class AsciiRows(io.RawIOBase):
    """The bytes of a text file; after the header, bytes that are not ASCII become ``?``.

    Arrow passes rows of the wrong length to Python as text, and fails if they are not UTF-8.
    Separators, quotes and line ends stay where they are.
    """

    def __init__(self, file: Path) -> None:
        self._stream = open_text(file)
        self._header_left = len(read_header(file))

    def readable(self) -> bool:
        """Always true."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        content = bytes(self._stream.read(None if size < 0 else size))
        header, rows = content[: self._header_left], content[self._header_left :]
        self._header_left -= len(header)
        return header + rows.translate(NOT_ASCII)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


def read_header(file: Path) -> bytes:
    """Read the header line of a text file; quoted names in it may contain line breaks."""
    with open_text(file) as stream:
        head = bytes(stream.read(MAX_HEADER))
    stop = head.find(b"\n")
    while stop >= 0 and head.count(b'"', 0, stop) % 2:
        stop = head.find(b"\n", stop + 1)
    return head if stop < 0 else head[: stop + 1]


def find_delimiter(file: Path, given: str | None) -> str:
    """Return the given delimiter, or the one that is most frequent in the header; or a comma."""
    if given:
        return given
    with open_text(file) as stream:
        header = stream.read(MAX_HEADER).split(b"\n", 1)[0].decode("utf-8", "replace")
    # Ignore delimiters inside quoted names.
    plain = "".join(header.split('"')[::2])
    return max(DELIMITERS, key=plain.count)


def find_partitions(file: Path) -> dict[str, str]:
    """Read the columns that names of folders give: ``.../day=2024-05-01/...``."""
    parts = (part.split("=", 1) for part in file.parts[:-1] if "=" in part)
    return {name: value for name, value in parts if name}
