"""What people ask for: a category and a detail, by kind of place and time of day.

The kind of place where a person is decides the mix; the hour shifts it a little.
Some of the categories are of the kind that nobody would want to be linked to.

Where junctions are densest is downtown, around it the old town, the rest is
suburb; a hub makes its surroundings a place of its own kind. A network that names
no hubs gets some at nodes drawn at random, the same at every run.
"""

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from trajcloak.generator.network import Hub, Network
from trajcloak.kernels.splitmix import GAMMA, below, key_of, scramble
from trajcloak.kernels.threads import run_sliced

REQUEST_COLUMNS = ("category", "detail")
"""The request attributes of a generated log."""

NO_REQUEST = -1
"""Stands for a location without a request."""

DETAILS = {
    "restaurant": ("italian", "thai", "burger", "vegan", "halal", "kosher"),
    "cafe": ("espresso bar", "bakery", "internet"),
    "bar": ("pub", "cocktail", "gay", "live music"),
    "hotel": ("budget", "business", "by the hour"),
    "bus": ("city line", "night line", "airport express"),
    "fuel": ("petrol", "charging", "diesel"),
    "parking": ("garage", "street", "accessible"),
    "pharmacy": ("prescription", "emergency", "methadone"),
    "hospital": ("emergency", "maternity", "oncology", "psychiatry", "hiv clinic"),
    "worship": ("church", "mosque", "synagogue", "temple"),
    "party office": ("liberal", "conservative", "green", "socialist"),
    "counselling": ("legal", "debt", "addiction", "family"),
    "library": ("public", "university"),
    "shopping": ("groceries", "clothes", "electronics", "toys"),
}
"""The details of each category, commonest first."""

PLACE_MIXES = {
    "suburb": {"shopping": 8, "fuel": 6, "pharmacy": 5, "worship": 5, "bus": 7, "library": 3},
    "downtown": {"restaurant": 9, "cafe": 8, "bar": 5, "bus": 9, "parking": 8, "shopping": 6},
    "old town": {"restaurant": 9, "bar": 9, "cafe": 8, "worship": 6, "hotel": 6, "counselling": 3},
    "station": {"bus": 20, "hotel": 6, "cafe": 7, "pharmacy": 3, "parking": 5},
    "government": {"party office": 9, "counselling": 5, "bus": 6, "parking": 5, "cafe": 5},
    "campus": {"library": 12, "cafe": 9, "bar": 5, "bus": 8, "party office": 3, "counselling": 4},
    "hospital": {"hospital": 25, "pharmacy": 9, "parking": 8, "worship": 3, "counselling": 4},
    "airport": {"hotel": 12, "parking": 12, "bus": 10, "fuel": 5, "restaurant": 4},
    "industry": {"fuel": 12, "bus": 8, "restaurant": 4, "parking": 4},
    "mall": {"shopping": 20, "restaurant": 7, "parking": 9, "cafe": 5, "pharmacy": 3},
    "leisure": {"bar": 10, "restaurant": 8, "parking": 9, "bus": 7},
}
"""How often each category is asked for at a kind of place; 1 where not named."""

RUSH_HOURS = {
    "restaurant": (12, 13, 18, 19, 20),
    "cafe": (8, 9, 10, 15),
    "bar": (18, 19, 20, 21, 22, 23, 0, 1),
    "bus": (7, 8, 16, 17),
    "hotel": (20, 21, 22, 23),
    "fuel": (7, 17, 18),
    "worship": (9, 18),
    "pharmacy": (17, 18),
}
"""The hours at which a category is asked for half as often again."""

CHOICES = tuple((category, detail) for category in DETAILS for detail in DETAILS[category])
"""Every request that can be made; a request is kept as a number of this list."""

_HOUR = 3600
_HOURS = 24
_CERTAIN = 1 << 53

KINDS = tuple(PLACE_MIXES)
"""The kinds of places; a kind is kept as a number of this list."""

HUBS_PER_KIND = {
    "station": 2, "government": 1, "campus": 2, "hospital": 4,
    "airport": 1, "industry": 3, "mall": 4, "leisure": 3,
}  # fmt: skip
"""How many hubs a network gets that names none."""

_DOWNTOWN_SHARE = 0.1
_OLD_TOWN_SHARE = 0.25
_CELLS = 48
_HUB_REACH = 40


def assign_place_kinds(network: Network) -> NDArray[np.int8]:
    """Return the kind of place around each node, as a number of ``KINDS``."""
    density = _local_density(network)
    shares = np.array([_DOWNTOWN_SHARE, _OLD_TOWN_SHARE])
    downtown, old_town = np.sort(density)[::-1][(shares * density.size).astype(int)]
    kinds = np.where(density >= old_town, KINDS.index("old town"), KINDS.index("suburb"))
    kinds[density >= downtown] = KINDS.index("downtown")
    nearest = np.ones(network.num_nodes)
    for hub in network.hubs or _draw_hubs(network):
        dx, dy = (network.x - hub.x) / hub.radius, (network.y - hub.y) / hub.radius
        distance = dx * dx + dy * dy
        kinds[distance < nearest] = KINDS.index(hub.kind)
        nearest = np.minimum(nearest, distance)
    return kinds.astype(np.int8)


def _local_density(network: Network) -> Any:
    """Count the nodes in the cell of each node and the eight around it."""
    unit = max(network.extent) / _CELLS
    column, row = (
        np.minimum((values - values.min()) // unit, _CELLS - 1).astype(np.int64) + 1
        for values in (network.x, network.y)
    )
    counts = np.zeros((_CELLS + 2, _CELLS + 2), np.int64)
    np.add.at(counts, (column, row), 1)
    shifts = (-1, 0, 1)
    return sum(counts[column + dx, row + dy] for dx in shifts for dy in shifts)


def _draw_hubs(network: Network) -> list[Hub]:
    """Put hubs at nodes drawn at random, so that most are where most nodes are."""
    kinds = [kind for kind, number in HUBS_PER_KIND.items() for _ in range(number)]
    numbers = np.arange(len(kinds), dtype=np.uint64)
    drawn = scramble(key_of(0, "hubs") + GAMMA * numbers)
    nodes = [below(number, network.num_nodes) for number in drawn]
    radius = max(network.extent) / _HUB_REACH
    return [
        Hub(f"{kind} {index}", kind, float(network.x[node]), float(network.y[node]), radius)
        for index, (kind, node) in enumerate(zip(kinds, nodes, strict=True))
    ]


@cache
def _running_weights() -> NDArray[np.int64]:
    """Return the running sums of the choices' weights: (hours, kinds of places, choices)."""
    weights = [
        [[_weight(kind, *choice, hour) for choice in CHOICES] for kind in KINDS]
        for hour in range(_HOURS)
    ]
    return np.cumsum(np.array(weights, np.int64), axis=2)


def _weight(kind: str, category: str, detail: str, hour: int) -> int:
    """Weigh a choice; a category's weight is split 1 : 1/2 : 1/3 ... over its details."""
    details = DETAILS[category]
    shares = [1000 // rank for rank in range(1, len(details) + 1)]
    hurry = 3 if hour in RUSH_HOURS.get(category, ()) else 2
    common = PLACE_MIXES[kind].get(category, 1)
    return 1000 * common * hurry * shares[details.index(detail)] // sum(shares)


def draw_requests(
    seed: int,
    share: float,
    moments: NDArray[np.int64],
    first_instant: int,
    places: NDArray[np.int8],
    threads: int,
) -> NDArray[np.int16]:
    """Decide for each location whether it comes with a request, and with which.

    ``moments`` are the seconds since 1970 of the instants, and ``places``, (instants, users), the
    kinds of places where the users are. Returns numbers of ``CHOICES``, or ``NO_REQUEST``, in the
    shape of ``places``.
    """
    requests = np.empty(places.shape, np.int16)
    key, bound = key_of(seed, "requests"), np.uint64(round(share * _CERTAIN))
    hours = moments // _HOUR % _HOURS

    def draw(start: int, stop: int) -> None:
        block = places[:, start:stop], requests[:, start:stop]
        # Without the JIT, numpy would warn of the overflow that the generator relies on.
        with np.errstate(over="ignore"):
            _draw_requests(_running_weights(), key, bound, hours, (first_instant, start), block)

    run_sliced(draw, places.shape[1], threads)
    return requests


@njit(cache=True, nogil=True)
def _draw_requests(weights: Any, key: Any, bound: Any, hours: Any, first: Any, block: Any) -> None:
    """Fill the requests of a block, whose first instant and user have the numbers ``first``.

    Each is a function of the key and the numbers of user and instant, so that
    blocks and slices of users can be cut anywhere.
    """
    places, requests = block
    first_instant, first_user = first
    for instant in range(requests.shape[0]):
        counter = np.uint64(2 * (first_instant + instant))
        for user in range(requests.shape[1]):
            stream = scramble(key + GAMMA * np.uint64(first_user + user))
            if scramble(stream + GAMMA * counter) >> np.uint64(11) >= bound:
                requests[instant, user] = NO_REQUEST
                continue
            ends = weights[hours[instant], places[instant, user]]
            draw = below(scramble(stream + GAMMA * (counter + np.uint64(1))), ends[-1])
            choice = 0
            while ends[choice] <= draw:
                choice += 1
            requests[instant, user] = choice


def request_columns(requests: NDArray[np.int16]) -> tuple[Any, Any]:
    """Spell out requests: the category and the detail of each, null where there is none."""
    codes = pa.array(requests, mask=requests == NO_REQUEST)
    category, detail = (pa.array(texts, pa.string()) for texts in zip(*CHOICES, strict=True))
    return category.take(codes), detail.take(codes)
