"""Read a log: files to shards, every row checked."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from trajcloak.engines.engine import Engine, Handle, MemoryEngine
from trajcloak.errors import InputError, OptionError, Refusals
from trajcloak.kernels.intern import rank_ids
from trajcloak.log.bad_rows import BadRows
from trajcloak.log.clean import clean_shards
from trajcloak.log.cut_source import CutSource, choose_chunk, cut_source
from trajcloak.log.exchange import (
    find_part,
    join_rows,
    match_requests,
    split_log,
    split_requests,
)
from trajcloak.log.file_columns import (
    LogPath,
    LogSystem,
    choose_columns,
    find_system,
    notice_degrees,
    notice_epochs,
)
from trajcloak.log.files import count_rows, stream_batches
from trajcloak.log.request_values import merge_kinds, to_plain_numbers
from trajcloak.log.row_checks import RowReader, no_rows
from trajcloak.log.sharded_log import (
    Change,
    LogFacts,
    RequestLog,
    ShardedLog,
    add_counts,
    build_shard,
    call_on_shard,
    describe,
    merge_facts,
    mixed_ids,
    renumber_kinds,
)
from trajcloak.log.times import MAX_TIME_SPAN, mixed_times
from trajcloak.options import LogColumns
from trajcloak.progress import Progress, silent

READING, READING_REQUESTS = "reading log", "reading requests"


def read_in_memory(
    source: LogPath,
    columns: LogColumns | None = None,
    request_log: LogPath | None = None,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> RequestLog:
    """Read and check a log, as :func:`read_shards` does, into memory.

    Raises an InputError if a file cannot be read or a row breaks a rule of ``docs/data-model.md``.
    """
    log = read_all_rows(source, columns, request_log, threads=threads, progress=progress)
    Refusals(log.refusals).check()
    return log


def read_all_rows(
    source: LogPath,
    columns: LogColumns | None = None,
    request_log: LogPath | None = None,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> RequestLog:
    """Read a log as :func:`read_in_memory` does, and leave out rows that are refused.

    What is wrong with them is in ``refusals``. For those who look for all that is wrong.
    """
    engine = MemoryEngine(threads, progress)
    read = read_shards(engine, source, columns or LogColumns(), request_log)
    return replace(build_shard(read.shards[0]), **read.facts.list_common())


class ReadCounts(NamedTuple):
    """What is counted while rows are read."""

    dropped: dict[str, int]  # Rows that were dropped, and local times that were shifted, by reason.
    shifted: dict[str, int]
    num_read: int  # Location reports, or requests, that were read, dropped ones included.
    has_integer_ids: bool  # Whether some file has ids that are numbers.
    # Whether ids are numbers, and the kind of times, of all rows that have a place.
    kinds: set[tuple[bool, str]]
    dropped_requests: int  # Requests of rows that were dropped.
    bad: BadRows  # Rows that are refused, and the files that were read.


def read_shards(
    engine: Engine, source: LogPath, columns: LogColumns, request_log: LogPath | None = None
) -> ShardedLog:
    """Read and check a log, in shards: all rows of a user are in one shard.

    A source is a file (CSV, Parquet, Arrow, JSON lines), a glob, a folder, or a list of those; or a
    table or frame of pyarrow, pandas, polars or geopandas; or, for the dask engine, a dask
    DataFrame. ``request_log`` has user, time and request attributes, with the same names of
    columns, if ``source`` has locations only. Default: rows of ``source`` carry the requests.

    With two inputs the locations are read, checked and cleaned first, as if there were no requests.
    Then each request is given to the shard of its user, and changes nothing else.

    Rows that are refused are left out; the ``refusals`` of the facts say what is wrong with them,
    so that whatever else is wrong with the log can be found before it is refused.
    """
    if request_log is not None and columns.is_report is not None:
        raise OptionError(
            f"requests are to be read from a request log, and column '{columns.is_report}' is to "
            f"say which rows are location reports; expected one of them; leave out --request-log "
            f"or --is-report"
        )
    log_source = request_source = cut_source(engine, source, columns)
    if request_log is not None:
        with _naming_request_log():
            request_source = cut_source(engine, request_log, columns, has_place=False)
    columns = log_source.columns
    if request_log is None and columns.is_report is None:
        log = _read_locations(engine, log_source, columns, log_source.num_rows)
        return _number_kinds(log) if columns.requests else log
    # Neither the rows nor the requests of a shard may be more than fit.
    num_rows = max(log_source.num_rows, request_source.num_rows)
    # Raises if the place is to be published.
    choose_columns(log_source.files[0], columns)
    log = _read_locations(engine, log_source, replace(columns, requests=()), num_rows)
    has_text_ids = find_system(log_source.files, columns).has_text_ids
    sent = replace(request_source.columns.without_place(), is_report=None)
    log = _attach_requests(log, request_source, sent, num_rows, has_text_ids=has_text_ids)
    return _number_kinds(log)


def _read_locations(
    engine: Engine, source: CutSource, columns: LogColumns, num_rows: int
) -> ShardedLog:
    """Read rows with a place, and whatever requests they carry; ``num_rows`` decides shards."""
    system = find_system(source.files, columns)
    *rows, counts = _shuffle_rows(engine, source, columns, system, num_rows)
    total = _add_up(engine.collect(counts))
    if len({is_integer for is_integer, _ in total.kinds}) > 1:
        raise mixed_ids(columns.user)
    if len(kinds := {kind for _, kind in total.kinds}) > 1:
        raise mixed_times(columns.time, kinds)
    joined, facts = engine.shuffle(join_shard, [(of_shard,) for of_shard in rows], 2)
    found = [[s, f] for s, f in zip(joined, engine.collect(facts), strict=True) if f is not None]
    engine.drop(rows)
    if not found:
        Refusals(total.bad.explain()).check()
        raise no_rows(total.num_read, source.name, columns.is_report)
    log = _merge_shards(engine, [[s] for s, _ in found], [f for _, f in found], columns, total)
    if system.has_text_ids:
        log = _settle_ids(log, columns, has_integer_ids=total.has_integer_ids)
    num_requests = log.facts.num_requests + total.dropped_requests
    log, dropped = clean_shards(log, columns)
    if dropped:
        total = total._replace(dropped={**total.dropped, **dropped})
        log = _merge_shards(engine, log.shards, log.ask(describe), columns, total)
    if not log.facts.geographic and log.facts.crs is None:
        notice_degrees(log.facts.bounds, columns)
    if not log.facts.has_timestamps:
        notice_epochs(log.facts.time_range, columns)
    engine.progress(READING, log.facts.num_rows, log.facts.num_rows)
    dropped_requests = num_requests - log.facts.num_requests
    return replace(
        log,
        facts=replace(log.facts, num_requests=num_requests, dropped_requests=dropped_requests),
    )


def _attach_requests(
    log: ShardedLog, source: CutSource, columns: LogColumns, num_rows: int, *, has_text_ids: bool
) -> ShardedLog:
    """Read requests without a place, and give each to the shard of its user.

    ``has_text_ids``: whether ids of the locations may be numbers written as text.
    """
    engine, facts = log.engine, log.facts
    with _naming_request_log():
        system = find_system(source.files, columns)
    system = replace(system, has_text_ids=system.has_text_ids or has_text_ids)
    *sent, counts = _shuffle_rows(engine, source, columns, system, num_rows, facts)
    total = _add_up(engine.collect(counts))
    jobs = [
        (match_requests, shard, sent[part], columns.requests, system.has_text)
        for shard, part in zip(log.shards, log.ask(find_part, len(sent)), strict=True)
    ]
    log = log.change(engine.derive(call_on_shard, jobs))
    num_known = sum(log.ask(_count_requests))
    engine.drop(sent)
    engine.progress(READING_REQUESTS, total.num_read, total.num_read)
    refused = [f"request log: {reason}" for reason in total.bad.explain()]
    facts = replace(
        facts,
        refusals=(*facts.refusals, *refused),
        num_requests=total.num_read,
        unknown_requests=total.num_read - total.dropped_requests - num_known,
        dropped_requests=total.dropped_requests,
        is_one_log=False,
        has_text_requests=system.has_text,
    )
    return replace(log, facts=facts)


def _shuffle_rows(
    engine: Engine,
    source: CutSource,
    columns: LogColumns,
    system: LogSystem,
    num_rows: int,
    locations: LogFacts | None = None,
) -> list[Sequence[Handle]]:
    """Read all pieces; returns the rows of each shard, and the counts."""
    sizes = engine.choose_sizes(num_rows)
    num_shards = max(1, -(-num_rows // sizes.rows))
    jobs = [
        (
            piece.content, piece.groups, piece.first_row, columns, system, locations, num_shards,
            choose_chunk(sizes), engine.threads, engine.inner_progress,
        )
        for piece in source.pieces
    ]  # fmt: skip
    label = READING if locations is None else READING_REQUESTS
    return engine.shuffle(read_rows, jobs, num_shards + 1, label)


@contextmanager
def _naming_request_log() -> Iterator[None]:
    """Say in messages which log they are about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"request log: {error.with_options}") from None


def read_rows(
    files: list[Any],
    groups: tuple[int, ...] | None,
    first_row: int,
    columns: LogColumns,
    system: LogSystem,
    locations: LogFacts | None,
    num_shards: int,
    chunk: int | None,
    threads: int,
    progress: Progress,
) -> Iterator[list[Any]]:
    """Read some rows, ``chunk`` at a time, and split them by the shard of their user.

    ``locations`` are the facts about the locations if the rows are those of a request log. Yields,
    for each chunk, the rows or requests of every shard and then the :class:`ReadCounts`.
    """
    expected_rows = count_rows(files) if groups is None else 0
    label = READING if locations is None else READING_REQUESTS
    naming = nullcontext() if locations is None else _naming_request_log()
    bad = BadRows()
    with naming, bad.naming_all(), ThreadPoolExecutor(threads) as pool:
        reader = RowReader(columns, system, pool, bad, first_row, chunk or expected_rows)
        for batch in stream_batches(files, columns, groups=groups, first_row=first_row, bad=bad):
            reader.add(batch)
            progress(label, reader.num_read, expected_rows)
            if chunk is not None and reader.num_read - reader.first_row >= chunk:
                yield _end_chunk(reader, num_shards, threads, locations)
                reader = RowReader(columns, system, pool, bad, reader.num_read, chunk)
        # What is wrong, and where files start, is known of all rows that were read ahead.
        yield _end_chunk(reader, num_shards, threads, locations, bad)


def _end_chunk(
    reader: RowReader,
    num_shards: int,
    threads: int,
    locations: LogFacts | None,
    bad: BadRows | None = None,
) -> list[Any]:
    found = reader.filter
    counts = ReadCounts(
        found.dropped,
        reader.shifted,
        found.num_chosen,
        reader.has_integer_ids,
        reader.list_kinds(),
        found.dropped_requests,
        bad or BadRows(),
    )
    if locations is not None:
        sent = reader.finish_requests(locations, threads)
        is_split = num_shards > 1 and reader.has_rows
        return [*(split_requests(sent, num_shards) if is_split else [sent] * num_shards), counts]
    if not reader.has_rows:
        return [*[None] * num_shards, counts]
    return [*split_log(reader.finish(threads), num_shards, reader.first_row), counts]


def _add_up(counts: Sequence[ReadCounts]) -> ReadCounts:
    dropped, shifted, num_read, has_integer_ids, kinds, requests, found = zip(*counts, strict=True)
    bad = BadRows()
    for rows in found:
        bad.merge(rows)
    return ReadCounts(
        add_counts(dropped),
        add_counts(shifted),
        sum(num_read),
        any(has_integer_ids),
        set().union(*kinds),
        sum(requests),
        bad,
    )


def join_shard(
    pieces: Sequence[RequestLog | None],
) -> Iterator[tuple[RequestLog | None, LogFacts | None]]:
    """Join the rows of a shard; yields them and their facts, or nothing twice."""
    log = join_rows(pieces)
    yield log, None if log is None else describe(log)


def _list_kinds(log: RequestLog) -> pa.Table:
    return log.requests.kinds


def _count_requests(log: RequestLog) -> int:
    return log.num_requests


def _number_kinds(log: ShardedLog) -> ShardedLog:
    """Number the requests of all shards as rows of one table."""
    tables = log.ask(_list_kinds)
    if len(tables) == 1:
        return replace(log, kinds=tables[0])
    return renumber_kinds(log, *merge_kinds(tables))


def _merge_shards(
    engine: Engine,
    shards: list[list[Handle]],
    facts: Sequence[LogFacts],
    columns: LogColumns,
    total: ReadCounts,
) -> ShardedLog:
    """Build a sharded log with the facts of all shards combined."""
    merged = replace(
        merge_facts(facts),
        dropped=total.dropped,
        shifted=total.shifted,
        files=total.bad.files,
        refusals=tuple(total.bad.explain()),
    )
    log = ShardedLog(engine, shards, merged, pa.table({}))
    first, last = merged.time_range
    with total.bad.naming_all():
        if last - first >= MAX_TIME_SPAN:
            raise InputError(
                f"{log.name_ends()}: column '{columns.time}' spans more than 2^62 units of time; "
                f"expected times near to each other; are they in the unit that their type says? "
                f"correct the rows, or convert the column"
            )
    return log


def _settle_ids(log: ShardedLog, columns: LogColumns, *, has_integer_ids: bool) -> ShardedLog:
    """Convert ids from text to numbers, if they are numbers in all files."""
    if all(log.ask(_has_plain_ids)):
        log = log.change(log.derive(_to_integer_ids))
        return replace(log, facts=replace(log.facts, has_integer_ids=True))
    if has_integer_ids:
        raise mixed_ids(columns.user)
    return log


def _has_plain_ids(log: RequestLog) -> bool:
    return bool(pa.types.is_integer(to_plain_numbers(log.users).type))


def _to_integer_ids(log: RequestLog) -> Change:
    users, rank = rank_ids(to_plain_numbers(log.users))
    return {"users": users, "user": rank[log.user]}
