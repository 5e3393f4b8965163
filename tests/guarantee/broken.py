"""Publishers that break one rule each, and tiny worlds in which attackers profit from it."""

from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

from guarantee.tiny import ONE, ONE_LOG, TWO, everywhere, number
from guarantee.worlds import Known
from reference.publishing import Publisher, Rules, find_type


class RareBySenders(Publisher):
    """A request is rare if few users of the window sent it."""

    def publish(self, requests):
        senders = defaultdict(set)
        for user, instant, values in requests:
            if (user, instant) in self.place:
                senders[self.place[user, instant][0], values].add(user)
        sent = self.collect(requests)
        return {e: e for e in sent if len(senders[e[0], e[3]]) >= self.rules.rare_below}


class RareInWithheldSets(Publisher):
    """Sets that are not eligible count as well."""

    def publish(self, requests):
        eligible, self.eligible = self.eligible, self.sets
        everywhere = self.drop_rare(self.collect(requests))
        self.eligible = eligible
        return {entry: entry for entry in self.collect(requests) if entry in everywhere}


class EligibleByMembers(Publisher):
    """All sets of written bundles are published, whoever has a row."""

    def is_eligible(self, window, bundle, instant):
        return True


class CountsWithheldRequests(Publisher):
    """The manifest says how many requests are not shown."""

    def write(self, requests, shown):
        return super().write(requests, shown), len(requests) - len(shown)


class CountsEqualRequests(Publisher):
    """The manifest says how often users of one set sent the same."""

    def write(self, requests, shown):
        sent = sum((*self.place.get(r[:2], ()), r[2]) in shown for r in requests)
        return super().write(requests, shown), sent - len(shown)


class TypeOfAllValues(Publisher):
    """A column's type is that of all its values, shown or not."""

    def write(self, requests, shown):
        columns = zip(*(values for _, _, values in requests), strict=True)
        types = tuple(find_type(set(column) - {None}) for column in columns)
        return *super().write(requests, shown)[:-1], types


class StopsByRequests(Publisher):
    """The run stops where rows beside the schedule (here: at odd instants) carry requests."""

    def publish(self, requests):
        self.stops = any(instant % 2 for _, instant, _ in requests)
        return {} if self.stops else super().publish(requests)

    def write(self, requests, shown):
        return "stopped" if self.stops else super().write(requests, shown)


class StopsByRows(StopsByRequests):
    """The same by rows without contents, which is right."""

    def publish(self, requests):
        self.stops = any(instant % 2 for _, instant in self.has_row)
        return {} if self.stops else Publisher.publish(self, requests)


class RefusesIdentifiers(Publisher):
    """The run stops where no two users sent the same, which looks like identifiers."""

    def publish(self, requests):
        senders = defaultdict(set)
        for user, _, values in requests:
            senders[values].add(user)
        self.stops = len(senders) > 1 and all(len(users) == 1 for users in senders.values())
        return {} if self.stops else super().publish(requests)

    def write(self, requests, shown):
        return "stopped" if self.stops else super().write(requests, shown)


class NoLinkRule(Publisher):
    """Equal requests in different windows are published as any other."""

    def drop_linked(self, published):
        return published


class LinksByMembers(Publisher):
    """All members count as suspects, also those without a row."""

    def find_suspects(self, window, bundle, instants):
        return set(self.bundles[window][bundle])


class LinksByUnion(Publisher):
    """The suspects of all bundles of a window are counted together."""

    def is_link_safe(self, showing):
        together = set.intersection(*(set.union(*suspects) for suspects in showing))
        return len(together) >= self.rules.k


class LinksByLastWindow(Publisher):
    """Bundles of earlier windows are not looked at again."""

    def is_link_safe(self, showing):
        together = set.intersection(*(set.union(*suspects) for suspects in showing))
        return all(len(suspects & together) >= self.rules.k for suspects in showing[-1])


class Case(NamedTuple):
    """A broken rule, where it shows, and what the attackers learn."""

    publisher: type[Publisher]
    known: Known
    kind: str


KEEP = Rules(2, rare="keep")
LINK_SAFE = Rules(2, rare="keep", link_safe=True)
PAIR = Known(everywhere("ab", 1), {0: range(1)}, {0: number("ab")}, ONE, Rules(2))
"""Two users in a bundle, one instant, one thing to send."""

WINDOWS = {0: range(1), 1: range(1, 2)}
PAIRS = number("ab", "cd")
SINGLE_ROW = Known(
    (("a", 0), ("b", 0), ("c", 0), ("c", 1), ("d", 1)), WINDOWS, {0: PAIRS, 1: PAIRS}, TWO, ONE_LOG
)
"""A set with the row of a single user; all others have the rows of two, or none."""

EXTRA_ROW = Known((*everywhere("ab", 1), ("a", 1)), {0: range(2)}, {0: number("ab")}, ONE, ONE_LOG)
"""One of two users has a row at an odd instant."""

TWO_INSTANTS = Known(
    everywhere("ab", 2),
    {0: range(2)},
    {0: number("ab")},
    (*TWO, ("y",)),
    replace(KEEP, one_log=True),
)

OTHER_PAIRS = Known(
    everywhere("abcd", 2), WINDOWS, {0: PAIRS, 1: number("ac", "bd")}, ONE, LINK_SAFE
)
"""Nobody is bundled with the same user again."""

CHANGING_ROWS = Known(
    (("a", 0), ("b", 0), ("b", 1), ("c", 1)),
    WINDOWS,
    {0: number("abc"), 1: number("abc")},
    ONE,
    replace(LINK_SAFE, one_log=True),
)
"""All stay together, but a single user has a row in both windows."""

ONE_LEAVES = Known(everywhere("abcd", 2), WINDOWS, {0: PAIRS, 1: number("abc")}, ONE, LINK_SAFE)
"""One of the second bundle's two users is not there in the second window."""

BROKEN = {
    "rare by senders": Case(RareBySenders, PAIR, "certain"),
    "rare in withheld sets": Case(RareInWithheldSets, SINGLE_ROW, "certain"),
    "eligible by members": Case(
        EligibleByMembers, replace(SINGLE_ROW, rules=replace(KEEP, one_log=True)), "suspects"
    ),
    "counts withheld requests": Case(CountsWithheldRequests, PAIR, "certain"),
    "counts equal requests": Case(CountsEqualRequests, replace(PAIR, rules=KEEP), "suspects"),
    "type of all values": Case(
        TypeOfAllValues, replace(SINGLE_ROW, rules=replace(KEEP, one_log=True)), "certain"
    ),
    "stops by requests": Case(StopsByRequests, EXTRA_ROW, "certain"),
    "refuses identifiers": Case(RefusesIdentifiers, TWO_INSTANTS, "suspects"),
    "no link rule": Case(NoLinkRule, OTHER_PAIRS, "linked"),
    "links by members": Case(LinksByMembers, CHANGING_ROWS, "linked"),
    "links by union": Case(LinksByUnion, ONE_LEAVES, "linked"),
    "links by last window": Case(LinksByLastWindow, ONE_LEAVES, "linked"),
}
