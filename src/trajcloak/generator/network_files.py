"""Networks by name or path: the embedded city, CSV files, Brinkhoff's binary files, GraphML."""

import os
import re
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyproj
from numpy.typing import NDArray

from trajcloak.errors import InputError
from trajcloak.generator.city import build_city
from trajcloak.generator.network import (
    NUM_ROAD_CLASSES,
    Network,
    build_network,
    number_ends,
    project_nodes,
)
from trajcloak.log.csv_text import find_unreadable
from trajcloak.xml_files import XmlFile

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

HIGHWAY_CLASSES = {
    "motorway": 0,
    "trunk": 1,
    "primary": 2,
    "secondary": 3,
    "tertiary": 4,
    "unclassified": 5,
    "residential": 5,
    "living_street": 6,
    "service": 7,
}
"""The class of a road by its OpenStreetMap tag; a link has the class of its road."""

OTHER_CLASS = 6
"""The class of a road with another tag or none."""

CHUNK_BYTES = 1 << 18
_FIRST_WORD = re.compile("[a-z_]+")


def load_network(source: str | os.PathLike[str], junctions: int, crs: str | None = None) -> Network:
    """Build the embedded city with about so many junctions, or read the network at a path.

    ``crs`` is the coordinate system to project degrees to; default: around the network's middle.
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
    """Read a network from a file of nodes and one of edges; degrees are projected to ``crs``."""
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


def _numbers(
    path: Path,
    table: Any,
    name: str,
    expected: str = "a finite number",
    is_good: Callable[[Any], Any] = np.isfinite,
) -> Any:
    """Return a column as numbers, all of which are as expected."""
    texts = table[name].combine_chunks()
    bad = find_unreadable(texts, pc.CastOptions(pa.float64()))
    if not bad.size:
        values = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
        bad = np.flatnonzero(~is_good(values))
    if bad.size:
        raise InputError(
            f"{path}: row {bad[0] + 1}: column '{name}' holds '{texts[int(bad[0])]}'; expected "
            f"{expected}; correct or remove the row"
        )
    return values


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
            expected = "a length of at least 0"
            return _numbers(path, table, name, expected, lambda v: (v >= 0) & np.isfinite(v))
    return None


def _classes(path: Path, table: Any) -> Any:
    """Return the classes of edges: 0 where the file has none."""
    if "class" not in table.column_names:
        return 0
    expected = f"a whole number from 0 to {NUM_ROAD_CLASSES - 1}"
    return _numbers(path, table, "class", expected, lambda v: np.isin(v, range(NUM_ROAD_CLASSES)))


def read_brinkhoff_network(nodes: Path, edges: Path) -> Network:
    """Read a network in the binary form of Brinkhoff's generator.

    Numbers are big-endian. A record of a node: the length of its name (one byte), the
    name, its id (8 bytes), x and y (4 each). A record of an edge: the ids of its ends (8
    each), the length of its name, the name, its id (8), its class (4). Names differ in
    length, so records are found one by one.

    Coordinates are taken as they are, every edge leads both ways, and its length is
    the straight distance between its ends.
    """
    ids, x, y = _read_records(nodes, struct.Struct(">"), struct.Struct(">qii"))
    first, second, _, classes = _read_records(edges, struct.Struct(">qq"), struct.Struct(">qi"))
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


def _read_records(path: Path, head: struct.Struct, tail: struct.Struct) -> NDArray[np.int64]:
    """Read the columns of records of which each has numbers before and after its name."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; expected a .node and an .edge file of one name side by "
            f"side; check --network"
        ) from error
    records = []
    place = 0
    try:
        while place < len(content):
            before = head.unpack_from(content, place)
            name = place + head.size
            after = name + 1 + content[name]
            records.append(before + tail.unpack_from(content, after))
            place = after + tail.size
    except (struct.error, IndexError) as error:
        raise InputError(
            f"{path}: record {len(records) + 1} is cut short at byte {len(content)}; expected "
            f"whole records as of Brinkhoff's generator; fetch the file again"
        ) from error
    if not records:
        raise InputError(f"{path}: the file is empty; expected at least one record")
    return np.array(records, np.int64).T


class _Item(NamedTuple):
    """A node or an edge that is being read: its XML attributes and its data by name."""

    kind: str
    attributes: dict[str, str]
    line: int
    data: dict[str, str]


class _GraphmlFile(XmlFile):
    """Collects nodes and edges while the file streams by."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.crs = ""
        self.is_directed = True
        # Id, x, y, line.
        self.nodes: list[tuple[str, float, float, int]] = []
        # The ids of both ends, length, class, whether it is one-way, line.
        self.edges: list[tuple[str, str, float, int, bool, int]] = []
        self._names: dict[str, str] = {}
        self._item: _Item | None = None
        self._key = ""
        self._text: list[str] = []
        self.parser.CharacterDataHandler = self._text.append

    def start(self, name: str, attributes: dict[str, str], depth: int) -> None:
        tag = name.rpartition(" ")[2]
        self._text.clear()
        if tag == "key":
            self._names[attributes.get("id", "")] = attributes.get("attr.name", "")
        elif tag == "graph":
            self.is_directed = attributes.get("edgedefault") != "undirected"
        elif tag in ("node", "edge"):
            self._item = _Item(tag, attributes, self.parser.CurrentLineNumber, {})
        elif tag == "data":
            self._key = self._names.get(attributes.get("key", ""), "")

    def end(self, name: str, depth: int) -> None:
        tag = name.rpartition(" ")[2]
        if tag == "data":
            text = "".join(self._text).strip()
            if self._item is not None:
                self._item.data[self._key] = text
            elif self._key == "crs":
                self.crs = text
        elif self._item is not None and tag == self._item.kind:
            add = self._add_node if tag == "node" else self._add_edge
            add(self._item)
            self._item = None

    def _add_node(self, item: _Item) -> None:
        x, y = (self._number(item, name) for name in ("x", "y"))
        self.nodes.append((self._attribute(item, "id"), x, y, item.line))

    def _add_edge(self, item: _Item) -> None:
        source, target = (self._attribute(item, name) for name in ("source", "target"))
        length = self._number(item, "length") if "length" in item.data else 0.0
        if length < 0:
            raise self.error(
                f"a length of {length:g}; expected at least 0; correct the edge", item.line
            )
        one_way = item.data.get("oneway", str(self.is_directed)).lower() in ("true", "yes", "1")
        road_class = _road_class(item.data.get("highway", ""))
        self.edges.append((source, target, length, road_class, one_way, item.line))

    def _attribute(self, item: _Item, name: str) -> str:
        if name not in item.attributes:
            raise self.error(
                f"this {item.kind} has no '{name}'; expected GraphML as OSMnx writes it; save the "
                f"graph again",
                item.line,
            )
        return item.attributes[name]

    def _number(self, item: _Item, name: str) -> float:
        text = item.data.get(name, "")
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not np.isfinite(number):
            raise self.error(
                f"'{name}' of this {item.kind} is '{text}'; expected a finite number; save the "
                f"graph with OSMnx",
                item.line,
            )
        return number


def read_graphml(path: Path, crs: str | None = None) -> Network:
    """Read a network from a GraphML file as OSMnx writes it from OpenStreetMap.

    Nodes have ``x`` and ``y``: degrees, unless the graph's ``crs`` is projected. Edges
    have ``length`` and ``highway``; their ``geometry`` is not used, so that they are
    straight. A street that leads both ways stands in the file once per direction, with
    ``oneway`` false; it becomes one edge.
    """
    reader = _GraphmlFile(path)
    try:
        with path.open("rb") as stream:
            for _ in reader.feed(iter(partial(stream.read, CHUNK_BYTES), b"")):
                pass
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; check --network") from error
    if not reader.nodes or not reader.edges:
        raise InputError(
            f"{path}: {len(reader.nodes)} nodes and {len(reader.edges)} edges; expected at least "
            f"one of each; save the graph again"
        )
    ids, x, y, node_lines = (np.array(column) for column in zip(*reader.nodes, strict=True))
    sources, targets, lengths, classes, one_way, edge_lines = (
        np.array(column) for column in zip(*reader.edges, strict=True)
    )
    node_place, edge_place = (
        lambda number, lines=lines: f"{path}: line {lines[number]}"
        for lines in (node_lines, edge_lines)
    )
    if not _is_projected(path, reader.crs):
        x, y = project_nodes(x, y, crs, place=node_place)
    ends = number_ends(
        ids, np.stack([sources, targets], axis=1), node_place=node_place, edge_place=edge_place
    )
    kept = _without_twins(ends, lengths, one_way)
    return build_network(
        x,
        y,
        ends[kept],
        lengths=lengths[kept],
        classes=classes[kept],
        is_one_way=one_way[kept],
    )


def _road_class(highway: str) -> int:
    """Return the class of a tag, or of the first where there are several.

    Examples
    --------
    >>> _road_class("motorway_link"), _road_class("['primary', 'service']"), _road_class("")
    (0, 2, 6)
    """
    word = _FIRST_WORD.search(highway)
    return HIGHWAY_CLASSES.get(word[0].removesuffix("_link"), OTHER_CLASS) if word else OTHER_CLASS


def _is_projected(path: Path, crs: str) -> bool:
    """Whether coordinates are planar; a graph without a CRS has degrees, as OSMnx has."""
    if not crs:
        return False
    try:
        return bool(pyproj.CRS.from_user_input(crs).is_projected)
    except pyproj.exceptions.CRSError as error:
        raise InputError(
            f"{path}: the graph's crs is not one that PROJ knows ({error}); expected a code such "
            f"as epsg:4326; save the graph with OSMnx"
        ) from error


def _without_twins(ends: Any, lengths: Any, one_way: Any) -> Any:
    """Return the edges to keep: of the directions of a street that leads both ways, one."""
    number_of_length = np.unique(lengths, return_inverse=True)[1]
    streets = np.column_stack([np.sort(ends, axis=1), number_of_length])
    both_ways = np.flatnonzero(~one_way)
    _, first = np.unique(streets[both_ways], axis=0, return_index=True)
    return np.sort(np.concatenate([np.flatnonzero(one_way), both_ways[first]]))
