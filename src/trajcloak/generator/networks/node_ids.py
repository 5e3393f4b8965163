"""From the ids of nodes in a file to their numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajcloak.errors import InputError


def number_ends(
    ids: Any, ends: Any, *, node_place: Callable[[int], str], edge_place: Callable[[int], str]
) -> NDArray[np.int64]:
    """Return the numbers of the nodes that edges connect.

    Parameters
    ----------
    ids
        (nodes,): the id of each node, integers or text.
    ends
        (edges, 2): the ids of the nodes that each edge connects.
    node_place, edge_place
        Tell where in which file a node or an edge, by its number, stands.

    Raises
    ------
    InputError
        If two nodes have one id, or an edge names a node that is not there.
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
