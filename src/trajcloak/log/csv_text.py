"""Read logs written as comma-separated text, or with another delimiter."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from trajcloak.errors import InputError
from trajcloak.log.formats import TEXT_BLOCK_BYTES, AsciiRows, WantedColumns, open_text

READABLE = {
    pa.float64().id: "a number",
    pa.int64().id: "a whole number, as in the first row",
    pa.timestamp(
        "us"
    ).id: "an ISO 8601 time such as 2024-05-06T08:00:00, with a zone in all rows or none",
    pa.string().id: "text in UTF-8",
}


ONE_THREAD = pyarrow.csv.ReadOptions(use_threads=False)


def open_csv(
    file: Path, wanted: WantedColumns, own: list[str], rows_before: int, delimiter: str
) -> Iterator[pa.RecordBatch]:
    """Stream columns of a CSV file: coordinates as float64, times as found, all others as text.

    Parameters
    ----------
    wanted
        All columns to read.
    own
        The wanted columns that the file itself has.
    rows_before
        Rows of the log before this file, for messages.
    """
    types = dict.fromkeys(own, pa.string())
    requests = [name for name in wanted.requests if name in types]
    if wanted.time in types:
        types[wanted.time] = _guess_time_type(file, wanted.time, delimiter)
    types |= {name: pa.float64() for name in wanted.place if name in types}
    convert = pyarrow.csv.ConvertOptions(
        column_types=types, include_columns=own, null_values=[""], strings_can_be_null=True
    )
    read = pyarrow.csv.ReadOptions(block_size=TEXT_BLOCK_BYTES)
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
    try:
        with (
            open_text(file) as stream,
            pyarrow.csv.open_csv(stream, read, parse, convert) as reader,
        ):
            num_rows = rows_before
            for batch in reader:
                _check_line_breaks(file, batch.select(requests), num_rows)
                num_rows += batch.num_rows
                yield batch
    except pa.ArrowInvalid:
        _explain_bad_csv(file, types, rows_before, delimiter)
        raise


def _check_line_breaks(file: Path, batch: pa.RecordBatch, rows_before: int) -> None:
    """Raise if a request holds a line break: an unclosed quote would swallow rows."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        broken = pc.match_substring(column, "\n").fill_null(False)
        if pc.any(broken).as_py():
            row = rows_before + int(np.argmax(broken.to_numpy(zero_copy_only=False))) + 1
            raise InputError(
                f"{file}: row {row}: column '{name}' holds a line break; expected a row on each "
                f"line; is a quote not closed? correct it, or write the log as Parquet"
            )


def _explain_bad_csv(
    file: Path, types: dict[str, pa.DataType], rows_before: int, delimiter: str
) -> None:
    """Read a CSV file again, slowly, and name the first row that cannot be read.

    Arrow's own message would quote the value, which may be a coordinate or an id.
    """
    _check_lengths(file, next(iter(types)), rows_before, delimiter)
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(types, pa.binary()),
        include_columns=list(types),
        null_values=[""],
        strings_can_be_null=True,
    )
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
    with (
        open_text(file) as stream,
        pyarrow.csv.open_csv(stream, ONE_THREAD, parse, convert) as rows,
    ):
        num_rows = rows_before
        for batch in rows:
            for name, type_ in types.items():
                bad = find_bad_value(batch.column(name), pc.CastOptions(type_))
                if bad is not None:
                    raise InputError(
                        f"{file}: row {num_rows + bad + 1}: column '{name}' cannot be read; "
                        f"expected {READABLE[type_.id]}; correct or remove the row"
                    ) from None
            num_rows += batch.num_rows


def _check_lengths(file: Path, name: str, rows_before: int, delimiter: str) -> None:
    """Raise if a row has more or fewer cells than the header; ``name`` is any column."""
    bad_rows: list[tuple[int, int, int]] = []

    def note(row: pyarrow.csv.InvalidRow) -> str:
        bad_rows.append((row.number, row.expected_columns, row.actual_columns))
        return "skip"

    convert = pyarrow.csv.ConvertOptions(column_types={name: pa.binary()}, include_columns=[name])
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=note)
    with (
        AsciiRows(file) as stream,
        pyarrow.csv.open_csv(stream, ONE_THREAD, parse, convert) as reader,
    ):
        while not bad_rows:
            try:
                reader.read_next_batch()
            except StopIteration:
                break
    if bad_rows:
        line, expected, found = bad_rows[0]
        raise InputError(
            f"{file}: row {rows_before + line - 1} has {found} columns; expected {expected}, as in "
            f"the header; add or remove separators, or quote values that hold one"
        ) from None


def find_bad_value(column: pa.Array, options: pc.CastOptions) -> int | None:
    """Find the first value that cannot be cast, by bisection; None if all can."""
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


def _guess_time_type(file: Path, time: str, delimiter: str) -> pa.DataType:
    """Guess from the first time of a CSV file: whole numbers, or timestamps, zoned or not."""
    convert = pyarrow.csv.ConvertOptions(
        column_types={time: pa.string()}, include_columns=[time], null_values=[]
    )
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=lambda _: "skip")
    with (
        AsciiRows(file) as stream,
        pyarrow.csv.open_csv(stream, None, parse, convert) as reader,
    ):
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
