"""Places divided into parts at one instant."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import division
from trajcloak.algorithms.division import divide_places
from trajcloak.algorithms.refined.boxes import SEMI_QUADRANT, WIDE
from trajcloak.algorithms.refined.first_bundles import bundle_by_cuts
from zoo import examples

PLACES = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=2, max_size=8)


def divide(places, least, shape=WIDE):
    points = np.array(places, np.uint32)[:, :, None]
    return divide_places(points, least, shape)


def cost(places, part):
    groups = [[p for p, q in zip(places, part, strict=True) if q == n] for n in set(part.tolist())]
    return sum(map(division.cost, groups))


@examples(150)
@given(PLACES, st.integers(2, 3), st.sampled_from([WIDE, SEMI_QUADRANT]))
def test_parts_have_enough_members_and_all_numbers_are_used(places, least, shape):
    least = min(least, len(places))
    sizes = np.bincount(divide(places, least, shape))
    assert sizes.min() >= least
    assert sizes.sum() == len(places)


@examples(150)
@given(PLACES, st.integers(2, 3))
def test_no_division_is_cheaper_than_the_best(places, least):
    least = min(least, len(places))
    assert cost(places, divide(places, least)) >= division.least_cost(places, least)


@pytest.mark.needs_jit
def test_few_places_are_divided_well():
    """And never worse than by cuts alone."""
    found, by_cuts, best = [], [], []
    for seed in range(150):
        places = np.random.default_rng(seed).integers(0, 40, (8, 2)).tolist()
        found.append(cost(places, divide(places, 2)))
        points = np.array(places, np.uint32)[:, :, None]
        by_cuts.append(cost(places, bundle_by_cuts(points, 2, WIDE)))
        best.append(division.least_cost(list(map(tuple, places)), 2))
    assert all(a <= b for a, b in zip(found, by_cuts, strict=True))
    assert sum(found) < 0.97 * sum(by_cuts)
    assert sum(found) < 1.25 * sum(best)
