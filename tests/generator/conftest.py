from pathlib import Path

import pyarrow.parquet as pq
import pytest

from trajcloak.generator import GeneratedLog, generate_log

USERS = 1500
LENGTH = 12
SEED = 7


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GeneratedLog]:
    path = tmp_path_factory.mktemp("city") / "log.parquet"
    return path, generate_log(path, users=USERS, length=LENGTH, seed=SEED)


@pytest.fixture(scope="session")
def columns(generated):
    """The columns of the generated log, each as (instants, users)."""
    table = pq.read_table(generated[0])
    return {
        name: table[name].to_numpy(zero_copy_only=False).reshape(LENGTH, USERS)
        for name in table.column_names
    }
