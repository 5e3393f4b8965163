from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trajcloak as tc
from small_logs import list_tree
from trajcloak.movement import ConvertedLog, convert_log


@dataclass(frozen=True)
class Converted:
    """What a conversion returned, and what it wrote."""

    log: ConvertedLog
    table: pa.Table

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples."""
        return [tuple(row.values()) for row in self.table.to_pylist()]


@pytest.fixture
def convert(tmp_path) -> Callable[..., Converted]:
    """Convert to a Parquet file and read it back, not with our own reader."""

    def convert(source, **options) -> Converted:
        path = tmp_path / "converted.parquet"
        log = convert_log(source, path, **options)
        return Converted(log, pq.read_table(path))

    return convert


@pytest.fixture
def refuse(tmp_path) -> Callable[..., str]:
    """Convert files that must be refused; returns the message, with short paths."""

    def refuse(source: Path, error: type[Exception] = tc.InputError, **options) -> str:
        before = list_tree(tmp_path)
        with pytest.raises(error) as raised:
            convert_log(source, tmp_path / "converted.parquet", **options)
        assert list_tree(tmp_path) == before
        return str(raised.value).replace(f"{tmp_path}/", "")

    return refuse
