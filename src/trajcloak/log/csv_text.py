"""Read logs written as comma-separated text, or with another delimiter."""

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from trajcloak.errors import InputError
from trajcloak.log.bad_rows import BadRows, RowNumbers, Trouble, find_bad
from trajcloak.log.formats import (
    TEXT_BLOCK_BYTES,
    WantedColumns,
    find_delimiter,
    open_text,
    read_cells,
)
from trajcloak.log.times import find_timestamp_type

READABLE = {
    pa.float64().id: "a number",
    pa.int64().id: "a whole number, as in the first row",
    pa.timestamp("us").id: (
        "an ISO 8601 time such as 2024-05-06T08:00:00, with a zone in all rows or none, or pass "
        "--time-format"
    ),
    pa.string().id: "text in UTF-8",
}
DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]+,[0-9]+\s*")
GUESSED_ROWS = 1 << 15
"""Rows to look for decimal commas in, unless all coordinates have decimal points before."""

SLOW_ROWS = 1 << 16
"""Rows of a batch where cells cannot be read."""


def open_csv(
    file: Path,
    wanted: WantedColumns,
    own: list[str],
    rows_before: int,
    bad: BadRows,
) -> Iterator[pa.RecordBatch]:
    """Stream columns of a CSV file: coordinates as float64, times as found, all others as text.

    ``own`` are the wanted columns that the file itself has; ``rows_before`` the rows of the log
    before this file. ``bad`` notes the rows that cannot be read; they are yielded without values.
    """
    found = guess_types(file, wanted, own)
    requests = [name for name in wanted.requests if name in found.types]
    convert = pyarrow.csv.ConvertOptions(
        column_types=found.types,
        include_columns=own,
        null_values=[""],
        strings_can_be_null=True,
        decimal_point=found.decimal_point,
    )
    read = pyarrow.csv.ReadOptions(block_size=TEXT_BLOCK_BYTES)
    parse = pyarrow.csv.ParseOptions(delimiter=found.delimiter)
    num_rows = rows_before
    try:
        with (
            open_text(file) as stream,
            pyarrow.csv.open_csv(stream, read, parse, convert) as reader,
        ):
            for batch in reader:
                _check_line_breaks(file, batch.select(requests), num_rows - rows_before)
                num_rows += batch.num_rows
                yield batch
    except pa.ArrowInvalid:
        slow = _SlowReader(file, found, rows_before, bad)
        yield from slow.read(num_rows - rows_before)
        if not slow.num_bad:
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


class _SlowReader:
    """Reads a CSV file cell by cell; notes, and counts in ``num_bad``, what cannot be read.

    Arrow's own reader stops at the first such row, and its message would quote the value, which
    may be a coordinate or an id.
    """

    def __init__(self, file: Path, found: "CsvTypes", rows_before: int, bad: BadRows) -> None:
        self._file, self._found, self._rows_before, self._bad = file, found, rows_before, bad
        self.num_bad = 0

    def read(self, num_done: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the first ``num_done``."""
        rows = read_cells(self._file, self._found.delimiter)
        header = next(rows)
        rows = islice(rows, num_done, None)
        start = self._rows_before + num_done
        while block := list(islice(rows, SLOW_ROWS)):
            yield self._convert(header, block, start)
            start += len(block)

    def _convert(self, header: list[str], rows: list[list[str]], start: int) -> pa.RecordBatch:
        """Convert cells to the wanted types; those that cannot be read become empty."""
        for length in {len(row) for row in rows} - {len(header)}:
            trouble = Trouble(
                f"{length} cells",
                f"{len(header)}, as in the header",
                "add or remove separators, or quote values that hold one",
            )
            wrong = [number for number, row in enumerate(rows) if len(row) == length]
            self._note(trouble, np.array(wrong) + start)
            for number in wrong:
                rows[number] = [""] * len(header)
        cells = dict(zip(header, zip(*rows, strict=True), strict=True))
        columns = []
        for name, type_ in self._found.types.items():
            raw = [cell.encode("utf-8", "surrogateescape") or None for cell in cells[name]]
            column = self._cast(pa.array(raw, pa.binary()), name, pa.string(), start)
            if type_ != pa.string():
                text = pc.utf8_trim_whitespace(column)
                if pa.types.is_floating(type_) and self._found.decimal_point == ",":
                    text = pc.replace_substring(text, ",", ".")
                column = self._cast(text, name, type_, start)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, names=list(self._found.types))

    def _cast(self, column: pa.Array, name: str, type_: pa.DataType, start: int) -> pa.Array:
        unreadable = find_unreadable(column, pc.CastOptions(type_))
        if len(unreadable):
            trouble = Trouble(
                f"column '{name}' cannot be read", READABLE[type_.id], "correct or remove the row"
            )
            example = column[int(unreadable[0])].as_py()
            self._note(
                trouble,
                unreadable + start,
                example.decode("latin-1") if isinstance(example, bytes) else example,
            )
            marks = np.zeros(len(column), np.bool_)
            marks[unreadable] = True
            column = pc.if_else(pa.array(marks), pa.scalar(None, column.type), column)
        return column.cast(type_)

    def _note(self, trouble: Trouble, rows: RowNumbers, example: str | None = None) -> None:
        self.num_bad += len(rows)
        self._bad.add_unreadable(trouble, rows, example)


def find_unreadable(column: pa.Array, options: pc.CastOptions) -> RowNumbers:
    """Find the values that cannot be cast."""

    def is_readable(start: int, stop: int) -> bool:
        try:
            column.slice(start, stop - start).cast(options=options)
        except pa.ArrowInvalid:
            return False
        return True

    return np.fromiter(find_bad(is_readable, len(column)), np.int64)


class CsvTypes(NamedTuple):
    """How the columns of a CSV file are read."""

    types: dict[str, pa.DataType]  # By column.
    decimal_point: str  # Of coordinates: a point, or a comma.
    delimiter: str


def guess_types(file: Path, wanted: WantedColumns, own: list[str]) -> CsvTypes:
    """Guess how to read the columns of a CSV file from its first rows.

    Times are whole numbers, or timestamps with or without a zone, as the first of them. If
    coordinates have commas and no points, the comma is the decimal sign.
    """
    types = dict.fromkeys(own, pa.string())
    types |= {name: pa.float64() for name in wanted.place if name in types}
    # Not by Arrow: its threads read on for a while after the first rows, and crash a process that
    # ends meanwhile.
    delimiter = find_delimiter(file, wanted.delimiter)
    rows = read_cells(file, delimiter)
    header = next(rows)
    whole = (row for row in rows if len(row) == len(header))
    place = {header.index(name) for name in wanted.place if name in types}
    first = []
    for row in islice(whole, GUESSED_ROWS):
        first.append(row)
        place = {column for column in place if "." not in row[column]}
        if not place:
            break
    has_commas = any(DECIMAL_COMMA.fullmatch(row[column]) for row in first for column in place)
    if wanted.time in types:
        column = header.index(wanted.time)
        times = (row[column].strip() for row in chain(first, whole))
        types[wanted.time] = _guess_time_type(next(filter(None, times), "0"), wanted)
    return CsvTypes(types, "," if has_commas else ".", delimiter)


def _guess_time_type(first: str, wanted: WantedColumns) -> pa.DataType:
    """Guess the type of times from the first one that is not empty."""
    if wanted.time_format is not None:
        return pa.string()
    if first.lstrip("+-").isdigit():
        return pa.int64()
    if wanted.time_unit is not None:
        return pa.float64()
    return find_timestamp_type(first)
