"""The local engine's stages against the least that their bytes take.

Reading against Arrow decoding the same columns, sorting against a copy of the trajectories
to where the order puts them, writing against encoding the finished rows once more and
copying the files. Wall time on all cores, and processor time, which noise disturbs less.
"""

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import trajcloak as tc
from run import RESULTS, K, make_log
from trajcloak.algorithms.traj_anon.keys import build_layout, sort_keys
from trajcloak.kernels.threads import default_threads, run_sliced
from trajcloak.log import read_log
from trajcloak.options import Options
from trajcloak.pipeline import anonymize, prepare

REPEATS = 2
WARM_UP_USERS = 20_000
console = Console(highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=2_000_000)
    users = parser.parse_args().users
    RESULTS.mkdir(exist_ok=True)
    rows: list[tuple[str, Any, Any]] = []
    for size in (WARM_UP_USERS, users):
        rows = measure(make_log(size, "integer"))
    table = Table(title=f"{users:,} users, 30 instants", title_justify="left")
    for column in ("stage", "wall s", "bare", "ratio", "processor s", "bare", "ratio"):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for name, ours, bare in rows:
        cells = [f(pair) for pair in zip(ours, bare, strict=True) for f in (_one, _other, _ratio)]
        table.add_row(name, *cells)
    console.print(table)


def measure(log: Path) -> list[tuple[str, Any, Any]]:
    """Time each stage, and the least that its bytes take."""
    columns = tc.LogColumns(requests=("category", "detail"))
    threads = default_threads()
    encoded = ["category", "detail"]
    bare_read = clock(lambda: pq.read_table(log, read_dictionary=encoded))
    read = clock(lambda: read_log(log, columns))
    request_log = read_log(log, columns)
    prepared = prepare(request_log, Options(k=K), threads)
    window = next(prepared.windows())
    layout = build_layout(window.cells.shape[1], prepared.places.region.height)
    sort = clock(lambda: sort_keys(window.cells, layout, threads))
    order = sort_keys(window.cells, layout, threads).order
    moved = np.empty_like(window.cells)

    def move(start: int, stop: int) -> None:
        moved[start:stop] = window.cells[order[start:stop]]

    bare_sort = clock(lambda: run_sliced(move, len(order), threads))
    result = anonymize(request_log, K, algorithm="traj-anon")
    release, copy = RESULTS / "limits", RESULTS / "limits-copy"

    def write() -> None:
        shutil.rmtree(release, ignore_errors=True)
        result.release.write(release)

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
        ("read / decode into Arrow", read, bare_read),
        ("sort / move trajectories into order", sort, bare_sort),
        ("write / encode finished rows", written, bare_write),
    ]


def clock(run: Callable[[], Any]) -> tuple[float, float]:
    """Take the least wall and processor time of a few runs."""
    times = []
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(t[0] for t in times), min(t[1] for t in times)


def _one(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.2f}"


def _other(pair: tuple[float, float]) -> str:
    return f"{pair[1]:.2f}"


def _ratio(pair: tuple[float, float]) -> str:
    return f"{pair[0] / pair[1]:.1f}"


if __name__ == "__main__":
    main()
