"""Which requests are published, as plain loops over sets.

A request is (user, instant, values): one value or None for each attribute. What is published
of it is an *entry*: (window, bundle, instant, values).
"""

import re
from collections import defaultdict
from dataclasses import dataclass

OTHER = "(other)"
WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)")
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


@dataclass(frozen=True)
class Rules:
    """The options of a run that decide about requests."""

    k: int
    one_log: bool = False  # rows carry requests; otherwise these have a log of their own
    rare: str = "drop"
    rare_below: int = 2
    vocabulary: tuple | None = None  # the values that each attribute may have
    link_safe: bool = False


class Publisher:
    """Applies the rules to the requests of a log.

    ``rows``: (user, instant, ...) of each location report, in one log of each row.
    ``windows``: {number: its instants}. ``bundles``: {window: {bundle: members}}, written ones
    only. All of this is known to the attackers.
    """

    def __init__(self, rows, windows, bundles, rules):
        self.rules = rules
        self.windows = windows
        self.bundles = bundles
        self.has_row = {(user, instant) for user, instant, *_ in rows}
        self.sets = {
            (window, bundle, instant)
            for window, of_window in bundles.items()
            for bundle in of_window
            for instant in windows[window]
        }
        self.place = {
            (user, instant): (window, bundle, instant)
            for window, bundle, instant in self.sets
            for user in bundles[window][bundle]
        }
        self.eligible = {place for place in self.sets if self.is_eligible(*place)}

    def is_eligible(self, window, bundle, instant):
        members = self.bundles[window][bundle]
        present = {user for user in members if self.can_send(user, instant)}
        return len(present) >= self.rules.k

    def can_send(self, user, instant):
        """Whether attackers who know all rows hold a member for a possible sender."""
        return not self.rules.one_log or (user, instant) in self.has_row

    def count_withheld_sets(self):
        return len(self.sets) - len(self.eligible)

    def collect(self, requests):
        """List what was sent in eligible sets, as entries."""
        entries = set()
        for user, instant, values in requests:
            place = self.place.get((user, instant))
            if place in self.eligible and any(value is not None for value in values):
                entries.add((*place, values))
        return frozenset(entries)

    def publish(self, requests):
        """Find what each entry is published as; those that are withheld are left out."""
        return self.decide(self.collect(requests))

    def write(self, requests, shown):
        """List all that readers see and that could depend on requests; the log is text."""
        published = frozenset(shown.values())
        return published, len(published), self.count_withheld_sets(), self.find_types(published)

    def find_types(self, published):
        columns = zip(*(entry[3] for entry in published), strict=True)
        if self.rules.rare == "other":
            return tuple("text" for _ in columns)
        return tuple(find_type(set(column) - {None}) for column in columns)

    def find_senders(self, requests, shown):
        """Find who sent each published entry: the secret."""
        senders = defaultdict(set)
        for user, instant, values in requests:
            entry = (*self.place.get((user, instant), ()), values)
            if entry in shown:
                senders[shown[entry]].add(user)
        return dict(senders)

    def decide(self, sent):
        sent = {entry for entry in sent if self.is_listed(entry[3])}
        shown = {entry: entry for entry in sent}
        if self.rules.rare == "other":
            shown = self.replace_rare_values(sent)
        published = set(shown.values())
        if self.rules.rare != "keep":
            published = self.drop_rare(published)
        if self.rules.link_safe:
            published = self.drop_linked(published)
        return {entry: shown[entry] for entry in sent if shown[entry] in published}

    def is_listed(self, values):
        if self.rules.vocabulary is None:
            return True
        return all(
            value is None or value in allowed
            for value, allowed in zip(values, self.rules.vocabulary, strict=True)
        )

    def replace_rare_values(self, sent):
        """Replace values that occur in too few bundles of a window; null is no value."""
        bundles = defaultdict(set)
        for window, bundle, _, values in sent:
            for attribute, value in enumerate(values):
                bundles[window, attribute, value].add(bundle)
        shown = {}
        for entry in sent:
            window, bundle, instant, values = entry
            replaced = []
            for attribute, value in enumerate(values):
                num_bundles = len(bundles[window, attribute, value])
                is_rare = value is not None and num_bundles < self.rules.rare_below
                replaced.append(OTHER if is_rare else value)
            shown[entry] = (window, bundle, instant, tuple(replaced))
        return shown

    def drop_rare(self, published):
        """Withhold what occurs in too few bundles of a window."""
        bundles = defaultdict(set)
        for window, bundle, _, values in published:
            bundles[window, values].add(bundle)
        return {
            entry
            for entry in published
            if len(bundles[entry[0], entry[3]]) >= self.rules.rare_below
        }

    def drop_linked(self, published):
        """Withhold, window by window, what would leave a reader who links it too few suspects."""
        kept = set()
        for values in {entry[3] for entry in published}:
            showing = []  # for each window that shows it: the suspects of each bundle
            for window in sorted(self.windows):
                here = {e for e in published if e[0] == window and e[3] == values}
                if not here:
                    continue
                suspects = [
                    self.find_suspects(window, bundle, {e[2] for e in here if e[1] == bundle})
                    for bundle in {entry[1] for entry in here}
                ]
                if self.is_link_safe([*showing, suspects]):
                    showing.append(suspects)
                    kept |= here
        return kept

    def find_suspects(self, window, bundle, instants):
        """List the members who could have sent something at all of these instants."""
        return {
            user
            for user in self.bundles[window][bundle]
            if all(self.can_send(user, instant) for instant in instants)
        }

    def is_link_safe(self, showing):
        in_every_window = set.intersection(*(set.union(*suspects) for suspects in showing))
        return all(
            len(of_bundle & in_every_window) >= self.rules.k
            for suspects in showing
            for of_bundle in suspects
        )


def find_type(values):
    """Find the type of a column of a text file, from the values that it shows."""
    if not values:
        return "text"
    if all(WHOLE_NUMBER.fullmatch(value) for value in values):
        return "int64"
    return "float64" if all(NUMBER.fullmatch(value) for value in values) else "text"
