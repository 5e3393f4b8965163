"""Read a log: stream, check, number the users, collect the requests."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.kernels.threads import choose_threads, run_sliced
from trajcloak.log.clean import clean_log
from trajcloak.log.files import (
    LogPath,
    count_rows,
    list_files,
    stream_batches,
)
from trajcloak.log.request_log import RequestLog
from trajcloak.log.rows import RowChecker, Rows
from trajcloak.log.user_ids import renumber
from trajcloak.options import LogColumns
from trajcloak.progress import Progress, silent

FIRST_ROWS = 1 << 16


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
    columns = columns or LogColumns()
    files = list_files(source)
    expected_rows = count_rows(files)
    threads = choose_threads(threads)
    with ThreadPoolExecutor(threads) as pool:
        checker = RowChecker(files, columns, pool)
        builder = _Builder(expected_rows)
        for batch in stream_batches(files, columns):
            builder.add(batch, checker)
            progress("reading log", checker.num_read, expected_rows)
        checker.check_not_empty(source)
        log = builder.finish(checker, threads=threads)
    log = clean_log(log, columns)
    progress("reading log", log.num_rows, log.num_rows)
    return log


def read_part(
    table: pa.Table, columns: LogColumns, *, head: pa.Table, first_row: int, threads: int
) -> tuple[RequestLog | None, dict[str, int]]:
    """Read and check some rows of a log; what contradicts other rows stays.

    Parameters
    ----------
    table
        The rows.
    columns
        As :func:`read_log` takes them.
    head
        The first file of the log, without rows: it says the coordinate system of all.
    first_row
        How many rows of the log come before.
    threads

    Returns
    -------
    log : RequestLog or None
        None if no row is left.
    dropped : dict
        How many rows were dropped, by reason.
    """
    with ThreadPoolExecutor(threads) as pool:
        checker = RowChecker([head], columns, pool)
        checker.filter.num_read = first_row
        builder = _Builder(table.num_rows)
        for batch in stream_batches([table], columns):
            builder.add(batch, checker)
        log = builder.finish(checker, threads=threads) if checker.has_rows else None
    return log, checker.filter.dropped


class _Builder:
    """Appends checked batches to growing columns."""

    def __init__(self, expected_rows: int) -> None:
        self._num_rows = 0
        self._rows = Rows.empty(max(expected_rows, FIRST_ROWS))
        self._file_rows: list[npt.NDArray[np.int64]] = []

    def add(self, batch: pa.RecordBatch, checker: "RowChecker") -> None:
        batch = checker.filter.apply(batch)
        start, stop = self._num_rows, self._num_rows + batch.num_rows
        self._reserve(stop)
        checker.check(batch, self._rows.cut(start, stop), start)
        self._num_rows = stop
        if checker.filter.is_needed:
            self._file_rows.append(checker.filter.list_rows())

    def finish(self, checker: "RowChecker", *, threads: int) -> RequestLog:
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
            larger = Rows.empty(max(rows, 2 * size))
            for name in Rows._fields:
                getattr(larger, name)[:size] = getattr(self._rows, name)
            self._rows = larger
