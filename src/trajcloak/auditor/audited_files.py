"""The files of a log, of all kinds, read batch by batch."""

import bz2
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pyproj

from trajcloak.auditor.audited_values import decode_array
from trajcloak.errors import InputError

ROWS_PER_BATCH = 1 << 20
BYTES_PER_BLOCK = 1 << 25
_SUFFIXES = {
    "csv": (".csv", ".tsv"),
    "json": (".jsonl", ".ndjson"),
    "parquet": (".parquet",),
    "arrow": (".arrow", ".feather"),
}
_PACKED = (".gz", ".bz2", ".zst")

LogPaths = str | Path | Sequence[str | Path]


def _find_file_kind(file: Path) -> str | None:
    """Find the kind of a file by its name; None if it is not known."""
    name = file.name.lower()
    for packed in _PACKED:
        if name.endswith(packed):
            inner = name.removesuffix(packed)
            return next((k for k in ("csv", "json") if inner.endswith(_SUFFIXES[k])), None)
    return next((kind for kind, ends in _SUFFIXES.items() if name.endswith(ends)), None)


def _open_bytes(file: Path) -> Any:
    """Open a text file, decompressing it if necessary."""
    if file.name.lower().endswith(".gz"):
        return gzip.open(file, "rb")
    if file.name.lower().endswith(".bz2"):
        return bz2.open(file, "rb")
    if file.name.lower().endswith(".zst"):
        return io.BytesIO(pa.CompressedInputStream(pa.OSFile(str(file)), "zstd").read())
    return file.open("rb")


def _read_log_schema(file: Path, delimiter: str | None) -> Any:
    """Read names and types of the columns inside a file, without those of its folders."""
    kind = _find_file_kind(file)
    if kind == "parquet":
        return pq.read_schema(file)
    if kind == "arrow":
        return _read_arrow(file).schema
    if kind == "json":
        records = list(_read_records(file))
        names = dict.fromkeys(name for record in records for name in record)
        return pa.schema([(name, _take_values(records, name).type) for name in names])
    options = pa_csv.ParseOptions(delimiter=delimiter or _guess_delimiter(file))
    with _open_bytes(file) as stream, pa_csv.open_csv(stream, None, options) as reader:
        return reader.schema


def _guess_delimiter(file: Path) -> str:
    """Choose the delimiter that occurs most often in the header line, outside of quotes."""
    with _open_bytes(file) as stream:
        line = stream.readline().decode("utf-8", "replace")
    quoted, counts = False, dict.fromkeys(",;\t|", 0)
    for sign in line:
        quoted ^= sign == '"'
        if not quoted and sign in counts:
            counts[sign] += 1
    return max(counts, key=lambda sign: counts[sign])


def _read_own_batches(
    file: Path, names: list[str], delimiter: str | None
) -> Iterator[dict[str, Any]]:
    """Yield some columns inside a file; those of CSV are text."""
    kind = _find_file_kind(file)
    if kind == "parquet":
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(ROWS_PER_BATCH, columns=names):
                yield {name: batch.column(name) for name in names}
    elif kind == "arrow":
        for batch in _read_arrow(file).select(names).to_batches(ROWS_PER_BATCH):
            yield {name: batch.column(name) for name in names}
    elif kind == "json":
        records = list(_read_records(file))
        yield {name: _take_values(records, name) for name in names}
    else:
        yield from _read_csv(file, names, delimiter or _guess_delimiter(file))


def _read_csv(file: Path, names: list[str], delimiter: str) -> Iterator[dict[str, Any]]:
    # The types are decided over the whole log, so nothing is guessed block by block.
    options = pa_csv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        include_columns=names,
        null_values=[""],
        strings_can_be_null=True,
    )
    read_options = pa_csv.ReadOptions(block_size=BYTES_PER_BLOCK)
    parse_options = pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    with (
        _open_bytes(file) as stream,
        pa_csv.open_csv(stream, read_options, parse_options, options) as reader,
    ):
        for batch in reader:
            yield {name: batch.column(name) for name in names}


def _read_arrow(file: Path) -> Any:
    with pa.OSFile(str(file)) as source:
        if source.read(6) == b"ARROW1":
            source.seek(0)
            return pa.ipc.open_file(source).read_all()
        source.seek(0)
        return pa.ipc.open_stream(source).read_all()


def _read_records(file: Path) -> Iterator[dict[str, Any]]:
    with _open_bytes(file) as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                try:
                    record = json.loads(line)
                except ValueError:
                    record = None
                if not isinstance(record, dict):
                    raise InputError(
                        f"{file}: line {number} is no JSON object; expected one on each line; "
                        f"correct it"
                    )
                yield record


def _take_values(records: list[dict[str, Any]], name: str) -> Any:
    """Take a field of all objects; null if its values have no type in common."""
    values = [record.get(name) for record in records]
    if any(isinstance(value, float) for value in values):
        # Whole numbers among others may be beyond those that Arrow takes for them.
        values = [float(value) if type(value) is int else value for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.nulls(len(records))


def _list_folder_columns(file: Path) -> dict[str, str]:
    """List the columns that are named by folders, such as ``day=3``."""
    named = {}
    for folder in file.parts[:-1]:
        name, sign, value = folder.partition("=")
        if name and sign:
            named[name] = value
    return named


def _find_points(schema: Any) -> tuple[str, list[str], str | None] | None:
    """Find a column of points where there are no coordinates: its name, theirs, the system."""
    if {"x", "y"} <= set(schema.names) or {"lon", "lat"} <= set(schema.names):
        return None
    try:
        geo = json.loads((schema.metadata or {}).get(b"geo", b"{}"))
        name = geo.get("primary_column", "geometry")
        system = geo.get("columns", {}).get(name, {}).get("crs")
        crs = pyproj.CRS.from_json_dict(system) if isinstance(system, dict) else None
    except (ValueError, AttributeError, pyproj.exceptions.CRSError):
        return None
    if name not in schema.names or pa.types.is_null(schema.field(name).type):
        return None
    if crs is None or crs.is_geographic:
        return name, ["lon", "lat"], None
    authority = crs.to_authority()
    return name, ["x", "y"], f"{authority[0]}:{authority[1]}" if authority else None


def _take_point_coordinates(column: Any) -> list[Any]:
    """Split points into x and y; null where there is none."""
    values = [None if value is None else _take_point(value) for value in column.to_pylist()]
    return [
        pa.array([None if value is None else value[axis] for value in values], pa.float64())
        for axis in (0, 1)
    ]


def _take_point(value: Any) -> tuple[float, float]:
    if isinstance(value, dict):
        return value["x"], value["y"]
    if len(value) != 21 or value[:5] != bytes([1, 1, 0, 0, 0]):
        raise InputError("the log has geometries that are no points; expected points; convert them")
    x, y = np.frombuffer(value[5:], "<f8").tolist()
    return x, y


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
        if _find_file_kind(file) is None:
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
            if _find_file_kind(file) is not None
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
        schema = _read_log_schema(file, delimiter)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file) from error
    names = list(_unfold(schema.empty_table()).column_names)
    names += [name for name in _list_folder_columns(file) if name not in names]
    points = _find_points(schema)
    if points is None:
        return names
    # The points themselves are where users were, and no attribute.
    own = [n for n in names if n != points[0] and not n.startswith(f"{points[0]}.")]
    return own + points[1]


def find_points_crs(file: Path) -> str | None:
    """Find the coordinate system of a file of points, if it is planar and has a name."""
    if _find_file_kind(file) not in ("parquet", "arrow"):
        return None
    points = _find_points(_read_log_schema(file, None))
    return points[2] if points else None


def holds_text(file: Path) -> bool:
    """Whether values of a file are text whose type the whole log decides."""
    return _find_file_kind(file) == "csv" or bool(_list_folder_columns(file))


def count_parquet_rows(files: list[Path]) -> int:
    """Count the rows of Parquet files; 0 if one is of another kind, with no count."""
    if any(_find_file_kind(file) != "parquet" for file in files):
        return 0
    return sum(int(pq.read_metadata(file).num_rows) for file in files)


def read_batches(file: Path, names: list[str], delimiter: str | None) -> Iterator[dict[str, Any]]:
    """Yield some columns of a file of a log, as plain arrays; those of CSV are text."""
    try:
        schema = _read_log_schema(file, delimiter)
        folders, points = _list_folder_columns(file), _find_points(schema)
        own = [name for name in schema.names if name in names or _holds_field(name, names)]
        if points and set(points[1]) & set(names):
            own.append(points[0])
        for batch in _read_own_batches(file, own, delimiter):
            num_rows = len(batch[own[0]])
            for name in names:
                if name not in batch and name in folders:
                    batch[name] = pa.array([folders[name]] * num_rows, pa.string())
            if points and points[0] in batch:
                batch |= dict(
                    zip(points[1], _take_point_coordinates(batch.pop(points[0])), strict=True)
                )
            table = _unfold(pa.table(batch)).combine_chunks()
            yield {name: decode_array(_only_chunk(table[name])) for name in names}
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


def _unreadable(file: Path) -> InputError:
    # Arrow's own message may quote a cell of the log, and so name a user.
    names = {"parquet": "Parquet", "csv": "CSV", "json": "JSON lines", "arrow": "Arrow"}
    kind = names[_find_file_kind(file) or "csv"]
    return InputError(
        f"{file}: cannot be read as {kind}; expected a complete {kind} file in UTF-8 "
        f"with the same number of columns in each row; make it anew"
    )
