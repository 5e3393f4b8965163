import logging
import warnings
from collections.abc import Iterator

import pytest
from distributed import Client, LocalCluster, Security

from trajcloak.engines.dask import DaskEngine


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A cluster of two processes, whose connections are encrypted and authenticated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            silence_logs=logging.CRITICAL,
            security=Security.temporary(),
        ) as cluster:
            yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def engine(client: Client) -> DaskEngine:
    return DaskEngine(client)
