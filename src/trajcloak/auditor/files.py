"""The files of a log, read batch by batch."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from trajcloak.errors import InputError

SUFFIXES = (".parquet", ".csv")
ROWS_PER_BATCH = 1 << 20
BYTES_PER_BLOCK = 1 << 25

LogPaths = str | Path | Sequence[str | Path]


def list_log_files(log: LogPaths) -> list[Path]:
    """List the files of a log given as a file, glob or folder, or several of them.

    Raises
    ------
    InputError
        If a path leads to nothing, or to a file that is neither Parquet nor CSV.
    """
    given = [log] if isinstance(log, str | Path) else list(log)
    if not given:
        raise InputError("no log is given; expected a file, a glob or a folder; name one")
    files = [file for path in given for file in _expand(Path(path))]
    for file in files:
        if file.suffix.lower() not in SUFFIXES:
            raise InputError(
                f"{file}: the name of a log ends in '{file.suffix}'; "
                f"expected '.parquet' or '.csv'; rename or convert it"
            )
    return files


def _expand(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        if not inside:
            raise InputError(
                f"{path}: the folder has no *.parquet or *.csv file; expected a log; check the path"
            )
        return inside
    matches = []
    if any(sign in str(path) for sign in "*?["):
        start = Path(path.anchor)
        matches = sorted(start.glob(str(path.relative_to(start))))
    if not matches:
        raise InputError(f"{path}: does not exist; expected a log; check the path")
    return matches


def list_columns(file: Path) -> list[str]:
    """List the columns of a file of a log; ``a.b`` for the field of a struct."""
    try:
        if file.suffix.lower() == ".parquet":
            return list(_unfold(pq.read_schema(file).empty_table()).column_names)
        with pa_csv.open_csv(file) as reader:
            return list(reader.schema.names)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file) from error


def count_rows(files: list[Path]) -> int:
    """Count the rows of Parquet files; 0 if one is CSV, whose rows are not known in advance."""
    if any(file.suffix.lower() == ".csv" for file in files):
        return 0
    return sum(int(pq.read_metadata(file).num_rows) for file in files)


def read_batches(file: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield some columns of a file of a log, as plain arrays; those of CSV are text."""
    try:
        if file.suffix.lower() == ".parquet":
            with pq.ParquetFile(file) as parquet:
                for batch in parquet.iter_batches(ROWS_PER_BATCH, columns=names):
                    table = _unfold(pa.Table.from_batches([batch])).combine_chunks()
                    yield {name: plain(_only_chunk(table[name])) for name in names}
            return
        # The types are decided over the whole log, so nothing is guessed block by block.
        options = pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            include_columns=names,
            null_values=[""],
            strings_can_be_null=True,
        )
        read_options = pa_csv.ReadOptions(block_size=BYTES_PER_BLOCK)
        parse_options = pa_csv.ParseOptions(newlines_in_values=True)
        with pa_csv.open_csv(file, read_options, parse_options, options) as reader:
            for batch in reader:
                yield {name: batch.column(name) for name in names}
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file) from error


def _unfold(table: Any) -> Any:
    """Replace structs by columns of their fields, until none is left."""
    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table


def _only_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def expand_names(names: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """Replace the name of a struct by those of its fields among the columns of a file."""
    expanded: list[str] = []
    for name in names:
        fields = [other for other in present if other.startswith(f"{name}.")]
        expanded += [name] if name in present or not fields else fields
    return tuple(expanded)


def plain(array: Any) -> Any:
    """Decode a dictionary, and take all kinds of text as one type."""
    if pa.types.is_dictionary(array.type):
        array = pc.cast(array, array.type.value_type)
    kind = plain_type(array.type)
    return array if array.type == kind else pc.cast(array, kind)


def plain_type(kind: Any) -> Any:
    """Tell the type that :func:`plain` gives to an array of a type."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if pa.types.is_large_binary(kind) or str(kind) == "binary_view":
        return pa.binary()
    return kind


def _unreadable(file: Path) -> InputError:
    # Arrow's own message may quote a cell of the log, and so name a user.
    kind = "Parquet" if file.suffix.lower() == ".parquet" else "CSV"
    return InputError(
        f"{file}: cannot be read as {kind}; expected a complete {kind} file in UTF-8 "
        f"with the same number of columns in each row; make it anew"
    )
