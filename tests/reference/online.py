"""What a stream publishes, instant by instant, as plain loops over sets.

Who is grouped with whom is given; everything else is decided here. A report is (user, time,
place), a request (user, time, values). With one input a report may carry a request of the same
user and time.
"""

from collections import defaultdict
from dataclasses import dataclass


@dataclass(frozen=True)
class OnlineRules:
    """The settings of a stream that decide what is published."""

    k: int
    every: int
    epoch: int
    lag: int = 0
    one_input: bool = False
    hold: int = 0
    rare_below: int = 2
    vocabulary: tuple | None = None  # the values that each attribute may have


class OnlinePublisher:
    """Publishes instants in order.

    ``groups``: {first instant of an epoch: groups that are formed there}. All of this, and the
    reports, are known to the attackers.
    """

    def __init__(self, reports, groups, rules):
        self.rules = rules
        self.groups = groups
        self.reports = defaultdict(list)
        for user, time, place in reports:
            self.reports[user, time // rules.every].append((time, place))
        self.users = {user for user, _ in self.reports}

    def find_report(self, user, instant):
        """Find the report that counts: the last. With one input there must be one last."""
        found = sorted(self.reports.get((user, instant), []))
        if not found:
            return None
        is_repeated = [time for time, _ in found].count(found[-1][0]) > 1
        return None if self.rules.one_input and is_repeated else found[-1]

    def is_last(self, user, instant, time):
        report = self.find_report(user, instant)
        return report is not None and report[0] == time

    def find_place(self, user, instant):
        """Find where a user is, or was a short time ago; None: the user is absent."""
        for earlier in range(instant, instant - self.rules.hold - 1, -1):
            report = self.find_report(user, earlier)
            if report is not None:
                return report[1]
        return None

    def is_present(self, user, instant):
        return self.find_place(user, instant) is not None

    def list_groups(self, instant):
        """List the members who are left of each group that is not silent.

        Members have been present at every instant of the epoch so far, and at least k of them
        are left.
        """
        left = []
        for earlier in range(instant - instant % self.rules.epoch, instant + 1):
            if earlier in self.groups:
                left = [set(group) for group in self.groups[earlier]]
            left = [{u for u in group if self.is_present(u, earlier)} for group in left]
            left = [group if len(group) >= self.rules.k else set() for group in left]
        return left

    def check_groups(self):
        """Raise if groups are not as they may be.

        They are made at the first instant of an epoch, and have at least k members, who are
        present as far as is known then.
        """
        for instant, groups in self.groups.items():
            assert instant % self.rules.epoch == 0, "groups change within an epoch"
            members = [user for group in groups for user in group]
            assert len(members) == len(set(members)), "a user is in two groups"
            for group in groups:
                assert len(group) >= self.rules.k, "a group is too small"
                for known in range(instant, instant + self.rules.lag + 1):
                    assert all(self.is_present(u, known) for u in group), "a member is absent"

    def collect(self, requests, instant):
        """List (group, values) of the requests that may be published."""
        groups = self.list_groups(instant)
        entries = set()
        for user, time, values in requests:
            if time // self.rules.every != instant or all(value is None for value in values):
                continue
            if self.rules.one_input and not self.is_last(user, instant, time):
                continue
            if self.rules.vocabulary is not None and not all(
                value is None or value in allowed
                for value, allowed in zip(values, self.rules.vocabulary, strict=True)
            ):
                continue
            for number, group in enumerate(groups):
                if user in group:
                    entries.add((number, values))
        return entries

    def publish(self, requests, instant):
        """List what is published of an instant: {group: (cloak, users, requests)}."""
        entries = self.collect(requests, instant)
        shown_by = defaultdict(set)
        for number, values in entries:
            shown_by[values].add(number)
        published = {}
        for number, group in enumerate(self.list_groups(instant)):
            if group:
                places = [self.find_place(user, instant) for user in group]
                cloak = tuple((min(along), max(along) + 1) for along in zip(*places, strict=True))
                values = {
                    values
                    for of_group, values in entries
                    if of_group == number and len(shown_by[values]) >= self.rules.rare_below
                }
                published[number] = (cloak, len(group), frozenset(values))
        return published


def list_suspects(publisher, instants, user):
    """List who could have sent what ``user`` sent, for attackers told that it has one sender.

    They know the reports and the groups. ``instants``: when ``user`` sent a request that is
    published.
    """
    suspects = set(publisher.users)
    for instant in instants:
        group = next(g for g in publisher.list_groups(instant) if user in g)
        suspects &= group
    return suspects
