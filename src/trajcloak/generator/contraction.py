"""Contraction hierarchies: nodes taken out of a graph one by one, by importance.

Geisberger, Sanders, Schultes, Delling: *Contraction Hierarchies* (WEA 2008). When
a node is taken out, a shortcut replaces each fastest way of two arcs through it,
unless another way is as fast. Afterwards a fastest route between any two nodes
climbs from less to more important nodes and then descends.

The entries of heaps are (key, node): among equal keys the lowest node comes first.
"""

from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

NONE = -1
"""Stands for no arc."""

# A search for another way gives up after so many nodes; a shortcut too many does no harm.
_SETTLED_TO_RANK = 60
_SETTLED_TO_CONTRACT = 300


class Hierarchy(NamedTuple):
    """The arcs of a graph, its shortcuts, and the order of its nodes."""

    # (nodes,): the place of each node in the order, 0 the most important.
    positions: NDArray[np.int32]
    tails: NDArray[np.int32]  # (arcs,): the nodes that each arc leads from and to.
    heads: NDArray[np.int32]
    times: NDArray[np.int64]  # (arcs,): how long each takes.
    # (arcs,): the two arcs that a shortcut replaces; for an arc of the graph its number there,
    # and ``NONE``.
    firsts: NDArray[np.int32]
    seconds: NDArray[np.int32]


class _Pool(NamedTuple):
    """Arcs in linked lists: those that leave a node, and those that enter it."""

    tails: NDArray[np.int32]
    heads: NDArray[np.int32]
    times: NDArray[np.int64]
    firsts: NDArray[np.int32]
    seconds: NDArray[np.int32]
    next_out: NDArray[np.int32]
    next_in: NDArray[np.int32]


class _Lists(NamedTuple):
    """Where the lists of each node begin, their lengths, and the arcs in use."""

    first_out: NDArray[np.int32]
    first_in: NDArray[np.int32]
    num_out: NDArray[np.int32]
    num_in: NDArray[np.int32]
    used: NDArray[np.int64]


class _Search(NamedTuple):
    """Arrays that all searches share, by node; ``number`` counts the searches.

    ``seen`` and ``wanted`` hold the number of the last search that reached a node,
    and of the last that looked for it; ``times`` the least time from the source so far.
    """

    times: NDArray[np.int64]
    seen: NDArray[np.int64]
    wanted: NDArray[np.int64]
    number: NDArray[np.int64]


@njit(cache=True, nogil=True)
def build_hierarchy(starts: Any, heads: Any, times: Any) -> Any:
    """Contract a graph whose node ``v`` has the arcs ``starts[v]`` .. ``starts[v + 1]`` - 1.

    Requires times of at least 1 whose sum over a route stays below 2^62.
    Ensures that the route that climbs and descends fastest is a fastest one.
    """
    num_nodes = starts.size - 1
    pool, lists = _build_pool(starts, heads, times)
    search = _Search(
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, np.int64),
        np.zeros(num_nodes, np.int64),
        np.zeros(1, np.int64),
    )
    depths = np.zeros(num_nodes, np.int32)
    waiting = [(_rank(pool, lists, search, depths, node), node) for node in range(num_nodes)]
    heapify(waiting)
    positions = np.zeros(num_nodes, np.int32)
    neighbours = np.empty(num_nodes, np.int32)
    for position in range(num_nodes - 1, -1, -1):
        node = _take_next(pool, lists, search, depths, waiting)
        positions[node] = position
        room = np.int64(lists.num_in[node]) * lists.num_out[node]
        if lists.used[0] + room > pool.heads.size:
            pool = _grow(pool, lists.used[0] + room)
        _bypass(pool, lists, search, node, _SETTLED_TO_CONTRACT, True)
        num_neighbours = _take_out(pool, lists, search, node, neighbours)
        for neighbour in neighbours[:num_neighbours]:
            depths[neighbour] = max(depths[neighbour], depths[node] + 1)
    used = lists.used[0]
    return Hierarchy(
        positions,
        pool.tails[:used].copy(),
        pool.heads[:used].copy(),
        pool.times[:used].copy(),
        pool.firsts[:used].copy(),
        pool.seconds[:used].copy(),
    )


@njit(cache=True, nogil=True)
def _take_next(pool: Any, lists: Any, search: Any, depths: Any, waiting: Any) -> Any:
    """Take the node with the least rank; ranks are brought up to date at the head only."""
    while True:
        _, node = heappop(waiting)
        rank = _rank(pool, lists, search, depths, node)
        if len(waiting) == 0 or rank <= waiting[0][0]:
            return node
        heappush(waiting, (rank, node))


@njit(cache=True, nogil=True)
def _build_pool(starts: Any, heads: Any, times: Any) -> Any:
    """Put the arcs of the graph into lists: no loops, of parallel arcs the fastest."""
    num_nodes = starts.size - 1
    room = 2 * heads.size + 16
    none = np.empty(0, np.int32)
    pool = _grow(_Pool(none, none, np.empty(0, np.int64), none, none, none, none), room)
    lists = _Lists(
        np.full(num_nodes, NONE, np.int32),
        np.full(num_nodes, NONE, np.int32),
        np.zeros(num_nodes, np.int32),
        np.zeros(num_nodes, np.int32),
        np.zeros(1, np.int64),
    )
    for tail in range(num_nodes):
        for arc in range(starts[tail], starts[tail + 1]):
            if heads[arc] != tail:
                _add(pool, lists, (tail, heads[arc]), times[arc], (arc, NONE))
    return pool, lists


@njit(cache=True, nogil=True)
def _grow(pool: Any, room: int) -> Any:
    """Return the pool with room for more arcs."""
    more = np.empty(room, np.int32)
    return _Pool(
        np.concatenate((pool.tails, more)),
        np.concatenate((pool.heads, more)),
        np.concatenate((pool.times, np.empty(room, np.int64))),
        np.concatenate((pool.firsts, more)),
        np.concatenate((pool.seconds, more)),
        np.concatenate((pool.next_out, more)),
        np.concatenate((pool.next_in, more)),
    )


@njit(cache=True, nogil=True)
def _add(pool: Any, lists: Any, ends: Any, time: int, parts: Any) -> None:
    """Add an arc, or replace a slower one between the same nodes."""
    tail, head = ends
    arc = lists.first_out[tail]
    while arc != NONE and pool.heads[arc] != head:
        arc = pool.next_out[arc]
    if arc == NONE:
        arc = lists.used[0]
        lists.used[0] += 1
        pool.tails[arc], pool.heads[arc] = tail, head
        pool.next_out[arc] = lists.first_out[tail]
        pool.next_in[arc] = lists.first_in[head]
        lists.first_out[tail] = lists.first_in[head] = arc
        lists.num_out[tail] += 1
        lists.num_in[head] += 1
    elif pool.times[arc] <= time:
        return
    pool.times[arc] = time
    pool.firsts[arc], pool.seconds[arc] = parts


@njit(cache=True, nogil=True)
def _rank(pool: Any, lists: Any, search: Any, depths: Any, node: int) -> Any:
    """Say how late to take out a node: late if it needs many shortcuts or is above many nodes.

    The factors were chosen by trial, for short labels.
    """
    added = _bypass(pool, lists, search, node, _SETTLED_TO_RANK, False)
    return 3 * added - 2 * (lists.num_in[node] + lists.num_out[node]) + 3 * depths[node]


@njit(cache=True, nogil=True)
def _bypass(pool: Any, lists: Any, search: Any, node: int, limit: int, is_final: bool) -> Any:
    """Count the shortcuts that replace a node, and add them if this is final."""
    added = 0
    into = lists.first_in[node]
    while into != NONE:
        source = pool.tails[into]
        _search_around(pool, lists, search, into, limit)
        out = lists.first_out[node]
        while out != NONE:
            target = pool.heads[out]
            time = pool.times[into] + pool.times[out]
            # Without another way that is as fast, the way over the node needs a shortcut.
            is_reached = search.seen[target] == search.number[0] and search.times[target] <= time
            if target != source and not is_reached:
                added += 1
                if is_final:
                    _add(pool, lists, (source, target), time, (into, out))
            out = pool.next_out[out]
        into = pool.next_in[into]
    return added


@njit(cache=True, nogil=True)
def _search_around(pool: Any, lists: Any, search: Any, into: int, limit: int) -> None:
    """Find ways from the tail of an arc that avoid its head, to where the head's arcs lead.

    Gives up when no way can be as fast as that over the head, or after ``limit`` nodes.
    """
    source, avoided = pool.tails[into], pool.heads[into]
    search.number[0] += 1
    now = search.number[0]
    horizon, missing = _mark_targets(pool, lists, search, into)
    search.seen[source] = now
    search.times[source] = 0
    waiting = [(np.int64(0), np.int64(source))]
    settled = 0
    while len(waiting) > 0 and settled < limit and missing > 0:
        reached, node = heappop(waiting)
        if reached > search.times[node]:
            continue  # A faster way to the node was found after this entry.
        settled += 1
        if reached > horizon:
            return
        if search.wanted[node] == now:
            missing -= 1
        arc = lists.first_out[node]
        while arc != NONE:
            head = pool.heads[arc]
            time = reached + pool.times[arc]
            if head != avoided and (search.seen[head] != now or time < search.times[head]):
                search.seen[head] = now
                search.times[head] = time
                heappush(waiting, (time, np.int64(head)))
            arc = pool.next_out[arc]


@njit(cache=True, nogil=True)
def _mark_targets(pool: Any, lists: Any, search: Any, into: int) -> Any:
    """Mark the nodes that a search looks for; returns the time of the farthest, and how many."""
    farthest, number = np.int64(0), 0
    out = lists.first_out[pool.heads[into]]
    while out != NONE:
        if pool.heads[out] != pool.tails[into]:
            search.wanted[pool.heads[out]] = search.number[0]
            farthest = max(farthest, pool.times[out])
            number += 1
        out = pool.next_out[out]
    return pool.times[into] + farthest, number


@njit(cache=True, nogil=True)
def _take_out(pool: Any, lists: Any, search: Any, node: int, neighbours: Any) -> Any:
    """Take a node out of its neighbours' lists, and return how many neighbours it had."""
    search.number[0] += 1
    now = search.number[0]
    found = 0
    arc = lists.first_out[node]
    while arc != NONE:
        head = pool.heads[arc]
        _unlink(lists.first_in, pool.next_in, head, arc)
        lists.num_in[head] -= 1
        search.seen[head] = now
        neighbours[found] = head
        found += 1
        arc = pool.next_out[arc]
    # Neighbours at both ends of arcs were marked as seen above, and are listed once.
    arc = lists.first_in[node]
    while arc != NONE:
        tail = pool.tails[arc]
        _unlink(lists.first_out, pool.next_out, tail, arc)
        lists.num_out[tail] -= 1
        if search.seen[tail] != now:
            neighbours[found] = tail
            found += 1
        arc = pool.next_in[arc]
    return found


@njit(cache=True, nogil=True)
def _unlink(firsts: Any, nexts: Any, node: int, arc: int) -> None:
    """Take an arc out of a list of a node."""
    if firsts[node] == arc:
        firsts[node] = nexts[arc]
        return
    before = firsts[node]
    while nexts[before] != arc:
        before = nexts[before]
    nexts[before] = nexts[arc]
