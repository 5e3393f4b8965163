"""Options that say where a run is done."""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trajcloak.cli import shared_options as shared
from trajcloak.cli.grouped import combine, work_option
from trajcloak.progress import Progress

if TYPE_CHECKING:
    from trajcloak.engines.engine import Engine

IN_MEMORY, DASK, SPARK = "memory", "dask", "spark"
ENGINES_OF = {
    **dict.fromkeys(("scheduler", "workers", "tls_ca", "tls_cert", "tls_key"), (DASK,)),
    "master": (SPARK,),
    "scratch": (DASK, SPARK),
}
"""The engines that each option is for."""

ENGINE_OPTIONS = ("engine", *ENGINES_OF)
MOMENT = 0.01
"""Seconds until an interruption that Python dropped is raised again."""


engine_options = combine(
    work_option(
        "--engine",
        default=IN_MEMORY,
        type=click.Choice([IN_MEMORY, DASK, SPARK]),
        metavar="NAME",
        help="Where to work: memory (of this process), dask or spark (a cluster).",
    ),
    work_option(
        "--scheduler",
        metavar="ADDRESS",
        help="Scheduler of a dask cluster, such as tls://host:8786.  [default: processes on "
        "this machine]",
    ),
    work_option(
        "--workers",
        type=click.IntRange(min=1),
        help="Processes to start with --engine dask without --scheduler.  [default: one for "
        "each core]",
    ),
    work_option(
        "--tls-ca",
        type=shared.PATH,
        help="Certificate of the authority that the scheduler's is checked with.  [default: "
        "as dask is configured]",
    ),
    work_option("--tls-cert", type=shared.PATH, help="Certificate to show to the scheduler."),
    work_option("--tls-key", type=shared.PATH, help="Private key of --tls-cert."),
    work_option(
        "--master",
        metavar="URL",
        help="Master of a Spark cluster, such as spark://host:7077 or yarn.  [default: all "
        "cores of this machine]",
    ),
    work_option(
        "--scratch",
        type=shared.PATH,
        metavar="DIR",
        help="Folder that client and workers share, as private as the log, in which shards "
        "wait between stages; emptied at the end.  [default: beside the release]",
    ),
)
"""Where a run is done."""


@contextmanager
def start_engine(
    chosen: Mapping[str, Any], *, beside: Path, threads: int | None, progress: Progress
) -> "Iterator[Engine]":
    """Start or connect to the engine that the options name.

    ``chosen`` are the values of all :data:`ENGINE_OPTIONS`; ``beside`` is what the scratch folder
    stands beside if no other place is named.
    """
    _check_fits(chosen)
    if chosen["engine"] == IN_MEMORY:
        from trajcloak.engines.memory import MemoryEngine

        yield MemoryEngine(threads, progress)
        return
    parent = chosen["scratch"] or beside.parent
    with _interrupted_if_terminated():
        if chosen["engine"] == SPARK:
            from trajcloak.engines.spark import open_spark

            with open_spark(parent, chosen["master"], progress=progress) as spark:
                yield spark
        else:
            from trajcloak.engines.dask import open_dask

            scheduler, workers = chosen["scheduler"], chosen["workers"]
            tls = chosen["tls_ca"], chosen["tls_cert"], chosen["tls_key"]
            with open_dask(parent, scheduler, workers, tls, progress=progress) as dask:
                yield dask


def _check_fits(chosen: Mapping[str, Any]) -> None:
    """Raise if an option is given that is none of the engine, or that contradicts another."""
    for name, engines in ENGINES_OF.items():
        if chosen[name] is not None and chosen["engine"] not in engines:
            raise click.UsageError(
                f"--{name.replace('_', '-')} goes with --engine {' or '.join(engines)} only."
            )
    tls = [name for name in ENGINES_OF if name.startswith("tls") and chosen[name] is not None]
    if tls and chosen["scheduler"] is None:
        raise click.UsageError(
            f"--{tls[0].replace('_', '-')} goes with --scheduler only: a cluster on this machine "
            f"makes its own certificates."
        )
    if chosen["scheduler"] is not None and chosen["workers"] is not None:
        raise click.UsageError(
            "--workers does not go with --scheduler: a cluster that runs already has its workers."
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
