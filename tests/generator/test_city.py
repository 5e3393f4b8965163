import numpy as np
from trajcloak.generator.city import HUBS, NUM_SLOTS, NUM_STREETS, SIDE, build_city, street_name


def test_streets_ascend_inside_the_city():
    streets = build_city().streets
    assert streets.shape == (2, NUM_STREETS)
    assert (np.diff(streets) >= 300).all()
    assert streets.min() > 0
    assert streets.max() < SIDE


def test_streets_are_densest_around_downtown():
    downtown = HUBS[0]
    for positions, centre in zip(build_city().streets / 10, (downtown.x, downtown.y), strict=True):
        near = np.count_nonzero(np.abs(positions - centre) < 2_000)
        edge = np.count_nonzero(positions < 4_000)
        assert near > 2 * edge


def test_spacing_is_irregular():
    gaps = np.diff(build_city().streets)
    assert min(len(set(axis.tolist())) for axis in gaps) > NUM_STREETS // 2


def test_nearest_arterial_is_an_arterial_and_the_nearest():
    city = build_city()
    for axis in (0, 1):
        arterials = np.flatnonzero(city.is_arterial[axis])
        assert 0.05 < arterials.size / NUM_STREETS < 0.25
        for street, nearest in enumerate(city.nearest_arterial[axis]):
            assert abs(int(nearest) - street) == np.abs(arterials - street).min()
            assert city.is_arterial[axis, nearest]


def test_every_intersection_can_be_drawn_and_hubs_draw_more():
    city = build_city()
    drawn = np.zeros((NUM_STREETS, NUM_STREETS), int)
    np.add.at(drawn, (city.places[:, 0], city.places[:, 1]), 1)
    assert drawn.min() >= 1
    assert drawn.sum() == NUM_SLOTS
    x, y = (city.streets[axis, city.places[:, axis]] / 10 for axis in (0, 1))
    for hub in HUBS:
        reach = 2 * hub.radius
        inside = np.mean((np.abs(x - hub.x) < reach) & (np.abs(y - hub.y) < reach))
        land = (2 * reach * 10 / SIDE) ** 2
        assert inside > (5 if hub.kind == "downtown" else 1) * land, hub.name


def test_names_of_streets_are_unique():
    names = {street_name(axis, number) for axis in (0, 1) for number in range(NUM_STREETS)}
    assert len(names) == 2 * NUM_STREETS
    assert street_name(0, 10) == "11th Avenue"
    assert street_name(1, 20) == "21st Street"
    assert street_name(1, 112) == "113th Parkway"
