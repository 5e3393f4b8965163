"""User ids: a seeded scramble of the users' numbers, so that their order says nothing."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trajcloak.kernels.splitmix import key_of

ID_BITS = 40
"""Ids lie below 2^40."""

_MASK = np.uint64((1 << ID_BITS) - 1)
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_HEX_DIGITS = ID_BITS // 4
_PREFIX = b"u-"
# The letters of a chunk must stay below 2^31, the reach of the offsets of Arrow text.
_IDS_PER_CHUNK = 1 << 20


def user_ids(seed: int, users: int) -> NDArray[np.int64]:
    """Return the ids of users 0, 1, 2, ...; no two are equal.

    Requires ``users`` to be at most 2^40. Every step below is a bijection of
    the numbers of 40 bits: adding, multiplying by an odd number, and mixing the
    high half into the low one.
    """
    ids = np.arange(users, dtype=np.uint64)
    ids += key_of(seed, "ids")
    for factor in _FACTORS:
        ids &= _MASK
        ids ^= ids >> np.uint64(ID_BITS // 2)
        ids *= factor
    ids &= _MASK
    ids ^= ids >> np.uint64(ID_BITS // 2)
    return ids.astype(np.int64)


def id_texts(ids: NDArray[np.int64]) -> Any:
    """Write ids as a chunked Arrow array of text such as ``u-00f3a97c21``."""
    parts = range(0, ids.size, _IDS_PER_CHUNK)
    return pa.chunked_array([_hex_texts(ids[start : start + _IDS_PER_CHUNK]) for start in parts])


def _hex_texts(ids: NDArray[np.int64]) -> Any:
    """Write a chunk of ids: all have one width, so the letters form a matrix."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    width = len(_PREFIX) + _HEX_DIGITS
    letters = np.empty((ids.size, width), np.uint8)
    letters[:, : len(_PREFIX)] = np.frombuffer(_PREFIX, np.uint8)
    for place in range(_HEX_DIGITS):
        letters[:, width - 1 - place] = digits[(ids >> (4 * place)) & 15]
    offsets = np.arange(ids.size + 1, dtype=np.int32) * np.int32(width)
    return pa.StringArray.from_buffers(ids.size, pa.py_buffer(offsets), pa.py_buffer(letters))
