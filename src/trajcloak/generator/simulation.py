"""Objects that travel through a road network, trip after trip.

They start at nodes drawn at random, choose destinations by a wanted length of the
trip, and take the fastest route, as in Brinkhoff's generator of moving objects
(GeoInformatica 6(2), 2002); ``docs/generator.md`` says what differs.

Nothing depends on how a machine rounds: choices compare whole numbers and their square
roots, and no product is added to anything in compiled code, where a compiler might round
once instead of twice.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trajcloak.generator.network import Network
from trajcloak.generator.roads import LENGTH_BITS, TABLE_BITS, TICKS_PER_STEP, Roads
from trajcloak.generator.routes import build_route_buffers, write_route
from trajcloak.kernels.splitmix import GAMMA, below, key_of, scramble
from trajcloak.kernels.threads import build_slices, run_all

FINENESS = 100
"""Coordinates are reported in this part of a unit, for smaller files, and so that all rows have
places of the same precision, as the rows of a device do."""

CAPACITIES = (5, 5, 4, 4, 3, 3, 2, 2)
"""How many objects an edge of each road class holds without slowing down."""

_CANDIDATES = 50
_CLOSE_ENOUGH = 10
_FEWEST_ARCS = 3
_ATTEMPTS = 50


class Movers(NamedTuple):
    """Where objects are, and where they are going."""

    random: NDArray[np.uint64]  # (objects,): the counter of each object's own random numbers.
    speed_class: NDArray[np.int8]  # (objects,): 0 is the fastest.
    node: NDArray[np.int32]  # (objects,): the last node that each reached.
    # (objects,): the arcs that lie ahead, in the store; none between trips.
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    elapsed: NDArray[np.int64]  # (objects,): ticks spent on the first of these, without congestion.
    has_travelled: NDArray[np.bool_]  # (objects,): whether each has begun a trip.


class RouteStore(NamedTuple):
    """The routes of all objects in one array."""

    arcs: NDArray[np.int32]  # The routes, one after another, with gaps.
    used: NDArray[np.int64]  # (1,): ``arcs`` is free from here on.


class Positions(NamedTuple):
    """What objects report, each array (instants, objects)."""

    x: NDArray[np.float64]  # Where each object is.
    y: NDArray[np.float64]
    place: NDArray[np.int8]  # The kind of place there.


class TiedRoutesError(Exception):
    """A route that was searched for is not the only fastest one: labels might find another."""


class Fleet:
    """Some of the objects, which one thread moves; ``first`` is the number of the first."""

    def __init__(self, roads: Roads, seed: int, first: int, users: int, *, stays: bool) -> None:
        self._roads = roads
        self._stays = stays
        self._movers = build_movers(roads, seed, first, users)
        self._buffers = build_route_buffers(roads.network.num_nodes)
        self._store = RouteStore(np.empty(0, np.int32), np.zeros(1, np.int64))
        self._has_reported = False

    def report(self, delays: NDArray[np.int8], positions: Positions) -> None:
        """Fill ``positions``, instant by instant, from the last of the call before.

        Between two instants is one time step. ``delays``, (edges,), say how often the time for
        each edge is doubled.
        """
        offsets = np.empty((2, *positions.x.shape))
        with np.errstate(over="ignore"):
            for metric, routes in self._roads.routes.items():
                done = 0
                while done < self._movers.random.size:
                    done = _report(
                        (self._movers, self._store, self._buffers),
                        (self._roads.arrays, routes, delays, self._stays),
                        (metric, done, not self._has_reported),
                        positions,
                        offsets,
                    )
                    if done < self._movers.random.size:
                        self._make_room()
        if self._buffers.ties[0]:
            raise TiedRoutesError
        for values, offset in zip((positions.x, positions.y), offsets, strict=True):
            np.add(values, offset, out=offset)
            offset *= FINENESS
            np.rint(offset, out=offset)
            np.divide(offset, FINENESS, out=values)
        self._has_reported = True

    def _make_room(self) -> None:
        """Move what lies ahead of objects to a new store, with room for more."""
        movers, old = self._movers, self._store
        ahead = int((movers.stop - movers.start).sum())
        room = ahead // 2 + movers.random.size + 2 * self._roads.network.num_nodes
        self._store = RouteStore(np.empty(ahead + room, np.int32), np.zeros(1, np.int64))
        _move_routes(movers, old, self._store)

    def count_on_edges(self) -> NDArray[np.int64]:
        """Count the objects on each edge; those at a node are on none."""
        arcs = self._store.arcs[self._movers.start[self._movers.elapsed > 0]]
        edges = self._roads.arrays.edges[arcs]
        return np.bincount(edges, minlength=self._roads.network.num_edges)


class Simulation:
    """Objects on roads, from the first instant on.

    ``stays``: whether objects stay where their first trip ends. ``congestion``: whether roads slow
    down when too many objects were on them at the instant before. ``threads`` fleets move at a
    time, which never changes the result.
    """

    def __init__(
        self,
        roads: Roads,
        *,
        users: int,
        seed: int,
        stays: bool,
        congestion: bool,
        threads: int,
    ) -> None:
        self._users = users
        self._threads = threads
        self._slices = build_slices(users, threads)
        self._fleets = [
            Fleet(roads, seed, start, stop - start, stays=stays) for start, stop in self._slices
        ]
        self._delays = np.zeros(roads.network.num_edges, np.int8)
        self._capacities = build_capacities(roads.network) if congestion else None

    def report(self, instants: int) -> Positions:
        """Report the next instants, as arrays (instants, users)."""
        shape = (instants, self._users)
        positions = Positions(np.empty(shape), np.empty(shape), np.empty(shape, np.int8))
        if self._capacities is None:
            self._move(positions)
            return positions
        for instant in range(instants):
            self._move(Positions._make(array[instant : instant + 1] for array in positions))
            counts = sum(fleet.count_on_edges() for fleet in self._fleets)
            self._delays = delays_of(counts, self._capacities)
        return positions

    def _move(self, positions: Positions) -> None:
        def move(fleet: Fleet, start: int, stop: int) -> None:
            part = Positions._make(array[:, start:stop] for array in positions)
            fleet.report(self._delays, part)

        jobs = [(fleet, *bounds) for fleet, bounds in zip(self._fleets, self._slices, strict=True)]
        run_all(move, jobs, self._threads)


def build_capacities(network: Network) -> NDArray[np.int64]:
    """Return the capacity of each edge."""
    capacities = np.empty(network.num_edges, np.int64)
    capacities[network.edges] = np.array(CAPACITIES)[network.classes]
    return capacities


def delays_of(counts: Any, capacities: Any) -> NDArray[np.int8]:
    """Return how often the time for each edge is doubled."""
    delays: NDArray[np.int8] = np.add(counts > capacities, counts > 2 * capacities, dtype=np.int8)
    return delays


def build_movers(roads: Roads, seed: int, first: int, users: int) -> Movers:
    """Draw a class and a first node for each of some objects."""
    numbers = np.arange(first, first + users, dtype=np.uint64)
    movers = Movers(
        random=scramble(key_of(seed, "movement") + GAMMA * numbers),
        speed_class=np.empty(users, np.int8),
        node=np.empty(users, np.int32),
        start=np.zeros(users, np.int64),
        stop=np.zeros(users, np.int64),
        elapsed=np.zeros(users, np.int64),
        has_travelled=np.zeros(users, np.bool_),
    )
    # Without the JIT, numpy would warn of the overflow that the generator relies on.
    with np.errstate(over="ignore"):
        _place(movers, roads.arrays.times.shape[0], roads.network.num_nodes)
    return movers


@njit(cache=True, nogil=True)
def _draw(movers: Any, user: int) -> Any:
    movers.random[user] += GAMMA
    return scramble(movers.random[user])


@njit(cache=True, nogil=True)
def _place(movers: Any, num_classes: int, num_nodes: int) -> None:
    """Draw a class and a first node for every object."""
    for user in range(movers.random.size):
        bits = _draw(movers, user)
        speed_class = 0
        while speed_class < num_classes - 1 and bits & np.uint64(1):
            bits >>= np.uint64(1)
            speed_class += 1
        movers.speed_class[user] = speed_class
        movers.node[user] = below(_draw(movers, user), num_nodes)


@njit(cache=True, nogil=True)
def _report(state: Any, world: Any, run: Any, positions: Any, offsets: Any) -> Any:
    """Report and move the objects of one metric, from object ``first`` on.

    Fills x and y without the offsets from the last node. Returns the object at which the store
    might overflow, or the number of objects.
    """
    movers, store, buffers = state
    roads = world[0]
    metric, first, is_start = run
    for user in range(first, movers.random.size):
        if roads.metrics[movers.speed_class[user]] != metric:
            continue
        if store.arcs.size - store.used[0] < roads.x.size:
            return user
        for instant in range(positions.x.shape[0]):
            if instant > 0 or not is_start:
                _advance(movers, store, buffers, world, user)
            _write_report(movers, store, roads, user, (instant, positions, offsets))
        # A route that was planned here begins where the store was free.
        store.used[0] = max(store.used[0], movers.stop[user])
    return movers.random.size


@njit(cache=True, nogil=True)
def _write_report(movers: Any, store: Any, roads: Any, user: int, out: Any) -> None:
    """Write where an object is: the last node, and the way from there."""
    instant, positions, offsets = out
    node = movers.node[user]
    positions.x[instant, user] = roads.x[node]
    positions.y[instant, user] = roads.y[node]
    if movers.elapsed[user] == 0:
        offsets[0, instant, user] = offsets[1, instant, user] = 0.0
        positions.place[instant, user] = roads.places[node]
        return
    arc = store.arcs[movers.start[user]]
    head = roads.heads[arc]
    share = movers.elapsed[user] / roads.times[movers.speed_class[user], arc]
    offsets[0, instant, user] = (roads.x[head] - roads.x[node]) * share
    offsets[1, instant, user] = (roads.y[head] - roads.y[node]) * share
    positions.place[instant, user] = roads.places[node if share < 0.5 else head]


@njit(cache=True, nogil=True)
def _advance(movers: Any, store: Any, buffers: Any, world: Any, user: int) -> None:
    """Move one object for one time step, through as many arcs and trips as fit."""
    roads, routes, delays, stays = world
    ticks = np.int64(TICKS_PER_STEP)
    while True:
        if movers.start[user] == movers.stop[user]:
            is_home = stays and movers.has_travelled[user]
            if is_home or not _plan_trip(movers, store, buffers, (roads, routes), user):
                return
        # A delay doubles the time: elapsed counts undelayed ticks, ticks counts real ones.
        arc = store.arcs[movers.start[user]]
        delay = delays[roads.edges[arc]]
        left = roads.times[movers.speed_class[user], arc] - movers.elapsed[user]
        if left << delay > ticks:
            movers.elapsed[user] += ticks >> delay
            return
        ticks -= left << delay
        movers.node[user] = roads.heads[arc]
        movers.start[user] += 1
        movers.elapsed[user] = 0


@njit(cache=True, nogil=True)
def _plan_trip(movers: Any, store: Any, buffers: Any, world: Any, user: int) -> Any:
    """Choose a destination and write the route there; returns whether one was found.

    Requires room for as many arcs as there are nodes. The object's last route may be overwritten.
    """
    roads, routes = world
    room = store.arcs[store.used[0] :]
    for _ in range(_ATTEMPTS):
        wanted = roads.lengths[np.int64(_draw(movers, user) >> np.uint64(64 - TABLE_BITS))]
        goal = _draw_goal(movers, roads, user, wanted)
        size = write_route(routes, buffers, movers.node[user], goal, room)
        if size >= _FEWEST_ARCS:
            movers.start[user] = store.used[0]
            movers.stop[user] = store.used[0] + size
            movers.has_travelled[user] = True
            return True
    return False


@njit(cache=True, nogil=True)
def _draw_goal(movers: Any, roads: Any, user: int, wanted: int) -> Any:
    """Draw nodes, and return the one whose distance is closest to the wanted one.

    Distances are in units of ``lengths``; one within a tenth is close enough.
    """
    here = movers.node[user]
    closest = np.float64(1 << (LENGTH_BITS + 8))
    goal = np.int64(here)
    for _ in range(_CANDIDATES):
        node = below(_draw(movers, user), roads.x.size)
        dx = roads.plan_x[node] - roads.plan_x[here]
        dy = roads.plan_y[node] - roads.plan_y[here]
        gap = abs(np.sqrt(np.float64(dx * dx + dy * dy)) - wanted)
        if gap < closest:
            closest, goal = gap, node
            if gap * _CLOSE_ENOUGH < wanted:
                break
    return goal


@njit(cache=True, nogil=True)
def _move_routes(movers: Any, old: Any, new: Any) -> None:
    """Copy what lies ahead of each object to another, empty store."""
    for user in range(movers.random.size):
        start = new.used[0]
        for place in range(movers.start[user], movers.stop[user]):
            new.arcs[new.used[0]] = old.arcs[place]
            new.used[0] += 1
        movers.start[user] = start
        movers.stop[user] = new.used[0]
