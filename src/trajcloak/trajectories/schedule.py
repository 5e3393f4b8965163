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
from trajcloak.trajectories.reports import Reports

MOST = 0.5
"""At least this share of the gaps between reports makes a schedule."""

FEW_STEPS = 5
"""Most gaps of an exact schedule are at most this many steps; times that are merely rounded are
multiples of a second or minute, too."""

NEAR = 0.25
"""Gaps of a loose schedule differ from its step by at most this share."""

COMMON = 64
"""Gaps that each shard proposes as the step of a schedule."""

FINE = 8
"""Decimals of a place are counted up to here."""

SCALES = np.array([10.0**decimals for decimals in range(FINE)])
"""By these, places with so many decimals become whole numbers."""

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
    odd_phases : int
        Rows at another moment of the step than most, where most share one.
    odd_places : int
        Rows whose place has another precision than most.
    """

    step: int
    is_exact: bool
    odd_times: int
    odd_phases: int
    odd_places: int


def check_schedule(log: ShardedLog, reports: Reports | None) -> None:
    """Raise if rows follow a schedule with exceptions.

    ``reports`` are those of the log; None if each user has one row at each instant.
    """
    found = find_schedule(log, reports)
    step = format_duration(found.step, has_timestamps=log.facts.has_timestamps)
    odd = []
    if found.odd_times:
        about = "" if found.is_exact else "about "
        odd.append(
            f"most reports of a user come {about}{step} apart, and {found.odd_times:,} times "
            f"between two reports do not fit"
        )
    if found.odd_phases:
        odd.append(
            f"most rows come at the same moment of each {step}, and {found.odd_phases:,} do not"
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


def find_schedule(log: ShardedLog, reports: Reports | None) -> Schedule:
    """Find the schedule of the rows, and the exceptions to it; see :func:`check_schedule`."""
    odd_places = _judge_places(np.sum(log.ask(count_decimals, log.engine.threads), axis=0))
    if reports is None:
        return Schedule(log.facts.step, True, 0, 0, odd_places)
    if not reports.num_gaps:
        return Schedule(0, False, 0, 0, odd_places)
    common: Counter[int] = Counter()
    for counts in log.ask(list_common_gaps):
        common.update(counts)
    # Of two that are as common, the shorter one.
    step = min(common, key=lambda gap: (-common[gap], gap))
    found = _add_up_gaps(log, step)
    if found.fitting_few >= MOST * found.total:
        odd_phases = _count_odd_phases(log, step)
        return Schedule(step, True, found.total - found.fitting, odd_phases, odd_places)
    # Few rows beside the schedule leave the median where it is.
    step = reports.quantile(0.5)
    found = _add_up_gaps(log, step)
    if found.near >= MOST * found.total:
        return Schedule(step, False, found.short, 0, odd_places)
    return Schedule(0, False, 0, 0, odd_places)


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


class GapCounts(NamedTuple):
    """How many gaps there are."""

    total: int
    fitting: int  # Multiples of a step.
    fitting_few: int  # Of these, at most ``FEW_STEPS`` steps.
    near: int  # About the step, as of a loose schedule.
    short: int  # Shorter than that.


def _add_up_gaps(log: ShardedLog, step: int) -> GapCounts:
    return GapCounts(*np.sum(log.ask(compare_gaps, step), axis=0).tolist())


def compare_gaps(log: RequestLog, step: int) -> list[int]:
    """Compare the gaps of a shard with a step; returns the figures of :class:`GapCounts`."""
    gaps = _list_gaps(log)
    is_short = gaps < (1 - NEAR) * step
    is_near = ~is_short & (gaps <= (1 + NEAR) * step)
    fits = (gaps > 0) & (gaps % step == 0)
    is_few = fits & (gaps <= FEW_STEPS * step)
    return [len(gaps), *(int(mask.sum()) for mask in (fits, is_few, is_near, is_short))]


def _count_odd_phases(log: ShardedLog, step: int) -> int:
    """Count the rows that are not at the moment of the step that most rows share, if any is.

    A user with a single row has no gap, but may stand out by it.
    """
    # Most of all rows are most of some shard's.
    candidates = sorted(set(log.ask(find_usual_phase, step)))
    most = max(np.sum(log.ask(count_phases, step, candidates), axis=0).tolist())
    return log.facts.num_rows - most if most > MOST * log.facts.num_rows else 0


def find_usual_phase(log: RequestLog, step: int) -> int:
    """Find the moment of the step that most rows of a shard share; any, if there is none."""
    return int(_find_majority(log.time, step))


def count_phases(log: RequestLog, step: int, phases: list[int]) -> list[int]:
    """Count the rows of a shard at each of some moments of the step."""
    of_row = log.time % step
    return [int((of_row == phase).sum()) for phase in phases]


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
def _find_majority(time, step):  # type: ignore[no-untyped-def]
    """Find the remainder that more than half of the times have (Boyer and Moore), if one does."""
    phase = np.int64(0)
    lead = 0
    for row in range(len(time)):
        found = time[row] % step
        if lead == 0:
            phase = found
        lead += 1 if found == phase else -1
    return phase


@njit(cache=True, nogil=True)
def _count_decimals(x, y, start, stop):  # type: ignore[no-untyped-def]
    """Count rows by the decimals of the coordinate that has more of them."""
    counts = np.zeros(FINE + 1, np.int64)
    for row in range(start, stop):
        decimals = 0
        for value in (x[row], y[row]):
            d = FINE
            # Most coordinates need all decimals, so the finest scale is tried first.
            while d > decimals:
                scaled = value * SCALES[d - 1]
                if abs(scaled - np.rint(scaled)) > 1e-9 + 1e-15 * abs(scaled):
                    break
                d -= 1
            decimals = max(decimals, d)
        counts[decimals] += 1
    return counts
