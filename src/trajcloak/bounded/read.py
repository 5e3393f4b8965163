"""Read a log that is not held in memory: its rows go to disk as they are checked."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.bounded.memory import ROW_BYTES, format_memory
from trajcloak.bounded.spill import Columns, Spill
from trajcloak.bounded.stored_log import FACTS, PART_TYPES, StoredLog, build_stored
from trajcloak.bounded.work import WorkFolder
from trajcloak.errors import OptionError
from trajcloak.log import RequestLog, Requests, SomeRows
from trajcloak.log.clean import (
    check_reachable,
    check_some_left,
    find_contradictions,
    has_contradictions,
)
from trajcloak.log.files import count_rows, stream_batches
from trajcloak.log.misplaced import find_bulk, find_swapped, may_be_swapped
from trajcloak.log.requests import keep_kinds
from trajcloak.log.rows import RowChecker, Rows
from trajcloak.options import SWAPPED, LogColumns
from trajcloak.progress import Progress

BATCH_ROWS = 1 << 17
WAITING_ROWS = 1 << 18
"""So many rows are written at once: they go to many files."""

PARTS, UNSWAPPED_PARTS, CLEAN_PARTS = "parts", "parts_unswapped", "parts_clean"
TEXT_ROW_BYTES = 4
"""A row of a text file, compressed, takes no less."""

MAX_PARTS = 1 << 12
PART_SHARE = 0.5
"""Of the memory for a part: users differ in their number of rows."""


def store_log(
    work: WorkFolder,
    files: Sequence[Path],
    columns: LogColumns,
    memory: int,
    threads: int,
    progress: Progress,
) -> StoredLog:
    """Check all rows of a log and write them to the work folder, user by user.

    Parameters
    ----------
    work
    files
        The parts of the log.
    columns
        What to read of them.
    memory
        Bytes that the rows of a part may take.
    """
    expected_rows = count_rows(files)
    num_parts = _choose_parts(files, expected_rows, memory)
    spill = Spill(work.new_folder(PARTS), PART_TYPES, [0] * num_parts)
    writer = _PartWriter(spill)
    with ThreadPoolExecutor(threads) as pool:
        checker = RowChecker(files, columns, pool)
        for batch in stream_batches(files, columns, batch_rows=BATCH_ROWS):
            writer.add(batch, checker)
            progress("reading log", checker.num_read, expected_rows)
        writer.flush()
        checker.check_not_empty(str(files[0].parent))
        users, rank = checker.number_users()
        requests = checker.requests.finish()
    if rank is None:
        rank = np.arange(len(users), dtype=np.int32)
    nothing = Requests(np.empty(0, np.int64), np.empty(0, np.int32), requests.kinds)
    head = checker.build_log(users, Rows.empty(0), nothing, None)
    log = build_stored(
        users,
        requests.kinds,
        {name: getattr(head, name) for name in FACTS},
        spill,
        rank,
        np.append(requests.kind, np.int32(-1)),
        writer.num_requests,
    )
    check_fits(log, memory)
    log = _clean(work, log, columns)
    progress("reading log", log.num_rows, log.num_rows)
    return log


def check_fits(log: StoredLog, memory: int) -> None:
    """Raise if what must be held of a log, or the largest part, does not fit."""
    need = log.num_bytes + ROW_BYTES * max(log.spill.sizes)
    if need > memory:
        raise OptionError(
            f"the {log.num_users:,} users, the {log.requests.kinds.num_rows:,} distinct requests "
            f"and the rows of the largest of {log.num_parts:,} groups of users need about "
            f"{format_memory(need)} besides what the program itself needs, and "
            f"{format_memory(memory)} are left for them; expected them to fit; pass a larger "
            f"--memory"
        )


def _choose_parts(files: Sequence[Path], expected_rows: int, memory: int) -> int:
    """Choose in how many files to put the rows, such that each can be held."""
    text = sum(file.stat().st_size for file in files if not count_rows([file]))
    rows = expected_rows + text / TEXT_ROW_BYTES
    return min(MAX_PARTS, max(1, math.ceil(rows * ROW_BYTES / (PART_SHARE * memory))))


class _PartWriter:
    """Appends checked rows to the files of their users, many at a time."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._waiting: list[Columns] = []
        self._num_waiting = 0
        self.num_requests = 0

    def add(self, batch: pa.RecordBatch, checker: RowChecker) -> None:
        """Check the rows of a batch, and keep them."""
        batch = checker.filter.apply(batch)
        size = batch.num_rows
        if not size:
            return
        rows = Rows.empty(size)
        checker.check(batch, rows, 0)
        sent, number = checker.requests.take_rows()
        self.num_requests += len(sent)
        kind = np.full(size, -1, np.int32)
        kind[sent] = number
        file_row = checker.filter.list_rows()
        self._waiting.append({**rows._asdict(), "file_row": file_row, "kind": kind})
        self._num_waiting += size
        if self._num_waiting >= WAITING_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what was kept."""
        if not self._waiting:
            return
        columns = {
            name: np.concatenate([part[name] for part in self._waiting]) for name in PART_TYPES
        }
        self._waiting, self._num_waiting = [], 0
        for part, chosen in _group(columns["user"], len(self._spill.sizes)):
            self._spill.append(part, {name: column[chosen] for name, column in columns.items()})


def _group(
    user: npt.NDArray[np.int32], num_parts: int
) -> list[tuple[int, slice | npt.NDArray[np.int64]]]:
    """List the rows of each part, in their order."""
    if num_parts == 1:
        return [(0, slice(None))]
    part = (user % num_parts).astype(np.uint16)
    order = np.argsort(part, kind="stable")
    edges = np.searchsorted(part[order], np.arange(num_parts + 1, dtype=np.uint16))
    return [
        (number, order[start:stop])
        for number, (start, stop) in enumerate(pairwise(edges))
        if start < stop
    ]


def _clean(work: WorkFolder, log: StoredLog, columns: LogColumns) -> StoredLog:
    """Drop, or refuse, rows as :func:`trajcloak.log.clean.clean_log` does."""
    if SWAPPED in columns.drop:
        num_rows = log.num_rows
        if may_be_swapped(log):
            bulk = find_bulk(log)
            log = _keep(work, UNSWAPPED_PARTS, log, lambda part: ~find_swapped(part, bulk))
        log = replace(log, dropped={**log.dropped, SWAPPED: num_rows - log.num_rows})
    if not has_contradictions(columns):
        return log
    far = SomeRows()
    dropped: Counter[str] = Counter()

    def keep(part: RequestLog) -> npt.NDArray[np.bool_]:
        found = find_contradictions(part, columns)
        far.add(part.number_rows(found.far))
        dropped.update(found.dropped)
        return found.keep

    cleaned = _keep(work, CLEAN_PARTS, log, keep, lambda: check_reachable(far, log, columns))
    return replace(cleaned, dropped={**log.dropped, **dropped})


def _keep(
    work: WorkFolder,
    name: str,
    log: StoredLog,
    choose: Callable[[RequestLog], npt.NDArray[np.bool_]],
    check: Callable[[], None] = lambda: None,
) -> StoredLog:
    """Take some rows of a log, once all parts have been checked; see ``keep_rows``."""
    spill = Spill(work.new_folder(name), PART_TYPES, [0] * log.num_parts)
    present = np.zeros(log.num_users, np.bool_)
    is_sent = np.zeros(log.requests.kinds.num_rows, np.bool_)
    kept = _KeptFacts()
    num_requests = 0
    for number, part in log.numbered_parts():
        keep = choose(part)
        present[part.user[keep]] = True
        kept.add(part, keep)
        kind = part.requests.kind[keep[part.requests.row]]
        is_sent[kind] = True
        num_requests += len(kind)
        stored = log.spill.load(number)
        spill.append(number, {name: column[keep] for name, column in stored.items()})
    check()
    if sum(spill.sizes) == log.num_rows:
        return log
    check_some_left(sum(spill.sizes))
    place = np.where(present, np.cumsum(present) - 1, -1).astype(np.int32)
    kind_place, kinds = keep_kinds(log.requests.kinds, is_sent)
    return replace(
        log,
        users=log.users.filter(pa.array(present)),
        spill=spill,
        user_numbers=place[log.user_numbers],
        requests=replace(log.requests, kinds=kinds),
        # The last is that of -1, which stands for no request.
        kind_numbers=np.append(kind_place, np.int32(-1))[log.kind_numbers],
        stored_requests=num_requests,
        **kept.to_dict(),
    )


class _KeptFacts:
    """What is true of all rows that are kept."""

    def __init__(self) -> None:
        self._origin: int | None = None
        self._step = 0
        self._times: list[int] = []
        self._bounds: list[tuple[float, float, float, float]] = []

    def add(self, part: RequestLog, keep: npt.NDArray[np.bool_]) -> None:
        """Add the rows that are kept of a part."""
        time, x, y = part.time[keep], part.x[keep], part.y[keep]
        if not len(time):
            return
        if self._origin is None:
            self._origin = int(time[0])
        self._step = math.gcd(self._step, int(np.gcd.reduce(time - self._origin)))
        self._times += [int(time.min()), int(time.max())]
        self._bounds.append((float(x.min()), float(y.min()), float(x.max()), float(y.max())))

    def to_dict(self) -> dict[str, Any]:
        low, high = np.min(self._bounds, axis=0), np.max(self._bounds, axis=0)
        return {
            "step": self._step,
            "time_range": (min(self._times), max(self._times)),
            "bounds": (float(low[0]), float(low[1]), float(high[2]), float(high[3])),
        }
