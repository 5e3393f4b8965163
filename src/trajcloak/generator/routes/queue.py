"""A queue of nodes, least key first, whose keys may change while they wait."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray


class Queue(NamedTuple):
    """A binary heap of nodes.

    Parameters
    ----------
    keys
        int64 (nodes,): the key of each node that is or was in the queue.
    heap
        int32 (nodes,): the nodes in the queue, as a heap.
    places
        int32 (nodes,): where in the heap a node is; -1 if it is not in the queue.
    size
        int64 (1,): how many nodes are in the queue.
    """

    keys: NDArray[np.int64]
    heap: NDArray[np.int32]
    places: NDArray[np.int32]
    size: NDArray[np.int64]


@njit(cache=True, nogil=True)
def build_queue(num_nodes: int) -> Any:
    """Build an empty queue for the nodes 0 .. ``num_nodes`` - 1."""
    return Queue(
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, np.int32),
        np.full(num_nodes, -1, np.int32),
        np.zeros(1, np.int64),
    )


@njit(cache=True, nogil=True)
def put(queue: Any, node: int, key: int) -> None:
    """Put a node into the queue, or give one in the queue another key; O(log nodes)."""
    place = queue.places[node]
    if place < 0:
        place = queue.size[0]
        queue.size[0] += 1
        queue.heap[place] = node
        queue.places[node] = place
        queue.keys[node] = key
        _sift_up(queue, place)
    elif key < queue.keys[node]:
        queue.keys[node] = key
        _sift_up(queue, place)
    else:
        queue.keys[node] = key
        _sift_down(queue, place)


@njit(cache=True, nogil=True)
def take(queue: Any) -> Any:
    """Take out the node with the least key, among equals the one with the least number.

    Requires a queue that is not empty.
    """
    node = np.int64(queue.heap[0])
    queue.places[node] = -1
    queue.size[0] -= 1
    last = queue.heap[queue.size[0]]
    if last != node:
        queue.heap[0] = last
        queue.places[last] = 0
        _sift_down(queue, 0)
    return node


@njit(cache=True, nogil=True)
def clear(queue: Any) -> None:
    """Take out every node."""
    for place in range(queue.size[0]):
        queue.places[queue.heap[place]] = -1
    queue.size[0] = 0


@njit(cache=True, nogil=True)
def _is_before(keys: Any, a: int, b: int) -> Any:
    return keys[a] < keys[b] or (keys[a] == keys[b] and a < b)


@njit(cache=True, nogil=True)
def _sift_up(queue: Any, place: int) -> None:
    node = queue.heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        other = queue.heap[parent]
        if not _is_before(queue.keys, node, other):
            break
        queue.heap[place] = other
        queue.places[other] = place
        place = parent
    queue.heap[place] = node
    queue.places[node] = place


@njit(cache=True, nogil=True)
def _sift_down(queue: Any, place: int) -> None:
    node = queue.heap[place]
    size = queue.size[0]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _is_before(queue.keys, queue.heap[child + 1], queue.heap[child]):
            child += 1
        other = queue.heap[child]
        if not _is_before(queue.keys, other, node):
            break
        queue.heap[place] = other
        queue.places[other] = place
        place = child
    queue.heap[place] = node
    queue.places[node] = place
