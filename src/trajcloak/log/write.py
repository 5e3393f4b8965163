"""Write a log file, which appears complete or not at all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from trajcloak.errors import OptionError
from trajcloak.output import PRIVATE, check_new, new_file

ROWS_PER_GROUP = 1 << 20
"""Rows per row group of a Parquet file."""


FORMULA = r"^([=+@\t\r'-])"
"""Start of a text that a spreadsheet would take for a formula, or that looks escaped."""

_PLACES = ("x", "y", "lon", "lat")


def check_log_path(path: Path) -> None:
    """Raise unless a log can be written at a path: its name says the format, and it is free."""
    if path.suffix not in (".parquet", ".csv"):
        raise OptionError(
            f"{path}: the name of a log ends in '{path.suffix}'; expected '.parquet' or '.csv'; "
            f"rename the output"
        )
    check_new(path)


@contextmanager
def log_writer(
    path: Path, schema: Any, *, quoting: str = "none"
) -> Iterator[Callable[[Any], None]]:
    """Open a log for writing; yields the function that appends a table.

    The log appears at ``path`` complete or not at all, for its owner only. ``quoting`` is Arrow's
    style of quoting text in CSV. Use ``"needed"`` for text from foreign files: it may hold commas,
    and text that looks like a formula gets an apostrophe in front.
    """
    with new_file(path, PRIVATE) as file, file.open("wb") as stream:
        if path.suffix == ".parquet":
            with _open_parquet(stream, schema) as writer:
                yield partial(writer.write_table, row_group_size=ROWS_PER_GROUP)
            return
        options = pa_csv.WriteOptions(quoting_style=quoting, batch_size=1 << 16)
        escape = _escape_formulas if quoting == "needed" else lambda table: table
        with pa_csv.CSVWriter(stream, schema, write_options=options) as writer:
            yield lambda table: writer.write_table(escape(table))


def _open_parquet(stream: Any, schema: Any) -> pq.ParquetWriter:
    places = [name for name in schema.names if name in _PLACES]
    return pq.ParquetWriter(
        stream,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in schema.names if name not in ("user_id", *places)],
        column_encoding=dict.fromkeys(places, "BYTE_STREAM_SPLIT"),
    )


def _escape_formulas(table: pa.Table) -> pa.Table:
    """Put an apostrophe before text that a spreadsheet would take for a formula.

    Text that starts with an apostrophe gets another one, so that different texts stay different.
    """
    for position, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            escaped = pc.replace_substring_regex(table.column(position), FORMULA, r"'\1")
            table = table.set_column(position, field, escaped)
    return table
