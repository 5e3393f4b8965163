"""Small logs, written, read and anonymized by the tests of a run's stages."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from runs import anonymize
from trajcloak.log import RequestLog, read_in_memory
from trajcloak.options import ALGORITHMS, CLOAKS, TREES, LogColumns
from trajcloak.release.reading import read_manifest

COLUMNS = LogColumns(requests=("what",))
REGION = (-0.5, -0.5, 16.0)
"""With height 4, whole coordinates from 0 to 15 are the centres of cells."""

UNIT_CELLS = {"region": REGION, "height": 4}


class Row(NamedTuple):
    """A row of a log, as the slow twin in ``reference/completion.py`` takes it."""

    user: Any
    time: Any
    x: Any
    y: Any
    request: Any = None


def write_parquet(path: Path, rows: Sequence[Row], time: pa.DataType | None = None) -> Path:
    """Write a planar log with one request attribute, ``what``."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = pa.table(
        {
            "user_id": columns[0],
            "time": pa.array(columns[1], time),
            "x": pa.array(map(float, columns[2])),
            "y": pa.array(map(float, columns[3])),
            "what": pa.array(columns[4], pa.string()),
        }
    )
    pq.write_table(table, path)
    return path


def read_rows(rows: Sequence[Row], time: pa.DataType | None = None) -> RequestLog:
    """Write a log to a file and read it."""
    with new_folder() as folder:
        return read_in_memory(write_parquet(folder / "log.parquet", rows, time), COLUMNS, threads=1)


@contextmanager
def new_folder() -> Iterator[Path]:
    """Yield an empty folder; for tests that draw many examples in one call."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@dataclass(frozen=True)
class Published:
    """A release and its policy, as read back from their files."""

    manifest: dict[str, Any]
    bundles: pa.Table
    requests: pa.Table
    policy: pa.Table
    files: dict[str, bytes]
    figures: dict[str, Any] = field(default_factory=dict)
    """The private ones; not read from a file."""

    @property
    def members(self) -> dict[tuple[int, int], set[Any]]:
        """The users of each window and bundle."""
        members: dict[tuple[int, int], set[Any]] = {}
        for row in self.policy.to_pylist():
            members.setdefault((row["window"], row["bundle_id"]), set()).add(row["user_id"])
        return members


def publish(log: RequestLog, k: int, **options: Any) -> Published:
    """Anonymize a log, write everything and read it back."""
    with new_folder() as folder:
        result = anonymize(log, k, **{"threads": 1, **options})
        result.write(folder / "release", folder / "policy.parquet")
        return replace(read_published(folder), figures=result.figures)


def publish_rows(rows: Sequence[Row], k: int, **options: Any) -> Published:
    """Read and anonymize rows, write everything and read it back."""
    return publish(read_rows(rows), k, **{**UNIT_CELLS, **options})


def read_published(folder: Path) -> Published:
    """Read ``release`` and ``policy.parquet`` in a folder."""
    release = folder / "release"
    return Published(
        manifest=read_manifest(release),
        bundles=pq.read_table(release / "bundles.parquet"),
        requests=pq.read_table(release / "requests.parquet"),
        policy=pq.read_table(folder / "policy.parquet"),
        files={file.name: file.read_bytes() for file in sorted(release.iterdir())},
    )


def list_tree(folder: Path) -> dict[str, bytes]:
    """Everything below a folder, hidden files too."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


@dataclass(frozen=True)
class Drawn:
    """A random log and what to ask of it, in the terms of the slow twin."""

    rows: list[Row]
    k: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def run_options(self) -> dict[str, Any]:
        """The options as the library takes them."""
        given = {
            name: str(value) if name in ("every", "max_gap") else value
            for name, value in self.options.items()
            if value is not None
        }
        return {**UNIT_CELLS, "rows_alike": True, **given}


def draw_log(seed: int) -> Drawn:
    """Draw a log: on a grid or not, with gaps, repeated rows, rows in any order."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 4))
    num_users = int(rng.integers(1, 8))
    step = int(rng.choice([1, 3, 10]))
    first = int(rng.integers(-25, 25))
    num_times = int(rng.integers(1, 9))
    is_irregular = rng.random() < 0.4
    keep = rng.choice([1.0, 0.9, 0.6, 0.3])
    rows = []
    for user in range(num_users):
        begin, end = sorted(rng.integers(0, num_times + 1, size=2))
        if rng.random() < 0.6:
            begin, end = 0, num_times
        for number in range(begin, end):
            if rng.random() > keep:
                continue
            time = first + number * step
            if is_irregular:
                time += int(rng.integers(0, step + 1))
            x, y = rng.integers(0, 16, size=2).tolist()
            if any(row.user == f"u{user}" and row.time == time for row in rows):
                continue
            rows.append(Row(f"u{user}", time, x, y, draw_request(rng)))
            while rng.random() < 0.2:
                rows.append(rows[-1]._replace(request=draw_request(rng)))
    if not rows:
        rows.append(Row("u0", first, 1, 1, None))
    options = {
        "every": None if rng.random() < 0.4 else int(rng.choice([step, step, 2 * step, 7])),
        "max_gap": None if rng.random() < 0.4 else int(rng.integers(1, 4 * step + 1)),
        "length": None if rng.random() < 0.3 else int(rng.integers(1, num_times + 2)),
        "missing": "hold" if rng.random() < 0.4 else "withhold",
    }
    rng.shuffle(rows)
    return Drawn([Row(*row) for row in rows], k, options)


def draw_request(rng: np.random.Generator) -> str | None:
    return None if rng.random() < 0.5 else str(rng.choice(["a", "b", "c"]))


@st.composite
def dense_logs(
    draw: Callable[..., Any],
    max_users: int = 9,
    max_length: int = 4,
    size: int = 16,
    distinct: bool = False,
) -> Drawn:
    """Logs in which every user has a location at every instant, at least k users.

    All algorithms are asked for.

    ``distinct``: no two users have the same trajectory.
    """
    k = draw(st.integers(2, 3))
    length = draw(st.integers(1, max_length))
    cell = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    trajectories = draw(
        st.lists(
            st.tuples(*[cell] * length),
            min_size=k,
            max_size=max_users,
            unique=distinct,
        )
    )
    what = st.sampled_from([None, None, "a", "b", "c"])
    rows = [
        Row(f"u{user}", instant, x, y, draw(what))
        for user, trajectory in enumerate(trajectories)
        for instant, (x, y) in enumerate(trajectory)
    ]
    algorithm = draw(st.sampled_from(ALGORITHMS))
    options = {
        "algorithm": algorithm,
        "tree": draw(st.sampled_from(TREES)) if algorithm == "traj-anon" else TREES[0],
        "cloak": draw(st.sampled_from(CLOAKS)),
        "length": draw(st.none() | st.integers(1, length)),
    }
    return Drawn(rows, k, options)


def clustered_rows(
    num_clusters: int = 4, per_cluster: int = 3, length: int = 3, seed: int = 1
) -> list[Row]:
    """Users who stay in clusters far from each other: a bundle for each if k is their size."""
    rng = np.random.default_rng(seed)
    rows = []
    order = rng.permutation(num_clusters * per_cluster).tolist()
    for instant in range(length):
        for number in order:
            x, y = divmod(number % num_clusters, 2)
            step = number // num_clusters
            request = f"r{rng.integers(0, 3)}" if rng.random() < 0.7 else None
            rows.append(
                Row(f"u{number:02d}", instant, 6 * x + step % 2, 6 * y + step // 2, request)
            )
    return rows


def rows_with_addresses() -> list[Row]:
    """Rows of nine users whose requests look like identifiers, and are refused unless allowed."""
    return [
        Row(u, t, float(u), 0.0, "abcdefghi"[u] + "@post.org") for u in range(9) for t in (0, 1)
    ]
