"""Random numbers that are a function of a key and a counter: splitmix64.

Only integer operations, so that a seed gives the same numbers on every machine and with
any number of threads. Each use of randomness has a key of its own, so that drawing more
in one place changes nothing elsewhere.
"""

from typing import Any

import numpy as np
from numba import njit

GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""The step of the counter: the golden ratio as a 64-bit fraction."""

_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1


@njit(cache=True, nogil=True)
def scramble(number: Any) -> Any:
    """Scramble one or an array of ``uint64``; a bijection."""
    number = (number ^ (number >> np.uint64(30))) * _FACTOR_1
    number = (number ^ (number >> np.uint64(27))) * _FACTOR_2
    return number ^ (number >> np.uint64(31))


@njit(cache=True, nogil=True)
def below(number: Any, limit: int) -> Any:
    """Map a random ``uint64`` to 0 .. ``limit`` - 1.

    Requires: ``limit`` at most 2^31. The probability of a value is off by at most 2^-32.
    """
    return np.int64(((number >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32))


def key_of(seed: int, purpose: str) -> np.uint64:
    """Derive the key of one use of randomness from the seed and its name."""
    key = seed & _MASK
    for letter in purpose.encode():
        key = (key ^ letter) * int(_FACTOR_1) & _MASK
        key ^= key >> 29
    return np.uint64(key)
