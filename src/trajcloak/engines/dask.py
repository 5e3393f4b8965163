"""The plan on a cluster of dask's: workers exchange pieces among themselves."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from operator import getitem
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from trajcloak.engines.engine import Handle, Job
from trajcloak.engines.sources import Part, Source
from trajcloak.errors import OptionError
from trajcloak.kernels.threads import default_threads
from trajcloak.log.frames import to_table

Client: TypeAlias = Any
"""A ``distributed.Client``."""

TIMEOUT = "30s"


@dataclass(frozen=True)
class Failed:
    """What a function returns that did not end well.

    An exception that leaves a function would be logged by the worker together with the
    function's arguments, which hold users and places (invariant 6 of ``docs/guarantee.md``).
    """

    error: Exception


@dataclass(frozen=True)
class Held:
    """A value with its size, by which the scheduler decides what moves and what is spilled."""

    value: Any
    num_bytes: int

    def __sizeof__(self) -> int:
        return self.num_bytes


class DaskEngine:
    """Runs functions on the workers of a cluster; a handle is a future.

    A worker that is lost takes its values with it: the scheduler has them computed again,
    from the files on. Decisions travel as arguments, so that they are never lost.

    Parameters
    ----------
    client
        Connected to the cluster. The workers see the files of the log and the folder of
        the release under the same paths as the client.
    """

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def threads(self) -> int:
        """One for each function: a worker runs as many at once as it has threads."""
        return 1

    def run(self, function: Callable[..., Any], jobs: Sequence[Job]) -> list[Handle]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return [self._submit(function, *job) for job in jobs]

    def exchange(
        self, function: Callable[..., Sequence[Any]], jobs: Sequence[Job], parts: int
    ) -> list[list[Handle]]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        pieces = self.run(function, jobs)
        return [[self._submit(getitem, of_job, part) for of_job in pieces] for part in range(parts)]

    def gather(self, handles: Sequence[Handle]) -> list[Any]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        values = [_unwrap(value) for value in self.client.gather(list(handles))]
        for value in values:
            if isinstance(value, Failed):
                raise value.error
        return values

    def _submit(self, function: Callable[..., Any], *job: Any) -> Handle:
        return self.client.submit(
            _call, function, *job, pure=False, key=f"{function.__name__}-{uuid4().hex}"
        )


def _call(function: Callable[..., Any], *job: Any) -> Any:
    """Call a function, unless one that it depends on failed."""
    plain = [[_unwrap(v) for v in a] if isinstance(a, list) else _unwrap(a) for a in job]
    for argument in plain:
        for value in argument if isinstance(argument, list) else [argument]:
            if isinstance(value, Failed):
                return value
    try:
        return _hold(function(*plain))
    except Exception as error:
        return Failed(error)


def _hold(value: Any) -> Held:
    """Measure a value as it would travel; its arrays are not copied for that."""
    from distributed.protocol.serialize import serialize

    _, frames = serialize(value)
    return Held(value, sum(memoryview(frame).nbytes for frame in frames))


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, Held) else value


def open_frame(engine: DaskEngine, frame: Any) -> Source:
    """Take the partitions of a dask DataFrame as the parts of a log."""
    frames = engine.client.compute(frame.to_delayed())
    counts = engine.gather(engine.run(len, [(part,) for part in frames]))
    parts = zip(frames, accumulate([0, *counts]), counts, strict=False)
    return Source(
        name="the table",
        parts=[Part(*part) for part in parts],
        head=to_table(frame._meta),
    )


@contextmanager
def open_dask(
    scheduler: str | None = None,
    workers: int | None = None,
    tls: Sequence[Path | None] = (None, None, None),
    *,
    memory_limit: int | str = "auto",
) -> Iterator[DaskEngine]:
    """Connect to a cluster, or start one on this machine for the while.

    Parameters
    ----------
    scheduler
        Address of its scheduler; default: a cluster of processes on this machine.
    workers
        How many processes to start; default: one for each core.
    tls
        Files of the certification authority, of the client's certificate and of its key;
        default: those of dask's own configuration. A cluster on this machine makes its own.
    memory_limit
        Bytes that each process may use before it spills to disk; default: its share.

    Raises
    ------
    OptionError
        If dask is not installed, or the scheduler cannot be reached.
    """
    distributed = import_distributed()
    if scheduler is None:
        cluster = distributed.LocalCluster(
            n_workers=workers or default_threads(),
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            # The scheduler's pages are on this machine only, and on no port that may be taken.
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            memory_limit=memory_limit,
            silence_logs=logging.ERROR,
            # Whoever can reach a scheduler can read what its workers hold.
            security=distributed.Security.temporary(),
        )
        with cluster, distributed.Client(cluster) as client:
            yield DaskEngine(client)
        return
    with connect(scheduler, tls) as client:
        yield DaskEngine(client)


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
        raise OptionError(
            f"{scheduler}: no scheduler answers ({type(error).__name__}); expected the address of "
            f"one, such as tls://host:8786; check --scheduler and the certificates (--tls-ca, "
            f"--tls-cert, --tls-key)"
        ) from error


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
