"""Options that say where a run is done."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trajcloak.cli.common import PATH
from trajcloak.errors import OptionError

if TYPE_CHECKING:
    from trajcloak.engines.engine import Engine

F = TypeVar("F", bound=Callable[..., Any])

LOCAL, DASK = "local", "dask"
ENGINE_OPTIONS = ("engine", "scheduler", "workers", "tls_ca", "tls_cert", "tls_key", "scratch")
MOMENT = 0.01
"""Seconds until an interruption that Python dropped is raised again."""


def engine_options(function: F) -> F:
    """Add the options that say where a run is done."""
    for option in (
        click.option(
            "--scratch",
            type=PATH,
            metavar="DIR",
            help="Folder that client and workers share, as private as the log, in which workers "
            "keep what they hand on; removed at the end.  [default: beside the release]",
        ),
        click.option("--tls-key", type=PATH, help="Private key of --tls-cert."),
        click.option("--tls-cert", type=PATH, help="Certificate to show to the scheduler."),
        click.option(
            "--tls-ca",
            type=PATH,
            help="Certificate of the authority that the scheduler's is checked with.  [default: "
            "as dask is configured]",
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            help="Processes to start without --scheduler.  [default: one for each core]",
        ),
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="Scheduler of a cluster, such as tls://host:8786.  [default: processes on this "
            "machine]",
        ),
        click.option(
            "--engine",
            default=LOCAL,
            show_default=True,
            type=click.Choice([LOCAL, DASK]),
            metavar="NAME",
            help="Where to work: local (this process) or dask (a cluster; Parquet logs only).",
        ),
    ):
        function = option(function)
    return function


@contextmanager
def open_engine(
    engine: str,
    scheduler: str | None,
    workers: int | None,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    scratch: Path | None,
    *,
    beside: Path,
) -> "Iterator[Engine | None]":
    """Connect to what the options name; None: this process.

    ``beside``: what the scratch folder stands beside if no other place is named.
    """
    given = {
        "--scheduler": scheduler,
        "--workers": workers,
        "--tls-ca": tls_ca,
        "--tls-cert": tls_cert,
        "--tls-key": tls_key,
        "--scratch": scratch,
    }
    named = [name for name, value in given.items() if value is not None]
    if engine == LOCAL:
        if named:
            raise OptionError(
                f"{named[0]} is given, and the engine is local; expected it with a cluster only; "
                f"pass --engine dask, or leave it out"
            )
        yield None
        return
    if scheduler is None and any(name.startswith("--tls") for name in named):
        raise OptionError(
            "certificates are given, and no scheduler; expected the address of one: a cluster on "
            "this machine makes its own certificates; pass --scheduler, or leave them out"
        )
    if scheduler is not None and workers is not None:
        raise OptionError(
            "both --scheduler and --workers are given; expected one of them: a cluster that runs "
            "already has its workers; leave one out"
        )
    from trajcloak.engines.clusters import open_dask

    tls = tls_ca, tls_cert, tls_key
    with (
        _interrupted_if_terminated(),
        open_dask(scratch or beside.parent, scheduler, workers, tls) as opened,
    ):
        yield opened


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
