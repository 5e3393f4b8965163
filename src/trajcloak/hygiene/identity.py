"""Values that are the ids of users, or that single one user out."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from trajcloak.hygiene.attributes import Attribute
from trajcloak.hygiene.ids import ABOVE_CHANCE, LONG_ID, MIN_FOUND, Ids, spell
from trajcloak.hygiene.patterns import is_text
from trajcloak.log import RequestLog

MANY_VALUES = 200
"""An attribute with no more distinct values has categories, however few users it has."""

NEAR_UNIQUE = 0.5
"""Share of distinct values among requests, or of values of one user among values."""

ONE_NUMBER = r"^[^0-9]*(?P<number>[0-9]+)[^0-9]*$"


def is_near_unique(attribute: Attribute) -> bool:
    """Whether most values were sent once, or by one user only."""
    if attribute.num_values <= MANY_VALUES:
        return False
    alone = int((attribute.users == 1).sum())
    return (
        attribute.num_values > NEAR_UNIQUE * attribute.num_sent
        or alone > NEAR_UNIQUE * attribute.num_values
    )


class IdCounts(NamedTuple):
    """Where ids of users were found in an attribute; counts of parts of a log add up.

    Attributes
    ----------
    own : (ways, 3) int64
        Of each way to compare ids with values: users who sent their own id, senders of
        all values that are ids, and users who sent anything.
    inside : int
        Long ids that stand somewhere in the values.
    known : int
        Users whose id is a long value.
    """

    own: npt.NDArray[np.int64]
    inside: int
    known: int


def count_ids(ids: Ids, log: RequestLog, attribute: Attribute) -> IdCounts:
    """Find the ids of users in an attribute.

    Text is compared as a whole, and by the number in it if it holds just one.
    """
    own = []
    for texts in _list_texts(attribute.values):
        user, value = ids.match(texts)
        wanted = np.full(log.num_users, -1, np.int64)
        wanted[user] = value
        counts = [
            _count_own(part.user, part.requests.row, part.requests.kind, attribute.code, wanted)
            for part in (log.parts() if len(user) else ())
        ]
        num_own, num_senders = np.sum(counts, axis=0) if counts else (0, 0)
        own.append([num_own, attribute.users[value].sum(), num_senders])
    texts = _list_long(attribute)
    return IdCounts(
        np.array(own, np.int64),
        ids.count_inside(attribute.values) if is_text(attribute.values.type) else 0,
        len(ids.match(texts)[0]) if len(texts) else 0,
    )


def add_id_counts(parts: Sequence[IdCounts]) -> IdCounts:
    """Add the counts of parts of a log."""
    return IdCounts(
        np.sum([part.own for part in parts], axis=0),
        sum(part.inside for part in parts),
        sum(part.known for part in parts),
    )


def judge_own_ids(counts: IdCounts) -> int:
    """Count the users who sent their own id, or 0 if chance explains it."""
    for num_own, num_alike, num_senders in counts.own.tolist():
        if num_own > MIN_FOUND + ABOVE_CHANCE * (num_alike / max(num_senders, 1)):
            return int(num_own)
    return 0


def judge_known_ids(counts: IdCounts, ids: Ids, attribute: Attribute) -> int:
    """Count the users whose id is a value, or 0 if chance explains it.

    In text a single long id, in whatever it stands, is no chance.
    """
    if counts.inside:
        return counts.inside
    if counts.known <= MIN_FOUND:
        return 0
    by_chance = ids.expect(_list_long(attribute))
    return counts.known if counts.known > MIN_FOUND + ABOVE_CHANCE * by_chance else 0


def _list_long(attribute: Attribute) -> pa.Array:
    texts = spell(attribute.values)
    return texts.filter(pc.greater_equal(pc.utf8_length(texts), LONG_ID))


def _list_texts(values: pa.Array) -> list[pa.Array]:
    texts = [spell(values)]
    if is_text(values.type):
        texts.append(pc.extract_regex(texts[0], ONE_NUMBER).field("number"))
    return texts


@njit(cache=True, nogil=True)
def _count_own(user, row, kind, code, wanted):  # type: ignore[no-untyped-def]
    """Count the users who sent the value that equals their id, and all who sent a request."""
    is_sender = np.zeros(len(wanted), np.bool_)
    is_own = np.zeros(len(wanted), np.bool_)
    for r in range(len(row)):
        u = user[row[r]]
        is_sender[u] = True
        if wanted[u] >= 0 and wanted[u] == code[kind[r]]:
            is_own[u] = True
    return is_own.sum(), is_sender.sum()
