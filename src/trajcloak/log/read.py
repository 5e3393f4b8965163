"""Read a log: files to shards, every row checked."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.engines.engine import Engine, Handle
from trajcloak.engines.memory import MemoryEngine
from trajcloak.errors import InputError, OptionError, Refusals
from trajcloak.kernels.intern import renumber, sort_ids
from trajcloak.kernels.threads import run_sliced
from trajcloak.log.bad_rows import BadRows
from trajcloak.log.clean import clean_shards
from trajcloak.log.cut_source import CutSource, choose_chunk, cut_source
from trajcloak.log.exchange import (
    SentRequests,
    find_part,
    join_rows,
    match_requests,
    split_log,
    split_requests,
)
from trajcloak.log.files import (
    LogPath,
    LogSystem,
    choose_columns,
    count_rows,
    find_system,
    stream_batches,
)
from trajcloak.log.filter import to_array
from trajcloak.log.recognition import notice_degrees, notice_epochs
from trajcloak.log.request_log import RequestLog
from trajcloak.log.request_values import Requests, merge_kinds, to_plain_numbers
from trajcloak.log.row_checks import (
    MAX_TIME_SPAN,
    RowChecker,
    RowColumns,
    check_time_span,
    mixed_ids,
    no_rows,
)
from trajcloak.log.sharded_log import (
    Change,
    LogFacts,
    ShardedLog,
    add_counts,
    build_shard,
    call_on_shard,
    describe,
    merge_facts,
    renumber_kinds,
)
from trajcloak.options import LogColumns
from trajcloak.progress import Progress, silent

FIRST_ROWS = 1 << 16
READING, READING_REQUESTS = "reading log", "reading requests"


def read_in_memory(
    source: LogPath,
    columns: LogColumns | None = None,
    request_log: LogPath | None = None,
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
    request_log
        The log of the requests, if ``source`` has locations only: user, time and request
        attributes, with the same names of columns. Default: rows of ``source`` carry the
        requests.
    threads
        Default: all cores. Never changes the result.
    progress
        Called as rows are read.

    Raises
    ------
    InputError
        If a file cannot be read or a row breaks a rule of ``docs/data-model.md``.
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
    log, facts = build_shard(read.shards[0]), read.facts
    return replace(
        log,
        files=facts.files,
        refusals=facts.refusals,
        dropped=facts.dropped,
        shifted=facts.shifted,
        unknown_requests=facts.unknown_requests,
        dropped_requests=facts.dropped_requests,
    )


class ReadCounts(NamedTuple):
    """What is counted while rows are read.

    Attributes
    ----------
    dropped, shifted : dict
        Rows that were dropped, and local times that were shifted, by reason.
    num_read : int
        Location reports, or requests, that were read, dropped ones included.
    has_integer_ids : bool
        Whether some file has ids that are numbers.
    dropped_requests : int
        Requests of rows that were dropped.
    bad : BadRows
        Rows that are refused, and the files that were read.
    """

    dropped: dict[str, int]
    shifted: dict[str, int]
    num_read: int
    has_integer_ids: bool
    dropped_requests: int
    bad: BadRows


def read_shards(
    engine: Engine, source: LogPath, columns: LogColumns, request_log: LogPath | None = None
) -> ShardedLog:
    """Read and check a log, in shards: all rows of a user are in one shard.

    With two inputs the locations are read, checked and cleaned first, as if there were no
    requests. Then each request is given to the shard of its user, and changes nothing else.

    Rows that are refused are left out; the ``refusals`` of the facts say what is wrong with them,
    so that whatever else is wrong with the log can be found before it is refused.

    Parameters
    ----------
    engine
        Holds the shards.
    source
        As for :func:`read_in_memory`; also a dask DataFrame, for the dask engine.
    columns
        What to read.
    request_log
        As for :func:`read_in_memory`; like ``source``.
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
        return _number_kinds(_read_locations(engine, log_source, columns, log_source.num_rows))
    # Neither the rows nor the requests of a shard may be more than fit.
    num_rows = max(log_source.num_rows, request_source.num_rows)
    # Raises if the place is to be published.
    choose_columns(log_source.files[0], columns, has_place=True)
    log = _read_locations(engine, log_source, replace(columns, requests=()), num_rows)
    has_text_ids = find_system(log_source.files, columns).has_text_ids
    sent = replace(request_source.columns, is_report=None)
    log = _attach_requests(log, request_source, sent, num_rows, has_text_ids=has_text_ids)
    return _number_kinds(log)


def _read_locations(
    engine: Engine, source: CutSource, columns: LogColumns, num_rows: int
) -> ShardedLog:
    """Read rows with a place, and whatever requests they carry; ``num_rows`` decides shards."""
    system = find_system(source.files, columns)
    *rows, counts = _shuffle_rows(engine, source, columns, system, num_rows)
    total = _add_up(engine.ask(list, [(counts,)])[0])
    joined = engine.derive(join_rows, [(of_shard, columns) for of_shard in rows])
    is_there = engine.ask(_is_there, [(shard,) for shard in joined])
    engine.drop(rows)
    shards = [[shard] for shard, there in zip(joined, is_there, strict=True) if there]
    if not shards:
        Refusals(total.bad.explain()).check()
        raise no_rows(total.num_read, source.name, columns.is_report)
    log = _describe_shards(engine, shards, columns, total)
    if system.has_text_ids:
        log = _settle_ids(log, columns, has_integer_ids=total.has_integer_ids)
    num_requests = log.facts.num_requests + total.dropped_requests
    log, dropped = clean_shards(log, columns)
    if dropped:
        total = total._replace(dropped={**total.dropped, **dropped})
        log = _describe_shards(engine, log.shards, columns, total)
    if not log.facts.geographic and log.facts.crs is None:
        notice_degrees(log.facts.bounds, columns)
    if not log.facts.has_timestamps:
        notice_epochs(log.facts.time_range, columns)
    facts = replace(
        log.facts,
        num_requests=num_requests,
        dropped_requests=num_requests - log.facts.num_requests,
    )
    log = replace(log, facts=facts)
    engine.progress(READING, log.facts.num_rows, log.facts.num_rows)
    return log


def _attach_requests(
    log: ShardedLog, source: CutSource, columns: LogColumns, num_rows: int, *, has_text_ids: bool
) -> ShardedLog:
    """Read requests without a place, and give each to the shard of its user.

    ``has_text_ids``: whether ids of the locations may be numbers written as text.
    """
    engine, facts = log.engine, log.facts
    with _naming_request_log():
        system = find_system(source.files, columns, has_place=False)
    system = replace(system, has_text_ids=system.has_text_ids or has_text_ids)
    *sent, counts = _shuffle_rows(engine, source, columns, system, num_rows, facts)
    total = _add_up(engine.ask(list, [(counts,)])[0])
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
    label = READING if system.has_place else READING_REQUESTS
    return engine.shuffle(read_rows, jobs, num_shards + 1, label)


@contextmanager
def _naming_request_log() -> Iterator[None]:
    """Say in messages which log they are about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"request log: {error.with_options}") from None


def read_rows(
    content: Any,
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

    ``locations`` are the facts about the locations if the rows are those of a request log.

    Yields, for each chunk, the rows or requests of every shard and then the
    :class:`ReadCounts`.
    """
    files = content if isinstance(content, list) else [content]
    expected_rows = count_rows(files) if groups is None else 0
    label = READING if locations is None else READING_REQUESTS
    naming = nullcontext() if locations is None else _naming_request_log()
    bad = BadRows()
    with naming, bad.naming_all(), ThreadPoolExecutor(threads) as pool:
        checker = RowChecker(columns, system, pool, bad, first_row)
        builder = _RowBuilder(chunk or expected_rows, has_place=system.has_place)
        for batch in stream_batches(
            files,
            columns,
            has_place=system.has_place,
            groups=groups,
            first_row=first_row,
            bad=bad,
        ):
            builder.add(batch, checker)
            progress(label, checker.num_read, expected_rows)
            if chunk is not None and checker.num_read - first_row >= chunk:
                yield _end_chunk(checker, builder, num_shards, first_row, threads, locations)
                first_row = checker.num_read
                checker = RowChecker(columns, system, pool, bad, first_row)
                builder = _RowBuilder(chunk, has_place=system.has_place)
        # What is wrong, and where files start, is known of all rows that were read ahead.
        yield _end_chunk(checker, builder, num_shards, first_row, threads, locations, bad)


def _end_chunk(
    checker: RowChecker,
    builder: "_RowBuilder",
    num_shards: int,
    first_row: int,
    threads: int,
    locations: LogFacts | None,
    bad: BadRows | None = None,
) -> list[Any]:
    found = checker.filter
    counts = ReadCounts(
        found.dropped,
        {},
        found.num_chosen,
        checker.has_integer_ids,
        found.dropped_requests,
        bad or BadRows(),
    )
    if locations is not None:
        sent = builder.finish_requests(checker, locations, threads=threads)
        is_split = num_shards > 1 and checker.has_rows
        return [*(split_requests(sent, num_shards) if is_split else [sent] * num_shards), counts]
    if not checker.has_rows:
        return [*[None] * num_shards, counts]
    log = builder.finish(checker, threads=threads)
    return [*split_log(log, num_shards, first_row), counts._replace(shifted=dict(log.shifted))]


def _add_up(counts: Sequence[ReadCounts]) -> ReadCounts:
    dropped, shifted, num_read, has_integer_ids, requests, found = zip(*counts, strict=True)
    bad = BadRows()
    for rows in found:
        bad.merge(rows)
    return ReadCounts(
        add_counts(dropped),
        add_counts(shifted),
        sum(num_read),
        any(has_integer_ids),
        sum(requests),
        bad,
    )


def _is_there(log: RequestLog | None) -> bool:
    return log is not None


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


def _describe_shards(
    engine: Engine, shards: list[list[Handle]], columns: LogColumns, total: ReadCounts
) -> ShardedLog:
    """Build a sharded log with the facts of all shards combined."""
    described = engine.ask(call_on_shard, [(describe, shard) for shard in shards])
    facts = merge_facts(described, columns.user, columns.time)
    facts = replace(
        facts,
        dropped=total.dropped,
        shifted=total.shifted,
        files=total.bad.files,
        refusals=tuple(total.bad.explain()),
    )
    log = ShardedLog(engine, shards, facts, pa.table({}))
    check_time_span(facts.time_range, columns.time, log.find_ends, facts.files)
    return log


def _settle_ids(log: ShardedLog, columns: LogColumns, *, has_integer_ids: bool) -> ShardedLog:
    """Convert ids from text to numbers, if they are numbers in all files."""
    are_numbers = all(log.ask(_has_plain_ids))
    if has_integer_ids and not are_numbers:
        raise mixed_ids(columns.user)
    if are_numbers:
        log = log.change(log.derive(_to_integer_ids))
        log = replace(log, facts=replace(log.facts, has_integer_ids=True))
    return log


def _to_integers_if_plain(ids: pa.Array) -> pa.Array:
    """Turn ids into integers if all are whole numbers in plain notation."""
    numbers = to_plain_numbers(ids)
    return numbers if pa.types.is_integer(numbers.type) else ids


def _has_plain_ids(log: RequestLog) -> bool:
    return bool(pa.types.is_integer(_to_integers_if_plain(log.users).type))


def _to_integer_ids(log: RequestLog) -> Change:
    users = _to_integers_if_plain(log.users)
    order = sort_ids(users)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return {"users": users.take(pa.array(order)), "user": rank[log.user]}


class _RowBuilder:
    """Appends checked batches to growing columns."""

    def __init__(self, expected_rows: int, *, has_place: bool) -> None:
        self._num_rows = 0
        self._has_place = has_place
        self._rows = RowColumns.empty(max(expected_rows, FIRST_ROWS), has_place=has_place)
        self._file_rows: list[range | npt.NDArray[np.int64]] = []

    def add(self, batch: pa.RecordBatch, checker: RowChecker) -> None:
        batch = checker.filter.apply(batch)
        start, stop = self._num_rows, self._num_rows + batch.num_rows
        self._reserve(stop)
        self._num_rows += checker.check(batch, self._rows.cut(start, stop), start)
        if self._has_place:
            self._file_rows.append(checker.filter.rows)

    def finish(self, checker: RowChecker, *, threads: int) -> RequestLog:
        """Build a log of the rows; there must be one."""
        requests = checker.pool.submit(checker.requests.finish)
        users, rows = self._number_users(checker, threads)
        return checker.build_log(
            users,
            rows,
            requests.result(),
            np.concatenate([to_array(rows) for rows in self._file_rows])
            if checker.filter.has_left_out
            else None,
        )

    def finish_requests(
        self, checker: RowChecker, locations: LogFacts, *, threads: int
    ) -> SentRequests:
        """Build the requests of a request log, each of which has a row."""
        requests = checker.requests.finish()
        users, rows = pa.array([], pa.int64()), self._rows.cut(0, 0)
        if checker.has_rows:
            checker.check_like(locations)
            users, rows = self._number_users(checker, threads)
        # No instant is that early or late: such a request is outside all windows, and is no
        # reason to refuse the others. Differences of times must not overflow.
        time = np.clip(rows.time, -MAX_TIME_SPAN - 1, MAX_TIME_SPAN - 1)
        return SentRequests(
            users, Requests(requests.kind, requests.kinds, user=rows.user, time=time)
        )

    def _number_users(self, checker: RowChecker, threads: int) -> tuple[pa.Array, RowColumns]:
        """List the users in the order of their ids, and number the rows' users likewise."""
        users, rank = checker.number_users()
        rows = self._rows.cut(0, self._num_rows)
        if rank is not None:
            run_sliced(lambda a, b: renumber(rows.user[a:b], rank), len(rows.user), threads)
        return users, rows

    def _reserve(self, rows: int) -> None:
        size = len(self._rows.user)
        if rows > size:
            larger = RowColumns.empty(max(rows, 2 * size), has_place=self._has_place)
            for name in RowColumns._fields:
                getattr(larger, name)[:size] = getattr(self._rows, name)
            self._rows = larger
