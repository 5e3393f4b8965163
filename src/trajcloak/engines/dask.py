"""The plan on a cluster of dask's: workers exchange values through files."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from trajcloak.engines.engine import Handle, Job
from trajcloak.engines.scratch import Piece, Pieces, Scratch, Stage, write_pieces
from trajcloak.engines.sources import Part, Source
from trajcloak.errors import OptionError
from trajcloak.log.frames import to_table

Client: TypeAlias = Any
"""A ``distributed.Client``."""


@dataclass(frozen=True)
class Failed:
    """What a call returns that did not end well.

    An exception that leaves a function would be logged by the worker together with the
    function's arguments, which hold users and places (invariant 6 of ``docs/guarantee.md``).
    """

    error: Exception


@dataclass(frozen=True)
class Call:
    """A call of a function on a worker.

    Attributes
    ----------
    function : callable
    job : tuple
        Its arguments; handles among them are read just before the call.
    """

    function: Callable[..., Any]
    job: Job

    def make(self, *more: Any) -> Any:
        """Call the function; further arguments come last."""
        return self.function(*map(_read, self.job), *more)


@dataclass(frozen=True)
class Storing:
    """A call whose value is written to a file.

    Attributes
    ----------
    call : Call
    stage : Stage
    number : int
        Of the job in its stage.
    is_cut : bool
        Whether the value is a sequence of pieces; otherwise it is the only piece.
    """

    call: Call
    stage: Stage
    number: int
    is_cut: bool

    def make(self, *more: Any) -> None:
        """Call the function, and write what it returns."""
        value = self.call.make(*more)
        write_pieces(value if self.is_cut else [value], self.stage.get_file(self.number))


class DaskEngine:
    """Runs functions on the workers of a cluster; values wait in files.

    A worker holds what its running function needs, and nothing else: a worker that is lost
    takes no value with it, and only what it was just doing is done again. Each stage ends
    before the next one begins, so that the scheduler knows neither values nor what depends
    on what.

    Parameters
    ----------
    client
        Connected to the cluster. The workers see the files of the log, the folder of the
        release and the scratch folder under the same paths as the client.
    scratch
        Where values wait.
    """

    def __init__(self, client: Client, scratch: Scratch) -> None:
        self.client = client
        self.scratch = scratch

    @property
    def threads(self) -> int:
        """One for each function: a worker runs as many at once as it has threads."""
        return 1

    def put(self, value: Any) -> Piece:
        """See :class:`trajcloak.engines.engine.Engine`."""
        stage = self.scratch.new_stage()
        write_pieces([value], stage.get_file(0))
        return Piece(stage, 0, 0)

    def run(self, function: Callable[..., Any], jobs: Sequence[Job]) -> Pieces:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return Pieces(self._store(function, jobs, is_cut=False), len(jobs), 0)

    def exchange(
        self, function: Callable[..., Sequence[Any]], jobs: Sequence[Job], parts: int
    ) -> list[Sequence[Handle]]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        stage = self._store(function, jobs, is_cut=True)
        return [Pieces(stage, len(jobs), part) for part in range(parts)]

    def ask(self, function: Callable[..., Any], jobs: Sequence[Job]) -> list[Any]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return self._map(function.__name__, [Call(function, job) for job in jobs])

    def store_delayed(self, function: Callable[[Any], Any], values: Sequence[Any]) -> Pieces:
        """Call a function on values that are delayed, each of which is let go of after that."""
        from dask.delayed import delayed

        stage = self.scratch.new_stage()
        make = delayed(_make, pure=False)
        calls = [Storing(Call(function, ()), stage, i, is_cut=False) for i in range(len(values))]
        self._finish(
            self.client.compute(
                [make(call, value) for call, value in zip(calls, values, strict=True)]
            )
        )
        return Pieces(stage, len(values), 0)

    def _store(self, function: Callable[..., Any], jobs: Sequence[Job], *, is_cut: bool) -> Stage:
        stage = self.scratch.new_stage()
        calls = [Storing(Call(function, job), stage, i, is_cut) for i, job in enumerate(jobs)]
        self._map(function.__name__, calls)
        return stage

    def _map(self, name: str, calls: Sequence[Call | Storing]) -> list[Any]:
        return self._finish(self.client.map(_make, calls, pure=False, key=name))

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
        for value in values:
            if isinstance(value, Failed):
                raise value.error
        return values


def _make(call: Call | Storing, *more: Any) -> Any:
    """Make a call on a worker."""
    try:
        return call.make(*more)
    except Exception as error:
        return Failed(error)


def _read(argument: Any) -> Any:
    """Read the values that handles stand for."""
    if isinstance(argument, Piece | Pieces):
        return argument.read()
    return [_read(item) for item in argument] if isinstance(argument, list) else argument


def choose_scratch(client: Client) -> Path:
    """Choose where values wait: on a cluster of this machine, in its folder for such files.

    Raises
    ------
    OptionError
        If the workers may be on other machines.
    """
    from distributed import LocalCluster

    if isinstance(client.cluster, LocalCluster):
        return Path(tempfile.gettempdir())
    raise OptionError(
        "no scratch folder is given, and the workers may be on other machines; expected a folder "
        "that client and workers share, as private as the log; pass scratch"
    )


def open_frame(engine: DaskEngine, frame: Any) -> Source:
    """Take the partitions of a dask DataFrame as the parts of a log."""
    tables = engine.store_delayed(to_table, frame.to_delayed())
    counts = engine.ask(len, [(part,) for part in tables])
    parts = zip(tables, accumulate([0, *counts]), counts, strict=False)
    return Source(
        name="the table",
        parts=[Part(*part) for part in parts],
        head=to_table(frame._meta),
    )
