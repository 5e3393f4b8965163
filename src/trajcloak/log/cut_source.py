"""Cut the files of a log into pieces, each of which one call reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajcloak.engines.engine import Engine, Sizes
from trajcloak.log.file_columns import LogFile, LogPath, recognise_columns
from trajcloak.log.files import count_by_reading, count_rows, list_files, read_parquet_metadata
from trajcloak.log.formats import PARQUET, find_kind
from trajcloak.log.frames import to_table
from trajcloak.options import LogColumns


@dataclass(frozen=True)
class SourcePiece:
    """Some rows of a log, to be read by one call."""

    content: list[Any]  # Paths, Arrow tables, or handles of such tables.
    groups: tuple[int, ...] | None  # The row groups to read, of a single Parquet file.
    first_row: int  # How many rows of the log come before.


@dataclass(frozen=True)
class CutSource:
    """A log that is to be read: its files, and what each call reads of them."""

    name: str  # For messages.
    files: list[LogFile]
    columns: LogColumns  # What to read, with those of user, time and place named.
    num_rows: int  # 0 if one call reads all: rows of text files are not counted then.
    pieces: list[SourcePiece]


def cut_source(
    engine: Engine, source: LogPath, columns: LogColumns, *, has_place: bool = True
) -> CutSource:
    """List the files of a log, count its rows, and cut it into pieces that one call reads."""
    if hasattr(source, "to_delayed"):
        tables = engine.store_frame(source, to_table)
        counts = engine.ask(len, [(table,) for table in tables])
        first_rows = accumulate([0, *counts])
        pieces = [SourcePiece([t], None, row) for t, row in zip(tables, first_rows, strict=False)]
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
    to_read = [file for file in files if not _is_counted(file)]
    counted = iter(engine.ask(count_by_reading, [(file, columns) for file in to_read]))
    # A file that cannot be read stops the run later, with a message that names it.
    counts = [count_rows([f]) if _is_counted(f) else next(counted) for f in files]
    chunk = choose_chunk(engine.choose_sizes(sum(counts))) or 1
    pieces = []
    for file, first_row in zip(files, accumulate([0, *counts]), strict=False):
        if isinstance(file, Path) and find_kind(file) == PARQUET:
            pieces += _cut_parquet(file, first_row, chunk)
        else:
            # A table in memory is handed to the engine; paths are seen by all workers.
            content = engine.put(file) if isinstance(file, pa.Table) else file
            pieces.append(SourcePiece([content], None, first_row))
    return CutSource(name, files, columns, sum(counts), pieces)


def _is_counted(file: LogFile) -> bool:
    """Whether the rows of a file are known without reading all of it."""
    return isinstance(file, pa.Table) or find_kind(file) == PARQUET


def choose_chunk(sizes: Sizes) -> int | None:
    """Choose how many rows a call reads at a time; None: all.

    Rows are held several times while they are read, encoded and decoded; so half a shard.
    """
    return None if sizes.is_whole else -(-sizes.rows // 2)


def _cut_parquet(file: Path, first_row: int, chunk: int) -> Iterator[SourcePiece]:
    """Cut a Parquet file into pieces of at most ``chunk`` rows, or of one row group.

    There is at least one, so that the columns of every file are checked.
    """
    metadata = read_parquet_metadata(file)
    groups: list[int] = []
    num_rows = 0
    for group in range(metadata.num_row_groups):
        more = metadata.row_group(group).num_rows
        if groups and num_rows + more > chunk:
            yield SourcePiece([file], tuple(groups), first_row)
            first_row += num_rows
            groups, num_rows = [], 0
        groups.append(group)
        num_rows += more
    if groups or not metadata.num_row_groups:
        yield SourcePiece([file], tuple(groups) or None, first_row)


def _name_source(source: LogPath, files: Sequence[LogFile]) -> str:
    """Name a log in a message."""
    if not isinstance(files[0], Path):
        return "the table"
    if isinstance(source, str | Path):
        return str(source)
    return ", ".join(map(str, source))
