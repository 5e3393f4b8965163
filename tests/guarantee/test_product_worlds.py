"""What attackers learn from the bytes that the library publishes, in tiny worlds."""

import pytest

from guarantee.product import Product
from guarantee.tiny import NUM_COMBINATIONS, draw_known
from guarantee.worlds import find_breaches
from zoo import first_quick

MOST_WORLDS = 81


@pytest.mark.needs_jit
@pytest.mark.parametrize("one_log", [False, True], ids=["two inputs", "one log"])
@pytest.mark.parametrize("combination", first_quick(range(NUM_COMBINATIONS), 3))
def test_all_options(combination, one_log):
    known = draw_known(combination, MOST_WORLDS, one_log=one_log, combination=combination)
    product = Product(known, is_text=combination % 2 == 1)
    assert find_breaches(product.known, product.publish) == []
