"""The stages in memory against the least that their bytes take.

Reading against Arrow decoding the same columns, sorting against a copy of the trajectories
to where the order puts them, writing against encoding the finished rows once more and
copying the files. Wall time on all cores, and processor time, which noise disturbs less.
Sorting is taken apart into its kernels, too.
"""

import argparse
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from run import RESULTS, K, make_log
from trajcloak.algorithms.traj_anon import keys
from trajcloak.algorithms.traj_anon.keys import build_layout, sort_keys
from trajcloak.kernels.threads import default_threads, run_sliced
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import anonymize_log, prepare

REPEATS = 3
WARM_UP_USERS = 20_000
SORT = 1
"""The row of the table that is about sorting."""

SORT_KERNELS = {
    "_fill_ahead": "pick the first 256 bits of all keys",
    "_settle_alike": "find trajectories that are all alike",
    "_fill_words": "gather words of the tied, pick later bits",
    "_sort_tied": "sort words, compare neighbours",
}
console = Console(highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=2_000_000)
    users = parser.parse_args().users
    RESULTS.mkdir(exist_ok=True)
    rows: list[tuple[str, Any, Any]] = []
    for size in (WARM_UP_USERS, users):
        rows, parts = measure(make_log(size, "integer"))
    table = Table(title=f"{users:,} users, 30 instants", title_justify="left")
    for column in ("stage", "wall s", "bare", "ratio", "processor s", "bare", "ratio"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for name, ours, bare in rows:
        cells = [
            text
            for found, least in zip(ours, bare, strict=True)
            for text in (f"{found:.2f}", f"{least:.2f}", f"{found / least:.1f}")
        ]
        table.add_row(name, *cells)
    console.print(table)
    table = Table(title="Sorting, by its kernels", title_justify="left")
    for column in ("kernel", "processor s", "of a bare move"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    _, _, (_, move) = rows[SORT]
    for name, seconds in parts.items():
        table.add_row(name, f"{seconds:.2f}", f"{seconds / move:.1f}")
    console.print(table)


def measure(log: Path) -> tuple[list[tuple[str, Any, Any]], dict[str, float]]:
    """Time each stage, and the least that its bytes take; and the kernels of sorting."""
    columns = LogColumns(requests=("category", "detail"))
    threads = default_threads()
    encoded = ["category", "detail"]
    bare_read = clock(lambda: pq.read_table(log, read_dictionary=encoded))
    read = clock(lambda: read_in_memory(log, columns))
    request_log = read_in_memory(log, columns)
    prepared = prepare(request_log, Options(k=K), threads)
    window = next(prepared.windows())
    layout = build_layout(window.cells.shape[1], prepared.layout.region.height)
    sort = clock(lambda: sort_keys(window.cells, layout, threads))
    with _timed_kernels() as parts:
        order = sort_keys(window.cells, layout, threads).order
    moved = np.empty_like(window.cells)

    def move(start: int, stop: int) -> None:
        # "clip" writes into place; all numbers are in range.
        np.take(window.cells, order[start:stop], axis=0, out=moved[start:stop], mode="clip")

    bare_sort = clock(lambda: run_sliced(move, len(order), threads))
    result = anonymize_log(request_log, Options(k=K, algorithm="traj-anon"))
    release, copy = RESULTS / "limits", RESULTS / "limits-copy"

    def write() -> None:
        shutil.rmtree(release, ignore_errors=True)
        result.write(release)

    def rewrite() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name, table in tables.items():
            pq.write_table(table, copy / name, compression="zstd", compression_level=1)

    written = clock(write)
    tables = {
        name: pq.read_table(release / name, read_dictionary=encoded)
        for name in ("bundles.parquet", "requests.parquet")
    }
    bare_write = clock(rewrite)
    for folder in (release, copy):
        shutil.rmtree(folder)
    return [
        ("read / decode", read, bare_read),
        ("sort / move", sort, bare_sort),
        ("write / encode", written, bare_write),
    ], parts


@contextmanager
def _timed_kernels() -> Iterator[dict[str, float]]:
    """Add up the processor time of the kernels of sorting."""
    seconds = dict.fromkeys(SORT_KERNELS.values(), 0.0)
    lock = threading.Lock()

    def time_kernel(kernel: Callable[..., Any], name: str) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            started = time.thread_time()
            value = kernel(*arguments)
            with lock:
                seconds[name] += time.thread_time() - started
            return value

        return run

    kernels = {kernel: getattr(keys, kernel) for kernel in SORT_KERNELS}
    for kernel, name in SORT_KERNELS.items():
        setattr(keys, kernel, time_kernel(kernels[kernel], name))
    try:
        yield seconds
    finally:
        for kernel, function in kernels.items():
            setattr(keys, kernel, function)


def clock(run: Callable[[], Any]) -> tuple[float, float]:
    """Take the least wall and processor time of a few runs."""
    times = []
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(t[0] for t in times), min(t[1] for t in times)


if __name__ == "__main__":
    main()
