"""Chapters: runs of windows whose rows fit into memory together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.bounded.memory import ROW_BYTES, estimate_window, format_memory
from trajcloak.bounded.places import StoredPlaces
from trajcloak.bounded.spill import Columns, Spill
from trajcloak.bounded.work import WorkFolder
from trajcloak.errors import OptionError
from trajcloak.log import RequestLog, sort_rows
from trajcloak.options import DAY, HOLD, Options
from trajcloak.pipeline import Prepared
from trajcloak.progress import Progress
from trajcloak.trajectories.fill import find_first

CHAPTER_TYPES = {
    "user": np.int32,
    "time": np.int64,
    "x": np.float64,
    "y": np.float64,
    "kind": np.int32,
}
"""Places are planar here, and users and kinds numbered as in the log."""


CHAPTERS, CHAPTERS_DONE = "chapters", "chapters.json"


@dataclass(frozen=True)
class Chapter:
    """A run of windows.

    Attributes
    ----------
    windows : sequence of int
        Their numbers, ascending; those near which there is no report are left out.
    start, stop : int
        Half-open range of the instants whose rows can matter to them.
    """

    windows: Sequence[int]
    start: int
    stop: int


def check_cut(asked: Options, num_rows: int, memory: int) -> None:
    """Raise, before anything is read, if a log that does not fit is to be one window."""
    need = ROW_BYTES * num_rows
    if need > memory and asked.length is None and asked.windows is None and asked.align != DAY:
        raise OptionError(
            f"the {num_rows:,} rows of the log are one window, which needs more than "
            f"{format_memory(need)} besides what the program itself needs, and "
            f"{format_memory(memory)} are left for it; expected windows that fit; pass --length, "
            f"or a larger --memory"
        )


def plan_chapters(prepared: Prepared, memory: int) -> list[Chapter]:
    """Cut the windows into chapters, each as large as memory allows.

    Raises
    ------
    OptionError
        If a window alone does not fit.
    """
    ranges, log, asked = prepared.ranges, prepared.log, prepared.asked
    margin = find_margin(prepared)
    counts = _RowCounts(prepared, margin)
    held = 2 * log.num_users if asked.missing == HOLD else 0
    gaps = prepared.max_gap >= 2 * prepared.grid.every or not prepared.grid.on_grid
    chapters: list[Chapter] = []
    windows: list[int] = []
    first = longest = 0
    for window, (start, stop) in enumerate(ranges.tolist()):
        low, high = start - margin, stop + margin
        own = estimate_window(asked, log.num_users, stop - start, margin, gaps)
        rows = counts.between(low, high) + held
        if not rows:
            continue
        need = own + ROW_BYTES * rows
        if need > memory:
            raise OptionError(
                f"window {window} needs about {format_memory(need)} besides what the program "
                f"itself needs, and {format_memory(memory)} are left for it; expected windows that "
                f"fit; pass a smaller --length, or a larger --memory"
            )
        longest = max(longest, own)
        if windows and longest + ROW_BYTES * (counts.between(first, high) + held) <= memory:
            windows.append(window)
            chapters[-1] = Chapter(windows, first, high)
        else:
            windows, first, longest = [window], low, own
            chapters.append(Chapter(windows, low, high))
    return chapters


def find_margin(prepared: Prepared) -> int:
    """Count the instants around a window in which reports can matter."""
    return min(-(-prepared.max_gap // prepared.grid.every), prepared.grid.num_instants)


class _RowCounts:
    """How many rows are in the stretches of instants that chapters can have."""

    def __init__(self, prepared: Prepared, margin: int) -> None:
        ranges, grid = prepared.ranges, prepared.grid
        self._edges = np.unique(np.concatenate([ranges[:, 0] - margin, ranges[:, 1] + margin]))
        self._before = np.zeros(len(self._edges), np.int64)
        for part in prepared.log.parts():
            # A stable sort is quick where rows are in order of time already.
            instant = np.sort((part.time - grid.origin) // grid.every, kind="stable")
            self._before += np.searchsorted(instant, self._edges)

    def between(self, start: int, stop: int) -> int:
        """Count the rows of a chapter from one instant up to another."""
        first, last = np.searchsorted(self._edges, [start, stop])
        return int(self._before[last] - self._before[first])


def store_chapters(
    work: WorkFolder,
    prepared: Prepared,
    placed: StoredPlaces,
    chapters: Sequence[Chapter],
    progress: Progress,
) -> Spill:
    """Write the rows of each chapter to a file; those of an interrupted run are taken over."""
    plan = [[list(chapter.windows), chapter.start, chapter.stop] for chapter in chapters]
    known = work.load(CHAPTERS_DONE)
    if known is not None and known["plan"] == plan:
        spill = Spill(work.path / CHAPTERS, CHAPTER_TYPES, known["sizes"])
        spill.check()
        return spill
    (work.path / CHAPTERS_DONE).unlink(missing_ok=True)
    spill = Spill(work.new_folder(CHAPTERS), CHAPTER_TYPES, [0] * len(chapters))
    done = 0
    for part, x, y in placed.parts():
        kind = np.full(part.num_rows, -1, np.int32)
        kind[part.requests.row] = part.requests.kind
        columns: Columns = {"user": part.user, "time": part.time, "x": x, "y": y, "kind": kind}
        for number, rows in select_rows(part, prepared, chapters):
            spill.append(number, {name: column[rows] for name, column in columns.items()})
        done += part.num_rows
        progress("ordering rows by time", done, prepared.log.num_rows)
    work.save(CHAPTERS_DONE, {"plan": plan, "sizes": spill.sizes})
    return spill


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
    """List the places in ``order`` of the rows from ``low`` up to ``high``, user after user.

    With ``hold``, also of the last row before and of the first one after. O(users log rows)
    time besides the rows that are listed.
    """
    starts = np.empty(len(first) - 1, np.int64)
    stops = np.empty(len(first) - 1, np.int64)
    count = 0
    for u in range(len(first) - 1):
        start = find_first(time, order, first[u], first[u + 1], low)
        stop = find_first(time, order, start, first[u + 1], high)
        if hold:
            start = max(start - 1, first[u])
            stop = min(stop + 1, first[u + 1])
        starts[u], stops[u] = start, stop
        count += stop - start
    chosen = np.empty(count, np.int64)
    count = 0
    for u in range(len(starts)):
        for i in range(starts[u], stops[u]):
            chosen[count] = i
            count += 1
    return chosen
