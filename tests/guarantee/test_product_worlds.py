"""What attackers learn from the bytes that the library publishes, in tiny worlds."""

from itertools import count

import pytest

from guarantee.broken import BROKEN
from guarantee.product import Product
from guarantee.tiny import NUM_COMBINATIONS, TWO, draw_known, everywhere, number
from guarantee.worlds import Known, find_breaches, follow
from reference.publishing import Rules
from zoo import first_quick

MOST_WORLDS = 64
SETTINGS = {
    "two inputs": {"one_log": False},
    "marked reports": {"one_log": False, "is_marked": True},
    "one log": {"one_log": True},
}


def draw_product(combination: int, *, one_log: bool, is_marked: bool = False) -> Product:
    """Draw a setting in which some worlds show something, and some nothing."""
    for seed in count(1000 * combination):
        known = draw_known(seed, MOST_WORLDS, one_log=one_log, combination=combination)
        more = {"members": known.rules.k + 1} if seed % 3 == 0 else {}
        if len(dict(known.rows)) < known.rules.k + len(more):
            continue
        product = Product(known, is_text=seed % 2 == 1, is_marked=is_marked, **more)
        twin = follow(product.known)
        if len({bool(twin(world)[1]) for world in known.list_worlds()}) == 2:
            return product
    raise AssertionError


@pytest.mark.needs_jit
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("combination", first_quick(range(NUM_COMBINATIONS), 2))
def test_all_options(combination, setting):
    product = draw_product(combination, **SETTINGS[setting])
    assert find_breaches(product.known, product.publish) == []


@pytest.mark.needs_jit
@pytest.mark.slow
@pytest.mark.parametrize("one_log", [False, True], ids=["two inputs", "one log"])
@pytest.mark.parametrize("seed", [1, 2, 5, 7])
def test_more_worlds(seed, one_log):
    """Up to ten times as many worlds, and options at random."""
    for drawn in count(10_000 + 100 * seed):
        known = draw_known(drawn, 10 * MOST_WORLDS, one_log=one_log)
        if known.num_worlds > 4 * MOST_WORLDS:
            break
    product = Product(known, is_text=seed % 2 == 1)
    assert find_breaches(product.known, product.publish) == []


@pytest.mark.needs_jit
def test_where_every_row_is_a_request():
    """What is certain is reported: a set of one value was sent by all who have a row."""
    rules = Rules(2, one_log=True, rare="keep")
    rows = everywhere("abcd", 1)
    bundles = {0: number("ab", "cd")}
    product = Product(Known(rows, {0: range(1)}, bundles, TWO, rules, every_row=True))
    found = find_breaches(product.known, product.publish)
    certain = {breach.what for breach in found if breach.kind == "certain"}
    assert certain == {(*row, values) for row in rows for values in TWO}
    assert set(found) == set(find_breaches(product.known, follow(product.known)))


@pytest.mark.needs_jit
@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_where_a_broken_rule_shows(name):
    product = Product(BROKEN[name].known, is_text=name == "type of all values")
    assert find_breaches(product.known, product.publish) == []
