"""The files of a log, read batch by batch."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajcloak.auditor.formats import (
    find_points,
    list_folders,
    read_own_batches,
    read_schema,
    take_points,
    tell_kind,
)
from trajcloak.errors import InputError

LogPaths = str | Path | Sequence[str | Path]


def list_log_files(log: LogPaths) -> list[Path]:
    """List the files of a log given as a file, glob or folder, or several of them.

    Raises
    ------
    InputError
        If a path leads to nothing, or to a file of a kind that is not known.
    """
    given = [log] if isinstance(log, str | Path) else list(log)
    if not given:
        raise InputError("no log is given; expected a file, a glob or a folder; name one")
    files = [file for path in given for file in _expand(Path(path))]
    for file in files:
        if tell_kind(file) is None:
            raise InputError(
                f"{file}: the name of a log ends in '{file.suffix}'; expected '.parquet', '.csv' "
                f"or another kind of log; rename or convert it"
            )
    return files


def _expand(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if path.is_dir():
        inside = [
            file
            for file in sorted(path.rglob("*"))
            if tell_kind(file) is not None
            and file.is_file()
            and not any(part[0] in "._" for part in file.relative_to(path).parts)
        ]
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


def list_columns(file: Path, delimiter: str | None) -> list[str]:
    """List the columns of a file of a log: its own, those of its folders and its points.

    ``a.b`` stands for the field of a struct.
    """
    try:
        schema = read_schema(file, delimiter)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file) from error
    names = list(_unfold(schema.empty_table()).column_names)
    names += [name for name in list_folders(file) if name not in names]
    points = find_points(schema)
    if points is None:
        return names
    # The points themselves are where users were, and no attribute.
    own = [n for n in names if n != points[0] and not n.startswith(f"{points[0]}.")]
    return own + points[1]


def find_system(file: Path) -> str | None:
    """Tell the system of a file of points, if it is planar and has a name."""
    if tell_kind(file) not in ("parquet", "arrow"):
        return None
    points = find_points(read_schema(file, None))
    return points[2] if points else None


def is_text(file: Path) -> bool:
    """Whether values of a file are text that may stand for something else."""
    return tell_kind(file) == "csv" or bool(list_folders(file))


def count_rows(files: list[Path]) -> int:
    """Count the rows of Parquet files; 0 if one is of another kind, with no count."""
    if any(tell_kind(file) != "parquet" for file in files):
        return 0
    return sum(int(pq.read_metadata(file).num_rows) for file in files)


def read_batches(file: Path, names: list[str], delimiter: str | None) -> Iterator[dict[str, Any]]:
    """Yield some columns of a file of a log, as plain arrays; those of CSV are text."""
    try:
        schema = read_schema(file, delimiter)
        folders, points = list_folders(file), find_points(schema)
        own = [name for name in schema.names if name in names or _holds_field(name, names)]
        if points and set(points[1]) & set(names):
            own.append(points[0])
        for batch in read_own_batches(file, own, delimiter):
            num_rows = len(batch[own[0]])
            for name in names:
                if name not in batch and name in folders:
                    batch[name] = pa.array([folders[name]] * num_rows, pa.string())
            if points and points[0] in batch:
                batch |= dict(zip(points[1], take_points(batch.pop(points[0])), strict=True))
            table = _unfold(pa.table(batch)).combine_chunks()
            yield {name: plain(_only_chunk(table[name])) for name in names}
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file) from error


def _holds_field(name: str, names: list[str]) -> bool:
    """Whether a column is a struct of which some fields are asked for."""
    return any(other.startswith(f"{name}.") for other in names)


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
    """Decode what is encoded, and take all kinds of text as one type."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        array = pc.cast(array, array.type.value_type)
    kind = plain_type(array.type)
    return array if array.type == kind else pc.cast(array, kind)


def may_be_text(kind: Any) -> bool:
    """Whether values of a plain type are text, or bytes."""
    is_bytes = pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(is_bytes or pa.types.is_string(kind))


def to_text(values: Any) -> Any:
    """Take text as it is, and bytes as text as far as they are; no value is null."""
    if pa.types.is_string(values.type):
        return values
    texts = (value.decode(errors="replace").rstrip("\0") for value in values.to_pylist())
    return pa.array(texts, pa.string())


def settle(values: Any) -> Any:
    """Make all zeros of floats one value, and all NaNs; other types are left as they are."""
    kind = values.type
    if not pa.types.is_floating(kind):
        return values
    zero, nan = pa.scalar(0.0, kind), pa.scalar(float("nan"), kind)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))


def plain_type(kind: Any) -> Any:
    """Tell the type that :func:`plain` gives to an array of a type."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    if str(kind).startswith(("decimal32", "decimal64")):
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if pa.types.is_large_binary(kind) or str(kind) == "binary_view":
        return pa.binary()
    return kind


def _unreadable(file: Path) -> InputError:
    # Arrow's own message may quote a cell of the log, and so name a user.
    names = {"parquet": "Parquet", "csv": "CSV", "json": "JSON lines", "arrow": "Arrow"}
    kind = names[tell_kind(file) or "csv"]
    return InputError(
        f"{file}: cannot be read as {kind}; expected a complete {kind} file in UTF-8 "
        f"with the same number of columns in each row; make it anew"
    )
