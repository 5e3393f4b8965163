"""Cut the files of a log into pieces, each of which one call reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajcloak.engines.engine import Engine, Sizes, TakesFrames
from trajcloak.errors import OptionError
from trajcloak.log.files import (
    LogFile,
    LogPath,
    count_file_rows,
    count_rows,
    list_files,
    read_parquet_metadata,
)
from trajcloak.log.formats import PARQUET, find_kind
from trajcloak.log.frames import to_table
from trajcloak.log.recognition import recognise_columns
from trajcloak.options import LogColumns


@dataclass(frozen=True)
class SourcePiece:
    """Some rows of a log, to be read by one call.

    Attributes
    ----------
    content
        A list of files, or a handle of an Arrow table.
    groups : tuple of int or None
        The row groups to read, of a single Parquet file.
    first_row : int
        How many rows of the log come before.
    """

    content: Any
    groups: tuple[int, ...] | None
    first_row: int


@dataclass(frozen=True)
class CutSource:
    """A log that is to be read: its files, and what each call reads of them.

    Attributes
    ----------
    name : str
        For messages.
    files : list of LogFile
    columns : LogColumns
        What to read, with those of user, time and place named.
    num_rows : int
        0 if one call reads all: rows of text files are not counted then.
    pieces : list of SourcePiece
    """

    name: str
    files: list[LogFile]
    columns: LogColumns
    num_rows: int
    pieces: list[SourcePiece]


def cut_source(
    engine: Engine, source: LogPath, columns: LogColumns, *, has_place: bool = True
) -> CutSource:
    """List the files of a log, count its rows, and cut it into pieces that one call reads."""
    if hasattr(source, "to_delayed"):
        if not isinstance(engine, TakesFrames):
            raise OptionError(
                "the log is a dask DataFrame; expected a cluster to work on; pass --engine, a "
                "distributed.Client"
            )
        tables = engine.store_frame(source, to_table)
        counts = engine.ask(len, [(table,) for table in tables])
        first_rows = accumulate([0, *counts])
        pieces = [SourcePiece(t, None, row) for t, row in zip(tables, first_rows, strict=False)]
        head = to_table(source._meta)
        columns = recognise_columns(head, columns, has_place=has_place)
        return CutSource("the table", [head], columns, sum(counts), pieces)
    files = list_files(source)
    columns = recognise_columns(files[0], columns, has_place=has_place)
    name = _name_source(source, files)
    num_rows = count_rows(files)
    if engine.choose_sizes(num_rows).is_whole:
        return CutSource(name, files, columns, num_rows, [SourcePiece(files, None, 0)])
    files = [file.absolute() if isinstance(file, Path) else file for file in files]
    counted = engine.ask(count_file_rows, [(_share(engine, file), columns) for file in files])
    # A file that cannot be read stops the run later, with a message that names it.
    counts = [count or 0 for count in counted]
    chunk = choose_chunk(engine.choose_sizes(sum(counts))) or 1
    pieces = []
    for file, first_row in zip(files, accumulate([0, *counts]), strict=False):
        if isinstance(file, Path) and find_kind(file) == PARQUET:
            pieces += _cut_parquet(file, first_row, chunk)
        else:
            pieces.append(SourcePiece([_share(engine, file)], None, first_row))
    return CutSource(name, files, columns, sum(counts), pieces)


def _share(engine: Engine, file: LogFile) -> LogFile:
    """Hand a table in memory to the engine; paths are seen by all workers."""
    return engine.put(file) if isinstance(file, pa.Table) else file


def choose_chunk(sizes: Sizes) -> int | None:
    """Choose how many rows a call reads at a time; None: all.

    Rows are held several times while they are read, encoded and decoded; so half a shard.
    """
    return None if sizes.is_whole else -(-sizes.rows // 2)


def _cut_parquet(file: Path, first_row: int, chunk: int) -> Iterator[SourcePiece]:
    """Cut a Parquet file into pieces of about ``chunk`` rows, or of one row group."""
    metadata = read_parquet_metadata(file)
    groups: list[int] = []
    num_rows = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        num_rows += metadata.row_group(group).num_rows
        if num_rows >= chunk or group == metadata.num_row_groups - 1:
            yield SourcePiece([file], tuple(groups), first_row)
            first_row += num_rows
            groups, num_rows = [], 0


def _name_source(source: LogPath, files: Sequence[LogFile]) -> str:
    """Name a log in a message."""
    if not isinstance(files[0], Path):
        return "the table"
    if isinstance(source, str | Path):
        return str(source)
    return ", ".join(map(str, source))
