import numpy as np

from trajcloak.generator.network import build_network
from trajcloak.generator.places import HUBS_PER_KIND, KINDS, assign_places
from trajcloak.generator.requests import PLACE_MIXES

from .conftest import build_town


def kind_at(network, places, x, y):
    return KINDS[places[np.argmin((network.x - x) ** 2 + (network.y - y) ** 2)]]


def test_named_hubs_of_the_city(city):
    places = assign_places(city)
    for hub in city.hubs:
        if hub.radius > 600:
            assert kind_at(city, places, hub.x, hub.y) == hub.kind, hub.name
    assert kind_at(city, places, 38_600, 42_500) == "suburb"


def test_every_kind_of_place_is_there(city):
    counts = np.bincount(assign_places(city), minlength=len(KINDS))
    assert (counts > 0).all()


def test_dense_parts_are_downtown():
    town = build_town(30, 30)
    x, y = town.x.copy(), town.y.copy()
    # Near the corner, streets are four times as close.
    x[x > 1500] = 1500 + (x[x > 1500] - 1500) * 4
    y[y > 1500] = 1500 + (y[y > 1500] - 1500) * 4
    network = build_network(x, y, np.stack([town.tails, town.heads], axis=1))
    kinds = np.array(KINDS)[assign_places(network)]
    assert (x[kinds == "downtown"] <= 1500).all()
    assert (kinds == "suburb").mean() > 0.3
    assert set(HUBS_PER_KIND) & set(kinds)


def test_places_are_always_the_same(town):
    assert (assign_places(town) == assign_places(build_town(15, 10))).all()


def test_kinds_are_those_of_the_mixes():
    assert set(KINDS) == set(PLACE_MIXES)
    assert set(HUBS_PER_KIND) < set(KINDS)
