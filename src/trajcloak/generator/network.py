"""Road networks: junctions, and the roads between them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyproj
from numba import njit
from numpy.typing import NDArray

from trajcloak.errors import InputError
from trajcloak.generator.routes import Routes
from trajcloak.space import choose_projection

NUM_ROAD_CLASSES = 8
"""Classes of roads; 0 is the fastest."""

_FEWEST_NODES = 4  # For a trip of three edges.

# Millimetres: the projection's last bits may differ between machines.
_DECIMALS = 3
_MOST_DEGREES = 10


@dataclass(frozen=True)
class Hub:
    """A part of a network where people ask for things of one kind."""

    name: str  # Unique name.
    kind: str  # What people ask for there: a key of ``requests_by_place.PLACE_MIXES``.
    x: float  # Its centre, in units of the network.
    y: float
    radius: float  # How far it reaches.


@dataclass(frozen=True, eq=False)
class Network:
    """A road network in which every node can reach every other.

    An edge is a road between two nodes; it is straight. An arc is one direction of
    it: an edge has two arcs, or one if it is one-way.
    """

    x: NDArray[np.float64]  # (nodes,): where the nodes are, in metres or the network's own unit.
    y: NDArray[np.float64]
    # (nodes + 1,): the arcs that leave node ``v`` are from ``starts[v]`` up to ``starts[v + 1]``.
    starts: NDArray[np.int64]
    tails: NDArray[np.int32]  # (arcs,): the nodes that each arc leads from and to.
    heads: NDArray[np.int32]
    lengths: NDArray[np.float64]  # (arcs,): at least the straight distance between the ends.
    classes: NDArray[np.int8]  # (arcs,): the class of the road, 0 to 7; 0 is the fastest.
    edges: NDArray[np.int32]  # (arcs,): the number of the edge: the same for its two directions.
    hubs: tuple[Hub, ...]  # Hubs that the network itself names.
    left_out: int  # Nodes of the source that are not part of the largest connected component.
    # Routes that have been prepared, by speed and metric; filled as they are needed.
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

    ``ends``, (edges, 2), are the nodes that each edge connects; loops are dropped. ``lengths``
    count where they are longer than the straight line. ``classes`` and ``is_one_way``, whether an
    edge leads from its first end to its second only, are given for each edge or once for all.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    ends = np.asarray(ends, np.int64).reshape(-1, 2)
    dx, dy = (axis[ends[:, 0]] - axis[ends[:, 1]] for axis in (x, y))
    # Not hypot: its last bit depends on the machine's library.
    straight = np.sqrt(dx * dx + dy * dy)
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
    tails, heads = (np.searchsorted(nodes, ids[kept]).astype(np.int32) for ids in (tails, heads))
    return Network(
        x=x[nodes],
        y=y[nodes],
        starts=_starts(tails, nodes.size),
        tails=tails,
        heads=heads,
        lengths=lengths[edges[kept]],
        classes=classes[edges[kept]],
        edges=np.unique(edges[kept], return_inverse=True)[1].astype(np.int32),
        hubs=hubs,
        left_out=x.size - nodes.size,
    )


def _starts(tails: Any, num_nodes: int) -> NDArray[np.int64]:
    counts = np.bincount(tails, minlength=num_nodes)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@njit(cache=True, nogil=True)
def largest_component(starts: Any, heads: Any) -> Any:
    """Mark the nodes of the largest strongly connected component.

    Tarjan's algorithm (SIAM J. Comput. 1(2), 1972) without recursion; linear time.
    Among components of one size, the one that is completed first is taken. scipy has
    the like, and is not part of the base install. Arcs are as in :class:`Network`.
    """
    num_nodes = starts.size - 1
    # order: when a node was found; lowest: the earliest node known to be reachable from it.
    order = np.full(num_nodes, -1, np.int64)
    lowest = np.zeros(num_nodes, np.int64)
    component = np.full(num_nodes, -1, np.int64)
    next_arc = starts[:-1].copy()
    # Nodes that are found and not yet in a component; the path from the root to the node.
    open_nodes = np.empty(num_nodes, np.int64)
    path = np.empty(num_nodes, np.int64)
    num_open, found, num_components = 0, 0, 0
    best, best_size = -1, 0
    for root in range(num_nodes):
        depth = 0
        if order[root] < 0:
            path[0] = root
            depth = 1
        while depth > 0:
            node = path[depth - 1]
            if order[node] < 0:
                order[node] = lowest[node] = found
                found += 1
                open_nodes[num_open] = node
                num_open += 1
            if next_arc[node] < starts[node + 1]:
                head = heads[next_arc[node]]
                next_arc[node] += 1
                if order[head] < 0:
                    path[depth] = head
                    depth += 1
                elif component[head] < 0:
                    lowest[node] = min(lowest[node], order[head])
                continue
            depth -= 1
            if depth > 0:
                parent = path[depth - 1]
                lowest[parent] = min(lowest[parent], lowest[node])
            if lowest[node] == order[node]:
                # The node reaches none before it: all that is open since is its component.
                size = 0
                while component[node] < 0:
                    num_open -= 1
                    component[open_nodes[num_open]] = num_components
                    size += 1
                if size > best_size:
                    best, best_size = num_components, size
                num_components += 1
    return component == best


def number_ends(
    ids: Any, ends: Any, *, node_place: Callable[[int], str], edge_place: Callable[[int], str]
) -> NDArray[np.int64]:
    """Return the numbers of the nodes that edges connect, given their ids.

    ``node_place`` and ``edge_place`` return the file and the line of a node or an edge by its
    number, for messages.
    """
    order = np.argsort(ids, kind="stable")
    ascending = ids[order]
    repeated = np.flatnonzero(ascending[1:] == ascending[:-1])
    if repeated.size:
        raise InputError(
            f"{node_place(int(order[repeated + 1].min()))}: the id of this node is taken by one "
            f"before; expected each node once; remove one of them"
        )
    found = np.minimum(np.searchsorted(ascending, ends), ids.size - 1)
    unknown = np.flatnonzero((ascending[found] != ends).any(axis=1))
    if unknown.size:
        raise InputError(
            f"{edge_place(int(unknown[0]))}: an end of this edge is no node; expected ids of "
            f"nodes at both ends; add the node or remove the edge"
        )
    numbers: NDArray[np.int64] = order[found].astype(np.int64)
    return numbers


def project_nodes(
    lon: Any, lat: Any, crs: str | None = None, *, place: Callable[[int], str]
) -> tuple[Any, Any]:
    """Project nodes from degrees to metres, whole millimetres.

    ``crs`` is the coordinate system of the result; default: around the middle of the network.
    ``place`` returns the file and the line of a node by its number, for messages.
    """
    bad = np.flatnonzero((np.abs(lon) > 180) | (np.abs(lat) > 90))
    if bad.size:
        raise InputError(
            f"{place(int(bad[0]))}: longitude {lon[bad[0]]:g} and latitude {lat[bad[0]]:g}; "
            f"expected -180..180 and -90..90; are they swapped, or planar coordinates?"
        )
    if max(np.ptp(lon), np.ptp(lat)) > _MOST_DEGREES:
        raise InputError(
            f"the network spans {np.ptp(lon):.0f} degrees of longitude and {np.ptp(lat):.0f} of "
            f"latitude; expected at most {_MOST_DEGREES}; cut out a region, or give planar "
            f"coordinates"
        )
    crs = crs or choose_projection((lon.min(), lat.min(), lon.max(), lat.max()))
    transformer = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True)
    x, y = transformer.transform(lon, lat)
    return np.round(x, _DECIMALS), np.round(y, _DECIMALS)
