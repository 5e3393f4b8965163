"""Kinds of files that a log can be in, told by their names."""

from pathlib import Path
from typing import Any

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
NUM_FIXED = 4
"""User, time and two coordinates; the other columns that are read are request attributes."""


def find_kind(file: Path) -> str | None:
    """Tell the kind of a file from its name; None if it is not known."""
    suffixes = [suffix.lower() for suffix in file.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        kind = KINDS.get(suffixes[-2]) if len(suffixes) > 1 else None
        return kind if kind in (CSV, JSON) else None
    return KINDS.get(suffixes[-1]) if suffixes else None


def open_text(file: Path) -> Any:
    """Open a file of text as a stream of bytes, decompressed."""
    return pa.input_stream(str(file), compression=COMPRESSIONS.get(file.suffix.lower()))


def find_delimiter(file: Path) -> str:
    """Choose the delimiter that cuts the header line into most columns; else a comma."""
    with open_text(file) as stream:
        header = stream.read(MAX_HEADER).split(b"\n", 1)[0].decode("utf-8", "replace")
    # Parts between quotes are names.
    plain = "".join(header.split('"')[::2])
    return max(DELIMITERS, key=plain.count)


def find_partitions(file: Path) -> dict[str, str]:
    """Read the columns that the folders of a file stand for: ``.../day=2024-05-01/...``."""
    parts = (part.split("=", 1) for part in file.parts[:-1] if "=" in part)
    return {name: value for name, value in parts if name}
