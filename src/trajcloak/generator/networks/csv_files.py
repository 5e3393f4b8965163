"""Networks as two CSV files: nodes and edges."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from trajcloak.errors import InputError
from trajcloak.generator.network import NUM_ROAD_CLASSES, Network, build_network
from trajcloak.generator.networks.node_ids import number_ends
from trajcloak.generator.networks.project import project

PLANAR_COLUMNS = (("x_m", "y_m"), ("x", "y"))
"""Names of planar coordinates, in order of preference."""

DEGREE_COLUMNS = ("lon", "lat")
"""Names of degrees, which are projected where no planar pair is there."""


def read_csv_files(nodes: Path, edges: Path, crs: str | None = None) -> Network:
    """Read a network from a file of nodes and one of edges; degrees are projected to ``crs``.

    Raises
    ------
    InputError
        If a file is missing or breaks a rule of ``docs/data-model.md``.
    """
    node_table, edge_table = _read(nodes), _read(edges)
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


def _read(path: Path) -> Any:
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
        return project(lon, lat, crs, place=lambda node: f"{path}: row {node + 1}")
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
