"""Clusters of dask's: one that runs already, or one on this machine for the while."""

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from trajcloak.engines.dask import Client, DaskEngine
from trajcloak.engines.scratch import Scratch
from trajcloak.errors import OptionError
from trajcloak.kernels.threads import default_threads

TIMEOUT = "30s"

KEPT_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
}
"""Has the C library keep memory that is freed: workers need as much again for the next job.

Fresh memory has to be found and cleared first. Dask asks for the opposite, for workers that
hold values; variables that are set already count more than either.
"""


@contextmanager
def open_dask(
    scratch: Path,
    scheduler: str | None = None,
    workers: int | None = None,
    tls: Sequence[Path | None] = (None, None, None),
    *,
    memory_limit: int | str = "auto",
) -> Iterator[DaskEngine]:
    """Connect to a cluster, or start one on this machine for the while.

    Parameters
    ----------
    scratch
        A folder that client and workers share: values wait in a private folder inside it.
    scheduler
        Address of its scheduler; default: a cluster of processes on this machine.
    workers
        How many processes to start; default: one for each core.
    tls
        Files of the certification authority, of the client's certificate and of its key;
        default: those of dask's own configuration. A cluster on this machine makes its own.
    memory_limit
        Bytes that each process may use; default: its share.

    Raises
    ------
    OptionError
        If dask is not installed, or the scheduler cannot be reached.
    OutputError
        If nothing can be written into the scratch folder.
    """
    import_distributed()
    with ExitStack() as stack:
        # Closed last, when no worker of a cluster on this machine can be writing.
        folder = Scratch(scratch)
        stack.callback(folder.close)
        if scheduler is None:
            client = stack.enter_context(_start(workers, memory_limit))
        else:
            client = stack.enter_context(connect(scheduler, tls))
        yield DaskEngine(client, folder)


@contextmanager
def _start(workers: int | None, memory_limit: int | str) -> Iterator[Client]:
    """Start a cluster on this machine."""
    distributed = import_distributed()
    import dask

    environment = {
        f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in KEPT_MEMORY.items()
    }
    with (
        dask.config.set(environment),
        distributed.LocalCluster(
            n_workers=workers or default_threads(),
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            # The scheduler's pages are on this machine only, and on no port that may be taken.
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            memory_limit=memory_limit,
            silence_logs=logging.ERROR,
            # Whoever can reach a scheduler can have its workers do things.
            security=distributed.Security.temporary(),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def connect(scheduler: str, tls: Sequence[Path | None]) -> Client:
    """Connect to a scheduler, encrypted if certificates are given or configured."""
    distributed = import_distributed()
    ca, certificate, key = (None if file is None else str(file) for file in tls)
    security = None
    if ca is not None or certificate is not None or key is not None:
        security = distributed.Security(
            tls_ca_file=ca,
            tls_client_cert=certificate,
            tls_client_key=key,
            require_encryption=True,
        )
    try:
        return distributed.Client(scheduler, security=security, timeout=TIMEOUT)
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        name = type(error).__name__
    # The client that did not connect ends here: if it were collected while another one starts,
    # each of the two would wait for the other.
    gc.collect()
    raise OptionError(
        f"{scheduler}: no scheduler answers ({name}); expected the address of one, such as "
        f"tls://host:8786; check --scheduler and the certificates (--tls-ca, --tls-cert, --tls-key)"
    )


def import_distributed() -> Any:
    """Import dask's scheduler.

    Raises
    ------
    OptionError
        If it is not installed.
    """
    try:
        import distributed
    except ImportError:
        raise OptionError(
            "dask is not installed; expected it for --engine dask; install it with "
            "pip install 'trajcloak[dask]'"
        ) from None
    return distributed
