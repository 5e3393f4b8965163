import numpy as np
import pytest

from trajcloak.generator.city import build_city
from trajcloak.generator.city_plan import (
    COASTS,
    DISTRICTS,
    HILLS,
    HUBS,
    SIDE,
    build_coast,
    crosses_water,
    on_land,
)
from trajcloak.generator.requests_by_place import KINDS


@pytest.fixture(scope="module")
def coast():
    return build_coast(COASTS)


def decimetres(network):
    return np.rint(network.x * 10).astype(np.int64), np.rint(network.y * 10).astype(np.int64)


@pytest.mark.parametrize("junctions", [2_000, 6_000, 50_000])
def test_size_is_about_what_was_asked_for(junctions):
    city = build_city(junctions)
    assert city.num_nodes == pytest.approx(junctions, rel=0.15)
    assert city.left_out < 0.05 * junctions
    assert max(city.extent) == pytest.approx(SIDE, rel=0.02)


def test_always_the_same():
    first = build_city(2_000)
    build_city.cache_clear()
    again = build_city(2_000)
    for name in ("x", "y", "heads", "classes", "lengths"):
        assert (getattr(first, name) == getattr(again, name)).all()


def test_only_motorways_cross_water(city, coast):
    x, y = decimetres(city)
    ends = np.stack([city.tails, city.heads], axis=1).astype(np.int64)
    wet = crosses_water(x, y, ends, coast)
    assert (city.classes[wet] == 0).all()
    # Twice for each direction, at least: on and off each of four bridges, and the island.
    assert wet.sum() >= 2 * 2 * 4
    streets = np.unique(city.tails[city.classes > 0])
    assert on_land(x[streets], y[streets], coast).all()


def test_bridges_are_kilometres_long(city):
    x, y = decimetres(city)
    middle = (x[city.tails] + x[city.heads]) // 2, (y[city.tails] + y[city.heads]) // 2
    is_bridge = ~on_land(*middle, build_coast(COASTS))
    assert is_bridge.sum() > 100
    assert city.lengths[is_bridge].sum() / 2 > 20_000


def test_land_and_water(coast):
    points = {
        (16_000, 27_000): True,
        (30_000, 26_000): True,
        (10_500, 37_000): True,
        (22_300, 26_700): True,
        (23_000, 20_000): False,
        (2_000, 20_000): False,
        (10_000, 33_000): False,
        (44_999, 1): True,
    }
    x, y = (10 * np.array(axis, np.int64) for axis in zip(*points, strict=True))
    assert on_land(x, y, coast).tolist() == list(points.values())


def test_coasts_are_closed_and_do_not_cross_themselves(coast):
    starts, ends = coast[:, :2], coast[:, 2:]
    assert sorted(map(tuple, starts.tolist())) == sorted(map(tuple, ends.tolist()))
    x, y = coast[:, ::2].T.ravel(), coast[:, 1::2].T.ravel()
    number = np.arange(len(coast))
    for side in range(0, len(coast), 3):
        near = (np.abs(number - side) <= 1) | (starts == ends[side]).all(axis=1)
        near |= (ends == starts[side]).all(axis=1)
        one = np.array([[side, side + len(coast)]])
        assert not crosses_water(x, y, one, coast[~near]).any()


def test_streets_are_densest_downtown(city):
    def within(x, y):
        return np.count_nonzero((np.abs(city.x - x) < 1000) & (np.abs(city.y - y) < 1000))

    assert within(15_500, 27_000) > 3 * within(38_600, 42_500) > 0


def test_no_streets_on_hills(city):
    is_street = np.zeros(city.num_nodes, bool)
    is_street[city.tails[city.classes > 1]] = True
    for hill in HILLS:
        dx, dy = (city.x - hill.x) / hill.width, (city.y - hill.y) / hill.height
        assert not (is_street & (dx * dx + dy * dy < 0.98)).any()


def test_road_classes(city):
    shares = np.bincount(city.classes, minlength=8) / city.classes.size
    assert (shares[:5] > 0).all()
    assert shares[4] > 0.4
    assert shares[0] < 0.35


def test_plan_is_sound():
    assert len({hub.name for hub in HUBS}) == len(HUBS)
    assert {hub.kind for hub in HUBS} <= set(KINDS)
    for district in DISTRICTS:
        sine, cosine, whole = district.turn
        assert sine**2 + cosine**2 == whole**2
