"""Stop where rows follow a schedule with exceptions, which tell who sent a request.

If most rows come at fixed times, or with places of one precision, a reader takes the others
for those that carry requests. Judged are rows without their contents, so that a run that is
stopped, or not, tells nothing about requests (invariant 8 of ``docs/guarantee.md``).
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.errors import InputError
from trajcloak.kernels.threads import run_sliced
from trajcloak.log import RequestLog, ShardedLog, sort_rows
from trajcloak.trajectories.grid import format_duration

MOST = 0.5
"""At least this share of the gaps between reports makes a schedule."""

FEW_STEPS = 5
"""If most gaps are at most this many steps, a user reports once in a step."""

NEAR = 0.25
"""Gaps of a loose schedule differ from its step by at most this share."""

COMMON = 64
"""Gaps that each shard proposes as the step of a schedule."""

FINE = 8
"""Decimals of a place are counted up to here."""

MANY_DECIMALS = 5
"""If most places have this many decimals, some with fewer were rounded."""


class Schedule(NamedTuple):
    """How rows follow a schedule.

    Attributes
    ----------
    step : int
        Usual time between two reports of a user; 0: there is no schedule.
    is_exact : bool
        Whether most gaps are exactly the step, or multiples of it.
    odd_times : int
        Gaps that do not fit the schedule; a row at another time makes one or two of them.
    odd_places : int
        Rows whose place has another precision than most.
    """

    step: int
    is_exact: bool
    odd_times: int
    odd_places: int


class GapCounts(NamedTuple):
    """How the times between two reports of a user compare with a step.

    Attributes
    ----------
    total : int
    repeated : int
        No time between them.
    fitting, fitting_few : int
        Multiples of the step; of these, at most ``FEW_STEPS`` steps.
    near : int
        About the step, as of a loose schedule.
    short : int
        Shorter than that.
    """

    total: int
    repeated: int
    fitting: int
    fitting_few: int
    near: int
    short: int


def check_schedule(log: ShardedLog, *, is_dense: bool) -> None:
    """Raise if rows follow a schedule with exceptions.

    ``is_dense``: each user has one row at each instant.
    """
    found = find_schedule(log, is_dense=is_dense)
    odd = []
    if found.odd_times:
        step = format_duration(found.step, has_timestamps=log.facts.has_timestamps)
        about = "" if found.is_exact else "about "
        odd.append(
            f"most reports of a user come {about}{step} apart, and {found.odd_times:,} times "
            f"between two reports do not fit"
        )
    if found.odd_places:
        odd.append(
            f"most places have the same number of decimals, and {found.odd_places:,} rows have "
            f"another"
        )
    if odd:
        raise InputError(
            f"{'; '.join(odd)}: who knows the schedule takes these rows for those that carry "
            f"requests; expected rows that look alike; pass the requests as a second input with "
            f"--request-log, name a column that marks location reports with --is-report, or pass "
            f"--rows-alike if you know that the exceptions have nothing to do with requests"
        )


def find_schedule(log: ShardedLog, *, is_dense: bool = False) -> Schedule:
    """Find the schedule of the rows, and the exceptions to it."""
    odd_places = _judge_places(np.sum(log.ask(count_decimals, log.engine.threads), axis=0))
    if is_dense:
        return Schedule(log.facts.step, True, 0, odd_places)
    common: Counter[int] = Counter()
    for counts in log.ask(list_common_gaps):
        common.update(counts)
    if not common:
        return Schedule(0, False, 0, odd_places)
    # Of two that are as common, the shorter one.
    step = min(common, key=lambda gap: (-common[gap], gap))
    gaps = GapCounts(*np.sum(log.ask(compare_gaps, step), axis=0).tolist())
    if gaps.fitting >= MOST * gaps.total:
        # Where times are merely rounded, to minutes say, two rows of a user may have the same.
        is_tight = gaps.fitting_few >= MOST * gaps.total
        odd_times = gaps.total - gaps.fitting - (0 if is_tight else gaps.repeated)
        return Schedule(step, True, odd_times, odd_places)
    if gaps.near >= MOST * gaps.total:
        return Schedule(step, False, gaps.short, odd_places)
    return Schedule(0, False, 0, odd_places)


def _list_gaps(log: RequestLog) -> npt.NDArray[np.int64]:
    """List the times between consecutive rows of each user; 0 for repeated rows."""
    order = sort_rows(log)
    user = log.user[order]
    gaps: npt.NDArray[np.int64] = np.diff(log.time[order])[user[1:] == user[:-1]]
    return gaps


def list_common_gaps(log: RequestLog) -> dict[int, int]:
    """List the most common gaps of a shard, and how many there are of each."""
    gaps = _list_gaps(log)
    gap, count = np.unique(gaps[gaps > 0], return_counts=True)
    chosen = np.argsort(-count, kind="stable")[:COMMON]
    return dict(zip(gap[chosen].tolist(), count[chosen].tolist(), strict=True))


def compare_gaps(log: RequestLog, step: int) -> GapCounts:
    """Compare the gaps of a shard with a step."""
    gaps = _list_gaps(log)
    fits = (gaps > 0) & (gaps % step == 0)
    is_short = gaps < (1 - NEAR) * step
    return GapCounts(
        total=len(gaps),
        repeated=int((gaps == 0).sum()),
        fitting=int(fits.sum()),
        fitting_few=int((fits & (gaps <= FEW_STEPS * step)).sum()),
        near=int((~is_short & (gaps <= (1 + NEAR) * step)).sum()),
        short=int(is_short.sum()),
    )


def _judge_places(counts: npt.NDArray[np.int64]) -> int:
    """Count the rows whose place has more decimals than most, or fewer than chance explains.

    ``counts`` are the rows by decimals. Of places with d decimals one in a hundred has fewer
    by chance, since both last digits are 0; one in 10,000 has fewer by two.
    """
    usual = int(counts.argmax())
    odd = int(counts[usual + 1 :].sum())
    if usual >= MANY_DECIMALS:
        for decimals in range(usual - 1):
            expected = counts.sum() * 100.0 ** (decimals - usual)
            found = int(counts[: decimals + 1].sum())
            if found > expected + 4 * np.sqrt(expected) + 1:
                return odd + found
    return odd


def count_decimals(log: RequestLog, threads: int) -> npt.NDArray[np.int64]:
    """Count the rows of a shard by the decimals of their place, up to ``FINE``."""
    parts = run_sliced(
        lambda start, stop: _count_decimals(log.x, log.y, start, stop), log.num_rows, threads
    )
    total: npt.NDArray[np.int64] = np.sum(parts, axis=0)
    return total


@njit(cache=True, nogil=True)
def _count_decimals(x, y, start, stop):  # type: ignore[no-untyped-def]
    """Count rows by the decimals of the coordinate that has more of them."""
    counts = np.zeros(FINE + 1, np.int64)
    for row in range(start, stop):
        decimals = 0
        for value in (x[row], y[row]):
            d = FINE
            scale = 10.0 ** (FINE - 1)
            # Most coordinates need all decimals, so the finest scale is tried first.
            while d > decimals:
                scaled = value * scale
                if abs(scaled - np.rint(scaled)) > 1e-9 + 1e-15 * abs(scaled):
                    break
                d -= 1
                scale = 10.0 ** (d - 1)
            decimals = max(decimals, d)
        counts[decimals] += 1
    return counts
