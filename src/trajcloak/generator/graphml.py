"""Networks as GraphML, as OSMnx writes them from OpenStreetMap.

Nodes have ``x`` and ``y``: degrees, unless the graph's ``crs`` is projected. Edges
have ``length`` and ``highway``; their ``geometry`` is not used, so that they are
straight. A street that leads both ways stands in the file once per direction, with
``oneway`` false; it becomes one edge.
"""

import re
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import pyproj

from trajcloak.errors import InputError
from trajcloak.generator.network import Network, build_network, number_ends, project_nodes
from trajcloak.xml_encodings import is_read

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

_FIRST_WORD = re.compile("[a-z_]+")


class _Item:
    """A node or an edge that is being read: its XML attributes and its data by name."""

    def __init__(self, kind: str, attributes: dict[str, str], line: int) -> None:
        self.kind = kind
        self.attributes = attributes
        self.line = line
        self.data: dict[str, str] = {}


class _Reader:
    """Collects nodes and edges while the file streams by."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.crs = ""
        self.is_directed = True
        self.nodes: list[tuple[str, float, float]] = []
        self.edges: list[tuple[str, str, float, int, bool]] = []
        self.node_lines: list[int] = []
        self.edge_lines: list[int] = []
        self._names: dict[str, str] = {}
        self._item: _Item | None = None
        self._key = ""
        self._text: list[str] = []

    def read(self) -> None:
        """Read the whole file."""
        parser = expat.ParserCreate()
        self._parser = parser
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.XmlDeclHandler = self._check_encoding
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        try:
            with self.path.open("rb") as file:
                parser.ParseFile(file)
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror}; check --network") from error
        except expat.ExpatError as error:
            raise InputError(
                f"{self.path}: {error}; expected GraphML; get the file anew"
            ) from error

    def place(self, line: int) -> str:
        return f"{self.path}: line {line}"

    def _check_encoding(self, version: str, encoding: str | None, standalone: int) -> None:
        if not is_read(encoding):
            raise InputError(
                f"{self.place(self._parser.CurrentLineNumber)}: the text has an encoding that is "
                f"not read; expected UTF-8; convert it, such as with iconv"
            )

    def _refuse_doctype(self, *_: object) -> None:
        raise InputError(
            f"{self.place(self._parser.CurrentLineNumber)}: a document type declaration; expected "
            f"none, since one can blow up the file; remove it"
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        self._text.clear()
        if tag == "key":
            self._names[attributes.get("id", "")] = attributes.get("attr.name", "")
        elif tag == "graph":
            self.is_directed = attributes.get("edgedefault") != "undirected"
        elif tag in ("node", "edge"):
            self._item = _Item(tag, attributes, self._parser.CurrentLineNumber)
        elif tag == "data":
            self._key = self._names.get(attributes.get("key", ""), "")

    def _end(self, tag: str) -> None:
        tag = tag.rpartition(":")[2]
        if tag == "data":
            text = "".join(self._text).strip()
            if self._item is not None:
                self._item.data[self._key] = text
            elif self._key == "crs":
                self.crs = text
        elif tag == "node" and self._item is not None:
            self._add_node(self._item)
            self._item = None
        elif tag == "edge" and self._item is not None:
            self._add_edge(self._item)
            self._item = None

    def _add_node(self, item: _Item) -> None:
        x, y = (self._number(item, name) for name in ("x", "y"))
        self.nodes.append((self._attribute(item, "id"), x, y))
        self.node_lines.append(item.line)

    def _add_edge(self, item: _Item) -> None:
        source, target = (self._attribute(item, name) for name in ("source", "target"))
        length = self._number(item, "length") if "length" in item.data else 0.0
        if length < 0:
            raise InputError(
                f"{self.place(item.line)}: a length of {length:g}; expected at least 0; "
                f"correct the edge"
            )
        one_way = item.data.get("oneway", str(self.is_directed)).lower() in ("true", "yes", "1")
        road_class = _road_class(item.data.get("highway", ""))
        self.edges.append((source, target, length, road_class, one_way))
        self.edge_lines.append(item.line)

    def _attribute(self, item: _Item, name: str) -> str:
        if name not in item.attributes:
            raise InputError(
                f"{self.place(item.line)}: this {item.kind} has no '{name}'; expected GraphML as "
                f"OSMnx writes it; save the graph anew"
            )
        return item.attributes[name]

    def _number(self, item: _Item, name: str) -> float:
        text = item.data.get(name, "")
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not np.isfinite(number):
            raise InputError(
                f"{self.place(item.line)}: '{name}' of this {item.kind} is '{text}'; expected a "
                f"finite number; save the graph with OSMnx"
            )
        return number


def read_graphml(path: Path, crs: str | None = None) -> Network:
    """Read a network from a GraphML file as OSMnx writes it.

    Raises
    ------
    InputError
        If the file cannot be read, has a document type declaration, or breaks a rule
        of ``docs/data-model.md``.
    """
    reader = _Reader(path)
    reader.read()
    if not reader.nodes or not reader.edges:
        raise InputError(
            f"{path}: {len(reader.nodes)} nodes and {len(reader.edges)} edges; expected at least "
            f"one of each; save the graph anew"
        )
    ids, x, y = (np.array(column) for column in zip(*reader.nodes, strict=True))
    sources, targets, lengths, classes, one_way = (
        np.array(column) for column in zip(*reader.edges, strict=True)
    )
    if not _is_projected(path, reader.crs):
        x, y = project_nodes(x, y, crs, place=lambda node: reader.place(reader.node_lines[node]))
    ends = number_ends(
        ids,
        np.stack([sources, targets], axis=1),
        node_place=lambda node: reader.place(reader.node_lines[node]),
        edge_place=lambda edge: reader.place(reader.edge_lines[edge]),
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
    low, high = np.sort(ends, axis=1).T
    order = np.lexsort((np.arange(lengths.size), lengths, high, low, one_way))
    same = np.ones(lengths.size - 1, bool)
    for column in (low, high, lengths):
        same &= column[order][1:] == column[order][:-1]
    is_twin = np.zeros(lengths.size, bool)
    is_twin[order[1:]] = same & ~one_way[order[1:]] & ~one_way[order[:-1]]
    return np.flatnonzero(~is_twin)
