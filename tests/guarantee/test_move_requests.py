"""Move the request, keep the bytes: nothing published tells who of a bundle sent what."""

import pytest

from guarantee.moves import KINDS, check_moves, draw_movable
from zoo import first_quick

PER_TEST = 10
NUM_TESTS = 12


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("test", first_quick(range(NUM_TESTS), 2))
def test_in_memory(test, kind):
    seeds = range(test * PER_TEST, (test + 1) * PER_TEST)
    released = [check_moves(*draw_movable(seed, kind), seed) for seed in seeds]
    assert sum(released) >= PER_TEST // 2
