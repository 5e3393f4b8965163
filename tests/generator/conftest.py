from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from trajcloak.generator import GeneratedLog, generate_log
from trajcloak.generator.network import Network, build_network
from trajcloak.generator.network_files import load_network

USERS = 1500
LENGTH = 12
SEED = 7
JUNCTIONS = 2000
"""Fewer than by default, for speed."""


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GeneratedLog]:
    path = tmp_path_factory.mktemp("city") / "log.parquet"
    return path, generate_log(path, users=USERS, length=LENGTH, seed=SEED, junctions=JUNCTIONS)


@pytest.fixture(scope="session")
def columns(generated):
    """The columns of the generated log, each as (instants, users)."""
    return read_columns(generated[0], USERS)


@pytest.fixture(scope="session")
def city() -> Network:
    return load_network("city", JUNCTIONS)


@pytest.fixture(scope="session")
def town() -> Network:
    """A town of 15 by 10 blocks of 100 m; every fifth street is fast."""
    return build_town(15, 10)


def build_town(width: int, height: int, step: float = 100.0) -> Network:
    """Build a grid of streets; the number of a node is that of its column, times height."""
    column, row = (axis.ravel() for axis in np.mgrid[:width, :height])
    node = column * height + row
    east, north = node[column < width - 1], node[row < height - 1]
    ends = np.concatenate(
        [np.stack([east, east + height], axis=1), np.stack([north, north + 1], axis=1)]
    )
    line = np.concatenate([row[column < width - 1], column[row < height - 1]])
    return build_network(column * step, row * step, ends, classes=np.where(line % 5 == 0, 0, 3))


def read_columns(path: Path, users: int) -> dict[str, np.ndarray]:
    """The columns of a log, each as (instants, users)."""
    table = pq.read_table(path)
    return {
        name: table[name].to_numpy(zero_copy_only=False).reshape(-1, users)
        for name in table.column_names
    }


def distances_to_roads(network: Network, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How far each point is from the nearest edge; plain and slow."""
    is_first = network.tails < network.heads
    a = np.stack([network.x, network.y], axis=1)[network.tails[is_first]]
    b = np.stack([network.x, network.y], axis=1)[network.heads[is_first]]
    along = b - a
    squared = np.maximum((along**2).sum(axis=1), 1e-300)
    nearest = []
    for point in zip(x, y, strict=True):
        share = np.clip(((point - a) * along).sum(axis=1) / squared, 0, 1)
        gaps = point - (a + share[:, None] * along)
        nearest.append(np.sqrt((gaps**2).sum(axis=1).min()))
    return np.array(nearest)
