"""Read a log: files to shards, every row checked."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.engines.engine import Engine, Handle, Sizes, TakesFrames
from trajcloak.engines.memory import MemoryEngine
from trajcloak.errors import OptionError
from trajcloak.kernels.threads import run_sliced
from trajcloak.log.clean import clean_shards
from trajcloak.log.exchange import join_logs, split_log
from trajcloak.log.files import (
    LogFile,
    LogPath,
    LogSystem,
    count_file_rows,
    count_rows,
    find_system,
    list_files,
    read_parquet_metadata,
    stream_batches,
)
from trajcloak.log.formats import PARQUET, find_kind
from trajcloak.log.frames import to_table
from trajcloak.log.request_log import RequestLog
from trajcloak.log.request_values import merge_kinds
from trajcloak.log.row_checks import RowChecker, RowColumns, check_time_span, no_rows
from trajcloak.log.sharded_log import (
    Change,
    ShardedLog,
    add_counts,
    build_shard,
    call_on_shard,
    describe,
    merge_facts,
    renumber_kinds,
)
from trajcloak.log.user_ids import mixed_ids, renumber, sort_ids, to_integers_if_plain
from trajcloak.options import LogColumns
from trajcloak.progress import Progress, silent

FIRST_ROWS = 1 << 16
READING = "reading log"


def read_log(
    source: LogPath,
    columns: LogColumns | None = None,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> RequestLog:
    """Read and check a log.

    Parameters
    ----------
    source
        A file (CSV, Parquet, Arrow, JSON lines), a glob, a folder, or a list of those; or a
        table or frame of pyarrow, pandas, polars or geopandas.
    columns
        Which columns to read; see :class:`trajcloak.options.LogColumns`.
    threads
        Default: all cores. Never changes the result.
    progress
        Called as rows are read.

    Raises
    ------
    InputError
        If a file cannot be read or a row breaks a rule of ``docs/data-model.md``.

    Examples
    --------
    >>> import trajcloak as tc
    >>> log = tc.read_log("log.parquet", tc.LogColumns(requests=("category",)))
    >>> log.num_users
    600
    """
    engine = MemoryEngine(threads, progress)
    read = read_shards(engine, source, columns or LogColumns())
    log = build_shard(read.shards[0])
    return replace(log, dropped=read.facts.dropped, shifted=read.facts.shifted)


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


class ReadCounts(NamedTuple):
    """What is counted while rows are read.

    Attributes
    ----------
    dropped, shifted : dict
        Rows that were dropped, and local times that were shifted, by reason.
    num_read : int
        Rows that were read, dropped ones included.
    has_integer_ids : bool
        Whether some file has ids that are numbers.
    """

    dropped: dict[str, int]
    shifted: dict[str, int]
    num_read: int
    has_integer_ids: bool


def read_shards(engine: Engine, source: LogPath, columns: LogColumns) -> ShardedLog:
    """Read and check a log, in shards: all rows of a user are in one shard.

    Parameters
    ----------
    engine
        Holds the shards.
    source
        As for :func:`read_log`; also a dask DataFrame, for the dask engine.
    columns
        What to read.
    """
    files, num_rows, pieces = _cut_source(engine, source, columns)
    system = find_system(files, columns)
    sizes = engine.choose_sizes(num_rows)
    num_shards = max(1, -(-num_rows // sizes.rows))
    jobs = [
        (
            piece.content, piece.groups, piece.first_row, columns, system, num_shards,
            _choose_chunk(sizes), engine.threads, engine.inner_progress,
        )
        for piece in pieces
    ]  # fmt: skip
    *rows, counts = engine.shuffle(read_rows, jobs, num_shards + 1, READING)
    total = _add_up(engine.ask(list, [(counts,)])[0])
    joined = engine.derive(join_rows, [(of_shard, columns, system.has_csv) for of_shard in rows])
    is_there = engine.ask(_is_there, [(shard,) for shard in joined])
    engine.drop(rows)
    shards = [[shard] for shard, there in zip(joined, is_there, strict=True) if there]
    if not shards:
        raise no_rows(total.num_read, _name_source(source, files))
    log = _describe_shards(engine, shards, columns, total)
    if system.from_text:
        log = _settle_text(log, columns, system, has_integer_ids=total.has_integer_ids)
    log, dropped = clean_shards(log, columns)
    if dropped:
        total = total._replace(dropped={**total.dropped, **dropped})
        log = _describe_shards(engine, log.shards, columns, total)
    engine.progress(READING, log.facts.num_rows, log.facts.num_rows)
    if len(log.shards) == 1:
        return log
    return renumber_kinds(log, *merge_kinds(log.ask(_list_kinds)))


def _cut_source(
    engine: Engine, source: LogPath, columns: LogColumns
) -> tuple[list[LogFile], int, list[SourcePiece]]:
    """List the files of a log, count its rows, and cut it into pieces that one call reads.

    If a log is one shard, one call reads all of it, and rows of text files are not counted.
    """
    if hasattr(source, "to_delayed"):
        if not isinstance(engine, TakesFrames):
            raise OptionError(
                "the log is a dask DataFrame; expected a cluster of dask's to work on; pass engine"
            )
        tables = engine.store_frame(source, to_table)
        counts = engine.ask(len, [(table,) for table in tables])
        first_rows = accumulate([0, *counts])
        pieces = [SourcePiece(t, None, row) for t, row in zip(tables, first_rows, strict=False)]
        return [to_table(source._meta)], sum(counts), pieces
    files = list_files(source)
    num_rows = count_rows(files)
    if engine.choose_sizes(num_rows).is_whole:
        return files, num_rows, [SourcePiece(files, None, 0)]
    files = [file.absolute() if isinstance(file, Path) else file for file in files]
    counted = engine.ask(count_file_rows, [(_share(engine, file), columns) for file in files])
    # A file that cannot be read stops the run later, with a message that names it.
    counts = [count or 0 for count in counted]
    chunk = _choose_chunk(engine.choose_sizes(sum(counts))) or 1
    pieces = []
    for file, first_row in zip(files, accumulate([0, *counts]), strict=False):
        if isinstance(file, Path) and find_kind(file) == PARQUET:
            pieces += _cut_parquet(file, first_row, chunk)
        else:
            pieces.append(SourcePiece([_share(engine, file)], None, first_row))
    return files, sum(counts), pieces


def _share(engine: Engine, file: LogFile) -> LogFile:
    """Hand a table in memory to the engine; paths are seen by all workers."""
    return engine.put(file) if isinstance(file, pa.Table) else file


def _choose_chunk(sizes: Sizes) -> int | None:
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


def read_rows(
    content: Any,
    groups: tuple[int, ...] | None,
    first_row: int,
    columns: LogColumns,
    system: LogSystem,
    num_shards: int,
    chunk: int | None,
    threads: int,
    progress: Progress,
) -> Iterator[list[Any]]:
    """Read some rows, ``chunk`` at a time, and split them by the shard of their user.

    Yields, for each chunk, the rows of every shard and then the :class:`ReadCounts`.
    """
    files = content if isinstance(content, list) else [content]
    expected_rows = count_rows(files) if groups is None else 0
    with ThreadPoolExecutor(threads) as pool:
        checker = RowChecker(columns, system, pool, first_row)
        builder = _RowBuilder(chunk or expected_rows)
        for batch in stream_batches(files, columns, groups=groups, first_row=first_row):
            builder.add(batch, checker)
            progress(READING, checker.num_read, expected_rows)
            if chunk is not None and checker.num_read - first_row >= chunk:
                yield _end_chunk(checker, builder, num_shards, first_row, threads)
                first_row = checker.num_read
                checker = RowChecker(columns, system, pool, first_row)
                builder = _RowBuilder(chunk)
        yield _end_chunk(checker, builder, num_shards, first_row, threads)


def _end_chunk(
    checker: RowChecker, builder: "_RowBuilder", num_shards: int, first_row: int, threads: int
) -> list[Any]:
    num_read = checker.num_read - first_row
    dropped = checker.filter.dropped
    if not checker.has_rows:
        counts = ReadCounts(dropped, {}, num_read, checker.has_integer_ids)
        return [*[None] * num_shards, counts]
    log = builder.finish(checker, threads=threads)
    counts = ReadCounts(dropped, dict(log.shifted), num_read, checker.has_integer_ids)
    return [*split_log(log, num_shards, first_row), counts]


def _add_up(counts: Sequence[ReadCounts]) -> ReadCounts:
    dropped, shifted, num_read, has_integer_ids = zip(*counts, strict=True)
    return ReadCounts(add_counts(dropped), add_counts(shifted), sum(num_read), any(has_integer_ids))


def join_rows(
    pieces: Sequence[RequestLog | None], columns: LogColumns, has_csv: bool
) -> RequestLog | None:
    """Join the pieces of a shard; None if there are no rows."""
    return join_logs(pieces, columns.user, columns.time, from_text=has_csv)


def _is_there(log: RequestLog | None) -> bool:
    return log is not None


def _list_kinds(log: RequestLog) -> pa.Table:
    return log.requests.kinds


def _describe_shards(
    engine: Engine, shards: list[list[Handle]], columns: LogColumns, total: ReadCounts
) -> ShardedLog:
    """Build a sharded log with the facts of all shards combined."""
    described = engine.ask(call_on_shard, [(describe, shard) for shard in shards])
    facts = merge_facts(described, columns.user, columns.time)
    facts = replace(facts, dropped=total.dropped, shifted=total.shifted)
    kinds = pa.table({})
    if len(shards) == 1:
        kinds = engine.ask(call_on_shard, [(_list_kinds, shards[0])])[0]
    log = ShardedLog(engine, shards, facts, kinds)
    check_time_span(facts.time_range, columns.time, log.find_ends)
    return log


def _settle_text(
    log: ShardedLog, columns: LogColumns, system: LogSystem, *, has_integer_ids: bool
) -> ShardedLog:
    """Convert ids and request values from text to numbers, if they are numbers in all files."""
    are_numbers = all(log.ask(_has_plain_ids))
    if has_integer_ids and not are_numbers:
        raise mixed_ids(columns.user)
    if are_numbers:
        log = log.change(log.derive(_to_integer_ids))
        log = replace(log, facts=replace(log.facts, has_integer_ids=True))
    if not system.has_csv:
        return log
    return renumber_kinds(log, *merge_kinds(log.ask(_list_kinds), from_text=True, to_numbers=True))


def _has_plain_ids(log: RequestLog) -> bool:
    return bool(pa.types.is_integer(to_integers_if_plain(log.users).type))


def _to_integer_ids(log: RequestLog) -> Change:
    users = to_integers_if_plain(log.users)
    order = sort_ids(users)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return {"users": users.take(pa.array(order)), "user": rank[log.user]}


class _RowBuilder:
    """Appends checked batches to growing columns."""

    def __init__(self, expected_rows: int) -> None:
        self._num_rows = 0
        self._rows = RowColumns.empty(max(expected_rows, FIRST_ROWS))
        self._file_rows: list[npt.NDArray[np.int64]] = []

    def add(self, batch: pa.RecordBatch, checker: RowChecker) -> None:
        batch = checker.filter.apply(batch)
        start, stop = self._num_rows, self._num_rows + batch.num_rows
        self._reserve(stop)
        checker.check(batch, self._rows.cut(start, stop), start)
        self._num_rows = stop
        if checker.filter.is_needed:
            self._file_rows.append(checker.filter.list_rows())

    def finish(self, checker: RowChecker, *, threads: int) -> RequestLog:
        requests = checker.pool.submit(checker.requests.finish)
        users, rank = checker.number_users()
        rows = self._rows.cut(0, self._num_rows)
        if rank is not None:
            run_sliced(lambda a, b: renumber(rows.user[a:b], rank), len(rows.user), threads)
        some_dropped = any(checker.filter.dropped.values())
        return checker.build_log(
            users,
            rows,
            requests.result(),
            np.concatenate(self._file_rows) if some_dropped else None,
        )

    def _reserve(self, rows: int) -> None:
        size = len(self._rows.user)
        if rows > size:
            larger = RowColumns.empty(max(rows, 2 * size))
            for name in RowColumns._fields:
                getattr(larger, name)[:size] = getattr(self._rows, name)
            self._rows = larger
