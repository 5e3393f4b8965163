"""Points in a geometry column, as GeoParquet has them."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyproj

from trajcloak.errors import InputError

POINT_BYTES = 21
LITTLE_ENDIAN_POINT = b"\x01\x01\x00\x00\x00"
DEFAULT_NAME = "geometry"


def find_geometry(schema: pa.Schema) -> tuple[str, tuple[str, str], str | None] | None:
    """Find the geometry column of a file; its coordinates, and its system if that is planar.

    Returns None if there is none, or coordinates stand in columns of their own.
    """
    names = set(schema.names)
    if {"lon", "lat"} <= names or {"x", "y"} <= names:
        return None
    name = name_points(schema)
    if name is None:
        return None
    geo = _read_metadata(schema.metadata or {})
    system = geo.get("columns", {}).get(name, {}).get("crs")
    if not isinstance(system, dict):
        return name, ("lon", "lat"), None
    try:
        crs = pyproj.CRS.from_json_dict(system)
    except pyproj.exceptions.CRSError:
        return None
    authority = crs.to_authority()
    if crs.is_geographic:
        return name, ("lon", "lat"), None
    return name, ("x", "y"), ":".join(authority) if authority else None


def name_points(schema: pa.Schema) -> str | None:
    """Name the geometry column of a file, whether its coordinates are used or not."""
    name = _read_metadata(schema.metadata or {}).get("primary_column", DEFAULT_NAME)
    if schema.names.count(name) != 1 or not _may_hold_points(schema.field(name).type):
        return None
    return str(name)


def _read_metadata(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    try:
        geo = json.loads(metadata.get(b"geo", b"{}"))
    except ValueError:
        return {}
    return geo if isinstance(geo, dict) else {}


def _may_hold_points(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return {"x", "y"} <= {field.name for field in type_}
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_))


def split_points(column: pa.Array, first_row: int) -> tuple[pa.Array, pa.Array]:
    """Split points into two columns of coordinates; null where there is no point.

    Raises
    ------
    InputError
        If a value is no point; rows are counted from ``first_row`` (from 0).
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_struct(column.type):
        x, y = (column.field(name) for name in ("x", "y"))
        mask = column.is_null().to_numpy(zero_copy_only=False)
        return tuple(pa.array(part.to_numpy(zero_copy_only=False), mask=mask) for part in (x, y))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.drop_null().to_pylist()
    for position, value in zip(np.flatnonzero(valid), values, strict=True):
        if len(value) != POINT_BYTES or not value.startswith(LITTLE_ENDIAN_POINT):
            raise InputError(
                f"row {first_row + int(position) + 1}: the geometry is no point; expected points "
                f"as little-endian WKB with two coordinates; convert it"
            )
    points = np.frombuffer(b"".join(values), np.uint8).reshape(-1, POINT_BYTES)[:, 5:]
    coordinates = np.full((len(column), 2), np.nan)
    coordinates[valid] = np.ascontiguousarray(points).view("<f8")
    return tuple(pa.array(coordinates[:, axis].copy(), mask=~valid) for axis in (0, 1))
