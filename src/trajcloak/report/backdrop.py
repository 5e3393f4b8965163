"""Streets under the cloaks."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError
from trajcloak.generator.networks import load_network
from trajcloak.generator.networks.city import JUNCTIONS
from trajcloak.published import Manifest
from trajcloak.report.packing import pack

Numbers = npt.NDArray[np.int64]

STEPS = 1 << 16
"""Places of nodes are rounded to so many steps of the region's side."""

MOST_ROADS = 150_000
MAIN_CLASSES = 3
"""Classes of roads that are drawn stronger: the fastest."""


@dataclass(frozen=True)
class Backdrop:
    """Roads, ready to be drawn.

    Attributes
    ----------
    ends : (roads, 4) int64
        x and y of both ends, in steps of the region.
    is_main : (roads,) bool
    num_roads : int
        Of the network; more than are drawn if there are too many.
    """

    ends: Numbers
    is_main: npt.NDArray[np.bool_]
    num_roads: int

    def to_dict(self) -> dict[str, Any]:
        """Pack it for the page."""
        return {
            "main": pack(self.ends[self.is_main].ravel()),
            "minor": pack(self.ends[~self.is_main].ravel()),
        }


def build_backdrop(source: str | os.PathLike[str], manifest: Manifest) -> Backdrop:
    """Read a road network, and take the roads inside a release's region.

    Parameters
    ----------
    source
        As ``trajcloak generate`` takes it: ``city`` or a path.
    manifest
        Of the release: degrees of the network are projected as it says, and other
        coordinates are taken to be the release's own.

    Raises
    ------
    InputError
        If it cannot be read, or no road of it is inside the region.
    """
    network = load_network(source, JUNCTIONS, manifest["crs"])
    region = manifest["region"]
    corner = np.array([region["x_min"], region["y_min"]])
    step = float(region["side"]) / STEPS
    nodes = np.rint((np.stack([network.x, network.y], axis=1) - corner) / step)
    is_inside = ((nodes >= 0) & (nodes < STEPS)).all(axis=1)
    first = np.unique(network.edges, return_index=True)[1]
    tails, heads, classes = (a[first] for a in (network.tails, network.heads, network.classes))
    kept = np.flatnonzero(is_inside[tails] & is_inside[heads])
    if not kept.size:
        raise InputError(
            f"{source}: no road of the network lies inside the release's region; expected the "
            f"network that the log is about, in the same coordinates; pass another --network"
        )
    kept = np.sort(kept[np.argsort(classes[kept], kind="stable")][:MOST_ROADS])
    ends = np.concatenate([nodes[tails[kept]], nodes[heads[kept]]], axis=1).astype(np.int64)
    return Backdrop(ends, classes[kept] < MAIN_CLASSES, network.num_edges)
