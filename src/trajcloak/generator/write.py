"""A log file that appears complete or not at all."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from trajcloak.errors import OptionError, OutputError

ROWS_PER_GROUP = 1 << 20
"""Rows per row group of a Parquet file."""


def _open_parquet(file: Any, schema: Any) -> Any:
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in schema.names if name not in ("user_id", "x", "y")],
        column_encoding={"x": "BYTE_STREAM_SPLIT", "y": "BYTE_STREAM_SPLIT"},
    )


def _open_csv(file: Any, schema: Any) -> Any:
    return pa_csv.CSVWriter(
        file, schema, write_options=pa_csv.WriteOptions(quoting_style="none", batch_size=1 << 16)
    )


_FORMATS: dict[str, Callable[[Any, Any], Any]] = {".parquet": _open_parquet, ".csv": _open_csv}


def check_log_path(path: Path) -> None:
    """Raise unless a log can be written at a path.

    Raises
    ------
    OptionError
        If the name does not say which format is wanted.
    OutputError
        If the path exists already, or its folder does not.
    """
    if path.suffix not in _FORMATS:
        raise OptionError(
            f"{path}: the name of a log ends in '{path.suffix}'; expected '.parquet' or '.csv'; "
            f"rename the output"
        )
    _check_free(path)
    if not path.parent.is_dir():
        raise OutputError(
            f"{path}: there is no folder {path.parent}; expected one to write into; create it first"
        )


def _check_free(path: Path) -> None:
    if os.path.lexists(path):
        raise OutputError(
            f"{path}: exists already; expected a new path, nothing is overwritten; "
            f"remove it, or choose another name"
        )


@contextmanager
def log_writer(path: Path, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Open a log for writing; yields the function that appends a table.

    The rows go to a hidden file beside ``path``, which takes its name once it
    is complete. If anything fails, that file is removed and ``path`` does not
    appear.

    Raises
    ------
    OutputError
        If the file cannot be written, or the path has been taken meanwhile.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with _output_errors(path):
            file = draft.open("xb")
        with file:
            with _output_errors(path):
                writer = _FORMATS[path.suffix](file, schema)
            try:
                yield partial(_append, path, writer)
            finally:
                with _output_errors(path):
                    writer.close()
            with _output_errors(path):
                file.flush()
                os.fsync(file.fileno())
        _check_free(path)
        with _output_errors(path):
            draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)


def _append(path: Path, writer: Any, table: Any) -> None:
    with _output_errors(path):
        if isinstance(writer, pq.ParquetWriter):
            writer.write_table(table, row_group_size=ROWS_PER_GROUP)
        else:
            writer.write_table(table)


@contextmanager
def _output_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror or error}); expected a folder with "
            f"write permission and enough space; choose another"
        ) from error
