"""Values that are the ids of users, or that single one user out."""

import numpy as np
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


def count_own_ids(ids: Ids, log: RequestLog, attribute: Attribute) -> int:
    """Count the users who sent their own id, or 0 if chance explains it.

    Text is compared as a whole, and by the number in it if it holds just one.
    """
    for texts in _list_texts(attribute.values):
        user, value = ids.match(texts)
        if not len(user):
            continue
        wanted = np.full(log.num_users, -1, np.int64)
        wanted[user] = value
        counts = [
            _count_own(part.user, part.requests.row, part.requests.kind, attribute.code, wanted)
            for part in log.parts()
        ]
        num_own, num_senders = map(sum, zip(*counts, strict=True))
        by_chance = float(attribute.users[value].sum()) / max(num_senders, 1)
        if num_own > MIN_FOUND + ABOVE_CHANCE * by_chance:
            return int(num_own)
    return 0


def count_known_ids(ids: Ids, attribute: Attribute) -> int:
    """Count the users whose id is a value, or 0 if chance explains it.

    In text a single long id, in whatever it stands, is no chance.
    """
    if is_text(attribute.values.type):
        num_found = ids.count_inside(attribute.values)
        if num_found:
            return num_found
    texts = spell(attribute.values)
    texts = texts.filter(pc.greater_equal(pc.utf8_length(texts), LONG_ID))
    num_found = len(ids.match(texts)[0]) if len(texts) else 0
    if num_found <= MIN_FOUND:
        return 0
    return num_found if num_found > MIN_FOUND + ABOVE_CHANCE * ids.expect(texts) else 0


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
