"""Where the parts of a log are read from: row groups of Parquet files, or frames."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.errors import OptionError
from trajcloak.log.files import (
    has_partitions,
    list_files,
    read_row_groups,
)
from trajcloak.log.formats import PARQUET, find_kind
from trajcloak.log.frames import to_table
from trajcloak.options import LogColumns

SHOWN_FILES = 3


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a Parquet file."""

    file: Path
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """Some rows of a log.

    Attributes
    ----------
    content
        Row groups, or a handle of a frame.
    first_row : int
        How many rows of the log come before.
    num_rows : int
    """

    content: Any
    first_row: int
    num_rows: int


@dataclass(frozen=True)
class Source:
    """A log in parts.

    Attributes
    ----------
    name : str
        As messages call it.
    parts : sequence of Part
        In the order of their rows.
    head : pyarrow.Table
        The columns of the first file, without rows: it says the coordinate system of all.
    """

    name: str
    parts: Sequence[Part]
    head: pa.Table

    @property
    def num_rows(self) -> int:
        """How many rows there are, those to be dropped among them."""
        return sum(part.num_rows for part in self.parts)


def list_parquet(source: Any) -> list[Path]:
    """List the files of a log.

    Raises
    ------
    OptionError
        If a file is no Parquet file, or its folders stand for columns.
    """
    files = list_files(source)
    for file in files:
        if not isinstance(file, Path) or find_kind(file) != PARQUET or has_partitions(file):
            raise OptionError(
                "a part of the log is no Parquet file, or its folders stand for columns; an engine "
                "of several workers expects plain Parquet files; convert the log, or leave out "
                "--engine"
            )
    return files


def open_files(files: Sequence[Path], rows_per_part: int) -> Source:
    """Cut Parquet files into parts of about ``rows_per_part`` rows, or of one row group."""
    return Source(
        name=", ".join(map(str, files[:SHOWN_FILES]))
        + (", ..." if len(files) > SHOWN_FILES else ""),
        parts=list(_list_parts([file.absolute() for file in files], rows_per_part)),
        head=pq.read_schema(files[0]).empty_table(),
    )


def _list_parts(files: Sequence[Path], rows_per_part: int) -> Iterator[Part]:
    first_row = 0
    for file in files:
        metadata = pq.read_metadata(file)
        groups: list[int] = []
        num_rows = 0
        for group in range(metadata.num_row_groups):
            groups.append(group)
            num_rows += metadata.row_group(group).num_rows
            if num_rows >= rows_per_part or group == metadata.num_row_groups - 1:
                yield Part(RowGroups(file, tuple(groups)), first_row, num_rows)
                first_row += num_rows
                groups, num_rows = [], 0


def load(content: Any, columns: LogColumns) -> pa.Table:
    """Read the rows of a part."""
    if isinstance(content, RowGroups):
        return read_row_groups(content.file, content.groups, columns)
    return to_table(content)
