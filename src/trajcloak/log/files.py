"""Open the files of a log and stream their rows as Arrow batches."""

import glob
import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from trajcloak.errors import InputError, OptionError
from trajcloak.log.nested import list_roots
from trajcloak.options import LogColumns

SUFFIXES = (".csv", ".parquet")
BATCH_ROWS = 1 << 20
CSV_BLOCK_BYTES = 1 << 24
PREFETCH = 2
NUM_FIXED = 4
"""User, time and two coordinates; the other columns that are read are request attributes."""

DICTIONARY_BYTES = 2
"""A text column that takes fewer bytes per row holds few distinct values."""

LogPath = str | Path | Sequence[str | Path]
"""A file, a glob, a folder, or a list of those."""


def list_files(source: LogPath) -> list[Path]:
    """List the files of a log, folders and globs in order of their names."""
    if not isinstance(source, str | Path | Sequence):
        raise OptionError(
            f"the log is given as {type(source).__name__}; expected paths of files; write it to a "
            f".parquet file first"
        )
    if not isinstance(source, str | Path):
        if not source:
            raise InputError("no log is given; expected a file, a folder or a glob; name one")
        return [file for part in source for file in list_files(part)]
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    elif path.exists():
        files = [path]
    else:
        files = sorted(Path(name) for name in glob.glob(str(source)))
    if not files:
        raise InputError(
            f"{source}: no log found; expected a .csv or .parquet file, a folder or a glob; "
            f"check the path"
        )
    for file in files:
        if file.suffix not in SUFFIXES:
            raise InputError(
                f"{file}: unknown kind of file; expected a name that ends in .csv or .parquet; "
                f"rename or convert it"
            )
    return files


def read_names(file: Path) -> list[str]:
    """Read the column names of a file."""
    try:
        if file.suffix == ".parquet":
            return list(pq.read_schema(file).names)
        # Bad rows are named later, with their numbers.
        skip = pyarrow.csv.ParseOptions(invalid_row_handler=lambda _: "skip")
        with pyarrow.csv.open_csv(file, parse_options=skip) as reader:
            return list(reader.schema.names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from None


def count_rows(files: Sequence[Path]) -> int:
    """Count the rows of Parquet files from their footers; 0 for CSV files, which have no count."""
    num_rows = 0
    for file in files:
        if file.suffix == ".parquet":
            try:
                num_rows += pq.read_metadata(file).num_rows
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(file, error) from None
    return num_rows


def stream_batches(files: Sequence[Path], columns: LogColumns) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of all files, in order, read ahead in a thread.

    Columns come as the file has them; in CSV, coordinates as float64, times as
    int64 or timestamp, and all else as text.
    """

    def produce() -> Iterator[pa.RecordBatch]:
        wanted = _choose_columns(files[0], columns)
        num_rows = 0
        for file in files:
            _check_columns(file, wanted)
            try:
                batches = (
                    _open_parquet(file, wanted)
                    if file.suffix == ".parquet"
                    else _open_csv(file, wanted, num_rows)
                )
                for batch in batches:
                    num_rows += batch.num_rows
                    yield batch
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(file, error) from None

    return _read_ahead(produce())


def _choose_columns(file: Path, columns: LogColumns) -> list[str]:
    """List the columns to read: user, time, the two coordinates, the requests."""
    present = read_names(file)
    first, second, _ = columns.place(present)
    roots = list_roots(columns.requests, present)
    wanted = [columns.user, columns.time, first, second, *roots]
    for name in wanted:
        if wanted.count(name) > 1:
            raise OptionError(
                f"column '{name}' is to hold two of user, time, place and request; expected a "
                f"column for each, and to publish neither user, time nor place; name other columns"
            )
    return wanted


def _check_columns(file: Path, wanted: list[str]) -> None:
    """Raise unless a file has each column once."""
    names = read_names(file)
    # The first line of a CSV file that lacks a header is a user's row, so it is not shown.
    listed = (
        f" among {', '.join(names)}"
        if file.suffix == ".parquet"
        else " in its header line (is it separated by commas?)"
    )
    for name in wanted:
        count = names.count(name)
        if count != 1:
            found = (
                f"there are {count} columns '{name}'" if count else f"there is no column '{name}'"
            )
            raise InputError(
                f"{file}: {found}{listed}; expected it once; name the column to use with --user, "
                f"--time, --lon, --lat, --x, --y or --request"
            )


def _open_parquet(file: Path, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    encoded = _find_dictionaries(pq.read_metadata(file), wanted[NUM_FIXED:])
    # Pre-buffering would hold the bytes of the whole file until its last row is read.
    with pq.ParquetFile(file, read_dictionary=encoded, pre_buffer=False) as parquet:
        yield from parquet.iter_batches(BATCH_ROWS, columns=wanted)


def _find_dictionaries(metadata: pq.FileMetaData, names: list[str]) -> list[str]:
    """List the text columns with few distinct values, which need not be spelt out to be read."""
    found = []
    for c in range(metadata.num_columns if metadata.num_row_groups else 0):
        chunk = metadata.row_group(0).column(c)
        if (
            chunk.path_in_schema in names
            and chunk.physical_type == "BYTE_ARRAY"
            and chunk.has_dictionary_page
            and chunk.total_uncompressed_size < DICTIONARY_BYTES * chunk.num_values
        ):
            found.append(chunk.path_in_schema)
    return found


def _open_csv(file: Path, wanted: list[str], rows_before: int) -> Iterator[pa.RecordBatch]:
    types = dict.fromkeys(wanted, pa.string())
    types[wanted[1]] = _guess_time_type(file, wanted[1])
    types |= dict.fromkeys(wanted[2:4], pa.float64())
    convert = pyarrow.csv.ConvertOptions(
        column_types=types, include_columns=wanted, null_values=[""], strings_can_be_null=True
    )
    read = pyarrow.csv.ReadOptions(block_size=CSV_BLOCK_BYTES)
    try:
        with pyarrow.csv.open_csv(file, read_options=read, convert_options=convert) as reader:
            yield from reader
    except pa.ArrowInvalid:
        _explain_bad_csv(file, types, rows_before)
        raise


def _explain_bad_csv(file: Path, types: dict[str, pa.DataType], rows_before: int) -> None:
    """Read a CSV file again, slowly, and name the first row that cannot be read.

    Arrow's own message would quote the value, which may be a coordinate or an id.
    """
    bad_rows: list[tuple[int, int, int]] = []

    def note(row: pyarrow.csv.InvalidRow) -> str:
        bad_rows.append((row.number, row.expected_columns, row.actual_columns))
        return "skip"

    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(types, pa.binary()),
        include_columns=list(types),
        null_values=[""],
        strings_can_be_null=True,
    )
    with pyarrow.csv.open_csv(
        file,
        read_options=pyarrow.csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=note),
        convert_options=convert,
    ) as reader:
        num_rows = rows_before
        for batch in reader:
            if bad_rows:
                break
            for name, type_ in types.items():
                bad = find_bad_value(batch.column(name), pc.CastOptions(type_))
                if bad is not None:
                    raise InputError(
                        f"{file}: row {num_rows + bad + 1}: column '{name}' cannot be read; "
                        f"expected {EXPECTED[type_.id]}; correct or remove the row"
                    ) from None
            num_rows += batch.num_rows
    if bad_rows:
        line, expected, found = bad_rows[0]
        raise InputError(
            f"{file}: row {rows_before + line - 1} has {found} columns; expected {expected}, as in "
            f"the header; add or remove separators, or quote values that hold a comma"
        ) from None


EXPECTED = {
    pa.float64().id: "a number",
    pa.int64().id: "a whole number, as in the first row",
    pa.timestamp("us").id: "an ISO 8601 date and time, of the same form as in the first row",
    pa.string().id: "text in UTF-8",
}


def find_bad_value(column: pa.Array, options: pc.CastOptions) -> int | None:
    """Find the first value that cannot be cast, by halving."""
    try:
        if pa.types.is_binary(column.type):
            column = column.cast(pa.string())
        column.cast(options=options)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return 0
        middle = len(column) // 2
        bad = find_bad_value(column.slice(0, middle), options)
        if bad is not None:
            return bad
        bad = find_bad_value(column.slice(middle), options)
        return None if bad is None else middle + bad
    return None


def _guess_time_type(file: Path, time: str) -> pa.DataType:
    """Look at the first time of a CSV file: a whole number, or a date-time, zoned or not."""
    convert = pyarrow.csv.ConvertOptions(
        column_types={time: pa.string()}, include_columns=[time], null_values=[]
    )
    skip = pyarrow.csv.ParseOptions(invalid_row_handler=lambda _: "skip")
    with pyarrow.csv.open_csv(file, parse_options=skip, convert_options=convert) as reader:
        for batch in reader:
            for value in batch.column(0):
                text = value.as_py().strip()
                if not text:
                    continue
                if text.lstrip("+-").isdigit():
                    return pa.int64()
                zoned = text.endswith("Z") or "+" in text or text[10:].count("-") > 0
                return pa.timestamp("us", "UTC") if zoned else pa.timestamp("us")
    return pa.int64()


def _unreadable(file: Path, error: Exception) -> InputError:
    if isinstance(error, PermissionError):
        return InputError(
            f"{file}: cannot be opened; expected permission to read it; ask its owner, or change "
            f"its mode"
        )
    if file.is_file() and file.stat().st_size == 0:
        return InputError(f"{file}: the file is empty; expected a header and rows; make it anew")
    kind = "comma-separated text in UTF-8" if file.suffix == ".csv" else "Parquet"
    return InputError(
        f"{file}: cannot be read; expected {kind}; the file is damaged or of another kind: make it "
        f"anew, or rename it"
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
