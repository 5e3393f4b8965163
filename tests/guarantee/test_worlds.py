"""What attackers learn from published bytes in tiny worlds, where all possibilities are listed."""

from collections import defaultdict
from dataclasses import replace

import pytest

from guarantee.broken import BROKEN, EXTRA_ROW, StopsByRows
from guarantee.tiny import (
    EXAMPLES,
    ONE_LOG,
    TWO,
    draw_known,
    everywhere,
    list_combinations,
    number,
)
from guarantee.worlds import Known, find_breaches, follow
from reference.publishing import Rules
from zoo import first_quick

PER_TEST = 20
NUM_TESTS = 15


@pytest.mark.parametrize("name", first_quick(list(EXAMPLES), 5))
def test_all_options(name):
    for known in list_combinations(EXAMPLES[name]):
        assert find_breaches(known, follow(known)) == [], known.rules


@pytest.mark.parametrize("test", first_quick(range(NUM_TESTS), 2))
def test_drawn_settings(test):
    for seed in range(test * PER_TEST, (test + 1) * PER_TEST):
        known = draw_known(seed)
        assert find_breaches(known, follow(known)) == [], seed


@pytest.mark.slow
def test_many_worlds():
    """Two windows and two values, each combination of which the attackers must think of."""
    known = Known(
        everywhere("abcd", 2),
        {0: range(1), 1: range(1, 2)},
        {0: number("ab", "cd"), 1: number("ac", "bd")},
        TWO,
        Rules(2, rare="other", link_safe=True),
    )
    assert known.num_worlds == 1 << 16
    assert find_breaches(known, follow(known)) == []


def test_worlds_are_listed_as_attackers_see_them():
    rows = (("a", 0), ("a", 0), ("b", 0))
    one_log = Known(rows, {0: range(1)}, {0: number("ab")}, TWO, ONE_LOG)
    two_inputs = replace(one_log, rules=Rules(2))
    for known, count in [
        (one_log, 3**3),
        (replace(one_log, every_row=True), 2**3),
        (two_inputs, 4**2),
        (replace(two_inputs, strangers=("z",)), 4**3),
        (replace(two_inputs, instants=(0, 1)), 4**4),
        (replace(two_inputs, most=2), 9**2),
    ]:
        assert known.num_worlds == count
        assert len(list(known.list_worlds())) == count


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_reported(name):
    publisher, known, kind = BROKEN[name]
    assert find_breaches(known, follow(known)) == []
    found = find_breaches(known, follow(known, publisher))
    assert kind in {breach.kind for breach in found}


def test_a_stop_by_rows_tells_nothing():
    assert find_breaches(EXTRA_ROW, follow(EXTRA_ROW, StopsByRows)) == []


def test_where_every_row_is_a_request_values_are_no_secret():
    """Each entry has k possible senders, but a set of one value was sent by all with a row."""
    known = replace(EXAMPLES["one log"], rules=Rules(2, one_log=True, rare="keep"), every_row=True)
    publish = follow(known)
    senders = defaultdict(lambda: defaultdict(set))
    for world in known.list_worlds():
        shown, found = publish(world)
        for entry, users in found.items():
            senders[shown][entry] |= users
    assert all(len(users) >= 2 for entries in senders.values() for users in entries.values())
    certain = {b.what for b in find_breaches(known, publish) if b.kind == "certain"}
    assert certain == {(*row, values) for row in known.rows for values in TWO}


def test_as_many_requests_as_rows_in_one_log_tell_what_they_have_in_common():
    """Not promised: two rows and two requests with one value in common; so both users sent it."""
    values = (("1", "x"), ("1", "y"))
    known = Known(
        everywhere("ab", 1),
        {0: range(1)},
        {0: number("ab")},
        values,
        Rules(2, one_log=True, rare="keep"),
    )
    publish = follow(known)
    assert find_breaches(known, publish) == []
    shown = frozenset((0, 0, 0, pair) for pair in values)
    left = [world for world in known.list_worlds() if publish(world)[0][0] == shown]
    assert len(left) == 2
    assert all({(user, v[0]) for user, _, v in world} == {("a", "1"), ("b", "1")} for world in left)
    # With two inputs the attackers do not know how many requests a user sent.
    known = replace(known, rules=Rules(2, rare="keep"))
    publish = follow(known)
    left = [world for world in known.list_worlds() if publish(world)[0][0] == shown]
    assert not set.intersection(*({user for user, *_ in world} for world in left))
