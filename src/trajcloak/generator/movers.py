"""People who travel through the city, trip after trip.

A trip leads from one intersection to another in three legs along streets:
along the first axis to a corner, along the other axis, and along the first
axis again. As in Brinkhoff's generator of moving objects (GeoInformatica 6(2),
2002), there are five classes of speed, each half as fast as the one before;
the first holds half of all people, the next half of the rest, and so on.

What a person does depends on the seed and the person's number only.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trajcloak.generator.city import NUM_SLOTS, SIDE, City
from trajcloak.generator.splitmix import GAMMA, below, key_of, scramble

NUM_CLASSES = 5
"""Classes of speed."""

TOP_SPEED = 240
"""Decimetres per second of the fastest class on an arterial; half of it elsewhere."""

# A tick is the time in which the top speed covers a decimetre. Every other speed
# takes a whole number of ticks for it, so that all movement is exact.
TICKS_PER_SECOND = TOP_SPEED

_CANDIDATES = 12
_LONG_HAUL = 15_000
# The sum of four uniforms has a variance of 1/3: times the square root of 3 it
# stands in for a normal deviate, which scales a fifth of the city's diagonal.
_TRIP_SCALE = int(SIDE * 2**0.5 / 5 * 3**0.5)


class Movers(NamedTuple):
    """Where people are, and where they are going.

    Parameters
    ----------
    random
        uint64 (people,): the counter of each person's own random numbers.
    position
        int32 (people, 2): x and y in decimetres.
    speed_class
        int8 (people,): 0 is the fastest.
    goal
        int16 (people, 2): the streets that cross where the trip ends.
    corner
        int16 (people,): the street of axis ``first_axis`` that the second leg
        follows.
    first_axis
        int8 (people,): the axis of the first and the last leg.
    leg
        int8 (people,): the current leg, 0 to 2.
    pace
        int8 (people,): ticks per decimetre on the current leg.
    """

    random: NDArray[np.uint64]
    position: NDArray[np.int32]
    speed_class: NDArray[np.int8]
    goal: NDArray[np.int16]
    corner: NDArray[np.int16]
    first_axis: NDArray[np.int8]
    leg: NDArray[np.int8]
    pace: NDArray[np.int8]

    def part(self, start: int, stop: int) -> "Movers":
        """Return views of the people from ``start`` up to ``stop``."""
        return Movers._make(array[start:stop] for array in self)


def build_movers(city: City, *, users: int, seed: int) -> Movers:
    """Put people at intersections, each about to start a trip."""
    numbers = np.arange(users, dtype=np.uint64)
    random = scramble(key_of(seed, "movement") + GAMMA * numbers)
    movers = Movers(
        random=random,
        position=np.empty((users, 2), np.int32),
        speed_class=np.empty(users, np.int8),
        goal=np.empty((users, 2), np.int16),
        corner=np.empty(users, np.int16),
        first_axis=np.empty(users, np.int8),
        leg=np.empty(users, np.int8),
        pace=np.empty(users, np.int8),
    )
    # Without the JIT, numpy would warn of the overflow that the generator relies on.
    with np.errstate(over="ignore"):
        _place(movers, city)
    return movers


def move(movers: Movers, city: City, seconds: int, xs: Any, ys: Any) -> None:
    """Record positions and move on, instant by instant.

    Parameters
    ----------
    movers
        Changed in place: afterwards at the instant that follows the last recorded.
    city
        The streets.
    seconds
        Time from one instant to the next.
    xs, ys
        int32 (instants, people), filled: decimetres.
    """
    with np.errstate(over="ignore"):
        _move(movers, city, seconds * TICKS_PER_SECOND, xs, ys)


@njit(cache=True, nogil=True)
def _draw(movers: Any, user: int) -> Any:
    movers.random[user] += GAMMA
    return scramble(movers.random[user])


@njit(cache=True, nogil=True)
def _place(movers: Any, city: Any) -> None:
    """Draw a class and a first place for everybody, and plan the first trip."""
    for user in range(movers.random.size):
        bits = _draw(movers, user)
        speed_class = 0
        while speed_class < NUM_CLASSES - 1 and bits & np.uint64(1):
            bits >>= np.uint64(1)
            speed_class += 1
        movers.speed_class[user] = speed_class
        slot = below(_draw(movers, user), NUM_SLOTS)
        for axis in range(2):
            street = city.places[slot, axis]
            movers.goal[user, axis] = street
            movers.position[user, axis] = city.streets[axis, street]
        _plan_trip(movers, city, user)


@njit(cache=True, nogil=True)
def _plan_trip(movers: Any, city: Any, user: int) -> None:
    """Choose the next goal and the way there.

    Requires the user to be at the goal of the last trip. Ensures that the trip
    starts with leg 0; it may be of length zero if every candidate was here.
    """
    here_x, here_y = movers.goal[user, 0], movers.goal[user, 1]
    wanted = _wanted_length(_draw(movers, user))
    best = np.int64(4 * SIDE)
    goal_x, goal_y = here_x, here_y
    for _ in range(_CANDIDATES):
        slot = below(_draw(movers, user), NUM_SLOTS)
        x, y = city.places[slot, 0], city.places[slot, 1]
        length = abs(city.streets[0, x] - city.streets[0, here_x]) + abs(
            city.streets[1, y] - city.streets[1, here_y]
        )
        if length > 0 and abs(length - wanted) < best:
            best = abs(length - wanted)
            goal_x, goal_y = x, y
    along_x = abs(city.streets[0, goal_x] - city.streets[0, here_x])
    along_y = abs(city.streets[1, goal_y] - city.streets[1, here_y])
    # The second leg goes the longer way; a long one is worth the way to an arterial.
    first = 0 if along_x < along_y else 1
    start, stop = (here_x, goal_x) if first == 0 else (here_y, goal_y)
    if start > stop:
        start, stop = stop, start
    corner = start + below(_draw(movers, user), stop - start + 1)
    if max(along_x, along_y) >= _LONG_HAUL:
        corner = city.nearest_arterial[first, corner]
    here = here_y if first == 0 else here_x
    movers.goal[user, 0], movers.goal[user, 1] = goal_x, goal_y
    movers.corner[user] = corner
    movers.first_axis[user] = first
    movers.leg[user] = 0
    movers.pace[user] = _pace(movers.speed_class[user], city.is_arterial[1 - first, here])


@njit(cache=True, nogil=True)
def _wanted_length(bits: Any) -> Any:
    """Draw a trip length: about the absolute value of a normal deviate, scaled."""
    total = np.int64(-(2 << 16))
    for _ in range(4):
        total += np.int64(bits & np.uint64(0xFFFF))
        bits >>= np.uint64(16)
    return (abs(total) * _TRIP_SCALE) >> 16


@njit(cache=True, nogil=True)
def _pace(speed_class: int, is_arterial: bool) -> int:
    """Return the ticks that a decimetre takes: class and street both limit the speed."""
    return max(1 << speed_class, 1 if is_arterial else 2)


@njit(cache=True, nogil=True)
def _move(movers: Any, city: Any, ticks: int, xs: Any, ys: Any) -> None:
    """Record and move everybody; see :func:`move`. Time is linear in people and trips."""
    for user in range(movers.random.size):
        for instant in range(xs.shape[0]):
            xs[instant, user] = movers.position[user, 0]
            ys[instant, user] = movers.position[user, 1]
            _advance(movers, city, user, ticks)


@njit(cache=True, nogil=True)
def _advance(movers: Any, city: Any, user: int, ticks: int) -> None:
    """Move one user for some ticks, through as many legs and trips as they last."""
    first = movers.first_axis[user]
    while True:
        leg = movers.leg[user]
        axis = 1 - first if leg == 1 else first
        target_street = movers.corner[user] if leg == 0 else movers.goal[user, axis]
        target = city.streets[axis, target_street]
        gap = target - movers.position[user, axis]
        pace = np.int64(movers.pace[user])
        if abs(gap) * pace > ticks:
            step = ticks // pace
            movers.position[user, axis] += step if gap > 0 else -step
            return
        ticks -= abs(gap) * pace
        movers.position[user, axis] = target
        if leg == 2:
            _plan_trip(movers, city, user)
            first = movers.first_axis[user]
        else:
            street = movers.corner[user] if leg == 0 else movers.goal[user, 1 - first]
            street_axis = first if leg == 0 else 1 - first
            movers.leg[user] = leg + 1
            movers.pace[user] = _pace(
                movers.speed_class[user], city.is_arterial[street_axis, street]
            )
