"""Open the files of a log and stream their rows as Arrow batches."""

import glob
import queue
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from trajcloak.errors import InputError, OptionError, Refusals
from trajcloak.log.bad_rows import BadRows
from trajcloak.log.csv_text import guess_types, open_csv
from trajcloak.log.formats import (
    ARROW,
    CSV,
    EXPECTED,
    JSON,
    NAMES,
    PARQUET,
    WantedColumns,
    find_delimiter,
    find_kind,
    find_partitions,
    read_header,
)
from trajcloak.log.frames import to_table
from trajcloak.log.geometry import choose_system, find_geometry, name_points, split_points
from trajcloak.log.lines import guess_schema, open_lines
from trajcloak.log.types import (
    decode_times,
    empty_damaged,
    find_common_type,
    list_roots,
    to_common_type,
)
from trajcloak.options import LogColumns, holds_fixed, marks_and_holds

BATCH_ROWS = 1 << 20
PREFETCH = 2
READ_BYTES = 1 << 20
DICTIONARY_BYTES = 2
"""A text column that takes fewer bytes per row has few distinct values."""

UNREADABLE = (pa.ArrowException, OSError, UnicodeError)
"""Errors that Arrow raises on files that it cannot read; UnicodeError for names of columns."""

LIKE_A_VALUE = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}.*")
"""A name of a column that is probably a number or a time."""

LogPath: TypeAlias = Any
"""A file, a glob, a folder, or a list of those; or a table or frame that supports Arrow."""

LogFile: TypeAlias = Any
"""A part of a log: a path, or an Arrow table."""


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
    if path.is_dir():
        files = _list_folder(path)
    elif path.exists():
        files = [path]
    else:
        files = sorted(Path(name) for name in glob.glob(str(source)))
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
    """List the files of a folder that can be read, in order of their names."""
    found = []
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder).parts
        hidden = any(part.startswith((".", "_")) for part in inside)
        if not hidden and find_kind(file) is not None and not file.is_dir():
            found.append(file)
    return found


def read_names(file: LogFile, delimiter: str | None = None) -> list[str]:
    """List the columns of a file: its own, and those from its folders and its points."""
    return _list_names(file, _read_schema(file, delimiter))


def _list_names(file: LogFile, schema: pa.Schema) -> list[str]:
    names = list(schema.names)
    if isinstance(file, Path):
        names += [name for name in find_partitions(file) if name not in names]
    geometry = find_geometry(schema)
    axes = () if geometry is None else geometry.axes
    return [*names, *(axis for axis in axes if axis not in names)]


def list_axes(file: LogFile, delimiter: str | None = None) -> list[str]:
    """List the columns that may hold a coordinate: those of the points of a file, or else all."""
    geometry = find_geometry(_read_schema(file, delimiter))
    return read_names(file, delimiter) if geometry is None else list(geometry.axes)


def find_crs(file: LogFile, columns: LogColumns) -> str | None:
    """Find the coordinate system that the caller states, or else the points of a file."""
    geometry = find_geometry(_read_schema(file, columns.delimiter))
    if columns.crs is not None or geometry is None or columns.place != geometry.axes:
        return columns.crs
    if not geometry.has_system:
        raise InputError(
            f"{_label(file)}: column '{geometry.name}' holds points, and its coordinate system "
            f"is not known; expected one, such as EPSG:4326; set it there, or pass --crs"
        )
    return geometry.crs


def _read_schema(file: LogFile, delimiter: str | None) -> pa.Schema:
    """Read the names and types of a file's own columns; raises if names are not UTF-8."""
    try:
        schema = _open_schema(file, delimiter)
        for field in schema:
            find_common_type(field.type)
        list(schema.names)
    except UNREADABLE as error:
        raise _unreadable(file, error) from None
    return schema


def _open_schema(file: LogFile, delimiter: str | None) -> pa.Schema:
    if isinstance(file, pa.Table):
        return file.schema
    kind = find_kind(file)
    if kind == PARQUET:
        return pq.read_schema(file)
    if kind == ARROW:
        with _open_ipc(file) as reader:
            return reader.schema
    if kind == JSON:
        return guess_schema(file)
    header = pa.BufferReader(read_header(file))
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter or find_delimiter(file))
    return pyarrow.csv.read_csv(header, parse_options=parse).schema


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
        raise _unreadable(file, error) from None


def count_file_rows(file: LogFile, columns: LogColumns) -> int | None:
    """Count the rows of any file, by reading it if necessary; None if it cannot be read."""
    if isinstance(file, pa.Table) or find_kind(file) == PARQUET:
        return count_rows([file])
    try:
        wanted = choose_columns(file, columns, has_place=False)
        batches = _open_own(file, wanted, [wanted.user], 0, columns.delimiter, None, BadRows())
        return sum(int(batch.num_rows) for batch in batches)
    except (*UNREADABLE, InputError):
        return None


@dataclass(frozen=True)
class LogSystem:
    """What the files of a log say about all of its rows.

    Attributes
    ----------
    crs : str or None
        Coordinate system; None if it is not known.
    geographic : bool
        Whether coordinates are degrees.
    has_text : bool
        Whether a file is text: CSV or JSON lines. Then all request values are text.
    has_text_ids : bool
        Whether ids may be numbers written as text: in CSV files or in names of folders.
    has_place : bool
        Whether rows have a place; false for a request log, of which only the rows with a
        request are read.
    """

    crs: str | None
    geographic: bool
    has_text: bool
    has_text_ids: bool
    has_place: bool = True


def find_system(
    files: Sequence[LogFile], columns: LogColumns, *, has_place: bool = True
) -> LogSystem:
    """Find out what the files of a log say; the first file decides the coordinate system."""
    paths = [file for file in files if isinstance(file, Path)]
    kinds = {find_kind(file) for file in paths}
    has_text_ids = CSV in kinds or any(find_partitions(file) for file in paths)
    crs, geographic = None, False
    if has_place:
        crs, geographic = choose_system(
            find_crs(files[0], columns), geographic=columns.lon is not None
        )
    return LogSystem(crs, geographic, bool(kinds & {CSV, JSON}), has_text_ids, has_place)


def stream_batches(
    files: Sequence[LogFile],
    columns: LogColumns,
    *,
    has_place: bool = True,
    groups: Sequence[int] | None = None,
    first_row: int = 0,
    bad: BadRows | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of all files, in order; a thread reads ahead.

    Columns have the file's types; from CSV, coordinates are float64, times int64 or
    timestamps, and all others text.

    Parameters
    ----------
    files
    columns
    has_place
        Whether to read the place.
    groups
        The row groups to read of a single Parquet file; default: all.
    first_row
        Rows of the log before these files, for messages.
    bad
        Notes the rows that cannot be read. Default: they are refused at the end.
    """
    noted = BadRows() if bad is None else bad

    def produce() -> Iterator[pa.RecordBatch]:
        wanted = choose_columns(files[0], columns, has_place=has_place)
        num_rows = first_row
        for file in files:
            _check_columns(file, wanted, columns.delimiter)
            if isinstance(file, Path) and (groups is None or groups[0] == 0):
                noted.start_file(str(file), num_rows)
            try:
                for batch in _open_file(file, wanted, num_rows, columns.delimiter, groups, noted):
                    num_rows += batch.num_rows
                    yield batch
            except UNREADABLE as error:
                raise _unreadable(file, error) from None
        if bad is None:
            Refusals(noted.explain()).check()

    return _read_ahead(produce())


def _open_file(
    file: LogFile,
    wanted: WantedColumns,
    rows_before: int,
    delimiter: str | None,
    groups: Sequence[int] | None,
    bad: BadRows,
) -> Iterator[pa.RecordBatch]:
    """Stream a file of any kind; adds the columns from its folders and its points."""
    schema = _read_schema(file, delimiter)
    geometry = find_geometry(schema)
    own = _find_own(schema, wanted.names)
    folders = find_partitions(file) if isinstance(file, Path) else {}
    num_rows = rows_before
    for given in _open_own(file, wanted, own, rows_before, delimiter, groups, bad):
        batch = empty_damaged(given, num_rows, bad)
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in wanted.names:
            if name not in arrays and name in folders:
                arrays[name] = pa.array([folders[name]] * batch.num_rows, pa.string())
        if geometry is not None and geometry.name in own:
            points = split_points(arrays[geometry.name], num_rows, bad)
            arrays |= dict(zip(geometry.axes, points, strict=True))
        if wanted.time_unit is not None or wanted.time_format is not None:
            times = to_common_type(arrays[wanted.time])
            arrays[wanted.time] = decode_times(times, wanted, num_rows, bad)
        num_rows += batch.num_rows
        plain = [to_common_type(arrays[name]) for name in wanted.names]
        yield pa.RecordBatch.from_arrays(plain, names=wanted.names)


def _find_own(schema: pa.Schema, wanted: list[str]) -> list[str]:
    """List the columns to read from a file: the wanted ones it has, and its points' if needed."""
    geometry = find_geometry(schema)
    own = [name for name in wanted if name in schema.names]
    if geometry is not None and set(geometry.axes) & set(wanted):
        own.append(geometry.name)
    return own


def _open_own(
    file: LogFile,
    wanted: WantedColumns,
    own: list[str],
    rows_before: int,
    delimiter: str | None,
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
        with _open_ipc(file) as reader:
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
        delimiter = delimiter or find_delimiter(file)
        yield from open_csv(file, wanted, own, rows_before, delimiter, bad)


def has_decimal_commas(file: LogFile, columns: LogColumns) -> bool:
    """Whether coordinates of a file, whose columns are named, have commas instead of points."""
    if not isinstance(file, Path) or find_kind(file) != CSV:
        return False
    wanted = choose_columns(file, columns, has_place=True)
    own = _find_own(_read_schema(file, columns.delimiter), wanted.names)
    delimiter = columns.delimiter or find_delimiter(file)
    return guess_types(file, wanted, own, delimiter).decimal_point == ","


def _open_ipc(file: Path) -> Any:
    """Open an Arrow file, or else an Arrow stream.

    Not memory-mapped: pages that were read would count as memory in use.
    """
    try:
        return pa.ipc.open_file(pa.OSFile(str(file)))
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(pa.OSFile(str(file)))


def choose_columns(file: LogFile, columns: LogColumns, *, has_place: bool) -> WantedColumns:
    """Choose the columns to read; those of user, time and place are named."""
    assert columns.user is not None
    assert columns.time is not None
    wanted = WantedColumns(
        columns.user,
        columns.time,
        (columns.place or ()) if has_place else (),
        tuple(list_roots(columns.requests, read_names(file, columns.delimiter))),
        columns.is_report,
        columns.time_unit,
        columns.time_format,
    )
    for name in wanted.names:
        if wanted.names.count(name) > 1:
            if name == columns.is_report:
                raise marks_and_holds(name)
            raise OptionError(
                f"column '{name}' is to hold two of user, time, place and request; expected a "
                f"column for each, and to publish neither user, time nor place; name other columns"
            )
    return wanted


def _check_columns(file: LogFile, wanted: WantedColumns, delimiter: str | None) -> None:
    """Raise unless a file has each column once, and no request column is its points."""
    schema = _read_schema(file, delimiter)
    names = _list_names(file, schema)
    points = name_points(schema)
    if points in wanted.requests:
        raise holds_fixed(points)
    missing = [name for name in wanted.names if name not in names]
    repeated = [name for name in wanted.names if names.count(name) > 1]
    if missing or repeated:
        raise InputError(
            f"{_label(file)}: {_describe_missing(missing, repeated)}{_list_found(file, names)}"
            f"{_suggest(missing, names)}; expected each once; name the columns to use with --user, "
            f"--time, --lon, --lat, --x, --y, --request or --is-report"
        )


def _describe_missing(missing: Sequence[str], repeated: Sequence[str]) -> str:
    if repeated:
        return f"there are several columns '{repeated[0]}'"
    listed = " and ".join(f"'{name}'" for name in missing)
    return f"there is no column {listed}" if len(missing) == 1 else f"there are no columns {listed}"


def _list_found(file: LogFile, names: Sequence[str]) -> str:
    """List the columns of a file, unless its first line seems to be a user's row."""
    is_csv = isinstance(file, Path) and find_kind(file) == CSV
    if is_csv and any(LIKE_A_VALUE.fullmatch(name.strip()) for name in names):
        return " in its first line, which looks like a row and not like a header"
    return f" among {', '.join(names)}"


def _suggest(missing: Sequence[str], names: Sequence[str]) -> str:
    """Suggest columns of similar names, or another delimiter."""
    # A column whose name has those of several columns was not cut.
    if any(sum(part in re.split(r"\W", name) for part in missing) > 1 for name in names):
        return " (are they separated otherwise? pass --delimiter)"
    close = [match for name in missing for match in get_close_matches(name, names, 1)]
    return f" (did you mean {' and '.join(map(repr, close))}?)" if close else ""


def _label(file: LogFile) -> str:
    return str(file) if isinstance(file, Path) else "the table"


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


def _unreadable(file: LogFile, error: Exception) -> InputError:
    if isinstance(file, pa.Table):
        return InputError(
            "the table cannot be read; expected columns of plain types; write it to a .parquet file"
        )
    if isinstance(error, PermissionError):
        return InputError(
            f"{file}: cannot be opened; expected permission to read it; ask its owner, or change "
            f"its mode"
        )
    if file.is_file() and file.stat().st_size == 0:
        return InputError(f"{file}: the file is empty; expected a header and rows; make it again")
    kind = find_kind(file)
    assert kind is not None
    return InputError(
        f"{file}: cannot be read; expected {NAMES[kind]}; the file is damaged or of another kind: "
        f"make it again, or rename it"
    )


def _read_ahead(source: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run ``source`` in a thread, a few batches ahead of the consumer."""
    batches: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(PREFETCH)
    stopped = threading.Event()

    def put(item: pa.RecordBatch | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                batches.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            for batch in source:
                put(batch)
                if stopped.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while (item := batches.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()
