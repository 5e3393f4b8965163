"""Connections to a cluster."""

import gc
import os
import sys

import pytest
from distributed import Client

import trajcloak as tc
from clusters import write_certificates
from trajcloak.engines.dask import connect, open_dask
from trajcloak.engines.stored import KEPT_MEMORY

pytestmark = pytest.mark.cluster


def test_connections_without_the_right_certificate_are_refused(cluster):
    with pytest.raises(tc.OptionError, match="no scheduler answers"):
        connect(cluster.scheduler_address, (None, None, None))


def test_a_client_that_did_not_connect_is_not_left_to_be_collected_later(cluster):
    def count() -> int:
        return sum(issubclass(type(known), Client) for known in gc.get_objects())

    gc.collect()
    before = count()
    with pytest.raises(tc.OptionError):
        connect(cluster.scheduler_address, (None, None, None))
    assert count() == before


def test_certificates_are_taken_from_files(tmp_path, cluster, scratch):
    files = write_certificates(cluster, tmp_path)
    with open_dask(scratch, cluster.scheduler_address, None, files) as engine:
        assert engine.ask(len, [([1, 2],)]) == [2]


def test_workers_keep_memory_for_the_next_job(monkeypatch, scratch):
    # Dask leaves the variables of a cluster that it started before.
    for name in KEPT_MEMORY:
        monkeypatch.delenv(name, raising=False)
    with open_dask(scratch, workers=1) as engine:
        found = engine.ask(os.getenv, [(name,) for name in KEPT_MEMORY])
        assert found == list(KEPT_MEMORY.values())


def test_a_missing_dask_is_named(monkeypatch, scratch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    expected = r"install the extra 'dask'"
    with pytest.raises(tc.OptionError, match=expected), open_dask(scratch):
        pass
