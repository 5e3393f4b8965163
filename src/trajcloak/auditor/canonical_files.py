"""The files of a release, byte for byte, from tables that were computed again.

What is encoded here comes from the log, the policy and the checked parameters, never from the
files that are judged. So a file with the same bytes holds nothing else: not in footers,
statistics, dictionaries or orders. The encoder is that of the product; see
``docs/architecture.md`` for why that is right.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyproj

from trajcloak.auditor.audited_columns import get_value_type, read_parquet
from trajcloak.auditor.expected_bundles import ExpectedBundles
from trajcloak.auditor.expected_requests import ShownEntries
from trajcloak.auditor.findings import find_rows
from trajcloak.release.row_groups import ROWS_PER_GROUP, encode_row_group, join_row_groups

BUNDLES, MANIFEST, REQUESTS = "bundles.parquet", "manifest.json", "requests.parquet"
KEYS = [("window", pa.int32()), ("bundle_id", pa.int64()), ("instant", pa.int32())]
EDGES = ("x_min", "y_min", "x_max", "y_max")
WKB_POLYGON = np.dtype(
    [("byte_order", "u1"), ("kind", "<u4"), ("rings", "<u4"), ("points", "<u4"), ("xy", "<f8", 10)]
)
CORNERS = (0, 1, 2, 1, 2, 3, 0, 3, 0, 1)
"""Columns of a rectangle in the order of its corners, counter-clockwise and closed."""


@dataclass(frozen=True)
class ExpectedTables:
    """All that the files of a release hold.

    ``cloaks`` are the rectangles of the rows of ``bundles.parquet``, in cells. ``entries`` are the
    rows of ``requests.parquet``, whose ``kind`` is a row of ``kinds``, the distinct requests.
    """

    manifest: dict[str, Any]
    bundles: ExpectedBundles
    cloaks: Any
    entries: ShownEntries
    kinds: Any

    @property
    def bundles_schema(self) -> Any:
        """Names and types of ``bundles.parquet``, with its GeoParquet metadata."""
        log = self.bundles.log
        moment = pa.timestamp("us", "UTC" if log.zoned else None)
        crs = self.manifest["crs"]
        low, high = self.cloaks[:, :2].min(axis=0), self.cloaks[:, 2:].max(axis=0)
        column = {
            "encoding": "WKB",
            "geometry_types": ["Polygon"],
            "crs": None if crs is None else pyproj.CRS(crs).to_json_dict(),
            "bbox": self.bundles.cells.edges(np.concatenate([low, high])).tolist(),
        }
        geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}
        return pa.schema(
            [
                *KEYS,
                *([("part", pa.int32())] if self.bundles.members.parts else []),
                *([("t_start", moment), ("t_end", moment)] if log.stamped else []),
                *((name, pa.float64()) for name in EDGES),
                ("users", pa.int32()),
                ("geometry", pa.binary()),
            ],
            metadata={"geo": json.dumps(geo, sort_keys=True)},
        )

    @property
    def is_all_text(self) -> bool:
        """Whether all request attributes are text, which is written as dictionaries."""
        return all(kind == pa.string() for kind in self.kinds.schema.types)

    def build_bundles(self) -> Iterator[Any]:
        """Build the rows of ``bundles.parquet``, a row group at a time."""
        schema, bundles = self.bundles_schema, self.bundles
        grid, members = bundles.grid, bundles.members
        for start in range(0, len(self.cloaks), ROWS_PER_GROUP):
            row = np.arange(start, min(start + ROWS_PER_GROUP, len(self.cloaks)))
            of_set = np.searchsorted(bundles.first_row, row, side="right") - 1
            bundle = np.searchsorted(bundles.first_set, of_set, side="right") - 1
            window = members.window[bundle]
            instant = grid.starts[window] + of_set - bundles.first_set[bundle]
            part = [row - bundles.first_row[of_set]] if members.parts else []
            edges = bundles.cells.edges(self.cloaks[row])
            moments = []
            if bundles.log.stamped:
                moment = grid.origin + instant * grid.every
                moments = [moment, moment + grid.every]
            keys = [window, bundle, instant, *part, *moments]
            yield _build_batch(schema, [*keys, *edges.T, bundles.sizes[row], _draw(edges)])

    def build_requests(self) -> Iterator[Any]:
        """Build the rows of ``requests.parquet``, a row group at a time; at least one, if empty."""
        entries, values = self.entries, [c.combine_chunks() for c in self.kinds.columns]
        if self.is_all_text:
            values = [v.cast(pa.dictionary(pa.int32(), pa.string())) for v in values]
        types = zip(self.kinds.column_names, [v.type for v in values], strict=True)
        schema = pa.schema([*KEYS, *types])
        for start in range(0, max(len(entries.kind), 1), ROWS_PER_GROUP):
            rows = slice(start, start + ROWS_PER_GROUP)
            bundle, window = entries.bundle[rows], entries.window[rows]
            within = entries.of_set[rows] - self.bundles.first_set[bundle]
            instant = self.bundles.grid.starts[window] + within
            kind = pa.array(entries.kind[rows])
            yield _build_batch(schema, [window, bundle, instant, *(v.take(kind) for v in values)])

    def write(self, name: str, stream: BinaryIO) -> None:
        """Write a file in the canonical encoding."""
        if name == MANIFEST:
            text = json.dumps(self.manifest, indent=2, sort_keys=True, ensure_ascii=False)
            stream.write(f"{text}\n".encode())
            return
        batches = self.build_bundles() if name == BUNDLES else self.build_requests()
        stores_schema = name == BUNDLES or not self.is_all_text
        groups = (encode_row_group(batch, store_schema=stores_schema) for batch in batches)
        join_row_groups(groups, stream)


def _build_batch(schema: Any, columns: list[Any]) -> Any:
    arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def _draw(edges: Any) -> Any:
    """Encode rectangles as WKB polygons."""
    polygons = np.zeros(len(edges), dtype=WKB_POLYGON)
    polygons["byte_order"], polygons["kind"] = 1, 3
    polygons["rings"], polygons["points"] = 1, 5
    polygons["xy"] = edges[:, CORNERS]
    offsets = np.arange(len(edges) + 1, dtype=np.int32) * WKB_POLYGON.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(polygons.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(edges), buffers)


class _Comparison:
    """A stream that compares what is written to it with a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.is_same = True

    def write(self, data: Any) -> int:
        size = len(memoryview(data))
        self.is_same = self.is_same and self._file.read(size) == bytes(data)
        return size


def has_same_bytes(path: Path, tables: ExpectedTables) -> bool:
    """Whether a file of a release is the canonical encoding of the expected table."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            comparison = _Comparison(file)
            tables.write(path.name, comparison)  # type: ignore[arg-type]
            return comparison.is_same and not file.read(1)
    except OSError:
        return False


def explain_difference(path: Path, tables: ExpectedTables) -> list[str]:
    """Say how the values of a Parquet file differ from the expected ones, if they do."""
    table = read_parquet(path)
    if table is None:
        return [f"{path.name} cannot be read as Parquet"]
    expected = pa.Table.from_batches(
        tables.build_bundles() if path.name == BUNDLES else tables.build_requests()
    )
    schema = expected.schema
    if table.column_names != schema.names:
        return [f"{path.name} does not have the expected columns"]
    problems = [
        f"column '{field.name}' of {path.name} is not of type {get_value_type(field)}"
        for field, found in zip(schema, table.schema, strict=True)
        if get_value_type(found) != get_value_type(field)
    ]
    if table.num_rows != expected.num_rows:
        problems.append(f"{path.name} has {table.num_rows:,} rows; expected {expected.num_rows:,}")
    if problems:
        return problems
    for name in schema.names:
        wrong = _find_differing(table[name], expected[name])
        problems += find_rows(wrong, f"'{name}' of {path.name} is not what it must be")
    return problems


def _find_differing(found: Any, expected: Any) -> Any:
    """Find the rows in which two columns differ."""
    plain = get_value_type(expected)
    one, other = (column.cast(plain).combine_chunks() for column in (found, expected))
    # Distinct values get distinct numbers; floats are told apart by their bits.
    if pa.types.is_floating(plain):
        bits = pa.int64() if plain == pa.float64() else pa.int32()
        one, other = one.view(bits), other.view(bits)
    both = pa.concat_arrays([one, other]).dictionary_encode()
    code = both.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return code[: len(one)] != code[len(one) :]
