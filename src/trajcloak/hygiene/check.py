"""Refuse request attributes that look like identifiers or places."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError, OptionError
from trajcloak.hygiene.attributes import Attribute
from trajcloak.hygiene.identity import (
    IdCounts,
    count_ids,
    is_near_unique,
    judge_known_ids,
    judge_own_ids,
)
from trajcloak.hygiene.ids import Ids
from trajcloak.hygiene.patterns import is_bytes, is_text, match_patterns
from trajcloak.hygiene.places import PlaceCounts, count_places, follows_place
from trajcloak.log import RequestLog


@dataclass(frozen=True)
class Suspicion:
    """What an attribute looks like; counts only, never a value."""

    column: str
    looks_like: str
    values: int
    requests: int

    def __str__(self) -> str:
        return (
            f"'{self.column}' holds {self.looks_like} ({self.values:,} distinct values in "
            f"{self.requests:,} requests)"
        )


def check_hygiene(
    log: RequestLog,
    attributes: Sequence[Attribute],
    published: Sequence[Attribute],
    allow: Sequence[str],
) -> None:
    """Raise if an attribute looks like an identifier or a place, and is not allowed.

    It may stop a run, and changes nothing else: who is bundled with whom does not
    depend on requests (invariant 1 of ``docs/guarantee.md``).

    Parameters
    ----------
    log : RequestLog
    attributes
        The requests of the log, by value. None may hold ids of users.
    published
        The same with the values that may be published, which rare ones may not.
    allow
        Names of attributes to publish whatever they look like; ids of users
        excepted, which the audit would find.

    Raises
    ------
    InputError
        If an attribute is refused.
    OptionError
        If ``allow`` names what is no attribute.
    """
    ids = Ids(log.users)
    judge_hygiene(
        attributes,
        published,
        allow,
        ids,
        [count_ids(ids, log, attribute) for attribute in attributes],
        [None if a.name in allow else count_places(log, a) for a in published],
    )


def judge_hygiene(
    attributes: Sequence[Attribute],
    published: Sequence[Attribute],
    allow: Sequence[str],
    ids: Ids,
    id_counts: Sequence[IdCounts],
    place_counts: Sequence[PlaceCounts | None],
) -> None:
    """Raise as :func:`check_hygiene` does, from what was counted of each attribute.

    Counts of places are None for attributes that are allowed.
    """
    names = [attribute.name for attribute in attributes]
    for name in allow:
        if name not in names:
            raise OptionError(
                f"'{name}' is allowed and no request column; expected one of those named with "
                f"--request; check --allow"
            )
    identities = [
        found
        for a, counts in zip(attributes, id_counts, strict=True)
        for found in find_identities(ids, counts, a)
    ]
    if identities:
        raise InputError(
            f"request column {'; '.join(map(str, identities))}; expected no user ids in a "
            f"release; leave out the column"
        )
    suspicions = [
        found
        for a, counts in zip(published, place_counts, strict=True)
        if counts is not None
        for found in find_suspicions(counts, a)
    ]
    if suspicions:
        raise InputError(
            f"request column {'; '.join(map(str, suspicions))}; expected values that many users "
            f"share and that name nobody and no place; leave the column out, make its values "
            f"coarser, or publish it as it is with --allow COLUMN"
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
