"""Refuse request attributes that look like identifiers or places."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.errors import InputError, OptionError
from trajcloak.log import Bounds, RequestLog, ShardedLog
from trajcloak.requests.attributes import Attribute
from trajcloak.requests.identifiers import (
    IdCounts,
    Ids,
    add_id_counts,
    count_ids,
    is_near_unique,
    judge_known_ids,
    judge_own_ids,
)
from trajcloak.requests.patterns import is_bytes, is_text, match_patterns
from trajcloak.requests.place_values import PlaceCounts, count_near_places, follows_place


@dataclass(frozen=True)
class Suspicion:
    """What an attribute looks like; holds counts only, never a value."""

    column: str
    looks_like: str
    values: int
    requests: int

    def __str__(self) -> str:
        return (
            f"'{self.column}' holds {self.looks_like} ({self.values:,} distinct values in "
            f"{self.requests:,} requests)"
        )


def check_values(
    log: ShardedLog,
    attributes: Sequence[Attribute],
    published: Sequence[Attribute],
    allow: Sequence[str],
) -> None:
    """Raise if an attribute looks like an identifier or a place, and is not allowed.

    This check may stop a run but changes nothing else, so who is bundled with whom does
    not depend on requests (invariant 1 of ``docs/guarantee.md``).

    Parameters
    ----------
    log : ShardedLog
    attributes
        The attributes of the log. None may hold ids of users.
    published
        The same attributes with only the values that would be published.
    allow
        Names of attributes to publish whatever they look like; but never ids of
        users, which the audit would find.

    Raises
    ------
    InputError
        If an attribute is refused.
    OptionError
        If ``allow`` names something that is not an attribute.
    """
    names = [attribute.name for attribute in attributes]
    for name in allow:
        if name not in names:
            raise OptionError(
                f"'{name}' is allowed but is no request column; expected one of those named with "
                f"--request; check --allow"
            )
    digits = log.ask(count_digits_of_ids)
    num_digits = np.sum([np.pad(d, (0, max(map(len, digits)) - len(d))) for d in digits], axis=0)
    of_others = None if len(digits) == 1 else num_digits
    shared = log.engine.put(attributes), log.engine.put(published)
    id_counts, place_counts = zip(
        *log.ask(count_in_values, of_others, *shared, allow, log.facts.bounds), strict=True
    )
    ids = Ids(pa.array([], pa.int64()), num_digits)
    identities = [
        found
        for attribute, counts in zip(attributes, zip(*id_counts, strict=True), strict=True)
        for found in find_identities(ids, add_id_counts(counts), attribute)
    ]
    if identities:
        raise InputError(
            f"request column {'; '.join(map(str, identities))}; expected no user ids in a "
            f"release; leave out the column"
        )
    suspicions = [
        found
        for attribute, of_shards in zip(published, zip(*place_counts, strict=True), strict=True)
        if attribute.name not in allow
        for found in find_suspicions(np.sum(of_shards, axis=0), attribute)
    ]
    if suspicions:
        raise InputError(
            f"request column {'; '.join(map(str, suspicions))}; expected values that many users "
            f"share and that name nobody and no place; leave the column out, make its values "
            f"coarser, or publish it as it is with --allow COLUMN"
        )


def count_digits_of_ids(log: RequestLog) -> npt.NDArray[np.int64]:
    """Count the ids of a shard that are numbers, by their number of digits."""
    return Ids(log.users).num_digits


def count_in_values(
    log: RequestLog,
    num_digits: npt.NDArray[np.int64] | None,
    attributes: Sequence[Attribute],
    published: Sequence[Attribute],
    allow: Sequence[str],
    bounds: Bounds,
) -> tuple[list[IdCounts], list[PlaceCounts]]:
    """Find ids and places of a shard in its requests.

    ``num_digits`` counts the ids of all shards, None if there is only one; ``bounds`` are the
    bounds of the whole log.
    """
    ids = Ids(log.users, num_digits)
    return (
        [count_ids(ids, log, attribute) for attribute in attributes],
        [
            np.zeros((2, 7)) if a.name in allow else count_near_places(log, a, bounds)
            for a in published
        ],
    )


def find_identities(ids: Ids, counts: IdCounts, attribute: Attribute) -> list[Suspicion]:
    """Find ids of users of the log in an attribute."""
    num_users = judge_own_ids(counts)
    looks_like = f"the ids of {num_users:,} of its senders"
    if not num_users:
        num_users = judge_known_ids(counts, ids, attribute)
        looks_like = f"the ids of {num_users:,} users of the log"
    if not num_users:
        return []
    return [Suspicion(attribute.name, looks_like, attribute.num_values, attribute.num_sent)]


def find_suspicions(counts: PlaceCounts, attribute: Attribute) -> list[Suspicion]:
    """Find what an attribute looks like."""
    everything = np.ones(attribute.num_values, np.bool_)
    found: list[tuple[str, npt.NDArray[np.bool_]]] = []
    if is_text(attribute.values.type):
        found += match_patterns(attribute.values)
    if is_bytes(attribute.values.type):
        found.append(("bytes, which may mean anything", everything))
    if follows_place(counts):
        found.append(("coordinates of the row's place", everything))
    if not found and is_near_unique(attribute):
        found.append(("near-unique values", everything))
    return [
        Suspicion(attribute.name, looks_like, int(mask.sum()), int(attribute.sent[mask].sum()))
        for looks_like, mask in found
    ]
