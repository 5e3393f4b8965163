"""The plan on a cluster of dask's: one that runs already, or one on this machine for the while."""

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from trajcloak.engines.shard_files import Piece, Pieces, Scratch
from trajcloak.engines.stored import (
    KEPT_MEMORY,
    Call,
    StoredEngine,
    make_scratch,
    raise_failed,
    run_on_worker,
)
from trajcloak.errors import OptionError, import_extra
from trajcloak.kernels.threads import default_threads
from trajcloak.progress import Progress, silent

Client: TypeAlias = Any
"""A ``distributed.Client``."""

TIMEOUT = "30s"


class DaskEngine(StoredEngine):
    """Runs calls on the workers of the cluster that a client is connected to."""

    def __init__(self, client: Client, scratch: Scratch, progress: Progress = silent) -> None:
        super().__init__(scratch, progress)
        self.client = client
        # The calls of the newest stage. Those of the stage before are let go only when these are
        # sent: the client waits 10 ms after each message, and would send them that much later.
        self._held: Sequence[Any] = ()

    @property
    def parallel(self) -> int:
        """How many threads the workers have."""
        return max(1, sum(map(int, self.client.nthreads().values())))

    def run_calls(self, calls: Sequence[Call], stage: Path, label: str | None) -> list[Any]:
        if not calls:
            return []
        from distributed import as_completed

        futures = self.client.map(run_on_worker, calls, pure=False, key=stage.name)
        self._held = futures
        if label is not None:
            self.progress(label, 0, len(futures))
            for done, _ in enumerate(as_completed(futures), start=1):  # type: ignore[no-untyped-call]
                self.progress(label, done, len(futures))
        return self._finish(futures)

    def store_frame(self, frame: Any, convert: Callable[[Any], Any]) -> Sequence[Piece]:
        """Store the partitions of a dask DataFrame, each converted by a function."""
        from dask.delayed import delayed

        stage = self._new_stage("store_frame")
        store = delayed(_store_partition, pure=False)
        partitions = frame.to_delayed()
        stored = [store(convert, part, stage / str(i)) for i, part in enumerate(partitions)]
        self._finish(self.client.compute(stored))
        return Pieces(stage, len(partitions), 0)

    def _finish(self, futures: Sequence[Any]) -> list[Any]:
        """Wait for all calls to end, also if one fails: none writes a file after that."""
        from distributed import wait
        from distributed.scheduler import KilledWorker

        # Gathering waits, too, but complains for each call if it is interrupted.
        wait(futures)  # type: ignore[no-untyped-call]
        try:
            values: list[Any] = self.client.gather(futures)
        except KilledWorker:
            raise OptionError(
                "workers were lost again and again in the same stage; expected workers with enough "
                "memory for what each of their threads works on; give them more of it, or fewer "
                "threads"
            ) from None
        return raise_failed(values)


def _store_partition(convert: Callable[[Any], Any], partition: Any, path: Path) -> Any:
    return run_on_worker(Call(convert, (partition,), path))


def connect_dask(
    client: Client, scratch: str | Path | None, progress: Progress = silent
) -> DaskEngine:
    """Build an engine for a client that is connected already."""
    from distributed import LocalCluster

    is_local = isinstance(client.cluster, LocalCluster)
    return DaskEngine(client, make_scratch(scratch, is_local=is_local), progress)


@contextmanager
def open_dask(
    scratch: Path,
    scheduler: str | None = None,
    workers: int | None = None,
    tls: Sequence[Path | None] = (None, None, None),
    *,
    progress: Progress = silent,
    memory_limit: int | str = "auto",
) -> Iterator[DaskEngine]:
    """Connect to a cluster, or start one on this machine for the while.

    ``scratch`` is a folder that client and workers share: shards wait in a private folder inside
    it. ``scheduler`` is the address of the cluster's scheduler; by default ``workers`` processes
    are started on this machine, one for each core, each of which may use ``memory_limit`` bytes.
    ``tls`` are the files of the certification authority, of the client's certificate and of its
    key; default: those of dask's own configuration. A cluster on this machine makes its own.
    """
    # The folder is closed last, when no worker of a cluster on this machine can be writing.
    with (
        closing(Scratch(scratch)) as folder,
        _start(workers, memory_limit) if scheduler is None else connect(scheduler, tls) as client,
    ):
        yield DaskEngine(client, folder, progress)


@contextmanager
def _start(workers: int | None, memory_limit: int | str) -> Iterator[Client]:
    """Start a cluster on this machine."""
    distributed = import_extra("distributed", "--engine=dask", "dask")
    import dask

    settings: dict[str, Any] = {
        f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in KEPT_MEMORY.items()
    }
    # Looks into each call every 10 ms, for a page that is not shown.
    settings["distributed.worker.profile.enabled"] = False
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=workers or default_threads(),
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            # The scheduler's pages are on this machine only, and on no port that may be taken.
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            memory_limit=memory_limit,
            # A worker that is stopped within a heartbeat would log that as an error.
            silence_logs=logging.CRITICAL,
            # Whoever can reach a scheduler can have its workers do things.
            security=distributed.Security.temporary(),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def connect(scheduler: str, tls: Sequence[Path | None]) -> Client:
    """Connect to a scheduler, encrypted if certificates are given or configured."""
    distributed = import_extra("distributed", "--engine=dask", "dask")
    security = None
    if any(tls):
        ca, certificate, key = (None if file is None else str(file) for file in tls)
        security = distributed.Security(
            tls_ca_file=ca, tls_client_cert=certificate, tls_client_key=key, require_encryption=True
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
