"""Chapters: runs of windows whose rows fit into memory together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.bounded.memory import ROW_BYTES, estimate_window, format_memory
from trajcloak.errors import OptionError
from trajcloak.log import RequestLog, sort_rows
from trajcloak.options import HOLD
from trajcloak.pipeline import Prepared

CHAPTER_TYPES = {
    "user": np.int32,
    "time": np.int64,
    "x": np.float64,
    "y": np.float64,
    "kind": np.int32,
}
"""Places are planar here, and users and kinds numbered as in the log."""

MIN_ROWS = 1 << 16
"""Of a chapter, if memory allows: many small windows are worked on together."""


@dataclass(frozen=True)
class Chapter:
    """A run of windows.

    Attributes
    ----------
    first, last : int
        Half-open range of windows.
    start, stop : int
        Half-open range of the instants whose rows can matter to them.
    """

    first: int
    last: int
    start: int
    stop: int


def plan_chapters(prepared: Prepared, memory: int) -> list[Chapter]:
    """Cut the windows into chapters, each as large as memory allows.

    Raises
    ------
    OptionError
        If a window alone does not fit.
    """
    ranges, log, asked = prepared.ranges, prepared.log, prepared.asked
    margin = find_margin(prepared)
    counts = _count_rows(prepared)
    held = 2 * log.num_users if asked.missing == HOLD else 0
    gaps = prepared.max_gap >= 2 * prepared.grid.every or not prepared.grid.on_grid
    chapters: list[Chapter] = []
    longest = 0
    for window, (start, stop) in enumerate(ranges.tolist()):
        own = estimate_window(asked, log.num_users, stop - start, margin, gaps)
        alone = Chapter(window, window + 1, start - margin, stop + margin)
        if chapters:
            last = chapters[-1]
            longer = Chapter(last.first, window + 1, last.start, alone.stop)
            rows = _rows_between(ranges, counts, longer) + held
            if max(longest, own) + ROW_BYTES * rows <= memory:
                chapters[-1] = longer
                longest = max(longest, own)
                continue
        need = own + ROW_BYTES * (_rows_between(ranges, counts, alone) + held)
        if need > memory:
            raise OptionError(
                f"window {window} needs about {format_memory(need)} besides what the program "
                f"itself needs, and {format_memory(memory)} are left for it; expected windows that "
                f"fit; pass a smaller --length, or a larger --memory"
            )
        chapters.append(alone)
        longest = own
    return chapters


def find_margin(prepared: Prepared) -> int:
    """Count the instants around a window in which reports can matter."""
    return min(-(-prepared.max_gap // prepared.grid.every), prepared.grid.num_instants)


def _count_rows(prepared: Prepared) -> npt.NDArray[np.int64]:
    """Count the rows from the start of each window to that of the next; first, those before."""
    starts, grid = prepared.ranges[:, 0], prepared.grid
    counts = np.zeros(len(starts) + 1, np.int64)
    for part in prepared.log.parts():
        instant = (part.time - grid.origin) // grid.every
        window = np.searchsorted(starts, instant, side="right")
        counts += np.bincount(window, minlength=len(counts))
    return np.concatenate([[0], np.cumsum(counts)])


def _rows_between(
    ranges: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], chapter: Chapter
) -> int:
    """Count, rather too many than too few, the rows of a chapter."""
    starts = ranges[:, 0]
    before = np.searchsorted(starts, chapter.start, side="right")
    until = np.searchsorted(starts, chapter.stop, side="left") + 1
    return int(counts[until] - counts[before])


def select_rows(
    part: RequestLog, prepared: Prepared, chapters: Sequence[Chapter]
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Choose the rows of a part that each chapter needs.

    With ``hold``, those are also each user's last report before it and first one after it.
    """
    order = sort_rows(part)
    first = np.searchsorted(part.user[order], np.arange(part.num_users + 1))
    origin, every = prepared.grid.origin, prepared.grid.every
    hold = prepared.asked.missing == HOLD
    for number, chapter in enumerate(chapters):
        low, high = origin + chapter.start * every, origin + chapter.stop * every
        yield number, order[_select(part.time, order, first, low, high, hold)]


@njit(cache=True, nogil=True)
def _select(time, order, first, low, high, hold):  # type: ignore[no-untyped-def]
    """List the places in ``order`` of the rows from ``low`` up to ``high``, user after user."""
    chosen = np.empty(len(order), np.int64)
    count = 0
    for u in range(len(first) - 1):
        for i in range(first[u], first[u + 1]):
            moment = time[order[i]]
            is_inside = low <= moment < high
            is_last = hold and moment < low and (i + 1 == first[u + 1] or time[order[i + 1]] >= low)
            is_next = hold and moment >= high and (i == first[u] or time[order[i - 1]] < high)
            if is_inside or is_last or is_next:
                chosen[count] = i
                count += 1
    return chosen[:count]
