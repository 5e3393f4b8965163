"""Bounds of each bundle, against every way in which its users can stand."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import queries
from trajcloak.query.bounds import (
    CountBounds,
    bound_followers,
    bound_inside,
    intersect_bounds,
)
from trajcloak.query.questions import Rectangle, RouteStep
from trajcloak.query.release_arrays import CellGrid, PublishedWindow
from trajcloak.query.spread import build_spread
from zoo import examples

GRID = CellGrid((0.0, 0.0), 1.0)
EDGE = st.sampled_from([-0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5])


@st.composite
def boxes(draw):
    (x0, x1), (y0, y1) = (sorted(draw(st.permutations(range(4)))[:2]) for _ in "xy")
    return x0, y0, x1, y1


@st.composite
def regions(draw):
    (x0, x1), (y0, y1) = (
        sorted(draw(st.lists(EDGE, min_size=2, max_size=2, unique=True))) for _ in "xy"
    )
    return Rectangle(x0, y0, x1, y1)


def bound(box, num_users, region, is_tight, is_only=True):
    cloaks, users = np.array(box, np.float64)[:, None], np.array([num_users])
    spread = build_spread(cloaks, users)
    return bound_inside(cloaks, users, region, GRID if is_tight else None, spread, is_only=is_only)


@examples(500)
@given(boxes(), regions(), st.integers(2, 3), st.booleans())
def test_no_better_bounds_exist_at_an_instant(box, region, num_users, is_tight):
    expected = queries.count_range(box, num_users, region, is_tight=is_tight)
    actual = bound(box, num_users, region, is_tight)
    assert (actual.lower[0], actual.upper[0]) == expected
    assert actual.lower[0] <= actual.estimate[0] <= actual.upper[0]


@pytest.mark.parametrize("is_tight", [True, False])
def test_every_region_of_one_box_of_four_users(is_tight):
    box = (0, 0, 2, 2)
    edges = [-0.5, 0, 0.5, 1, 1.5, 2, 2.5]
    sides = [(a, b) for a, b in product(edges, repeat=2) if a < b]
    for (left, right), (bottom, top) in product(sides, repeat=2):
        region = Rectangle(left, bottom, right, top)
        actual = bound(box, 4, region, is_tight)
        expected = queries.count_range(box, 4, region, is_tight=is_tight)
        assert (actual.lower[0], actual.upper[0]) == expected, region


@pytest.mark.parametrize(("num_users", "num_steps"), [(2, 1), (2, 3), (3, 2), (4, 2)])
def test_no_better_bounds_exist_over_several_instants(num_users, num_steps):
    known = [(a, b) for a, b in product(range(num_users + 1), repeat=2) if a <= b]
    for ranges in product(known, repeat=num_steps):
        steps = [
            CountBounds(np.array([low]), np.array([(low + high) / 2]), np.array([high]))
            for low, high in ranges
        ]
        actual = intersect_bounds(steps, np.array([num_users]))
        expected = queries.follow_range(ranges, num_users)
        assert (actual.lower[0], actual.upper[0]) == expected, ranges
        assert actual.lower[0] <= actual.estimate[0] <= actual.upper[0]


@st.composite
def bundles_in_parts(draw):
    """Draw bundles: the parts at each of two instants, boxes with users; and whether they stay."""
    keeps_members = draw(st.booleans())
    bundles = []
    for _ in range(draw(st.integers(1, 2))):
        divisions = st.sampled_from([(3,), (2, 1), (1, 2), (1, 1, 1)])
        first = draw(divisions)
        sizes = [first, first if keeps_members else draw(divisions)]
        bundles.append([[(draw(boxes()), size) for size in division] for division in sizes])
    return bundles, keeps_members


def build_window(bundles, keeps_members):
    parts = [part for bundle in bundles for at_instant in bundle for part in at_instant]
    counts = np.array([[len(at_instant) for at_instant in bundle] for bundle in bundles])
    return PublishedWindow(
        first_id=0,
        first_set=0,
        start=5,
        stop=5 + counts.shape[1],
        users=np.array([sum(size for _, size in bundle[0]) for bundle in bundles]),
        counts=counts,
        rectangles=np.array([box for box, _ in parts], np.float64).T,
        sizes=np.array([size for _, size in parts]),
        keeps_members=keeps_members,
    )


@examples(300)
@given(bundles_in_parts(), st.tuples(regions(), regions()), st.booleans())
def test_no_better_bounds_exist_with_parts(drawn, asked, is_tight):
    bundles, keeps_members = drawn
    if is_tight:
        bundles = [
            [[(shrink(box, size), size) for box, size in parts] for parts in bundle]
            for bundle in bundles
        ]
    window = build_window(bundles, keeps_members)
    grid = GRID if is_tight else None
    steps = [RouteStep(region, 5 + i) for i, region in enumerate(asked)]
    present = [bound_followers(window, [step], grid) for step in steps]
    followers = bound_followers(window, steps, grid)
    for b, bundle in enumerate(bundles):
        worlds = list(zip(asked, bundle, strict=True))
        for bounds, tried in [
            (present[0], worlds[:1]),
            (present[1], worlds[1:]),
            (followers, worlds),
        ]:
            expected = queries.follow_parts_range(
                tried, int(window.users[b]), is_tight=is_tight, keeps_members=keeps_members
            )
            assert (bounds.lower[b], bounds.upper[b]) == expected
            assert bounds.lower[b] <= bounds.estimate[b] <= bounds.upper[b]


def shrink(box, num_users):
    """Cut a box to one cell if it is to be the bounding box of a single user."""
    x0, y0 = box[:2]
    return (x0, y0, x0 + 1, y0 + 1) if num_users == 1 else box


def test_by_hand():
    """Ten users in a box of 4 by 2 cells, of which the region holds the left quarter."""
    box, region = (0, 0, 4, 2), Rectangle(-1, -1, 1, 5)
    boxed = bound(box, 10, region, is_tight=True)
    # Somebody is in the first column, and somebody in the last; of the others a quarter.
    assert (boxed.lower[0], boxed.upper[0]) == (1, 9)
    assert boxed.estimate[0] == pytest.approx(1 + 8 / 4)
    for quadrant in (
        bound(box, 10, region, is_tight=False),
        bound(box, 10, region, is_tight=True, is_only=False),
    ):
        assert quadrant.estimate[0] == pytest.approx(2.5)
    assert (quadrant.lower[0], quadrant.upper[0]) == (1, 9)


def test_estimates_are_kept_within_the_bounds():
    """A thin region over the first column of a long box: 0.2 users by area, 1 for certain."""
    thin = bound((0, 0, 20, 1), 4, Rectangle(0, 0, 1, 1), is_tight=True, is_only=False)
    assert (thin.lower[0], thin.estimate[0], thin.upper[0]) == (1, 1.0, 3)


def test_edges_are_shifted_as_they_were_published():
    """Where a cell's edge is not exact, the next edge is not the edge plus a cell."""
    low, cell = 0.1, 0.3 / 2**4
    published = low + np.arange(17) * cell
    shifted = CellGrid((low, low), cell).shift(published[:-1], 0, 1)
    assert (shifted == published[1:]).all()
    assert (published[:-1] + cell != published[1:]).any()
