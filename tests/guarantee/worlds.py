"""Attackers with unlimited computing power, in worlds so small that all can be listed.

A *world* is a tuple of the requests (user, instant, values) that were sent. The attackers know
everything but that: they publish every world that they hold possible, and keep those that give
the bytes before their eyes.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from reference.publishing import Publisher, Rules

Request = tuple[Any, int, tuple[Any, ...]]
World = tuple[Request, ...]
Entry = tuple[int, int, int, tuple[Any, ...]]
"""Window, bundle, instant and values of a request that is published."""

Senders = Mapping[Entry, set[Any]]
Publish = Callable[[World], tuple[Hashable, Senders]]
"""Gives all published bytes, and, for the judge alone, who sent each entry."""


@dataclass(frozen=True)
class Known:
    """What the attackers know before anything is published.

    Attributes
    ----------
    rows
        (user, instant) of each row of the locations, or of the one log.
    windows
        The instants of each window.
    bundles
        The members of each written bundle of each window.
    values
        The requests that anybody may send: tuples of one value, or None, per attribute.
    rules
        The rules, and whether there is one log.
    every_row
        One log: they also know that every row is a request.
    strangers
        Two inputs: who may send requests besides the users of the location reports.
    instants
        Two inputs: when requests may be sent; default: whenever there is a window.
    most
        Two inputs: how often a user may send the same at an instant.
    """

    rows: tuple[tuple[Any, int], ...]
    windows: Mapping[int, range]
    bundles: Mapping[int, Mapping[int, frozenset[Any]]]
    values: tuple[tuple[Any, ...], ...]
    rules: Rules
    every_row: bool = False
    strangers: tuple[Any, ...] = ()
    instants: tuple[int, ...] | None = None
    most: int = 1

    @property
    def slots(self) -> list[Request]:
        """Two inputs: what each user may send at each instant."""
        users = dict.fromkeys([user for user, _ in self.rows]) | dict.fromkeys(self.strangers)
        instants = self.instants
        if instants is None:
            instants = tuple(i for window in self.windows.values() for i in window)
        return list(product(users, instants, self.values))

    @property
    def num_worlds(self) -> int:
        if self.rules.one_log:
            return (len(self.values) + (not self.every_row)) ** len(self.rows)
        return int((self.most + 1) ** len(self.slots))

    def list_worlds(self) -> Iterator[World]:
        """List all worlds that the attackers hold possible before anything is published."""
        if self.rules.one_log:
            contents = self.values if self.every_row else (None, *self.values)
            for chosen in product(contents, repeat=len(self.rows)):
                rows = zip(self.rows, chosen, strict=True)
                yield tuple((*row, values) for row, values in rows if values is not None)
            return
        slots = self.slots
        for counts in product(range(self.most + 1), repeat=len(slots)):
            sent = zip(slots, counts, strict=True)
            yield tuple(request for request, count in sent for _ in range(count))


class Breach(NamedTuple):
    """Something that attackers learn and must not.

    Attributes
    ----------
    kind
        ``suspects``: fewer than k users may each be the only sender of an entry. ``certain``:
        a request of a user is the same in all worlds. ``linked``: fewer than k users may have
        sent all that is equal in their bundles.
    what
        The entry; the request; or the values, the window and the bundle.
    users
        The suspects that are left.
    """

    kind: str
    what: Any
    users: frozenset[Any]


def follow(known: Known, kind: type[Publisher] = Publisher) -> Publish:
    """Publish as the slow twin does, or a kind of it."""
    publisher = kind(known.rows, known.windows, known.bundles, known.rules)
    publisher.decide = cache(publisher.decide)

    def publish(world: World) -> tuple[Hashable, Senders]:
        shown = publisher.publish(world)
        return publisher.write(world, shown), publisher.find_senders(world, shown)

    return publish


def find_breaches(known: Known, publish: Publish) -> list[Breach]:
    """List all worlds, publish each, and see what follows from the bytes."""
    same_bytes = defaultdict(list)
    for world in known.list_worlds():
        shown, senders = publish(world)
        same_bytes[shown].append((world, senders))
    return [breach for group in same_bytes.values() for breach in _judge(known, group)]


def _judge(known: Known, group: list[tuple[World, Senders]]) -> Iterator[Breach]:
    """Judge what attackers conclude who are left with these worlds."""
    k = known.rules.k
    for request in set.intersection(*(set(world) for world, _ in group)):
        yield Breach("certain", request, frozenset([request[0]]))
    entries = group[0][1].keys()
    assert all(senders.keys() == entries for _, senders in group), "bytes show the entries"
    for entry in entries:
        only = frozenset(
            user for _, senders in group if len(senders[entry]) == 1 for user in senders[entry]
        )
        if len(only) < k:
            yield Breach("suspects", entry, only)
    if known.rules.link_safe:
        yield from _judge_links(known, group)


def _judge_links(known: Known, group: list[tuple[World, Senders]]) -> Iterator[Breach]:
    """Take what is equal in different windows for requests of one sender.

    Several bundles of a window may show it, so readers do not know which of them have the same
    sender. A user remains a suspect if all that the user's bundles show of it, in every window
    that shows it, may be theirs alone.
    """
    entries = group[0][1].keys()
    for values in {entry[3] for entry in entries}:
        shown = defaultdict(set)  # the instants in each window and bundle that shows it
        for window, bundle, instant, shown_values in entries:
            if shown_values == values:
                shown[window, bundle].add(instant)
        windows = {window for window, _ in shown}
        suspects = set()
        for user in {user for user, _ in known.rows}:
            own = [place for place in shown if user in known.bundles[place[0]][place[1]]]
            theirs = [(*place, instant, values) for place in own for instant in shown[place]]
            if {window for window, _ in own} == windows and any(
                all(senders[entry] == {user} for entry in theirs) for _, senders in group
            ):
                suspects.add(user)
        for window, bundle in shown:
            left = suspects & known.bundles[window][bundle]
            if len(left) < known.rules.k:
                yield Breach("linked", (values, window, bundle), frozenset(left))
