"""The plan of the embedded city: coast, hills, districts, motorways, hubs; what is on land.

Two cities face each other across a bay. The western one fills the tip of a
peninsula; a strait divides it from a headland in the north. Bridges cross the
strait and the bay; on the way of one lies an island. All figures are in metres,
from the south-western corner of a square. Points are tested against the coast in
whole decimetres, so that every test is exact.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trajcloak.generator.network import Hub
from trajcloak.kernels.splitmix import GAMMA, key_of, scramble

SIDE = 45_000
"""Side of the square."""

_STRAIGHT, _SLIGHT, _QUARTER = (0, 1, 1), (5, 12, 13), (3, 4, 5)
_TILTED, _LEFT, _SLIGHT_LEFT = (20, 21, 29), (-8, 15, 17), (-12, 35, 37)

_ROUNDS = 4
_ROUGHNESS = 0.14


class Coastline(NamedTuple):
    """A coast: points along the shore, and the corners of the map that close it."""

    shore: tuple[tuple[int, int], ...]
    map_corners: tuple[tuple[int, int], ...] = ()


class District(NamedTuple):
    """A part of the city with a grid of streets of its own."""

    x: int  # Its centre; a point belongs to the district with the nearest centre.
    y: int
    spacing: float  # The distance between its streets, compared with other districts.
    # Sine and cosine of the angle of its grid, as parts of a third number.
    turn: tuple[int, int, int]


class Hill(NamedTuple):
    """An ellipse without streets."""

    x: int
    y: int
    width: int
    height: int


# fmt: off
COASTS = (
    Coastline(
        (
            (5_000, 0), (5_600, 4_000), (4_500, 8_000), (5_700, 12_000), (4_900, 17_000),
            (5_500, 22_000), (4_900, 26_000), (5_700, 29_300), (9_000, 31_400),
            (13_000, 31_100), (16_600, 30_300), (18_600, 27_600), (18_900, 24_000),
            (17_700, 20_500), (19_700, 17_000), (18_400, 14_000), (20_600, 10_500),
            (22_500, 6_900), (24_600, 5_000), (27_000, 5_600), (28_100, 8_500),
            (26_900, 12_000), (28_300, 16_000), (27_200, 20_000), (26_300, 24_000),
            (28_100, 28_000), (27_000, 32_000), (29_100, 36_000), (28_300, 40_000),
            (30_000, 45_000),
        ),
        map_corners=((45_000, 45_000), (45_000, 0)),
    ),
    Coastline(
        (
            (3_000, 45_000), (2_600, 41_000), (5_000, 38_200), (8_000, 35_400),
            (10_500, 34_300), (13_000, 35_900), (14_500, 38_500), (16_800, 41_000),
            (16_200, 45_000),
        ),
    ),
    Coastline(
        (
            (21_100, 26_300), (22_200, 25_400), (23_400, 26_000), (23_500, 27_300),
            (22_300, 28_000), (21_300, 27_400), (21_100, 26_300),
        ),
    ),
)
# fmt: on
"""The coasts, with the land on the right, before they are roughened."""

HILLS = (
    Hill(9_600, 20_300, 1_400, 2_200),
    Hill(8_300, 8_600, 2_000, 4_200),
    Hill(11_700, 3_000, 1_300, 2_400),
    Hill(41_000, 34_000, 3_200, 9_000),
    Hill(39_500, 17_500, 2_600, 8_500),
    Hill(37_500, 26_800, 1_500, 2_600),
    Hill(43_000, 6_000, 2_500, 3_600),
    Hill(6_300, 41_500, 2_100, 3_400),
    Hill(14_300, 43_200, 900, 1_400),
    Hill(7_600, 25_800, 2_600, 420),
    Hill(34_600, 9_000, 900, 2_000),
)
"""Hills and parks."""

DISTRICTS = (
    District(16_300, 27_700, 0.42, _STRAIGHT),
    District(15_300, 25_300, 0.52, _TILTED),
    District(13_000, 28_800, 0.55, _STRAIGHT),
    District(9_300, 28_800, 0.72, _SLIGHT),
    District(7_000, 23_600, 0.80, _STRAIGHT),
    District(12_400, 24_300, 0.62, _SLIGHT_LEFT),
    District(16_400, 21_800, 0.72, _QUARTER),
    District(12_300, 20_000, 0.80, _LEFT),
    District(7_100, 17_600, 0.95, _SLIGHT),
    District(16_400, 16_700, 0.95, _SLIGHT_LEFT),
    District(11_600, 14_600, 1.05, _TILTED),
    District(16_400, 10_800, 1.15, _LEFT),
    District(6_900, 12_700, 1.30, _STRAIGHT),
    District(15_600, 5_000, 1.35, _QUARTER),
    District(7_400, 2_600, 1.70, _SLIGHT_LEFT),
    District(22_500, 2_300, 1.45, _SLIGHT),
    District(29_300, 26_300, 0.50, _SLIGHT),
    District(31_300, 30_300, 0.66, _STRAIGHT),
    District(32_300, 23_000, 0.72, _QUARTER),
    District(29_700, 20_000, 0.82, _LEFT),
    District(34_800, 27_300, 1.15, _TILTED),
    District(32_300, 35_600, 0.95, _SLIGHT_LEFT),
    District(30_300, 14_600, 0.95, _SLIGHT),
    District(34_800, 16_400, 1.25, _STRAIGHT),
    District(31_300, 8_300, 1.05, _LEFT),
    District(37_300, 8_600, 1.55, _QUARTER),
    District(30_300, 2_600, 1.30, _STRAIGHT),
    District(39_000, 2_300, 1.80, _SLIGHT),
    District(33_800, 41_600, 1.35, _SLIGHT),
    District(38_600, 42_500, 1.90, _TILTED),
    District(36_300, 34_000, 1.50, _LEFT),
    District(43_300, 24_300, 1.70, _STRAIGHT),
    District(42_800, 12_500, 2.00, _SLIGHT),
    District(10_600, 37_300, 1.05, _SLIGHT),
    District(12_300, 41_600, 1.25, _TILTED),
    District(4_300, 43_300, 1.90, _STRAIGHT),
    District(22_300, 26_700, 0.70, _QUARTER),
)

# fmt: off
MOTORWAYS = {
    "Peninsula Freeway": (
        (9_500, 0), (13_400, 4_600), (14_300, 9_500), (14_200, 14_500), (14_300, 19_000),
        (16_800, 22_700), (16_100, 25_900),
    ),
    "Gate Bridge": (
        (6_900, 0), (6_900, 3_500), (6_200, 8_500), (7_200, 14_000), (6_900, 20_000),
        (7_300, 24_500), (8_900, 28_500), (9_900, 31_500), (10_500, 35_000), (11_200, 39_000),
        (12_900, 45_000),
    ),
    "Bay Bridge": (
        (13_700, 25_600), (16_100, 25_900), (18_700, 26_300), (22_300, 26_600), (26_600, 26_500),
        (29_600, 27_900), (34_000, 29_300), (37_200, 30_300), (39_000, 26_300), (45_000, 27_000),
    ),
    "Eastshore Freeway": (
        (32_800, 0), (32_300, 6_000), (31_700, 12_000), (31_200, 18_000), (30_300, 24_000),
        (29_600, 27_900), (30_300, 33_000), (31_800, 38_000), (32_300, 45_000),
    ),
    "South Bridge": (
        (6_900, 15_300), (11_000, 15_800), (14_300, 14_600), (19_000, 13_900), (27_300, 14_000),
        (31_600, 13_300), (36_400, 12_300), (40_500, 9_600), (45_000, 10_300),
    ),
    "North Bridge": (
        (11_400, 39_600), (16_000, 40_300), (22_000, 39_300), (28_700, 37_300), (31_600, 37_600),
        (36_800, 38_300), (37_600, 41_600), (45_000, 43_400),
    ),
    "South Loop": (
        (9_900, 700), (16_500, 2_300), (24_300, 3_000), (32_600, 2_800), (45_000, 1_800),
    ),
}
# fmt: on
"""The motorways: smooth lines through points. Where two have a point in common, they meet."""

HUBS = (
    Hub("Downtown", "downtown", 16_300, 27_700, 1_500),
    Hub("Eastport", "downtown", 29_300, 26_300, 1_200),
    Hub("Old Town", "old town", 13_600, 29_200, 1_400),
    Hub("Central Station", "station", 15_600, 25_000, 700),
    Hub("Eastport Station", "station", 30_600, 25_200, 500),
    Hub("Parliament", "government", 13_600, 26_600, 800),
    Hub("University", "campus", 32_300, 31_100, 1_200),
    Hub("College", "campus", 8_400, 22_600, 800),
    Hub("General Hospital", "hospital", 12_300, 23_800, 700),
    Hub("Eastside Clinic", "hospital", 32_800, 21_800, 600),
    Hub("Northside Clinic", "hospital", 11_300, 38_000, 600),
    Hub("Airport", "airport", 18_000, 16_600, 1_400),
    Hub("Harbour", "industry", 27_700, 22_300, 1_600),
    Hub("Docks", "industry", 17_700, 22_600, 1_000),
    Hub("Eastgate Mall", "mall", 34_600, 25_300, 700),
    Hub("Westfield Mall", "mall", 7_600, 18_600, 700),
    Hub("Southgate Mall", "mall", 15_300, 10_600, 800),
    Hub("Stadium", "leisure", 16_600, 20_600, 700),
    Hub("Ocean Beach", "leisure", 5_900, 24_300, 800),
)


def build_coast(lines: tuple[Coastline, ...]) -> NDArray[np.int64]:
    """Return the sides of all coasts, roughened: (sides, 4) as x, y, x, y."""
    return np.concatenate([_sides(line, number) for number, line in enumerate(lines)])


def _sides(line: Coastline, number: int) -> NDArray[np.int64]:
    """Move the middle of each side of the shore by a random share of its length, several times."""
    shore = np.array(line.shore, np.float64) * 10
    key = key_of(number, "coast")
    for level in range(_ROUNDS):
        steps = np.diff(shore, axis=0)
        counters = np.arange(len(steps), dtype=np.uint64) + np.uint64(level << 16)
        drawn = (scramble(key + GAMMA * counters) >> np.uint64(43)).astype(np.float64)
        shift = (drawn / (1 << 20) - 1) * _ROUGHNESS
        middles = shore[:-1] + steps / 2 + shift[:, None] * (steps[:, ::-1] * (-1, 1))
        shore = np.insert(shore, np.arange(1, len(shore)), middles, axis=0)
    corners = np.array(line.map_corners, np.float64).reshape(-1, 2) * 10
    points = np.rint(np.concatenate([shore, corners])).astype(np.int64)
    return np.concatenate([points, np.roll(points, -1, axis=0)], axis=1)


@njit(cache=True, nogil=True)
def on_land(x: Any, y: Any, coast: Any) -> Any:
    """Tell for each point whether it is on land: inside an odd number of coasts."""
    inside = np.zeros(x.size, np.bool_)
    for point in range(x.size):
        for side in range(coast.shape[0]):
            x1, y1, x2, y2 = coast[side]
            if (y1 > y[point]) != (y2 > y[point]):
                turn = (x2 - x1) * (y[point] - y1) - (x[point] - x1) * (y2 - y1)
                if (turn > 0) == (y2 > y1):
                    inside[point] = not inside[point]
    return inside


@njit(cache=True, nogil=True)
def crosses_water(x: Any, y: Any, ends: Any, coast: Any) -> Any:
    """Tell for each edge whether it meets a coast."""
    crosses = np.zeros(ends.shape[0], np.bool_)
    for edge in range(ends.shape[0]):
        ax, ay, bx, by = x[ends[edge, 0]], y[ends[edge, 0]], x[ends[edge, 1]], y[ends[edge, 1]]
        for side in range(coast.shape[0]):
            cx, cy, dx, dy = coast[side]
            if max(cx, dx) < min(ax, bx) or min(cx, dx) > max(ax, bx):
                continue
            if max(cy, dy) < min(ay, by) or min(cy, dy) > max(ay, by):
                continue
            turn_c = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
            turn_d = (bx - ax) * (dy - ay) - (by - ay) * (dx - ax)
            turn_a = (dx - cx) * (ay - cy) - (dy - cy) * (ax - cx)
            turn_b = (dx - cx) * (by - cy) - (dy - cy) * (bx - cx)
            if (turn_c >= 0) != (turn_d >= 0) and (turn_a >= 0) != (turn_b >= 0):
                crosses[edge] = True
                break
    return crosses
