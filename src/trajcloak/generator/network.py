"""Road networks: junctions, and the roads between them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajcloak.errors import InputError
from trajcloak.generator.components import largest_component
from trajcloak.generator.routes import Routes

NUM_ROAD_CLASSES = 8
"""Classes of roads; 0 is the fastest."""

_FEWEST_NODES = 4


@dataclass(frozen=True)
class Hub:
    """A part of a network where people ask for things of one kind.

    Parameters
    ----------
    name
        Unique name.
    kind
        What people ask for there: a key of ``requests.PLACE_MIXES``.
    x, y
        Its centre, in units of the network.
    radius
        How far it reaches.
    """

    name: str
    kind: str
    x: float
    y: float
    radius: float


@dataclass(frozen=True, eq=False)
class Network:
    """A road network in which every node can reach every other.

    An edge is a road between two nodes; it is straight. An arc is one direction of
    it: an edge has two arcs, or one if it is one-way.

    Attributes
    ----------
    x, y : (nodes,) float64
        Where the nodes are, in metres or the network's own unit.
    starts : (nodes + 1,) int64
        The arcs that leave node ``v`` are from ``starts[v]`` up to ``starts[v + 1]``.
    tails, heads : (arcs,) int32
        The nodes that each arc leads from and to.
    lengths : (arcs,) float64
        At least the straight distance between the ends.
    classes : (arcs,) int8
        The class of the road, 0 to 7; 0 is the fastest.
    edges : (arcs,) int32
        The number of the edge: the same for its two directions.
    hubs : tuple of Hub
        Hubs that the network itself names.
    left_out : int
        Nodes of the source that are not part of the largest connected component.
    routes : dict
        Routes that have been prepared, by speed and metric; filled as they are needed.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    starts: NDArray[np.int64]
    tails: NDArray[np.int32]
    heads: NDArray[np.int32]
    lengths: NDArray[np.float64]
    classes: NDArray[np.int8]
    edges: NDArray[np.int32]
    hubs: tuple[Hub, ...]
    left_out: int
    routes: dict[tuple[str, int], Routes] = field(default_factory=dict, repr=False)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.x.size

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return int(self.edges.max()) + 1

    @property
    def extent(self) -> tuple[float, float]:
        """Width and height."""
        return float(np.ptp(self.x)), float(np.ptp(self.y))


def build_network(
    x: Any,
    y: Any,
    ends: Any,
    *,
    lengths: Any = None,
    classes: Any = 0,
    is_one_way: Any = False,
    hubs: tuple[Hub, ...] = (),
) -> Network:
    """Build a network from nodes and edges, and keep its largest connected component.

    Parameters
    ----------
    x, y
        Where the nodes are.
    ends
        (edges, 2): the nodes that each edge connects; loops are dropped.
    lengths
        (edges,): taken where they are longer than the straight line; none by default.
    classes
        The class of each edge, or of all.
    is_one_way
        Whether each edge leads from its first end to its second only, or all do.
    hubs
        Hubs that the network itself names.

    Raises
    ------
    InputError
        If what is left is too small for a trip of three edges.

    Examples
    --------
    >>> network = build_network([0, 9, 9, 0, 5], [0, 0, 9, 9, 5], [(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> network.num_nodes, network.num_edges, network.lengths.tolist(), network.left_out
    (4, 4, [9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0], 1)
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    ends = np.asarray(ends, np.int64).reshape(-1, 2)
    straight = straight_lengths(x, y, ends)
    lengths = straight if lengths is None else np.maximum(np.asarray(lengths, float), straight)
    classes = np.broadcast_to(np.asarray(classes, np.int8), lengths.shape)
    both_ways = np.flatnonzero(~np.broadcast_to(np.asarray(is_one_way, bool), lengths.shape))
    edges = np.concatenate([np.arange(lengths.size), both_ways])
    tails = np.concatenate([ends[:, 0], ends[both_ways, 1]])
    heads = np.concatenate([ends[:, 1], ends[both_ways, 0]])
    order = np.argsort(tails, kind="stable")
    is_inside = largest_component(_starts(tails, x.size), heads[order].astype(np.int32))
    is_kept = is_inside[tails] & is_inside[heads] & (tails != heads)
    kept = order[is_kept[order]]
    nodes = np.flatnonzero(is_inside)
    if nodes.size < _FEWEST_NODES:
        raise InputError(
            f"the largest connected part of the network has {nodes.size} of its {x.size} nodes; "
            f"expected at least {_FEWEST_NODES}; check that the edges name the nodes they connect"
        )
    return Network(
        x=x[nodes],
        y=y[nodes],
        starts=_starts(np.searchsorted(nodes, tails[kept]), nodes.size),
        tails=np.searchsorted(nodes, tails[kept]).astype(np.int32),
        heads=np.searchsorted(nodes, heads[kept]).astype(np.int32),
        lengths=lengths[edges[kept]],
        classes=classes[edges[kept]],
        edges=np.unique(edges[kept], return_inverse=True)[1].astype(np.int32),
        hubs=hubs,
        left_out=x.size - nodes.size,
    )


def straight_lengths(x: Any, y: Any, ends: Any) -> NDArray[np.float64]:
    """Return the straight distance between the ends of each edge."""
    dx, dy = (axis[ends[:, 0]] - axis[ends[:, 1]] for axis in (x, y))
    # Not hypot: its last bit depends on the machine's library.
    distances: NDArray[np.float64] = np.sqrt(dx * dx + dy * dy)
    return distances


def _starts(tails: Any, num_nodes: int) -> NDArray[np.int64]:
    counts = np.bincount(tails, minlength=num_nodes)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
