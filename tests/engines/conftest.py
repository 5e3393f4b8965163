from collections.abc import Iterator

import pytest
from distributed import Client, LocalCluster

from clusters import start_cluster
from trajcloak.engines.dask import DaskEngine


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with start_cluster() as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def engine(client: Client) -> DaskEngine:
    return DaskEngine(client)
