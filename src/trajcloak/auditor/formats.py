"""Files of logs of all kinds, as batches of plain columns."""

import bz2
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pyproj

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


def tell_kind(file: Path) -> str | None:
    """Tell from the name of a file what it holds; None if nothing that is known."""
    name = file.name.lower()
    for packed in _PACKED:
        if name.endswith(packed):
            inner = name.removesuffix(packed)
            return next((k for k in ("csv", "json") if inner.endswith(_SUFFIXES[k])), None)
    return next((kind for kind, ends in _SUFFIXES.items() if name.endswith(ends)), None)


def open_bytes(file: Path) -> Any:
    """Open a file of text, unpacked."""
    if file.name.lower().endswith(".gz"):
        return gzip.open(file, "rb")
    if file.name.lower().endswith(".bz2"):
        return bz2.open(file, "rb")
    if file.name.lower().endswith(".zst"):
        return io.BytesIO(pa.CompressedInputStream(pa.OSFile(str(file)), "zstd").read())
    return file.open("rb")


def read_schema(file: Path, delimiter: str | None) -> Any:
    """Read names and types of the columns that stand in a file itself."""
    kind = tell_kind(file)
    if kind == "parquet":
        return pq.read_schema(file)
    if kind == "arrow":
        return _read_arrow(file).schema
    if kind == "json":
        records = list(_read_records(file))
        names = dict.fromkeys(name for record in records for name in record)
        return pa.schema([(name, _take_values(records, name).type) for name in names])
    options = pa_csv.ParseOptions(delimiter=delimiter or guess_delimiter(file))
    with open_bytes(file) as stream, pa_csv.open_csv(stream, None, options) as reader:
        return reader.schema


def guess_delimiter(file: Path) -> str:
    """Take the sign that stands most often in the header line, outside of quotes."""
    with open_bytes(file) as stream:
        line = stream.readline().decode("utf-8", "replace")
    quoted, counts = False, dict.fromkeys(",;\t|", 0)
    for sign in line:
        quoted ^= sign == '"'
        if not quoted and sign in counts:
            counts[sign] += 1
    return max(counts, key=lambda sign: counts[sign])


def read_own_batches(
    file: Path, names: list[str], delimiter: str | None
) -> Iterator[dict[str, Any]]:
    """Yield some columns that stand in a file; those of CSV are text."""
    kind = tell_kind(file)
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
        yield from _read_csv(file, names, delimiter or guess_delimiter(file))


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
        open_bytes(file) as stream,
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
    with open_bytes(file) as stream:
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


def list_folders(file: Path) -> dict[str, str]:
    """List the columns that the folders of a file stand for."""
    named = {}
    for folder in file.parts[:-1]:
        name, sign, value = folder.partition("=")
        if name and sign:
            named[name] = value
    return named


def find_points(schema: Any) -> tuple[str, list[str], str | None] | None:
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


def take_points(column: Any) -> list[Any]:
    """Take points apart: x and y; null where there is none."""
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
