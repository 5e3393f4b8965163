"""Open the files of a log and stream their rows as Arrow batches."""

import glob
import os
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.errors import InputError, OptionError, Refusals
from trajcloak.log.bad_rows import BadRows
from trajcloak.log.csv_text import guess_types, open_csv
from trajcloak.log.file_columns import (
    UNREADABLE,
    FileColumns,
    LogFile,
    LogPath,
    check_columns,
    choose_columns,
    open_ipc,
    read_columns,
    recognise_columns,
    unreadable,
)
from trajcloak.log.formats import ARROW, CSV, EXPECTED, JSON, PARQUET, WantedColumns, find_kind
from trajcloak.log.frames import to_table
from trajcloak.log.geometry import split_points
from trajcloak.log.lines import open_lines
from trajcloak.log.times import decode_times
from trajcloak.log.types import empty_damaged, to_common_type, to_plain
from trajcloak.options import LogColumns

HIDDEN = (".", "_")
"""How names of files and folders start that are not read."""

BATCH_ROWS = 1 << 20
BATCHES_AHEAD = 3
READ_BYTES = 1 << 20
DICTIONARY_BYTES = 2
"""A text column that takes fewer bytes per row has few distinct values."""


def list_files(source: LogPath) -> list[LogFile]:
    """List the files of a log, folders and globs in order of their names.

    Folders are searched recursively; files and folders whose names start with a dot or an
    underscore are skipped.
    """
    table = to_table(source)
    if table is not None:
        return [table]
    if not isinstance(source, str | Path):
        if not isinstance(source, Sequence):
            raise OptionError(
                f"the log is given as {type(source).__name__}; expected paths of files, or a table "
                f"or frame, such as one of pandas; make one of it, or write it to a .parquet file"
            )
        if not source:
            raise InputError("no log is given; expected a file, a folder or a glob; name one")
        return [file for part in source for file in list_files(part)]
    path = Path(source)
    try:
        if path.is_dir():
            files = _list_folder(path)
        elif path.exists():
            files = [path]
        else:
            files = sorted(Path(name) for name in glob.glob(str(source)))
    except OSError as error:
        raise InputError(
            f"{error.filename or path}: cannot be opened ({error.strerror}); expected a file or a "
            f"folder that can be read; check the path and its permissions"
        ) from None
    if not files:
        raise InputError(
            f"{source}: no log found; expected a file ({EXPECTED}), a folder or a glob; check the "
            f"path; if it holds movement data of another format, such as GPX or GeoLife, use "
            f"trajcloak convert"
        )
    for file in files:
        if find_kind(file) is None:
            raise InputError(
                f"{file}: unknown kind of file; expected a name that ends in {EXPECTED}; rename "
                f"it; if it holds movement data of another format, use trajcloak convert"
            )
    return list(files)


def _list_folder(folder: Path) -> list[Path]:
    """List the files of a folder, of kinds that are known, in order of their names."""

    def stop(error: OSError) -> None:
        raise error

    found = []
    for place, folders, names in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(HIDDEN)]
        files = [Path(place, name) for name in names if not name.startswith(HIDDEN)]
        found += [file for file in files if find_kind(file) is not None]
    return sorted(found)


def describe_columns(source: LogPath, columns: LogColumns) -> dict[str, str]:
    """Say which columns of a log are taken for what, and how they are read."""
    file = list_files(source)[0]
    named = recognise_columns(file, columns)
    kind = "degrees" if named.lon is not None else "planar"
    if isinstance(file, Path) and find_kind(file) == CSV:
        wanted = choose_columns(file, named)
        own = read_columns(file, columns.delimiter).find_own(wanted.names)
        if guess_types(file, wanted, own).decimal_point == ",":
            kind += ", decimal commas"
    place = " and ".join(named.place or ())
    return {"user": named.user or "", "time": named.time or "", "place": f"{place} ({kind})"}


def list_other_columns(source: LogPath, columns: LogColumns) -> list[str]:
    """List the columns of a log that are not used."""
    file = list_files(source)[0]
    named = recognise_columns(file, columns)
    used = {named.user, named.time, named.is_report, *(named.place or ()), *named.requests}
    return [name for name in read_columns(file, columns.delimiter).names if name not in used]


def count_rows(files: Sequence[LogFile]) -> int:
    """Count the rows of tables and Parquet files; other files count as 0, being unknown."""
    num_rows = 0
    for file in files:
        if isinstance(file, pa.Table):
            num_rows += file.num_rows
        elif find_kind(file) == PARQUET:
            num_rows += read_parquet_metadata(file).num_rows
    return num_rows


def read_parquet_metadata(file: Path) -> pq.FileMetaData:
    """Read the footer of a Parquet file."""
    try:
        return pq.read_metadata(file)
    except UNREADABLE as error:
        raise unreadable(file, error) from None


def count_by_reading(file: Path, columns: LogColumns) -> int:
    """Count the rows of a file that is not Parquet; 0 if it cannot be read."""
    try:
        wanted = choose_columns(file, columns)
        # One column is enough; that of the user may be in the names of folders.
        own = read_columns(file, columns.delimiter).find_own(wanted.names)[:1]
        batches = _open_own(file, wanted, own, 0, None, BadRows()) if own else ()
        return sum(int(batch.num_rows) for batch in batches)
    except (*UNREADABLE, InputError):
        return 0


def stream_batches(
    files: Sequence[LogFile],
    columns: LogColumns,
    *,
    groups: Sequence[int] | None = None,
    first_row: int = 0,
    bad: BadRows | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of all files, in order; a thread reads ahead.

    ``groups`` are the row groups to read of a single Parquet file. ``first_row``: rows of the log
    before these files. ``bad`` notes the rows that cannot be read; default: they are refused at
    the end.
    """
    noted = BadRows() if bad is None else bad

    def produce() -> Generator[pa.RecordBatch]:
        wanted = choose_columns(files[0], columns)
        num_rows = first_row
        for file in files:
            found = read_columns(file, columns.delimiter)
            check_columns(found, wanted)
            if isinstance(file, Path) and (groups is None or groups[0] == 0):
                noted.start_file(str(file), num_rows)
            try:
                for batch in _open_file(found, wanted, num_rows, groups, noted):
                    num_rows += batch.num_rows
                    yield batch
            except UNREADABLE as error:
                raise unreadable(file, error) from None
        if bad is None:
            Refusals(noted.explain()).check()

    return _read_ahead(produce())


def _open_file(
    found: FileColumns,
    wanted: WantedColumns,
    rows_before: int,
    groups: Sequence[int] | None,
    bad: BadRows,
) -> Iterator[pa.RecordBatch]:
    """Stream a file of any kind; adds the columns from its folders and its points."""
    file, folders, geometry = found.file, found.folders, found.points
    own = found.find_own(wanted.names)
    num_rows = rows_before
    for given in _open_own(file, wanted, own, rows_before, groups, bad):
        batch = empty_damaged(given, num_rows, bad)
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in wanted.names:
            if name not in arrays and name in folders:
                arrays[name] = pa.array([folders[name]] * batch.num_rows, pa.string())
        if geometry is not None and geometry.name in own:
            points = split_points(arrays[geometry.name], num_rows, bad)
            arrays |= dict(zip(geometry.axes, points, strict=True))
        if wanted.time_unit is not None or wanted.time_format is not None:
            times = to_plain(arrays[wanted.time])
            arrays[wanted.time] = decode_times(times, wanted, num_rows, bad)
        num_rows += batch.num_rows
        plain = [to_common_type(arrays[name]) for name in wanted.names]
        yield pa.RecordBatch.from_arrays(plain, names=wanted.names)


def _open_own(
    file: LogFile,
    wanted: WantedColumns,
    own: list[str],
    rows_before: int,
    groups: Sequence[int] | None,
    bad: BadRows,
) -> Iterator[pa.RecordBatch]:
    """Stream the columns that the file itself has."""
    if isinstance(file, pa.Table):
        yield from file.select(own).to_batches(BATCH_ROWS)
        return
    kind = find_kind(file)
    if kind == PARQUET:
        yield from _open_parquet(file, own, wanted.requests, groups)
    elif kind == ARROW:
        with open_ipc(file) as reader:
            batches = (
                (reader.get_batch(i) for i in range(reader.num_record_batches))
                if isinstance(reader, pa.RecordBatchFileReader)
                else reader
            )
            for batch in batches:
                yield batch.select(own)
    elif kind == JSON:
        yield from open_lines(file, own, rows_before, bad)
    else:
        yield from open_csv(file, wanted, own, rows_before, bad)


def _open_parquet(
    file: Path, own: list[str], requests: Sequence[str], groups: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    encoded = _find_dictionaries(file, [name for name in requests if name in own])
    # With pre_buffer, the bytes of the whole file would be held until its last row is read; and
    # without buffer_size, those of a whole row group.
    with pq.ParquetFile(
        file, read_dictionary=encoded, pre_buffer=False, buffer_size=READ_BYTES
    ) as parquet:
        yield from parquet.iter_batches(BATCH_ROWS, row_groups=groups, columns=own)


def _find_dictionaries(file: Path, names: list[str]) -> list[str]:
    """List the text columns with few distinct values, which can be read as dictionaries."""
    found = []
    with pq.ParquetFile(file, pre_buffer=False) as parquet:
        metadata = parquet.metadata
        if not names or not metadata.num_row_groups:
            return []
        # Looking at the metadata of a damaged column crashes the process; reading it first raises.
        next(parquet.iter_batches(1, columns=names), None)
        for c in range(metadata.num_columns):
            name = metadata.schema.column(c).path
            if name not in names:
                continue
            chunk = metadata.row_group(0).column(c)
            if (
                chunk.physical_type == "BYTE_ARRAY"
                and chunk.has_dictionary_page
                and chunk.total_uncompressed_size < DICTIONARY_BYTES * chunk.num_values
            ):
                found.append(name)
    return found


def _read_ahead(source: Generator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run ``source`` in a thread, a few batches ahead of the consumer."""
    pool = ThreadPoolExecutor(1)
    try:
        ahead = deque(pool.submit(next, source, None) for _ in range(BATCHES_AHEAD))
        while (batch := ahead.popleft().result()) is not None:
            ahead.append(pool.submit(next, source, None))
            yield batch
    finally:
        pool.shutdown(cancel_futures=True)
        source.close()
