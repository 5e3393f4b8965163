"""The slow twin of the publishing rules, by hand."""

import pytest

from .publishing import Publisher, Rules, find_type

WINDOWS = {0: range(2), 1: range(2, 4)}
BUNDLES = {0: {0: {"a", "b"}, 1: {"c", "d"}}, 1: {2: {"a", "b", "c"}}}
ROWS = [(user, instant) for user in "abcd" for instant in range(4) if (user, instant) != ("d", 1)]


def publish(requests, rows=ROWS, bundles=BUNDLES, **rules):
    publisher = Publisher(rows, WINDOWS, bundles, Rules(2, **rules))
    return sorted(set(publisher.publish(requests).values()))


def test_eligible_sets():
    """In one log, two members must have a row; a set is withheld where one of two has none."""
    one_log = Publisher(ROWS, WINDOWS, BUNDLES, Rules(2, one_log=True))
    assert one_log.sets - one_log.eligible == {(0, 1, 1)}
    assert one_log.count_withheld_sets() == 1
    assert Publisher(ROWS, WINDOWS, BUNDLES, Rules(2)).count_withheld_sets() == 0


def test_requests_outside_sets():
    """Of unknown users, of users in no bundle, outside windows; without any value; twice."""
    sent = [("z", 0, ("1",)), ("d", 2, ("1",)), ("a", 4, ("1",)), ("a", 0, (None,))]
    assert publish(sent, rare="keep") == []
    sent = [("a", 0, ("1",)), ("a", 0, ("1",)), ("b", 0, ("1",)), ("c", 1, ("1",))]
    assert publish(sent, rare="keep") == [(0, 0, 0, ("1",)), (0, 1, 1, ("1",))]
    assert publish(sent, rare="keep", one_log=True) == [(0, 0, 0, ("1",))]


def test_a_tuple_must_occur_in_two_bundles_of_its_window():
    sent = [("a", 0, ("1",)), ("b", 1, ("1",)), ("a", 2, ("1",))]
    assert publish(sent) == []
    both = [(0, 0, 0, ("1",)), (0, 0, 1, ("1",)), (0, 1, 1, ("1",))]
    assert publish([*sent, ("c", 1, ("1",))]) == both
    assert publish([*sent, ("c", 1, ("1",))], rare_below=3) == []
    assert publish([*sent, ("c", 1, ("1",))], one_log=True) == []


def test_rare_values_are_replaced():
    sent = [("a", 0, ("1", "x")), ("c", 0, ("1", "y")), ("a", 1, ("1", None))]
    shown = [(0, 0, 0, ("1", "(other)")), (0, 1, 0, ("1", "(other)"))]
    assert publish(sent, rare="other") == shown
    assert publish([*sent, ("d", 1, ("1", None))], rare="other") == [
        shown[0],
        (0, 0, 1, ("1", None)),
        shown[1],
        (0, 1, 1, ("1", None)),
    ]


def test_a_value_off_the_list_withholds_its_request():
    """It does not count, either: the other value occurs in one bundle only."""
    sent = [("a", 0, ("1", "x")), ("c", 0, ("1", "y"))]
    vocabulary = ({"1"}, {"x"})
    assert publish(sent, rare="keep", vocabulary=vocabulary) == [(0, 0, 0, ("1", "x"))]
    assert publish(sent, rare="other", vocabulary=vocabulary) == []
    sent = [("a", 0, ("1", None))]
    assert publish(sent, rare="keep", vocabulary=vocabulary) == [(0, 0, 0, ("1", None))]


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        # a and b are in the bundle of the second window.
        (["a0", "a2"], ["00", "22"]),
        # Of the second bundle only c is there.
        (["a0", "c0", "a2"], ["00", "10"]),
        (["c0", "a2"], ["10"]),
        # A window that does not show it does not count; the next ones may.
        (["a2"], ["22"]),
    ],
)
def test_link_safe(sent, shown):
    requests = [(user, int(instant), ("1",)) for user, instant in sent]
    published = publish(requests, rare="keep", link_safe=True)
    assert [f"{bundle}{instant}" for _, bundle, instant, _ in published] == shown


def test_link_safe_in_one_log_counts_rows():
    """b has no row at 3, so of those who have one at all instants that show it, a is left."""
    rows = [row for row in ROWS if row != ("b", 3)]
    sent = [("a", 0, ("1",)), ("a", 3, ("1",))]
    rules = {"rare": "keep", "link_safe": True}
    assert len(publish(sent, rows, **rules)) == 2
    assert len(publish(sent, rows, one_log=True, **rules)) == 1


def test_types():
    for values, expected in [
        (["1", "-20", "0"], "int64"),
        (["1", "2.50"], "float64"),
        (["1", "x"], "text"),
        (["007"], "text"),
        (["1e3"], "text"),
        ([], "text"),
    ]:
        assert find_type(values) == expected
