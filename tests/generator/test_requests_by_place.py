from collections import Counter

import numpy as np
import pytest

from trajcloak.generator.network import build_network
from trajcloak.generator.requests_by_place import (
    CHOICES,
    DETAILS,
    HUBS_PER_KIND,
    KINDS,
    NO_REQUEST,
    PLACE_MIXES,
    RUSH_HOURS,
    assign_place_kinds,
    draw_requests,
    request_columns,
)

from .conftest import LENGTH, USERS, build_town

MORNING, NOON, EVENING = 8 * 3600, 11 * 3600, 22 * 3600


def _categories(kind, moment, *, users=3000, share=1.0):
    places = np.full((1, users), KINDS.index(kind), np.int8)
    requests = draw_requests(5, share, np.array([moment]), 0, places, 1)
    return Counter(CHOICES[request][0] for request in requests[0] if request != NO_REQUEST)


def test_share_of_requests(generated, columns):
    sent = np.not_equal(columns["category"], None)
    assert generated[1].requests == sent.sum()
    assert sent.mean() == pytest.approx(0.2, abs=0.015)
    assert (sent == np.not_equal(columns["detail"], None)).all()


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0), (1.0, 500)])
def test_nobody_or_everybody_asks(share, expected):
    assert sum(_categories("downtown", MORNING, users=500, share=share).values()) == expected


def test_requests_are_from_the_list(columns):
    sent = np.not_equal(columns["category"], None)
    pairs = set(zip(columns["category"][sent], columns["detail"][sent], strict=True))
    assert pairs <= set(CHOICES)
    assert {category for category, _ in pairs} == set(DETAILS)


def test_users_do_not_ask_in_step(columns):
    sent = np.not_equal(columns["category"], None)
    per_user = sent.sum(axis=0)
    assert per_user.var() == pytest.approx(LENGTH * 0.2 * 0.8, rel=0.2)
    per_instant = sent.sum(axis=1)
    assert np.abs(per_instant - USERS * 0.2).max() < 80


def test_mix_depends_on_the_place():
    for kind, favourite in (
        ("hospital", "hospital"),
        ("campus", "library"),
        ("mall", "shopping"),
        ("station", "bus"),
        ("government", "party office"),
    ):
        assert _categories(kind, NOON).most_common(1)[0][0] == favourite


def test_mix_depends_a_little_on_the_hour():
    morning, evening = _categories("leisure", MORNING), _categories("leisure", EVENING)
    assert evening["bar"] > morning["bar"]
    assert morning["bus"] > evening["bus"]
    assert 0.4 < morning["bar"] / evening["bar"] < 1


def test_tables_name_known_kinds_and_categories():
    assert set(PLACE_MIXES) == set(KINDS)
    assert set().union(*PLACE_MIXES.values()) <= set(DETAILS)
    assert set(RUSH_HOURS) <= set(DETAILS)
    assert len(DETAILS) >= 12
    assert len(set(CHOICES)) == len(CHOICES)


def test_neither_blocks_nor_threads_show():
    places = np.random.default_rng(4).integers(0, len(KINDS), (6, 50)).astype(np.int8)
    moments = NOON + 3000 * np.arange(6)
    whole = draw_requests(5, 0.5, moments, 0, places, 1)
    part = draw_requests(5, 0.5, moments[3:5], 3, places[3:5], 4)
    assert (part == whole[3:5]).all()


def test_null_in_both_columns_without_a_request():
    category, detail = request_columns(np.array([NO_REQUEST, 1, NO_REQUEST], np.int16))
    assert category.to_pylist() == [None, CHOICES[1][0], None]
    assert detail.to_pylist() == [None, CHOICES[1][1], None]


def kind_at(network, places, x, y):
    return KINDS[places[np.argmin((network.x - x) ** 2 + (network.y - y) ** 2)]]


def test_named_hubs_of_the_city(city):
    places = assign_place_kinds(city)
    for hub in city.hubs:
        if hub.radius > 600:
            assert kind_at(city, places, hub.x, hub.y) == hub.kind, hub.name
    assert kind_at(city, places, 38_600, 42_500) == "suburb"


def test_every_kind_of_place_is_there(city):
    counts = np.bincount(assign_place_kinds(city), minlength=len(KINDS))
    assert (counts > 0).all()


def test_dense_parts_are_downtown():
    town = build_town(30, 30)
    x, y = town.x.copy(), town.y.copy()
    # Near the corner, streets are four times as close.
    x[x > 1500] = 1500 + (x[x > 1500] - 1500) * 4
    y[y > 1500] = 1500 + (y[y > 1500] - 1500) * 4
    network = build_network(x, y, np.stack([town.tails, town.heads], axis=1))
    kinds = np.array(KINDS)[assign_place_kinds(network)]
    assert (x[kinds == "downtown"] <= 1500).all()
    assert (kinds == "suburb").mean() > 0.3
    assert set(HUBS_PER_KIND) & set(kinds)


def test_places_are_always_the_same(town):
    assert (assign_place_kinds(town) == assign_place_kinds(build_town(15, 10))).all()


def test_kinds_are_those_of_the_mixes():
    assert set(KINDS) == set(PLACE_MIXES)
    assert set(HUBS_PER_KIND) < set(KINDS)
