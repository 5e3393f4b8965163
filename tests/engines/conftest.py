from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from clusters import start_cluster
from required import require_java
from trajcloak.engines.dask import DaskEngine
from trajcloak.engines.shard_files import Scratch
from trajcloak.engines.spark import SparkEngine, open_spark


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with start_cluster() as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=300)
        yield client


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the scratch folders of runs, which leave nothing in it."""
    folder = tmp_path_factory.mktemp("scratch")
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
def dask_engine(client: Client, scratch: Path) -> Iterator[DaskEngine]:
    engine = DaskEngine(client, Scratch(scratch))
    yield engine
    engine.close()


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """A Spark with two cores.

    A process can have only one, so it ends before tests elsewhere start their own.
    """
    require_java()
    folder = tmp_path_factory.mktemp("spark")
    with open_spark(folder, "local[2]") as engine:
        yield engine
    assert list(folder.iterdir()) == []


@pytest.fixture
def spark_engine(spark: SparkEngine, scratch: Path) -> Iterator[SparkEngine]:
    """An engine with a scratch folder of its own."""
    engine = SparkEngine(spark.context, Scratch(scratch))
    yield engine
    engine.close()
