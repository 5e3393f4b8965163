import numpy as np
import pytest
from trajcloak.generator.city import build_city

from trajcloak.generator.movers import build_movers, move

from .conftest import LENGTH, SEED, USERS

TOP_SPEED_METRES = 24.0
ROUNDING = 1e-6


def _is_street(positions, coordinates):
    return np.isin(np.rint(coordinates * 10).astype(int), positions)


def test_every_point_lies_on_a_street(columns):
    streets = build_city().streets
    on_avenue = _is_street(streets[0], columns["x"])
    on_street = _is_street(streets[1], columns["y"])
    assert (on_avenue | on_street).all()


def test_users_start_at_intersections(columns):
    streets = build_city().streets
    assert _is_street(streets[0], columns["x"][0]).all()
    assert _is_street(streets[1], columns["y"][0]).all()


def test_coordinates_are_decimetres_inside_the_city(columns):
    for name in ("x", "y"):
        assert (columns[name] == np.round(columns[name], 1)).all()
        assert columns[name].min() >= 0
        assert columns[name].max() <= 40_000


def _steps(columns):
    return np.abs(np.diff(columns["x"], axis=0)) + np.abs(np.diff(columns["y"], axis=0))


def test_nobody_exceeds_the_speed_of_the_class(columns):
    classes = build_movers(build_city(), users=USERS, seed=SEED).speed_class
    steps = _steps(columns)
    for speed_class in range(5):
        limit = TOP_SPEED_METRES / 2**speed_class * 60
        fastest = steps[:, classes == speed_class].max()
        assert 0.9 * limit < fastest <= limit + ROUNDING


def test_top_speed_is_for_arterials(columns):
    city = build_city()
    arterials = [city.streets[axis][city.is_arterial[axis]] for axis in (0, 1)]
    on_arterial = _is_street(arterials[0], columns["x"]) | _is_street(arterials[1], columns["y"])
    straight = (np.diff(columns["x"], axis=0) == 0) | (np.diff(columns["y"], axis=0) == 0)
    elsewhere = straight & ~on_arterial[:-1] & ~on_arterial[1:]
    assert elsewhere.sum() > 100
    assert _steps(columns)[elsewhere].max() <= TOP_SPEED_METRES / 2 * 60 + ROUNDING


def test_everybody_travels(columns):
    assert (_steps(columns).sum(axis=0) > 0).all()


def test_shares_of_the_classes():
    users = 8000
    classes = build_movers(build_city(), users=users, seed=3).speed_class
    shares = np.bincount(classes, minlength=5) / users
    expected = np.array([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16])
    assert shares == pytest.approx(expected, abs=0.02)


def test_trips_have_about_the_wanted_length():
    # A normal deviate's mean absolute value is 0.8: times a fifth of the diagonal, 9 km.
    movers = build_movers(build_city(), users=4000, seed=3)
    streets = build_city().streets
    goals = np.stack([streets[axis, movers.goal[:, axis]] for axis in (0, 1)], axis=1)
    lengths = np.abs(goals - movers.position).sum(axis=1) / 10
    assert 6_000 < lengths.mean() < 12_000
    assert lengths.max() > 25_000
    assert (lengths < 2_000).mean() > 0.05


def test_movement_is_the_same_in_one_block_or_many():
    city = build_city()
    whole = build_movers(city, users=50, seed=1)
    xs, ys = np.empty((2, LENGTH, 50), np.int32)
    move(whole, city, 60, xs, ys)
    pieces = build_movers(city, users=50, seed=1)
    for instant in range(LENGTH):
        for part in (slice(0, 20), slice(20, 50)):
            x, y = np.empty((2, 1, part.stop - part.start), np.int32)
            move(pieces.part(part.start, part.stop), city, 60, x, y)
            assert (x[0] == xs[instant, part]).all()
            assert (y[0] == ys[instant, part]).all()


def test_longer_steps_lead_through_the_same_places():
    city = build_city()
    often, rarely = (build_movers(city, users=40, seed=2) for _ in range(2))
    fine, coarse = np.empty((2, 9, 40), np.int32), np.empty((2, 3, 40), np.int32)
    # The fastest class loses no fraction of a decimetre at an instant.
    fast = often.speed_class <= 1
    move(often, city, 30, *fine)
    move(rarely, city, 120, *coarse)
    assert (np.abs(fine[:, ::4] - coarse)[:, :, fast].sum(axis=0) <= 9).all()
