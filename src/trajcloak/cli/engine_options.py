"""Options that say where a run is done."""

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trajcloak.cli.common import PATH
from trajcloak.cli.grouped import WORK, option
from trajcloak.errors import OptionError
from trajcloak.progress import Progress

if TYPE_CHECKING:
    from trajcloak.engines.engine import Engine

F = TypeVar("F", bound=Callable[..., Any])

IN_MEMORY, DASK, SPARK = "memory", "dask", "spark"
ENGINE_OPTIONS = (
    "engine", "scheduler", "workers", "tls_ca", "tls_cert", "tls_key", "master", "scratch",
)  # fmt: skip
MOMENT = 0.01
"""Seconds until an interruption that Python dropped is raised again."""


def engine_options(function: F) -> F:
    """Add the options that say where a run is done."""
    for add in (
        option(
            "--scratch",
            group=WORK,
            type=PATH,
            metavar="DIR",
            help="Folder that client and workers share, as private as the log, in which shards "
            "wait between stages; emptied at the end.  [default: beside the release]",
        ),
        option(
            "--master",
            group=WORK,
            metavar="URL",
            help="Master of a Spark cluster, such as spark://host:7077 or yarn.  [default: all "
            "cores of this machine]",
        ),
        option("--tls-key", group=WORK, type=PATH, help="Private key of --tls-cert."),
        option("--tls-cert", group=WORK, type=PATH, help="Certificate to show to the scheduler."),
        option(
            "--tls-ca",
            group=WORK,
            type=PATH,
            help="Certificate of the authority that the scheduler's is checked with.  [default: "
            "as dask is configured]",
        ),
        option(
            "--workers",
            group=WORK,
            type=click.IntRange(min=1),
            help="Processes to start with --engine dask without --scheduler.  [default: one for "
            "each core]",
        ),
        option(
            "--scheduler",
            group=WORK,
            metavar="ADDRESS",
            help="Scheduler of a dask cluster, such as tls://host:8786.  [default: processes on "
            "this machine]",
        ),
        option(
            "--engine",
            group=WORK,
            default=IN_MEMORY,
            show_default=True,
            type=click.Choice([IN_MEMORY, DASK, SPARK]),
            metavar="NAME",
            help="Where to work: memory (of this process), dask or spark (a cluster).",
        ),
    ):
        function = add(function)
    return function


@contextmanager
def start_engine(
    engine: str,
    scheduler: str | None,
    workers: int | None,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    master: str | None,
    scratch: Path | None,
    *,
    beside: Path,
    threads: int | None,
    progress: Progress,
) -> "Iterator[Engine]":
    """Start or connect to the engine that the options name.

    ``beside``: what the scratch folder stands beside if no other place is named.
    """
    of_dask = {
        "--scheduler": scheduler,
        "--workers": workers,
        "--tls-ca": tls_ca,
        "--tls-cert": tls_cert,
        "--tls-key": tls_key,
    }
    _check_fits(engine, of_dask, {"--master": master}, {"--scratch": scratch})
    if engine == IN_MEMORY:
        from trajcloak.engines.memory import MemoryEngine

        yield MemoryEngine(threads, progress)
        return
    parent = scratch or beside.parent
    with _interrupted_if_terminated():
        if engine == SPARK:
            from trajcloak.engines.spark import open_spark

            with open_spark(parent, master, progress=progress) as spark:
                yield spark
        else:
            from trajcloak.engines.dask import open_dask

            tls = tls_ca, tls_cert, tls_key
            with open_dask(parent, scheduler, workers, tls, progress=progress) as dask:
                yield dask


def _check_fits(
    engine: str,
    of_dask: Mapping[str, Any],
    of_spark: Mapping[str, Any],
    of_clusters: Mapping[str, Any],
) -> None:
    """Raise if an option is given that is none of the engine, or that contradicts another."""
    fitting = {
        IN_MEMORY: {},
        DASK: {**of_dask, **of_clusters},
        SPARK: {**of_spark, **of_clusters},
    }[engine]
    for owner, options in ((DASK, {**of_dask, **of_clusters}), (SPARK, of_spark)):
        for name, value in options.items():
            if value is not None and name not in fitting:
                raise OptionError(
                    f"{name} is given, and the engine is {engine}; expected it with a cluster "
                    f"only; pass --engine {owner}, or leave it out"
                )
    has_tls = any(of_dask[name] is not None for name in ("--tls-ca", "--tls-cert", "--tls-key"))
    if of_dask["--scheduler"] is None and has_tls:
        raise OptionError(
            "certificates are given, and no scheduler; expected the address of one: a cluster on "
            "this machine makes its own certificates; pass --scheduler, or leave them out"
        )
    if of_dask["--scheduler"] is not None and of_dask["--workers"] is not None:
        raise OptionError(
            "both --scheduler and --workers are given; expected one of them: a cluster that runs "
            "already has its workers; leave one out"
        )


@contextmanager
def _interrupted_if_terminated() -> Iterator[None]:
    """Let a run that is told to end clean up first: rows of the log stand in its scratch folder.

    Python drops what is raised in a finalizer, or in a function that is called when garbage is
    collected, of which dask has one. An interruption that is dropped is raised again.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def raise_again(dropped: "sys.UnraisableHookArgs") -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, MOMENT)
        else:
            report(dropped)

    report, sys.unraisablehook = sys.unraisablehook, raise_again
    handlers = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGALRM)
    }
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.unraisablehook = report
