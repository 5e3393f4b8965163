"""Find the n-th smallest of numbers that are in several shards.

``numpy.partition`` would need all of them in the memory of one process.
"""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

DIGIT_BITS = 16
SIGN = np.uint64(1 << 63)


def select_value(
    count_parts: Callable[[np.uint64, int], Iterable[npt.NDArray[np.int64]]], place: int
) -> float:
    """Find the number at ``place``, from 0, in the ascending order of all numbers.

    The numbers are counted by the first 16 bits of their word; then those with the right first
    bits are counted by the next 16; and so on. That takes four passes, and never more than one
    part in memory.

    Parameters
    ----------
    count_parts
        Yields the result of :func:`count_digits` for each part; the same parts in every call.
    place

    Examples
    --------
    >>> parts = [np.array([3.0, -1.0]), np.array([2.0])]
    >>> select_value(lambda *digit: [count_digits(part, *digit) for part in parts], 1)
    2.0
    """
    found = np.uint64(0)
    for shift in range(64 - DIGIT_BITS, -1, -DIGIT_BITS):
        counts = np.zeros(1 << DIGIT_BITS, np.int64)
        for counted in count_parts(found, shift):
            counts += counted
        until = np.cumsum(counts)
        digit = int(np.searchsorted(until, place, side="right"))
        place -= int(until[digit] - counts[digit])
        found |= np.uint64(digit << shift)
    word = found ^ SIGN if found & SIGN else ~found
    return float(np.array([word]).view(np.float64)[0])


def count_digits(
    values: npt.NDArray[np.float64], found: np.uint64, shift: int
) -> npt.NDArray[np.int64]:
    """Count the numbers whose word starts with the bits ``found``, by the digit at ``shift``.

    Requires: no NaN.
    """
    words = _to_words(values)
    if shift < 64 - DIGIT_BITS:
        above = np.uint64(shift + DIGIT_BITS)
        words = words[words >> above == found >> above]
    digits = (words >> np.uint64(shift)).astype(np.uint16)
    return np.bincount(digits, minlength=1 << DIGIT_BITS)


def _to_words(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Turn numbers into words that sort in the same order; 0 and -0 become the same word."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)
