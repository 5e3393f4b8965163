"""Values that are the ids of users, or that single one user out."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from trajcloak.hygiene.attributes import Attribute
from trajcloak.hygiene.patterns import is_bytes, is_text
from trajcloak.log import RequestLog

MANY_VALUES = 200
"""An attribute with no more distinct values has categories, however few users it has."""

NEAR_UNIQUE = 0.5
"""Share of distinct values among requests, or of values of one user among values."""

LONG_ID = 6
"""Characters of an id that does not equal a value by chance, unless both are numbers."""

MIN_FOUND = 3
ABOVE_CHANCE = 4
"""Ids are published if more than ``MIN_FOUND`` are, and so many times more than by chance."""

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


def count_own_ids(ids: pa.Array, log: RequestLog, attribute: Attribute) -> int:
    """Count the users who sent their own id, or 0 if chance explains it.

    Text is compared as a whole, and by the number in it if it holds just one.

    Parameters
    ----------
    ids
        The ids of all users, from :func:`spell`.
    log, attribute
    """
    requests = log.requests
    for texts in _list_texts(attribute.values):
        value = _match_ids(ids, texts)
        if not (value >= 0).any():
            continue
        num_own, num_senders = _count_own(
            log.user, requests.row, requests.kind, attribute.code, value
        )
        by_chance = float(attribute.users[value[value >= 0]].sum()) / max(num_senders, 1)
        if num_own > MIN_FOUND + ABOVE_CHANCE * by_chance:
            return int(num_own)
    return 0


@njit(cache=True, nogil=True)
def _count_own(user, row, kind, code, value):  # type: ignore[no-untyped-def]
    """Count the users who sent the value that equals their id, and all who sent a request."""
    is_sender = np.zeros(len(value), np.bool_)
    is_own = np.zeros(len(value), np.bool_)
    for r in range(len(row)):
        u = user[row[r]]
        is_sender[u] = True
        if value[u] >= 0 and value[u] == code[kind[r]]:
            is_own[u] = True
    return is_own.sum(), is_sender.sum()


def count_known_ids(ids: pa.Array, attribute: Attribute) -> int:
    """Count the users whose id is a value, or 0 if chance explains it."""
    texts = spell(attribute.values)
    texts = texts.filter(pc.greater_equal(pc.utf8_length(texts), LONG_ID))
    num_found = int((_match_ids(ids, texts) >= 0).sum()) if len(texts) else 0
    if num_found <= MIN_FOUND:
        return 0
    return num_found if num_found > MIN_FOUND + ABOVE_CHANCE * _expect(ids, texts) else 0


def _expect(ids: pa.Array, texts: pa.Array) -> float:
    """How many whole numbers would be ids by chance: length by length, as digits go."""
    counts = []
    for part in (ids, texts):
        digits = part.filter(pc.match_substring_regex(part, "^[0-9]+$"))
        counts.append(np.bincount(pc.utf8_length(digits).to_numpy(), minlength=1))
    size = min(map(len, counts))
    lengths = np.arange(size)
    return float((counts[0][:size] * counts[1][:size] / 10.0**lengths).sum())


def _list_texts(values: pa.Array) -> list[pa.Array]:
    texts = [spell(values)]
    if is_text(values.type):
        texts.append(pc.extract_regex(texts[0], ONE_NUMBER).field("number"))
    return texts


def spell(values: pa.Array) -> pa.Array:
    """Spell values as ids are spelt, without regard to case."""
    type_ = values.type
    if is_text(type_):
        return pc.utf8_lower(pc.utf8_trim_whitespace(values)).cast(pa.string())
    if is_bytes(type_):
        return _spell_bytes(values)
    if pa.types.is_floating(type_):
        numbers = values.to_numpy(zero_copy_only=False)
        is_whole = (np.abs(numbers) < 2**53) & (np.rint(numbers) == numbers)
        values = pa.array(np.where(is_whole, numbers, 0).astype(np.int64), mask=~is_whole)
    elif not pa.types.is_integer(type_):
        return pa.nulls(len(values), pa.string())
    return values.cast(pa.string())


def _spell_bytes(values: pa.Array) -> pa.Array:
    """Spell bytes as text, where they are text."""
    texts = [None if value is None else _decode(value) for value in values.to_pylist()]
    return spell(pa.array(texts, pa.string()))


def _decode(value: bytes) -> str | None:
    try:
        return value.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return None


def _match_ids(ids: pa.Array, texts: pa.Array) -> npt.NDArray[np.int64]:
    """Find the value that equals the id of each user; -1: none."""
    found = pc.index_in(ids, value_set=texts, skip_nulls=True)
    matched: npt.NDArray[np.int64] = found.fill_null(-1).to_numpy().astype(np.int64)
    return matched
