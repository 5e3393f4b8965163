"""The embedded city: a grid of streets, and the hubs that draw people.

North-south and east-west streets cross at intersections. They lie closest
together around downtown; every few streets one is an arterial, which is
faster. Lengths are whole decimetres, so that a point on a street is exactly on
it, and no result depends on how a machine rounds.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trajcloak.generator.splitmix import GAMMA, key_of, scramble

SIDE = 400_000
"""Side of the square city, in decimetres."""

NUM_STREETS = 181
"""Streets that run north-south, and as many that run east-west."""

NUM_SLOTS = 1 << 18
"""Length of the table that places are drawn from."""

_ARTERIAL_STEP = 9
_EDGE_GAP = 5
_BACKGROUND = 180


@dataclass(frozen=True)
class Hub:
    """A part of the city that draws people.

    Parameters
    ----------
    name
        Unique name.
    kind
        What people ask for there: a key of ``requests.HUB_MIXES``.
    x, y
        Its centre, in metres.
    radius
        How far its pull reaches, in metres.
    weight
        How many people it draws, compared with the others.
    """

    name: str
    kind: str
    x: int
    y: int
    radius: int
    weight: int


HUBS = (
    Hub("Downtown", "downtown", 18_400, 21_600, 1_800, 220),
    Hub("Old Town", "old town", 16_100, 19_600, 900, 90),
    Hub("Central Station", "station", 20_300, 23_100, 500, 60),
    Hub("Parliament", "government", 17_300, 24_500, 600, 50),
    Hub("University", "campus", 23_600, 26_100, 900, 80),
    Hub("General Hospital", "hospital", 13_600, 23_300, 500, 45),
    Hub("Northside Clinic", "hospital", 21_800, 32_100, 400, 20),
    Hub("Airport", "airport", 34_200, 10_300, 700, 45),
    Hub("Harbour", "industry", 6_900, 13_900, 1_500, 45),
    Hub("Eastgate Mall", "mall", 29_300, 21_900, 500, 50),
    Hub("Westfield Mall", "mall", 8_700, 26_900, 500, 40),
    Hub("Stadium", "leisure", 20_900, 15_200, 500, 30),
    Hub("Riverside", "suburb", 26_600, 13_100, 1_600, 50),
    Hub("Hillcrest", "suburb", 12_200, 33_400, 1_800, 55),
    Hub("Lakeview", "suburb", 32_100, 31_300, 1_900, 50),
    Hub("Southfield", "suburb", 13_300, 7_600, 1_800, 50),
)
"""The hubs of the city."""


class City(NamedTuple):
    """The streets as arrays, the form that the kernels take.

    Axis 0 is x, axis 1 is y. A street of axis 0 runs north-south, and
    ``streets[0, i]`` is its x; one of axis 1 runs east-west. An intersection is
    a street of each axis.

    Parameters
    ----------
    streets
        int32 (2, streets): where each street lies, in decimetres, ascending.
    is_arterial
        bool (2, streets).
    nearest_arterial
        int16 (2, streets): the nearest arterial of the same axis, by number.
    places
        int16 (slots, 2): each intersection as often as it draws people; to
        draw a slot is to draw a place.
    """

    streets: NDArray[np.int32]
    is_arterial: NDArray[np.bool_]
    nearest_arterial: NDArray[np.int16]
    places: NDArray[np.int16]


@cache
def build_city() -> City:
    """Build the city; it is always the same one."""
    streets = np.stack([_street_positions(axis) for axis in (0, 1)])
    numbers = np.arange(NUM_STREETS)
    arterials = numbers[_ARTERIAL_STEP // 2 :: _ARTERIAL_STEP]
    nearest = arterials[np.abs(numbers[:, None] - arterials).argmin(axis=1)]
    is_arterial = np.isin(numbers, arterials)
    return City(
        streets=streets.astype(np.int32),
        is_arterial=np.stack([is_arterial, is_arterial]),
        nearest_arterial=np.stack([nearest, nearest]).astype(np.int16),
        places=_place_table(streets),
    )


def street_name(axis: int, number: int) -> str:
    """Name a street: avenues run north-south, streets east-west.

    Examples
    --------
    >>> street_name(0, 4), street_name(1, 30)
    ('5th Boulevard', '31st Street')
    """
    position = number + 1
    teen = position // 10 % 10 == 1
    ending = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(position % 10, "th")
    if build_city().is_arterial[axis, number]:
        return f"{position}{ending} {('Boulevard', 'Parkway')[axis]}"
    return f"{position}{ending} {('Avenue', 'Street')[axis]}"


def _street_positions(axis: int) -> NDArray[np.int64]:
    """Place the streets of an axis: gaps widen away from downtown, and vary."""
    numbers = np.arange(NUM_STREETS, dtype=np.int64)
    downtown = NUM_STREETS * (47, 53)[axis] // 100
    reach = max(downtown, NUM_STREETS - downtown)
    widening = 1000 + (_EDGE_GAP - 1) * 1000 * np.abs(numbers - downtown) // reach
    key = key_of(0, ("avenues", "streets")[axis])
    jitter = (scramble(key + GAMMA * numbers.astype(np.uint64)) >> np.uint64(54)).astype(np.int64)
    ends = np.cumsum(widening * (600 + jitter * 800 // 1024))
    positions: NDArray[np.int64] = ends * SIDE // (ends[-1] + ends[0])
    return positions


def _place_table(streets: NDArray[np.int64]) -> NDArray[np.int16]:
    """Give each intersection slots in proportion to the pull of the hubs on it."""
    x, y = streets[0][:, None] / 10, streets[1][None, :] / 10
    block_x, block_y = (np.gradient(positions / 10) for positions in streets)
    blocks = block_x[:, None] * block_y[None, :]
    pull = np.full(blocks.shape, _BACKGROUND / blocks.size)
    for hub in HUBS:
        squared = ((x - hub.x) ** 2 + (y - hub.y) ** 2) / hub.radius**2
        # Times the land around an intersection: a hub draws as many people where streets are few.
        pull += hub.weight * blocks / (np.pi * hub.radius**2 * (1 + squared) * (1 + squared))
    # Whole numbers, because the sum of floats depends on the machine's way of adding.
    ends = np.cumsum(np.rint(pull * 1_000_000).astype(np.int64).ravel())
    slots = np.arange(NUM_SLOTS, dtype=np.int64) * ends[-1] // NUM_SLOTS
    place = np.searchsorted(ends, slots, side="right")
    return np.stack(np.divmod(place, NUM_STREETS), axis=1).astype(np.int16)
