"""What attackers learn from the bytes that the library publishes, in tiny worlds."""

from itertools import count

import pytest

from guarantee.broken import BROKEN
from guarantee.product import Product
from guarantee.tiny import NUM_COMBINATIONS, draw_known
from guarantee.worlds import find_breaches, follow
from zoo import first_quick

MOST_WORLDS = 64


def draw_product(one_log: bool, combination: int) -> Product:
    """Draw a setting in which some worlds show something, and some nothing."""
    for seed in count(1000 * combination):
        known = draw_known(seed, MOST_WORLDS, one_log=one_log, combination=combination)
        product = Product(known, is_text=seed % 2 == 1)
        twin = follow(product.known)
        if len({bool(twin(world)[1]) for world in known.list_worlds()}) == 2:
            return product
    raise AssertionError


@pytest.mark.needs_jit
@pytest.mark.parametrize("one_log", [False, True], ids=["two inputs", "one log"])
@pytest.mark.parametrize("combination", first_quick(range(NUM_COMBINATIONS), 3))
def test_all_options(combination, one_log):
    product = draw_product(one_log, combination)
    assert find_breaches(product.known, product.publish) == []


@pytest.mark.needs_jit
@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_where_a_broken_rule_shows(name):
    product = Product(BROKEN[name].known, is_text=name == "type of all values")
    assert find_breaches(product.known, product.publish) == []
