"""Read logs written as comma-separated text, or with another delimiter."""

from collections.abc import Iterator
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
    AsciiRows,
    WantedColumns,
    find_delimiter,
    open_text,
    read_header,
)
from trajcloak.log.times import find_timestamp_type

READABLE = {
    pa.float64().id: "a number",
    pa.int64().id: "a whole number, as in the first row",
    pa.timestamp(
        "us"
    ).id: "an ISO 8601 time such as 2024-05-06T08:00:00, with a zone in all rows or none, or pass "
    "--time-format",
    pa.string().id: "text in UTF-8",
}
DECIMAL_COMMA = r"^\s*[+-]?[0-9]+,[0-9]+\s*$"
ONE_THREAD = pyarrow.csv.ReadOptions(use_threads=False)
GUESSED_BYTES = 1 << 20
"""Bytes of a file to guess the types of its columns from, again and again until they are known."""


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
    types, decimal_point = guess_types(file, wanted, own)
    delimiter = find_delimiter(file, wanted.delimiter)
    requests = [name for name in wanted.requests if name in types]
    convert = pyarrow.csv.ConvertOptions(
        column_types=types,
        include_columns=own,
        null_values=[""],
        strings_can_be_null=True,
        decimal_point=decimal_point,
    )
    read = pyarrow.csv.ReadOptions(block_size=TEXT_BLOCK_BYTES)
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
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
        slow = _SlowReader(file, types, decimal_point, rows_before, delimiter, bad)
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
    """Reads a CSV file again as text; notes, and counts in ``num_bad``, what cannot be read.

    Arrow's own reader stops at the first such row, and its message would quote the value, which
    may be a coordinate or an id.
    """

    def __init__(
        self,
        file: Path,
        types: dict[str, pa.DataType],
        decimal_point: str,
        rows_before: int,
        delimiter: str,
        bad: BadRows,
    ) -> None:
        self._file, self._types, self._decimal_point = file, types, decimal_point
        self._rows_before, self._delimiter, self._bad = rows_before, delimiter, bad
        self._skipped = self._find_wrong_lengths()
        self.num_bad = len(self._skipped)

    def read(self, num_done: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the first ``num_done``."""
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(self._types, pa.binary()),
            include_columns=list(self._types),
            null_values=[""],
            strings_can_be_null=True,
        )
        parse = pyarrow.csv.ParseOptions(
            delimiter=self._delimiter,
            invalid_row_handler=(lambda _: "skip") if len(self._skipped) else None,
        )
        # Rows of the wrong length can be skipped only in text that is ASCII.
        text = AsciiRows(self._file) if len(self._skipped) else open_text(self._file)
        start = 0
        with text as stream, pyarrow.csv.open_csv(stream, ONE_THREAD, parse, convert) as reader:
            for batch in reader:
                whole = self._insert_skipped(batch, start)
                start += whole.num_rows
                if start > num_done:
                    first = max(0, num_done - (start - whole.num_rows))
                    yield self._convert(whole.slice(first), start - whole.num_rows + first)

    def _find_wrong_lengths(self) -> RowNumbers:
        """Find the rows, numbered from 0, with more or fewer cells than the header has."""
        found: dict[tuple[int, int], list[int]] = {}

        def note(row: pyarrow.csv.InvalidRow) -> str:
            # Lines count from 1, and the first one is the header.
            length = row.expected_columns, row.actual_columns
            found.setdefault(length, []).append(row.number - 2)
            return "skip"

        name = next(iter(self._types))
        convert = pyarrow.csv.ConvertOptions(
            column_types={name: pa.binary()}, include_columns=[name]
        )
        parse = pyarrow.csv.ParseOptions(delimiter=self._delimiter, invalid_row_handler=note)
        with (
            AsciiRows(self._file) as stream,
            pyarrow.csv.open_csv(stream, ONE_THREAD, parse, convert) as reader,
        ):
            for _ in reader:
                pass
        for (expected, actual), rows in found.items():
            trouble = Trouble(
                f"{actual} cells",
                f"{expected}, as in the header",
                "add or remove separators, or quote values that hold one",
            )
            self._bad.add_unreadable(trouble, np.array(rows) + self._rows_before)
        return np.array(sorted(row for rows in found.values() for row in rows), np.int64)

    def _insert_skipped(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """Insert empty rows where rows were skipped, so that the others keep their numbers."""
        waiting = self._skipped[self._skipped >= start]
        # A skipped row comes before the batch's row of the same number, less those before it.
        place = waiting - start - np.arange(len(waiting))
        waiting, place = waiting[place <= batch.num_rows], place[place <= batch.num_rows]
        if not len(waiting):
            return batch
        rows = np.insert(np.arange(batch.num_rows), place, -1)
        return batch.take(pa.array(rows, mask=rows < 0))

    def _convert(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """Convert text to the wanted types; cells that cannot be read become empty."""
        columns = []
        for name, type_ in self._types.items():
            column = batch.column(name)
            unreadable = find_unreadable(column, pc.CastOptions(pa.string()))
            column = self._note(column, unreadable, name, pa.string(), start).cast(pa.string())
            if type_ != pa.string():
                text = pc.utf8_trim_whitespace(column)
                if pa.types.is_floating(type_) and self._decimal_point == ",":
                    text = pc.replace_substring(text, ",", ".")
                unreadable = find_unreadable(text, pc.CastOptions(type_))
                column = self._note(text, unreadable, name, type_, start).cast(type_)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, names=list(self._types))

    def _note(
        self, column: pa.Array, unreadable: RowNumbers, name: str, type_: pa.DataType, start: int
    ) -> pa.Array:
        if not len(unreadable):
            return column
        self.num_bad += len(unreadable)
        trouble = Trouble(
            f"column '{name}' cannot be read", READABLE[type_.id], "correct or remove the row"
        )
        example = column[int(unreadable[0])].as_py()
        self._bad.add_unreadable(
            trouble,
            unreadable + self._rows_before + start,
            example.decode("latin-1") if isinstance(example, bytes) else example,
        )
        marks = np.zeros(len(column), np.bool_)
        marks[unreadable] = True
        return pc.if_else(pa.array(marks), pa.scalar(None, column.type), column)


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


def guess_types(file: Path, wanted: WantedColumns, own: list[str]) -> CsvTypes:
    """Guess how to read the columns of a CSV file from its first rows.

    Times are whole numbers, or timestamps with or without a zone, as the first of them. If
    coordinates have commas and no points, the comma is the decimal sign.
    """
    types = dict.fromkeys(own, pa.string())
    types |= {name: pa.float64() for name in wanted.place if name in types}
    looked = [name for name in (wanted.time, *wanted.place) if name in types]
    if not looked:
        return CsvTypes(types, ".")
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(looked, pa.string()), include_columns=looked, null_values=[]
    )
    parse = pyarrow.csv.ParseOptions(
        delimiter=find_delimiter(file, wanted.delimiter), invalid_row_handler=lambda _: "skip"
    )
    time_type, decimal_point = None, "."
    for number, rows in enumerate(_read_blocks(file)):
        table = pyarrow.csv.read_csv(pa.BufferReader(rows), ONE_THREAD, parse, convert)
        if number == 0 and any(
            _has_decimal_commas(table.column(name)) for name in wanted.place if name in types
        ):
            decimal_point = ","
        if wanted.time in types:
            time_type = _guess_time_type(table.column(wanted.time), wanted)
        if time_type is not None or wanted.time not in types:
            break
    if wanted.time in types:
        types[wanted.time] = time_type or pa.int64()
    return CsvTypes(types, decimal_point)


def _read_blocks(file: Path) -> Iterator[bytes]:
    """Yield some rows after another, each time below the header.

    They are not read by Arrow: its threads read on for a while after the first rows, and kill a
    process that ends meanwhile.
    """
    header = read_header(file)
    with AsciiRows(file) as stream:
        stream.read(len(header))
        cut_off = b""
        while block := stream.read(GUESSED_BYTES):
            rows, line_end, cut_off = (cut_off + block).rpartition(b"\n")
            if rows:
                yield header + rows + line_end
        if cut_off:
            yield header + cut_off


def _has_decimal_commas(column: pa.ChunkedArray) -> bool:
    has_comma = pc.any(pc.match_substring_regex(column, DECIMAL_COMMA)).as_py()
    return bool(has_comma and not pc.any(pc.match_substring(column, ".")).as_py())


def _guess_time_type(column: pa.ChunkedArray, wanted: WantedColumns) -> pa.DataType | None:
    """Guess the type of times from the first one that is not empty; None if all are."""
    texts = (value.as_py().strip() for value in column)
    first = next((text for text in texts if text), None)
    if first is None:
        return None
    if wanted.time_format is not None:
        return pa.string()
    if first.lstrip("+-").isdigit():
        return pa.int64()
    if wanted.time_unit is not None:
        return pa.float64()
    return find_timestamp_type(first)
