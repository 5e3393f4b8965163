"""Runs of a log in one shard and in many, to be compared byte for byte."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import trajcloak as tc
from runs import anonymize
from small_logs import COLUMNS, UNIT_CELLS, Row, list_tree, new_folder, write_parquet
from trajcloak.engines.engine import MemoryEngine, Sizes
from trajcloak.engines.stored import StoredEngine
from trajcloak.log import read_in_memory
from trajcloak.options import LogColumns, Options
from trajcloak.pipeline import anonymize_on


@dataclass(frozen=True)
class Outcome:
    """What a run left: its files, the private policy and private figures; or its error."""

    files: dict[str, bytes] | None = None
    policy: pa.Table | None = None
    figures: Any = None
    error: tuple[str, str] | None = None


def write_log(folder: Path, rows: Sequence[Row], group: int = 5) -> Path:
    """Write rows to a Parquet file of small row groups."""
    path = write_parquet(folder / "log.parquet", rows)
    pq.write_table(pq.read_table(path), path, row_group_size=group)
    return path


def run(make: Callable[[], Any], folder: Path) -> Outcome:
    """Write what a run makes, and read it; nothing may be left where it fails."""
    folder.mkdir()
    try:
        result = make()
        result.write(folder / "release", folder / "policy.parquet")
    except tc.TrajcloakError as error:
        assert list_tree(folder) == {}
        return Outcome(error=(type(error).__name__, str(error)))
    names = {path.name for path in folder.iterdir()}
    assert names == {"release", "policy.parquet"}
    return Outcome(
        files={file.name: file.read_bytes() for file in sorted((folder / "release").iterdir())},
        policy=pq.read_table(folder / "policy.parquet"),
        figures=result.figures,
    )


def compare(
    rows: Sequence[Row] | Path,
    k: int,
    *,
    engine: MemoryEngine | StoredEngine | None = None,
    sizes: Sizes = Sizes(20, 20),  # noqa: B008
    columns: LogColumns = COLUMNS,
    same_message: bool = True,
    **options: Any,
) -> Outcome:
    """Check that a log gives the same release in one shard and in many; returns it."""
    options = {"algorithm": "traj-anon", "rows_alike": True, **UNIT_CELLS, **options}
    with new_folder() as folder:
        path = rows if isinstance(rows, Path) else write_log(folder, rows)
        expected = run(
            lambda: anonymize(read_in_memory(path, columns, threads=1), k, threads=1, **options),
            folder / "memory",
        )
        actual = run(
            lambda: anonymize_on(
                _resize(engine, sizes) or MemoryEngine(1, sizes=sizes),
                [path],
                columns,
                Options(k=k, **options),
            ),
            folder / "shards",
        )
    if expected.error is not None and not same_message:
        assert actual.error is not None
        assert actual.error[0] == expected.error[0]
    else:
        assert actual == expected
    return actual


def _resize(
    engine: MemoryEngine | StoredEngine | None, sizes: Sizes
) -> MemoryEngine | StoredEngine | None:
    if engine is not None:
        engine._sizes = sizes
    return engine


SKEWS = ("even", "duplicates", "one cell", "four cells", "giant subtree")


def draw_skewed(seed: int, skew: str, num_users: int, length: int) -> list[Row]:
    """Draw a dense log in which many trajectories are near each other, or the same."""
    rng = np.random.default_rng(seed)
    size = {"one cell": 1, "four cells": 2}.get(skew, 16)
    cells = rng.integers(0, size, (num_users, length, 2))
    if skew == "duplicates":
        cells = cells[rng.integers(0, max(1, num_users // 10), num_users)]
    if skew == "giant subtree":
        near = rng.integers(6, 8, (num_users, length, 2))
        cells = np.where(rng.random((num_users, 1, 1)) < 0.9, near, cells)
    names = rng.permutation(num_users).tolist()
    rows = [
        Row(
            f"u{names[user]}" if seed % 2 else names[user],
            instant,
            *cells[user, instant].tolist(),
            None if rng.random() < 0.5 else f"r{rng.integers(0, 4)}",
        )
        for instant in range(length)
        for user in range(num_users)
    ]
    return [rows[i] for i in rng.permutation(len(rows))]
