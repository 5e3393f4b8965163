"""How users are spread over rectangles, against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import spread as twin
from trajcloak.query import spread
from trajcloak.query.spread import build_spread
from zoo import examples

EDGE = st.integers(-5, 20) | st.floats(-5, 20).map(lambda x: round(x, 3))


@st.composite
def rectangles(draw):
    (x0, x1), (y0, y1) = (
        sorted(draw(st.lists(EDGE, min_size=2, max_size=2, unique=True))) for _ in "xy"
    )
    return float(x0), float(y0), float(x1), float(y1)


@examples(40)
@given(st.lists(st.tuples(rectangles(), st.integers(1, 50)), min_size=1, max_size=4), rectangles())
def test_shares_are_those_of_the_slow_twin(drawn, region):
    given_rectangles, users = zip(*drawn, strict=True)
    edges, users = np.array(given_rectangles).T, np.array(users)
    actual = build_spread(edges, users).share(edges, region)
    expected = twin.find_shares(given_rectangles, users, region, spread.SIDE)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-9)


def test_one_rectangle_is_spread_evenly():
    edges = np.array([[3.0, 1.0, 10.0, 2.5]]).T
    shares = build_spread(edges, np.array([7])).share(edges, (4.0, 0.0, 6.0, 9.0))
    assert shares == pytest.approx([2 / 7])


def test_users_of_a_large_rectangle_are_where_others_are_but_not_in_proportion():
    large, small = (0.0, 0.0, 64.0, 64.0), (0.0, 0.0, 32.0, 64.0)
    edges, users = np.array([large, small]).T, np.array([16, 28])
    shares = build_spread(edges, users).share(edges, small)
    # Half the area counts four times: (16 + 4 * 28) / 16 = 8 to 1, whose cube root is 2 to 1.
    assert shares == pytest.approx([2 / 3, 1.0])
