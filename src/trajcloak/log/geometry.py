"""Coordinate systems of logs, and points in a geometry column, as in GeoParquet."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import OptionError
from trajcloak.given_values import parse_crs
from trajcloak.log.bad_rows import BadRows, Trouble
from trajcloak.options import WGS84

DEGREES = 180.0, 90.0
"""Greatest longitude and latitude."""

POINT_BYTES = 21
LITTLE_ENDIAN_POINT = b"\x01\x01\x00\x00\x00"
HEAD_BYTES = len(LITTLE_ENDIAN_POINT)
DEFAULT_NAME = "geometry"
WGS84_NAMES = (WGS84, "EPSG:4326")


class PointColumn(NamedTuple):
    """The column of a table that holds points."""

    name: str
    # What its coordinates are called: ``lon`` and ``lat``, or ``x`` and ``y``.
    axes: tuple[str, str]
    crs: str | None  # Their system; None if that is WGS 84, or has no name.
    has_system: bool = True  # False if the table says that the system is not known.


def find_geometry(schema: pa.Schema) -> PointColumn | None:
    """Find the column of points of a table, as GeoParquet and GeoArrow describe it.

    Returns None if there is none. A column of points without metadata holds longitude and
    latitude; columns ``lon``, ``lat`` or ``x``, ``y`` are used instead if there are any.
    """
    name = name_points(schema)
    if name is None:
        return None
    columns = _read_object(schema.metadata, b"geo").get("columns")
    said = columns.get(name) if isinstance(columns, dict) else None
    if not isinstance(said, dict):
        said = _read_extension(schema.field(name))
    if said is None:
        names = set(schema.names)
        has_others = {"lon", "lat"} <= names or {"x", "y"} <= names
        return None if has_others else PointColumn(name, ("lon", "lat"), None)
    # GeoParquet: WGS 84 if nothing is said, not known if it is null.
    system = said.get("crs", WGS84)
    crs = None if system is None else parse_crs(system)
    if crs is None:
        return PointColumn(name, ("x", "y"), None, has_system=False)
    authority = crs.to_authority()
    named = ":".join(authority) if authority else None
    if crs.is_geographic:
        return PointColumn(name, ("lon", "lat"), None if named in WGS84_NAMES else named)
    return PointColumn(name, ("x", "y"), named)


def _read_extension(field: pa.Field) -> dict[str, Any] | None:
    """Read what GeoArrow says about a column; None if it is none of GeoArrow's.

    Unlike in GeoParquet, a system that is left out is not known.
    """
    if not (field.metadata or {}).get(b"ARROW:extension:name", b"").startswith(b"geoarrow."):
        return None
    return {"crs": _read_object(field.metadata, b"ARROW:extension:metadata").get("crs")}


def name_points(schema: pa.Schema) -> str | None:
    """Name the geometry column of a file, whether its coordinates are used or not."""
    described = [field.name for field in schema if _read_extension(field) is not None]
    # A frame may have several columns of points; the one that is in use has the usual name.
    usual = described[0] if len(described) == 1 else DEFAULT_NAME
    name = _read_object(schema.metadata, b"geo").get("primary_column", usual)
    if schema.names.count(name) != 1 or not _may_hold_points(schema.field(name).type):
        return None
    return str(name)


def _read_object(metadata: Mapping[bytes, bytes] | None, key: bytes) -> dict[str, Any]:
    """Read a JSON object of the metadata; it is empty if there is none, or it is damaged."""
    try:
        found = json.loads((metadata or {}).get(key, b""))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _may_hold_points(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return {"x", "y"} <= {field.name for field in type_}
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_))


def split_points(column: pa.Array, rows_before: int, bad: BadRows) -> tuple[pa.Array, pa.Array]:
    """Split points into two columns of coordinates; null where there is no point.

    Other geometries are noted in ``bad``. ``rows_before``: rows of the log before the first.
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_struct(column.type):
        x, y = (pc.struct_field(column, name) for name in ("x", "y"))
        return x, y
    given = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    fits = pc.equal(pc.binary_length(column), POINT_BYTES).fill_null(False)
    rows = np.flatnonzero(fits.to_numpy(zero_copy_only=False))
    _, data = column.filter(fits).cast(pa.binary(POINT_BYTES)).buffers()
    points = np.frombuffer(data, np.uint8).reshape(-1, POINT_BYTES)
    is_point = (points[:, :HEAD_BYTES] == np.frombuffer(LITTLE_ENDIAN_POINT, np.uint8)).all(1)
    rows, points = rows[is_point], points[is_point]
    if len(rows) < len(given):
        trouble = Trouble(
            "the geometry is no point",
            "points as little-endian WKB with two coordinates",
            "convert it",
        )
        bad.add_unreadable(trouble, np.setdiff1d(given, rows) + rows_before)
    coordinates = np.full((len(column), 2), np.nan)
    coordinates[rows] = np.ascontiguousarray(points[:, HEAD_BYTES:]).view("<f8")
    is_empty = np.ones(len(column), np.bool_)
    is_empty[rows] = False
    return tuple(pa.array(coordinates[:, axis].copy(), mask=is_empty) for axis in (0, 1))


def choose_system(given: str | None, *, geographic: bool) -> tuple[str | None, bool]:
    """Choose the coordinate system of a log.

    ``geographic``: whether the names of its columns suggest degrees. Returns the system, None
    if it is not known, and whether it has degrees.
    """
    if given is None:
        return (WGS84, True) if geographic else (None, False)
    crs = parse_crs(given)
    if crs is not None and crs.is_geographic and len(crs.axis_info) == 2:
        return given, True
    in_metres = crs is not None and all(axis.unit_name == "metre" for axis in crs.axis_info)
    if crs is None or not (crs.is_projected and in_metres):
        raise OptionError(
            f"crs is '{given}'; expected a coordinate system of degrees, or a projected one in "
            f"metres, such as EPSG:4326 or EPSG:27700; pass another --crs, or convert the places"
        )
    return given, False
