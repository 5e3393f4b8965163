"""Networks by name or path: the embedded city, CSV files, Brinkhoff's binary files, GraphML."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from trajcloak.errors import InputError
from trajcloak.generator.city import build_city
from trajcloak.generator.graphml import read_graphml
from trajcloak.generator.network import (
    NUM_ROAD_CLASSES,
    Network,
    build_network,
    number_ends,
    project_nodes,
)

CITY = "city"
"""The name of the embedded city."""

_REMEDY = (
    "a .node or .edge file, a folder with nodes.csv and edges.csv, a .graphml file, or the word "
    f"'{CITY}'"
)

PLANAR_COLUMNS = (("x_m", "y_m"), ("x", "y"))
"""Names of planar coordinates, in order of preference."""

DEGREE_COLUMNS = ("lon", "lat")
"""Names of degrees, which are projected if the file has no planar coordinates."""

_NODE = struct.Struct(">qii")
_ENDS = struct.Struct(">qq")
_EDGE = struct.Struct(">qi")


def load_network(source: str | os.PathLike[str], junctions: int, crs: str | None = None) -> Network:
    """Build the embedded city, or read the network at a path.

    Parameters
    ----------
    source
        ``city``, or a path: a ``.node`` or ``.edge`` file, whose sibling is found
        beside it; a folder with ``nodes.csv`` and ``edges.csv``; a ``.graphml`` file.
    junctions
        About how many nodes the embedded city shall have.
    crs
        Coordinate system to project degrees to; default: around the network's middle.

    Raises
    ------
    InputError
        If there is no such file, or it breaks a rule of ``docs/data-model.md``.
    """
    if source == CITY:
        return build_city(junctions)
    path = Path(source)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; expected {_REMEDY}; check --network")
    if path.is_dir():
        return read_csv_network(path / "nodes.csv", path / "edges.csv", crs)
    if path.suffix in (".node", ".edge"):
        return read_brinkhoff_network(path.with_suffix(".node"), path.with_suffix(".edge"))
    if path.suffix == ".graphml":
        return read_graphml(path, crs)
    raise InputError(f"{path}: not a known kind of network; expected {_REMEDY}; check --network")


def read_csv_network(nodes: Path, edges: Path, crs: str | None = None) -> Network:
    """Read a network from a file of nodes and one of edges; degrees are projected to ``crs``.

    Raises
    ------
    InputError
        If a file is missing or breaks a rule of ``docs/data-model.md``.
    """
    node_table, edge_table = _read_table(nodes), _read_table(edges)
    x, y = _coordinates(nodes, node_table, crs)
    ends = number_ends(
        _texts(nodes, node_table, "node"),
        np.stack([_texts(edges, edge_table, name) for name in ("u", "v")], axis=1),
        node_place=lambda node: f"{nodes}: row {node + 1}",
        edge_place=lambda edge: f"{edges}: row {edge + 1}",
    )
    return build_network(
        x,
        y,
        ends,
        lengths=_lengths(edges, edge_table),
        classes=_classes(edges, edge_table),
    )


def _read_table(path: Path) -> Any:
    """Read a file with every column as text."""
    try:
        names = pa_csv.open_csv(path).schema.names
        types = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        table = pa_csv.read_csv(path, convert_options=types)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(
            f"{path}: {error}; expected a CSV file with a header line; "
            f"--network takes a folder with nodes.csv and edges.csv"
        ) from error
    if not table.num_rows:
        raise InputError(f"{path}: there are no rows; expected at least one")
    return table


def _texts(path: Path, table: Any, name: str) -> Any:
    """Return a column of ids as text."""
    if name not in table.column_names:
        found = ", ".join(table.column_names)
        raise InputError(f"{path}: no column '{name}' among {found}; rename the column of ids")
    return table[name].to_numpy().astype(np.str_)


def _numbers(path: Path, table: Any, name: str) -> Any:
    """Return a column as finite numbers."""
    texts = table[name]
    try:
        values = pc.cast(texts, pa.float64()).to_numpy()
    except pa.ArrowInvalid as error:
        row = next(row for row in range(len(texts)) if not _is_number(texts[row]))
        raise InputError(
            f"{path}: row {row + 1}: column '{name}' holds '{texts[row]}'; expected a finite "
            f"number; correct or remove the row"
        ) from error
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InputError(
            f"{path}: row {bad[0] + 1}: column '{name}' holds {values[bad[0]]}; expected a "
            f"finite number; correct or remove the row"
        )
    return values


def _is_number(text: Any) -> bool:
    try:
        pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _coordinates(path: Path, table: Any, crs: str | None) -> Any:
    """Return x and y: a planar pair as it is, otherwise degrees projected."""
    for pair in PLANAR_COLUMNS:
        if set(pair) <= set(table.column_names):
            return [_numbers(path, table, name) for name in pair]
    if set(DEGREE_COLUMNS) <= set(table.column_names):
        lon, lat = (_numbers(path, table, name) for name in DEGREE_COLUMNS)
        return project_nodes(lon, lat, crs, place=lambda node: f"{path}: row {node + 1}")
    found = ", ".join(table.column_names)
    raise InputError(
        f"{path}: no pair of coordinates among {found}; expected x_m,y_m or x,y or lon,lat; "
        f"rename the columns"
    )


def _lengths(path: Path, table: Any) -> Any:
    """Return the lengths of edges, if the file has them."""
    for name in ("length_m", "length"):
        if name in table.column_names:
            lengths = _numbers(path, table, name)
            _check_rows(path, name, lengths, lengths < 0, "a length of at least 0")
            return lengths
    return None


def _classes(path: Path, table: Any) -> Any:
    """Return the classes of edges: 0 where the file has none."""
    if "class" not in table.column_names:
        return 0
    classes = _numbers(path, table, "class")
    bad = (classes < 0) | (classes >= NUM_ROAD_CLASSES) | (classes != np.floor(classes))
    _check_rows(path, "class", classes, bad, f"a whole number from 0 to {NUM_ROAD_CLASSES - 1}")
    return classes


def _check_rows(path: Path, name: str, values: Any, is_bad: Any, expected: str) -> None:
    bad = np.flatnonzero(is_bad)
    if bad.size:
        raise InputError(
            f"{path}: row {bad[0] + 1}: column '{name}' holds {values[bad[0]]:g}; expected "
            f"{expected}; correct or remove the row"
        )


def read_brinkhoff_network(nodes: Path, edges: Path) -> Network:
    """Read a network in the binary form of Brinkhoff's generator.

    Numbers are big-endian. A record of a node: the length of its name (one byte), the
    name, its id (8 bytes), x and y (4 each). A record of an edge: the ids of its ends (8
    each), the length of its name, the name, its id (8), its class (4). Names differ in
    length, so records are found one by one.

    Coordinates are taken as they are, every edge leads both ways, and its length is
    the straight distance between its ends.

    Raises
    ------
    InputError
        If a file is missing or cut short, or breaks a rule of ``docs/data-model.md``.
    """
    ids, x, y = _record_columns(nodes, _node_records(nodes, _read_bytes(nodes)))
    first, second, classes = _record_columns(edges, _edge_records(edges, _read_bytes(edges)))
    bad = np.flatnonzero((classes < 0) | (classes >= NUM_ROAD_CLASSES))
    if bad.size:
        raise InputError(
            f"{edges}: record {bad[0] + 1} has the road class {classes[bad[0]]}; expected 0 to "
            f"{NUM_ROAD_CLASSES - 1}; is this an .edge file?"
        )
    ends = number_ends(
        ids,
        np.stack([first, second], axis=1),
        node_place=lambda node: f"{nodes}: record {node + 1}",
        edge_place=lambda edge: f"{edges}: record {edge + 1}",
    )
    return build_network(x, y, ends, classes=classes)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; expected a .node and an .edge file of one name side by "
            f"side; check --network"
        ) from error


def _record_columns(path: Path, records: Iterator[tuple[int, ...]]) -> Any:
    """Turn records of three numbers into columns."""
    rows = np.array(list(records), np.int64).reshape(-1, 3)
    if not rows.size:
        raise InputError(f"{path}: the file is empty; expected at least one record")
    return rows.T


def _node_records(path: Path, content: bytes) -> Iterator[tuple[int, ...]]:
    """Yield id, x and y of each node."""
    place, number = 0, 0
    while place < len(content):
        number += 1
        place += 1 + content[place]
        yield _unpack(_NODE, path, content, place, number)
        place += _NODE.size


def _edge_records(path: Path, content: bytes) -> Iterator[tuple[int, ...]]:
    """Yield the ids of the ends and the class of each edge."""
    place, number = 0, 0
    while place < len(content):
        number += 1
        ends = _unpack(_ENDS, path, content, place, number)
        place += _ENDS.size
        place += 1 + (content[place] if place < len(content) else 0)
        _, road_class = _unpack(_EDGE, path, content, place, number)
        place += _EDGE.size
        yield *ends, road_class


def _unpack(
    form: struct.Struct, path: Path, content: bytes, place: int, number: int
) -> tuple[int, ...]:
    if place + form.size > len(content):
        raise InputError(
            f"{path}: record {number} is cut short at byte {len(content)}; expected whole "
            f"records as of Brinkhoff's generator; get the file anew"
        )
    return form.unpack_from(content, place)
