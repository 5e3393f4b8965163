"""Rows that cannot be used: counted by what is wrong, and named by file and row."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.errors import InputError, RefusedLogError

SHOWN_ROWS = 5
LONGEST_SHAPE = 40
NO_VALUES = frozenset(
    {"na", "n/a", "nan", "nat", "null", "none", "nil", "inf", "-inf", "-", "?", "."}
)
"""Texts that stand for no value, and so can be shown: they are neither ids nor places."""

RowNumbers = npt.NDArray[np.int64]


def describe_shape(text: str) -> str:
    """Describe a text without giving it away: digits become 9, letters become a.

    Examples
    --------
    >>> describe_shape("Lee-137.25")
    'aaa-999.99'
    >>> describe_shape("N/A")
    'N/A'
    """
    text = text.strip()
    if text.lower() in NO_VALUES:
        return text
    shape = re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", text))
    return shape if len(shape) <= LONGEST_SHAPE else shape[:LONGEST_SHAPE] + "..."


def find_bad(is_good: Callable[[int, int], bool], size: int) -> Iterator[int]:
    """Find, by bisection, what is bad of ``size`` things; ``is_good`` judges a range of them."""
    waiting = [(0, size)]
    while waiting:
        start, stop = waiting.pop()
        if is_good(start, stop):
            continue
        if stop - start == 1:
            yield start
        else:
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]


class FileRows(NamedTuple):
    """The files of a log, and where the rows of each start; empty for a table in memory."""

    labels: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()  # Rows of the log before each file.

    def name_row(self, number: int) -> str:
        """Name a row by its number over all files, from 1."""
        label, row = self._find(number)
        return f"{label}: row {row}" if label else f"row {row}"

    def name_two(self, one: int, other: int) -> str:
        """Name two rows."""
        (label, row), (other_label, other_row) = self._find(one), self._find(other)
        if label != other_label:
            return f"{self.name_row(one)} and {self.name_row(other)}"
        rows = f"rows {row} and {other_row}"
        return f"{label}: {rows}" if label else rows

    def name_rows(self, count: int, first: Sequence[int]) -> str:
        """Count rows, and name the first few of them."""
        if count == 1:
            return self.name_row(first[0])
        more = ", ..." if count > len(first) else ""
        if len(self.labels) < 2:
            rows = f"{count:,} rows ({', '.join(map(str, first))}{more})"
            return f"{self.labels[0]}: {rows}" if self.labels else rows
        named: dict[str, list[str]] = {}
        for label, row in map(self._find, first):
            named.setdefault(label, []).append(str(row))
        shown = "; ".join(f"{label}: {', '.join(rows)}" for label, rows in named.items())
        return f"{count:,} rows ({shown}{more})"

    def _find(self, number: int) -> tuple[str, int]:
        if not self.labels:
            return "", number
        file = bisect_right(self.starts, number - 1) - 1
        return self.labels[file], number - self.starts[file]


class SomeRows:
    """Counts rows, and remembers the first few of their numbers; ``files`` name them."""

    def __init__(self, parts: Iterable[RowNumbers] = (), files: FileRows | None = None) -> None:
        self.count = 0
        self.first: list[int] = []
        self._files = files or FileRows()
        for numbers in parts:
            self.add(numbers)

    def add(self, numbers: RowNumbers) -> None:
        """Add rows by their numbers, counted as in messages."""
        self.count += len(numbers)
        self.first = sorted([*self.first, *np.sort(numbers)[:SHOWN_ROWS].tolist()])[:SHOWN_ROWS]

    def merge(self, other: "SomeRows") -> None:
        """Add rows that were counted elsewhere."""
        self.count += other.count
        self.first = sorted([*self.first, *other.first])[:SHOWN_ROWS]

    def __str__(self) -> str:
        named = self._files.name_rows(self.count, self.first)
        return f"{named} is" if self.count == 1 else f"{named} are"


class Trouble(NamedTuple):
    """What is wrong with rows, in the words of a message."""

    found: str
    expected: str
    remedy: str


class BadRows:
    """Rows of a log that cannot be used, by what is wrong; and the ``files`` read so far."""

    def __init__(self) -> None:
        self._starts: dict[int, str] = {}  # The file that starts after so many rows.
        self._kinds: dict[Trouble, tuple[SomeRows, str]] = {}
        self._unreadable: list[RowNumbers] = []

    def start_file(self, label: str, first_row: int) -> None:
        """Remember where a file starts; ``first_row``: rows of the log before it."""
        self._starts[first_row] = label

    @property
    def files(self) -> FileRows:
        """The files that were read so far."""
        starts = sorted(self._starts)
        return FileRows(tuple(self._starts[start] for start in starts), tuple(starts))

    def add(self, trouble: Trouble, rows: RowNumbers, example: str | None = None) -> None:
        """Count rows, numbered from 0 over the log; ``example``: the text in the first of them."""
        if len(rows):
            shape = "" if example is None else f" (it looks like '{describe_shape(example)}')"
            self._kinds.setdefault(trouble, (SomeRows(), shape))[0].add(rows + 1)

    def add_unreadable(
        self, trouble: Trouble, rows: RowNumbers, example: str | None = None
    ) -> None:
        """Count rows that a reader of files could not read; see :meth:`find_unreadable`."""
        self._unreadable.append(rows)
        self.add(trouble, rows, example)

    def find_unreadable(self, start: int, stop: int) -> npt.NDArray[np.bool_] | None:
        """Mark the rows from ``start`` to ``stop`` that could not be read; None: there are none."""
        if not self._unreadable:
            return None
        marks = np.zeros(stop - start, np.bool_)
        for rows in self._unreadable:
            marks[rows[(rows >= start) & (rows < stop)] - start] = True
        return marks if marks.any() else None

    def merge(self, other: "BadRows") -> None:
        """Add what was found in other rows of the log."""
        self._starts |= other._starts
        for trouble, (rows, shape) in other._kinds.items():
            self._kinds.setdefault(trouble, (SomeRows(), shape))[0].merge(rows)

    @contextmanager
    def naming_all(self) -> Iterator[None]:
        """If something else is wrong with the log, say that of the rows so far, too."""
        try:
            yield
        except InputError as error:
            reasons = self.explain()
            if not reasons:
                raise
            raise RefusedLogError([*reasons, *error.reasons]) from None

    def explain(self) -> list[str]:
        """Write a message for each kind of trouble, in the order of their first rows."""
        files = self.files
        return [
            f"{files.name_rows(rows.count, rows.first)}: {found}{shape}; expected {expected}; "
            f"{remedy}"
            for (found, expected, remedy), (rows, shape) in sorted(
                self._kinds.items(), key=lambda kind: (kind[1][0].first, kind[0])
            )
        ]
