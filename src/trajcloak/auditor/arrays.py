"""Sorting and searching of plain arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def sort_by(major: npt.NDArray[Any], minor: Ints) -> Ints:
    """Find the stable order by two columns; ``major`` is not negative."""
    low = int(minor.min())
    span = int(minor.max()) - low + 1
    if span * (int(major.max()) + 1) < 2**63:
        return np.argsort(major.astype(np.int64) * span + (minor - low), kind="stable")
    return np.lexsort((minor, major))


def find_sorted(ascending: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> Ints:
    """Find the positions of values among ascending ones; -1 for those that are not there."""
    if not len(ascending):
        return np.full(len(wanted), -1, dtype=np.int64)
    position = np.searchsorted(ascending, wanted)
    position[position == len(ascending)] = 0
    return np.where(ascending[position] == wanted, position, -1)


def find_runs(ascending: Ints) -> tuple[Ints, Ints]:
    """List the distinct values of ascending ones, and how often each occurs."""
    if not len(ascending):
        return ascending, np.zeros(0, dtype=np.int64)
    start = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    return ascending[start], np.diff(np.append(start, len(ascending)))


def list_distinct(values: Ints) -> Ints:
    """List the distinct values, ascending; sorts, since hashing many is slower."""
    return find_runs(np.sort(values))[0]


def pick(values: Ints, position: Ints) -> Ints:
    """Take values by position; -1 where the position is -1."""
    return np.append(values, -1)[position]
