import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trajcloak.log.clean import count_digits, select_value

NUMBERS = st.lists(st.floats(allow_nan=False), min_size=1, max_size=40)


def select(parts, place):
    return select_value(lambda *digit: [count_digits(part, *digit) for part in parts], place)


@given(NUMBERS, st.data())
def test_as_after_sorting(numbers, data):
    place = data.draw(st.integers(0, len(numbers) - 1))
    cut = data.draw(st.integers(0, len(numbers)))
    parts = [np.array(numbers[:cut]), np.array(numbers[cut:])]
    assert select(parts, place) == sorted(numbers)[place]


def test_many_numbers_of_few_values():
    numbers = np.random.default_rng(1).integers(-3, 4, 1000) / 7
    for place in (0, 499, 999):
        assert select([numbers], place) == np.sort(numbers)[place]
