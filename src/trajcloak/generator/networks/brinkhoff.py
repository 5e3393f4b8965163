"""Networks in the binary form of Brinkhoff's generator: a ``.node`` and an ``.edge`` file.

Numbers are big-endian. A record of a node: the length of its name (one byte), the
name, its id (8 bytes), x and y (4 each). A record of an edge: the ids of its ends (8
each), the length of its name, the name, its id (8), its class (4). Names differ in
length, so records are found one by one.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trajcloak.errors import InputError
from trajcloak.generator.network import NUM_ROAD_CLASSES, Network, build_network
from trajcloak.generator.networks.node_ids import number_ends

_NODE = struct.Struct(">qii")
_ENDS = struct.Struct(">qq")
_EDGE = struct.Struct(">qi")


def read_brinkhoff(nodes: Path, edges: Path) -> Network:
    """Read a network from a ``.node`` and an ``.edge`` file.

    Coordinates are taken as they are, every edge leads both ways, and its length is
    the straight distance between its ends.

    Raises
    ------
    InputError
        If a file is missing or cut short, or breaks a rule of ``docs/data-model.md``.
    """
    ids, x, y = _columns(nodes, _node_records(nodes, _read(nodes)), 3)
    first, second, classes = _columns(edges, _edge_records(edges, _read(edges)), 3)
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


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; expected a .node and an .edge file of one name side by "
            f"side; check --network"
        ) from error


def _columns(path: Path, records: Iterator[tuple[int, ...]], width: int) -> Any:
    """Turn records into columns."""
    rows = np.array(list(records), np.int64).reshape(-1, width)
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
