"""Attackers who are told that some requests of an epoch have one sender, in all tiny worlds.

They know the reports, the groups and the rules; a *world* is what was sent. They publish every
world, keep those that give what is before their eyes, and strike out those in which the requests
that they are told about have no common sender.
"""

from collections import defaultdict
from itertools import chain, combinations, product

import numpy as np
import pytest

from online.broken_rules import KeepsAbsent, NeverSilent
from online.product_publisher import ProductPublisher
from reference.online import OnlinePublisher, OnlineRules
from trajcloak.online import OnlineAnonymizer

PLACE = (0, 0)
VALUE = ("a",)


def list_sent(publisher, users, instant):
    """List what may have been sent at an instant: with one input, only where there is a row."""
    able = [u for u in users if not publisher.rules.one_input or publisher.find_report(u, instant)]
    for size in range(len(able) + 1):
        for senders in combinations(able, size):
            yield [(user, instant, VALUE) for user in senders]


def find_breaches(publisher, users, instants):
    """List sets of entries that fewer than k users may have sent, each all of them alone."""
    publish = [
        [
            (publisher.publish(sent, instant), {user for user, _, _ in sent})
            for sent in list_sent(publisher, users, instant)
        ]
        for instant in instants
    ]
    groups = [publisher.list_groups(instant) for instant in instants]
    senders = defaultdict(lambda: defaultdict(set))
    for world in product(*publish):
        shown = tuple(
            tuple((number, found[2]) for number, found in published.items())
            for published, _ in world
        )
        alone = defaultdict(set)
        for instant, (published, sent_by) in enumerate(world):
            for number, (_, _, requests) in published.items():
                by = sent_by & groups[instant][number]
                if requests and len(by) == 1:
                    alone[next(iter(by))].add((instant, number))
        for user, entries in alone.items():
            for linked in chain.from_iterable(
                combinations(sorted(entries), size) for size in range(1, len(entries) + 1)
            ):
                senders[shown][linked].add(user)
    return [
        linked
        for found in senders.values()
        for linked, users in found.items()
        if len(users) < publisher.rules.k
    ]


def build_reports(present):
    """Build reports from the users who are present at each instant."""
    return [(user, instant, PLACE) for instant, users in enumerate(present) for user in users]


SETTINGS = {
    "all stay": (["abcd", "abcd"], {0: ["ab", "cd"]}, {}),
    "one leaves": (["abcd", "bcd", "bcd"], {0: ["abcd"]}, {}),
    "one leaves and is back": (["abc", "bc", "abc"], {0: ["abc"]}, {}),
    "they take turns": (["ab", "bc", "abc"], {0: ["ab"]}, {}),
    "too few are left": (["abcd", "acd", "cd"], {0: ["ab", "cd"]}, {}),
    "newcomers wait": (["ab", "abcd", "abcd"], {0: ["ab"]}, {}),
    "a short gap": (["abc", "bc", "abc"], {0: ["abc"]}, {"hold": 1}),
    "rare requests": (["abcd", "abcd"], {0: ["ab", "cd"]}, {"rare_below": 2}),
    "one input": (["abcd", "bcd", "bc"], {0: ["ab", "cd"]}, {"one_input": True}),
}


def build_publisher(setting, kind=OnlinePublisher):
    present, groups, options = setting
    rules = OnlineRules(k=2, every=1, epoch=len(present), **{"rare_below": 1, **options})
    grouped = {instant: list(map(frozenset, of)) for instant, of in groups.items()}
    return kind(build_reports(present), grouped, rules), sorted(set(chain(*present)))


@pytest.mark.parametrize("name", SETTINGS)
def test_linked_requests_keep_k_suspects(name):
    publisher, users = build_publisher(SETTINGS[name])
    publisher.check_groups()
    length = publisher.rules.epoch
    assert any(publisher.publish([], instant) for instant in range(length)), "nothing is shown"
    assert find_breaches(publisher, users, range(length)) == []


class PresentNow(OnlinePublisher):
    """Counts those who are present at the instant: the rule that is not enough."""

    def list_groups(self, instant):
        last = max(i for i in self.groups if i <= instant)
        left = [{u for u in g if self.is_present(u, instant)} for g in self.groups[last]]
        return [group if len(group) >= self.rules.k else set() for group in left]


REGROUPED = (["abcd", "abcd"], {0: ["ab", "cd"], 1: ["ac", "bd"]}, {})


@pytest.mark.parametrize(
    ("setting", "kind", "refused"),
    [
        ((["ab", "bc"], {0: ["abc"]}, {}), PresentNow, "a member is absent"),
        (REGROUPED, OnlinePublisher, "groups change within an epoch"),
    ],
    ids=["present at the instant is enough", "users come together"],
)
def test_weaker_rules_are_found_out(setting, kind, refused):
    publisher, users = build_publisher(setting, kind)
    assert find_breaches(publisher, users, range(publisher.rules.epoch))
    with pytest.raises(AssertionError, match=refused):
        publisher.check_groups()


PLACES = {"a": (0, 0), "b": (1, 0), "c": (10, 10), "d": (11, 10)}
"""So that the library puts a and b together, and c and d."""

PRODUCT_SETTINGS = {
    "all stay": (["abcd", "abcd"], {}),
    "one of three leaves": (["abc", "bc", "bc"], {}),
    "one of three leaves and is back": (["abc", "bc", "abc"], {}),
    "one is back when another leaves": (["abc", "bc", "ab"], {}),
    "too few are left": (["abcd", "acd", "cd"], {}),
    "newcomers wait": (["ab", "abcd", "abcd"], {}),
    "a short gap": (["abc", "bc", "abc"], {"hold": 1}),
    "rare requests": (["abcd", "abcd"], {"rare_below": 2}),
    "one input": (["abcd", "bcd", "bc"], {"one_input": True}),
    "two epochs": (["abcd", "abc", "abcd", "bcd"], {"epoch": 2}),
}


def build_product(name, kind=OnlineAnonymizer):
    present, options = PRODUCT_SETTINGS[name]
    rules = OnlineRules(k=2, every=1, **{"epoch": len(present), "rare_below": 1, **options})
    reports = [(u, instant, PLACES[u]) for instant, users in enumerate(present) for u in users]
    return ProductPublisher(reports, rules, kind), sorted(set(chain(*present))), len(present)


@pytest.mark.parametrize("name", PRODUCT_SETTINGS)
def test_the_library_leaves_k_suspects(name):
    publisher, users, length = build_product(name)
    assert any(publisher.publish([], instant) for instant in range(length)), "nothing is shown"
    for start in range(0, length, publisher.rules.epoch):
        instants = range(start, start + publisher.rules.epoch)
        assert find_breaches(publisher, users, instants) == []


@pytest.mark.parametrize("name", PRODUCT_SETTINGS)
def test_instants_do_not_depend_on_what_is_sent_at_others(name):
    publisher, users, length = build_product(name)
    random = np.random.default_rng(5)
    for _ in range(10):
        world = []
        for instant in range(length):
            sent = list(list_sent(publisher, users, instant))
            world.append(sent[random.integers(len(sent))])
        expected = [publisher.publish(sent, instant) for instant, sent in enumerate(world)]
        assert publisher.publish_world(world) == expected


@pytest.mark.parametrize("kind", [KeepsAbsent, NeverSilent])
def test_rules_that_the_library_would_break_are_found_out(kind):
    publisher, users, length = build_product("one is back when another leaves", kind)
    assert find_breaches(publisher, users, range(length))
