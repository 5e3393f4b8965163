"""From the name of a network to the network."""

import os
from pathlib import Path

from trajcloak.errors import InputError
from trajcloak.generator.network import Network
from trajcloak.generator.networks.brinkhoff import read_brinkhoff
from trajcloak.generator.networks.city import build_city
from trajcloak.generator.networks.csv_files import read_csv_files
from trajcloak.generator.networks.graphml import read_graphml

CITY = "city"
"""The name of the embedded city."""

_REMEDY = (
    "a .node or .edge file, a folder with nodes.csv and edges.csv, a .graphml file, or the word "
    f"'{CITY}'"
)


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
        return read_csv_files(path / "nodes.csv", path / "edges.csv", crs)
    if path.suffix in (".node", ".edge"):
        return read_brinkhoff(path.with_suffix(".node"), path.with_suffix(".edge"))
    if path.suffix == ".graphml":
        return read_graphml(path, crs)
    raise InputError(f"{path}: not a known kind of network; expected {_REMEDY}; check --network")
