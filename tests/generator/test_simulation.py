from itertools import pairwise

import numpy as np
import pytest

from trajcloak.generator import simulation as simulation_module
from trajcloak.generator.network import build_network
from trajcloak.generator.roads import build_lengths, build_roads, object_speeds, top_speed
from trajcloak.generator.simulation import (
    CAPACITIES,
    FINENESS,
    Fleet,
    Positions,
    Simulation,
    build_capacities,
    build_movers,
    delays_of,
)

from .conftest import JUNCTIONS, LENGTH, SEED, USERS, build_town, distances_to_roads

ROUNDING = np.sqrt(2) / FINENESS
"""How far apart two points may move, or one from its road, because coordinates are rounded."""


@pytest.fixture(scope="module")
def city_roads(city):
    return build_roads(city, speed="middle", classes=5, threads=1)


@pytest.fixture(scope="module")
def town_roads(town):
    return build_roads(town, speed="middle", classes=5, threads=1)


def simulate(roads, users, instants, *, seed=1, stays=False, congestion=False, threads=1, cuts=()):
    """Positions of some instants, asked for in one block or cut into several."""
    simulation = Simulation(
        roads, users=users, seed=seed, stays=stays, congestion=congestion, threads=threads
    )
    edges = [0, *cuts, instants]
    blocks = [simulation.report(stop - start) for start, stop in pairwise(edges)]
    return Positions._make(np.concatenate(arrays) for arrays in zip(*blocks, strict=True))


def list_nodes(network):
    """The places of nodes, as they are reported."""
    x, y = (np.rint(values * FINENESS) / FINENESS for values in (network.x, network.y))
    return set(zip(x.tolist(), y.tolist(), strict=True))


def classes_of(roads, users, seed):
    return build_movers(roads, seed, 0, users).speed_class


def steps_of(found):
    return np.sqrt(np.diff(found.x, axis=0) ** 2 + np.diff(found.y, axis=0) ** 2)


def test_every_point_lies_on_a_road(columns, city):
    rng = np.random.default_rng(1)
    rows = rng.integers(0, LENGTH, 1500), rng.integers(0, USERS, 1500)
    assert distances_to_roads(city, columns["x"][rows], columns["y"][rows]).max() < ROUNDING


def test_coordinates_have_no_needless_digits(columns):
    for name in ("x", "y"):
        assert (columns[name] == np.rint(columns[name] * FINENESS) / FINENESS).all()


def test_objects_start_at_nodes_drawn_evenly(columns, city):
    nodes = list_nodes(city)
    starts = list(zip(columns["x"][0].tolist(), columns["y"][0].tolist(), strict=True))
    assert set(starts) <= nodes
    # So many of 1500 draws from about 2000 nodes are distinct.
    assert len(set(starts)) == pytest.approx(JUNCTIONS * (1 - np.exp(-USERS / JUNCTIONS)), rel=0.08)


def test_nobody_exceeds_the_speed_of_the_class_and_some_reach_it(city_roads):
    users = 4000
    steps = steps_of(simulate(city_roads, users, 12))
    classes = classes_of(city_roads, users, 1)
    limits = object_speeds(top_speed(city_roads.network, "middle"), 5)
    for speed_class, limit in enumerate(limits):
        fastest = steps[:, classes == speed_class].max()
        assert 0.995 * limit < fastest <= limit + ROUNDING


def test_road_class_limits_the_speed():
    town = build_town(15, 10)
    slow = build_network(town.x, town.y, np.stack([town.tails, town.heads], axis=1), classes=3)
    roads = build_roads(slow, speed="middle", classes=1, threads=1)
    # 46, times 2/3 three times, cut off each time.
    steps = steps_of(simulate(roads, 200, 10))
    assert steps.max() <= 13 + ROUNDING
    assert steps.max() > 12.9


@pytest.mark.parametrize("classes", [1, 2, 5, 8])
def test_shares_of_the_classes(town, classes):
    users = 8000
    roads = build_roads(town, speed="middle", classes=classes, threads=1)
    shares = np.bincount(classes_of(roads, users, 3), minlength=classes) / users
    expected = 0.5 ** np.minimum(np.arange(1, classes + 1), max(classes - 1, 0))
    assert expected.sum() == 1
    assert shares == pytest.approx(expected, abs=0.02)


def test_trips_have_about_the_wanted_length(city_roads):
    """Fast objects that stay show where their only trip ended."""
    fast = build_roads(city_roads.network, speed="fast", classes=1, threads=1)
    found = simulate(fast, 3000, 40, stays=True)
    trips = np.sqrt((found.x[-1] - found.x[0]) ** 2 + (found.y[-1] - found.y[0]) ** 2)
    diagonal = np.sqrt(sum(side**2 for side in fast.network.extent))
    # The mean of half a normal deviate is 0.8; trips of one or two edges are drawn again.
    assert trips.mean() == pytest.approx(0.8 * diagonal / 5, rel=0.1)
    assert np.median(trips) == pytest.approx(0.674 * diagonal / 5, rel=0.15)
    assert trips.min() > 0


def test_wanted_lengths_are_half_a_normal_deviate():
    lengths = build_lengths(3.0, 4.0)
    scale = (1 << 20) * 5 / 4 / 5
    assert (np.diff(lengths) > 0).all()
    assert lengths.mean() / scale == pytest.approx(np.sqrt(2 / np.pi), rel=0.001)
    assert np.median(lengths) / scale == pytest.approx(0.6745, rel=0.001)
    assert np.sqrt(np.mean((lengths / scale) ** 2)) == pytest.approx(1, rel=0.005)


def test_staying_and_continuing_agree_until_the_first_trip_ends(city_roads):
    staying = simulate(city_roads, 500, 40, stays=True)
    going_on = simulate(city_roads, 500, 40)
    same = (staying.x == going_on.x) & (staying.y == going_on.y)
    is_at_rest = np.zeros(same.shape, bool)
    is_at_rest[1:] = steps_of(staying) == 0
    # Where an object is at rest, it is for good; until it arrives, both are alike.
    assert (np.diff(is_at_rest.astype(int), axis=0) >= 0).all()
    first_difference = np.where(same.all(axis=0), 40, same.argmin(axis=0))
    first_rest = np.where(is_at_rest.any(axis=0), is_at_rest.argmax(axis=0), 40)
    assert (first_difference >= first_rest - 1).all()
    assert 0.3 < is_at_rest[-1].mean() < 1
    assert (steps_of(going_on) > 0).mean() > 0.99


def test_staying_objects_end_at_nodes(city_roads, city):
    found = simulate(city_roads, 300, 60, stays=True)
    rests = np.flatnonzero((found.x[-1] == found.x[-2]) & (found.y[-1] == found.y[-2]))
    nodes = list_nodes(city)
    ends = zip(found.x[-1][rests].tolist(), found.y[-1][rests].tolist(), strict=True)
    assert rests.size > 100
    assert set(ends) <= nodes


@pytest.mark.parametrize("congestion", [False, True])
def test_blocks_and_threads_do_not_show(town_roads, congestion):
    whole = simulate(town_roads, 700, 25, congestion=congestion)
    for threads, cuts in ((1, (1, 2, 11)), (2, ()), (5, (3,)), (2, range(1, 25))):
        pieces = simulate(
            town_roads, 700, 25, congestion=congestion, threads=threads, cuts=tuple(cuts)
        )
        for expected, actual in zip(whole, pieces, strict=True):
            assert (expected == actual).all()


def test_objects_do_not_depend_on_each_other(town_roads):
    many, few = (simulate(town_roads, users, 20) for users in (300, 120))
    for whole, part in zip(many, few, strict=True):
        assert (whole[:, :120] == part).all()


def test_long_logs_keep_little(town_roads):
    """Routes that lie behind are given up: the store does not grow with time."""
    fleet = Fleet(town_roads, 1, 0, 200, stays=False)
    delays = np.zeros(town_roads.network.num_edges, np.int8)
    sizes = []
    for _ in range(12):
        found = Positions(np.empty((50, 200)), np.empty((50, 200)), np.empty((50, 200), np.int8))
        fleet.report(delays, found)
        sizes.append(fleet._store.arcs.size)
    assert sizes[-1] <= 1.5 * sizes[2]
    assert sizes[-1] < 200 * 40 + 4 * town_roads.network.num_nodes


def test_congestion_slows_down(town_roads):
    free = simulate(town_roads, 3000, 20)
    jammed = simulate(town_roads, 3000, 20, congestion=True)
    assert (free.x[:2] == jammed.x[:2]).all()
    assert steps_of(jammed)[1:].mean() < 0.5 * steps_of(free)[1:].mean()
    assert steps_of(jammed).mean() > 0
    assert distances_to_roads(town_roads.network, jammed.x[-1, :200], jammed.y[-1, :200]).max() < (
        ROUNDING
    )


def test_few_objects_are_not_slowed_down(town_roads):
    free, alone = (simulate(town_roads, 3, 20, congestion=congestion) for congestion in (0, 1))
    assert (free.x == alone.x).all()


def test_delays_follow_the_counts_of_the_instant_before(town_roads, monkeypatch):
    seen = []

    def watch(counts, capacities):
        seen.append(counts.copy())
        return delays_of(counts, capacities)

    monkeypatch.setattr(simulation_module, "delays_of", watch)
    simulate(town_roads, 500, 4, congestion=True)
    assert seen[0].sum() == 0
    assert all(400 < counts.sum() <= 500 for counts in seen[1:])


def test_capacities_by_road_class(town):
    capacities = build_capacities(town)
    assert capacities.size == town.num_edges
    assert (capacities[town.edges] == np.array(CAPACITIES)[town.classes]).all()
    assert delays_of(np.array([0, 5, 6, 10, 11, 99]), np.full(6, 5)).tolist() == [0, 0, 1, 1, 2, 2]


def test_a_star_has_no_trips_of_three_edges():
    """Everybody stays at the first node, and nothing hangs."""
    ends = [(0, node) for node in range(1, 6)]
    star = build_network([0, 200, 0, -200, 0, 150], [0, 0, 200, 0, -200, 150], ends)
    found = simulate(build_roads(star, speed="middle", classes=2, threads=1), 20, 3)
    assert (found.x == found.x[0]).all()
    assert (found.y == found.y[0]).all()


def test_one_way_streets_are_followed():
    """On a one-way ring everybody goes round the same way."""
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ends = np.stack([np.arange(40), (np.arange(40) + 1) % 40], axis=1)
    ring = build_network(500 * np.cos(angles), 500 * np.sin(angles), ends, is_one_way=True)
    found = simulate(build_roads(ring, speed="middle", classes=1, threads=1), 100, 30)
    turns = found.x[:-1] * found.y[1:] - found.x[1:] * found.y[:-1]
    assert (turns > 0).all()


def test_classes_share_prepared_routes(town):
    five = build_roads(town, speed="middle", classes=5, threads=2)
    two = build_roads(town, speed="middle", classes=2, threads=1)
    assert two.routes[0] is five.routes[0]


def test_seeds_differ(town_roads):
    assert (simulate(town_roads, 50, 5).x != simulate(town_roads, 50, 5, seed=SEED).x).any()
