"""Compare consecutive reports of each user: gaps, repeated times, conflicts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.errors import InputError
from trajcloak.kernels.threads import build_slices, run_all
from trajcloak.log import FileRows, RequestLog, ShardedLog, sort_rows

EXACT_GAPS = 100
PER_DECADE = 90
NUM_BINS = EXACT_GAPS + 17 * PER_DECADE
"""Number of bins of gaps: gaps in one bin are equal when rounded to two significant digits."""

ROWS_PER_USER = 4
"""A slice of the log has at least this many rows per user: every slice needs an array of all
users."""

_NO_ROW = -1
UNSORTED, LONG, REPEATED, CONFLICTS, ONE, OTHER, LAST_GAP, LAST_BIN = range(8)
"""Entries of ``counts``: what is counted, the rows of the first conflict, and the last gap with
its bin, since most gaps equal the one before."""


@dataclass(frozen=True)
class Reports:
    """Reports of users, each compared with the same user's report before it."""

    # (NUM_BINS,): how many gaps are in each bin; see :func:`round_gap`.
    gaps: npt.NDArray[np.int64]
    num_long: int  # Gaps above the limit that was asked about.
    num_repeated: int  # Rows with the user and the time of an earlier row.
    num_conflicts: int  # Repeated rows whose place differs from the earlier row's.
    conflict: tuple[int, int] | None  # The rows of the first conflict, numbered as in messages.

    def plus(self, other: "Reports") -> "Reports":
        """Add the reports of other users."""
        found = [each.conflict for each in (self, other) if each.conflict is not None]
        return Reports(
            self.gaps + other.gaps,
            self.num_long + other.num_long,
            self.num_repeated + other.num_repeated,
            self.num_conflicts + other.num_conflicts,
            min(found, key=lambda rows: rows[::-1], default=None),
        )

    @property
    def num_gaps(self) -> int:
        """How many gaps there are."""
        return int(self.gaps.sum())

    def quantile(self, share: float) -> int:
        """Find a quantile of the gaps, to two significant digits; requires at least one gap.

        It is the least gap such that at least this share of all gaps are not longer.
        """
        wanted = max(1, -(-round(share * 100) * self.num_gaps // 100))
        return _gap_of_bin(int(np.searchsorted(np.cumsum(self.gaps), wanted)))


def compare_all_reports(log: ShardedLog, long: int) -> Reports:
    """Compare each report with the same user's report before it; gaps above ``long`` are long."""
    shards: list[Reports] = log.ask(compare_reports, long, log.engine.threads)
    return reduce(Reports.plus, shards)


def compare_reports(log: RequestLog, long: int, threads: int) -> Reports:
    """Compare the reports of a shard: in one pass if the rows of each user are in order of time."""
    slices = max(1, min(threads, log.num_rows // (ROWS_PER_USER * log.num_users)))
    found = _compare_slices(log, np.empty(0, np.int64), True, long, slices)
    if found is None:
        found = _compare_slices(log, sort_rows(log), False, long, slices)
    assert found is not None
    return found


def add_gaps(counts: Mapping[int, int], long: int) -> Reports:
    """Add up gaps that were counted already, by their lengths; no report is repeated."""
    gaps = np.zeros(NUM_BINS, np.int64)
    for gap, count in counts.items():
        gaps[_bin_of_gap(gap)] += count
    num_long = sum(count for gap, count in counts.items() if gap > long)
    return Reports(gaps, num_long, 0, 0, None)


def check_conflicts(reports: Reports, files: FileRows) -> None:
    """Raise if a user has two rows with the same time and different places."""
    if reports.conflict is not None:
        raise InputError(
            f"{files.name_two(*reports.conflict)}: the same user and time with different places "
            f"({reports.num_conflicts} such pairs in the log); expected one place for a user at a "
            f"time; remove the wrong rows, or drop all such rows with --drop=conflict"
        )


def _compare_slices(
    log: RequestLog, order: npt.NDArray[np.int64], in_order: bool, long: int, parts: int
) -> Reports | None:
    """Compare within slices of the rows, then across slices; None if rows are out of order."""
    slices = build_slices(log.num_rows, parts)
    gaps = np.zeros((len(slices) + 1, NUM_BINS), np.int64)
    counts = np.zeros((len(slices) + 1, LAST_BIN + 1), np.int64)
    counts[:, ONE : OTHER + 1] = _NO_ROW
    firsts = np.full((len(slices), log.num_users), _NO_ROW, np.int64)
    lasts = firsts.copy()
    data = log.user, log.time, log.x, log.y
    run_all(
        lambda i, start, stop: _compare(
            data, order, in_order, start, stop, long, firsts[i], lasts[i], gaps[i], counts[i]
        ),
        [(i, start, stop) for i, (start, stop) in enumerate(slices)],
        len(slices),
    )
    _compare_edges(data, firsts, lasts, long, gaps[-1], counts[-1])
    unsorted, num_long, repeated, conflicts = counts[:, :ONE].sum(axis=0).tolist()
    if unsorted:
        return None
    other, one = min(
        ((other, one) for one, other in counts[:, ONE : OTHER + 1].tolist() if other >= 0),
        default=(_NO_ROW, _NO_ROW),
    )
    rows = log.number_rows(np.array([one, other])).tolist() if conflicts else None
    return Reports(gaps.sum(axis=0), num_long, repeated, conflicts, rows and (min(rows), max(rows)))


def round_gap(gap: int) -> int:
    """Round a gap to two significant digits, halves up: 125 to 130."""
    return _gap_of_bin(int(_bin_of_gap(gap)))


def _gap_of_bin(number: int) -> int:
    if number < EXACT_GAPS:
        return number
    exponent, digits = divmod(number - EXACT_GAPS, PER_DECADE)
    return int((digits + 10) * 10 ** (exponent + 1))


@njit(cache=True, nogil=True)
def _bin_of_gap(gap):  # type: ignore[no-untyped-def]
    """Number the bin of a gap: one for each below 100; above, each decade has 10 to 99."""
    if gap < EXACT_GAPS:
        return gap
    power = np.int64(10)
    exponent = 0
    while gap // power >= EXACT_GAPS:
        power *= 10
        exponent += 1
    # Not (gap + power // 2) // power, whose sum may be too large for a number of 64 bits.
    digits = gap // power + (gap % power >= power // 2)
    # 99.5 and more is rounded up to the next decade.
    if digits == EXACT_GAPS:
        digits = np.int64(10)
        exponent += 1
    return EXACT_GAPS + exponent * PER_DECADE + digits - 10


@njit(cache=True, nogil=True)
def _compare_pair(data, before, row, long, gaps, counts):  # type: ignore[no-untyped-def]
    """Compare a user's report (``row``) with the one before; adds to ``gaps`` and ``counts``.

    Counted are pairs out of order, long gaps, repeated times and conflicts. The first conflict
    is the one with the least ``row``.
    """
    _, time, x, y = data
    gap = time[row] - time[before]
    if gap > 0:
        # Most gaps equal the one before, whose bin is known.
        if gap != counts[LAST_GAP]:
            counts[LAST_GAP] = gap
            counts[LAST_BIN] = _bin_of_gap(gap)
        gaps[counts[LAST_BIN]] += 1
        counts[LONG] += gap > long
    elif gap < 0:
        counts[UNSORTED] += 1
    else:
        counts[REPEATED] += 1
        if x[row] != x[before] or y[row] != y[before]:
            counts[CONFLICTS] += 1
            if counts[OTHER] < 0 or row < counts[OTHER]:
                counts[ONE] = before
                counts[OTHER] = row


@njit(cache=True, nogil=True)
def _compare(data, order, in_order, start, stop, long, first, last, gaps, counts):  # type: ignore[no-untyped-def]
    """Compare the rows of a slice; fills each user's first and last row in it (-1: none).

    Stops at the first row that is out of order.
    """
    user = data[0]
    for i in range(start, stop):
        row = np.int64(i) if in_order else order[i]
        before = last[user[row]]
        last[user[row]] = row
        # The user's first row in the slice is compared later, across slices.
        if before < 0:
            first[user[row]] = row
            continue
        _compare_pair(data, before, row, long, gaps, counts)
        if counts[UNSORTED]:
            return


@njit(cache=True, nogil=True)
def _compare_edges(data, firsts, lasts, long, gaps, counts):  # type: ignore[no-untyped-def]
    """Compare each user's first row in a slice with the last one in the slices before."""
    for u in range(firsts.shape[1]):
        before = lasts[0, u]
        for part in range(1, len(firsts)):
            if firsts[part, u] < 0:
                continue
            if before >= 0:
                _compare_pair(data, before, firsts[part, u], long, gaps, counts)
            before = lasts[part, u]
