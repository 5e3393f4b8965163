"""Kinds of log files, recognised by their names."""

import csv
import io
from collections.abc import Iterator
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


def read_cells(file: Path, delimiter: str) -> Iterator[list[str]]:
    """Read the cells of a delimited file by row; bytes that are not UTF-8 become surrogates."""
    with open_text(file) as stream:
        yield from _split_cells(stream, delimiter)


def _split_cells(stream: Any, delimiter: str, *, strict: bool = False) -> Iterator[list[str]]:
    csv.field_size_limit(max(csv.field_size_limit(), TEXT_BLOCK_BYTES))
    text = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
    # Blank lines are no rows.
    return filter(None, csv.reader(text, delimiter=delimiter, strict=strict))


def read_header(file: Path, delimiter: str | None) -> list[str]:
    """Read the names of the columns of a delimited file."""
    with open_text(file) as stream:
        head = io.BytesIO(stream.read(MAX_HEADER))
    # Strict, so that a quote that is not closed does not make names of rows.
    return next(_split_cells(head, find_delimiter(file, delimiter), strict=True), [])


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
