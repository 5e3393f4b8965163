"""What engines share whose shards wait in files: the folder engine, dask and Spark.

Such an engine only has to run calls, see :meth:`StoredEngine.run_calls`. On workers, calls must
not log what they work on, see :class:`Failed`.
"""

import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajcloak.engines.engine import Engine, Function, Handle, Job, Sizes
from trajcloak.engines.shard_files import (
    Piece,
    Pieces,
    Scratch,
    explained,
    remove_folder,
    write_chunks,
)
from trajcloak.errors import OptionError
from trajcloak.progress import Progress, silent

SHARD_ROWS = 1 << 22
RUN_CELLS = 1 << 22
MAX_SHARDS = 1 << 11
"""Shards exchange as many pieces as there are pairs of them, so very large logs get larger ones."""

KEPT_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
}
"""Has the C library keep freed memory, which workers need again for the next call.

Fresh memory has to be found and cleared first. Dask asks for the opposite, for workers that
hold values. Variables that are set already count more than either.
"""


@dataclass(frozen=True)
class Call:
    """A call of a function, whose value is returned, or written to a file."""

    function: Function
    job: Job  # Its arguments. Handles among them are read just before the call.
    path: Path | None = None
    # Whether the function yields chunks of pieces. Otherwise its value is the only piece.
    is_generator: bool = False
    synced: bool = False  # As :func:`trajcloak.engines.shard_files.write_chunks` takes it.

    def run(self) -> Any:
        """Call the function."""
        value = self.function(*map(read_handles, self.job))
        if self.path is None:
            return value
        write_chunks(value if self.is_generator else [[value]], self.path, synced=self.synced)
        return None


def read_handles(argument: Any) -> Any:
    """Replace handles by their values, also in lists."""
    if isinstance(argument, Piece | Pieces):
        return argument.read()
    return [read_handles(item) for item in argument] if isinstance(argument, list) else argument


@dataclass(frozen=True)
class Failed:
    """What a call returns that did not end well.

    An exception that leaves a function would be logged by the worker together with the
    function's arguments, which hold users and places (invariant 6 of ``docs/guarantee.md``).
    """

    error: Exception


def run_on_worker(call: Call) -> Any:
    """Run a call on a worker; an error is returned, not raised."""
    try:
        return call.run()
    except Exception as error:
        return Failed(error)


def raise_failed(values: list[Any]) -> list[Any]:
    """Raise the error of the first call that failed; otherwise return all values."""
    for value in values:
        if isinstance(value, Failed):
            raise value.error
    return values


class StoredEngine(Engine):
    """Base of the engines whose shards wait in files.

    A process holds what its running function needs, and nothing else. Each stage ends before
    the next one begins. A worker that is lost takes no shard with it: only the call that it was
    running is repeated. Workers see the files of the log and the folder under the same paths as
    the client.

    ``folder`` is private; a :class:`Scratch` is removed with the engine. Sizes are such that a call
    needs some hundred megabytes.
    """

    synced = False
    """Whether files must survive a machine that goes down."""

    _sizes: Sizes | None = None
    """Taken instead of those that would be chosen."""

    def __init__(self, folder: Path | Scratch, progress: Progress = silent) -> None:
        super().__init__(progress)
        self._scratch = folder if isinstance(folder, Scratch) else None
        self.folder = folder.folder if isinstance(folder, Scratch) else folder
        self._num_stages = 0

    @abstractmethod
    def run_calls(self, calls: Sequence[Call], stage: Path, label: str | None) -> list[Any]:
        """Run calls in any order and return their values, or raise the error of the first."""

    def choose_sizes(self, num_rows: int) -> Sizes:
        if self._sizes is not None:
            return self._sizes
        num_shards = max(1, -(-num_rows // SHARD_ROWS))
        if num_shards > 1:
            # Workers that share the shards evenly end at the same time.
            num_shards = -(-num_shards // self.parallel) * self.parallel
        rows = -(-num_rows // min(MAX_SHARDS, num_shards))
        return Sizes(max(1, rows), max(RUN_CELLS, rows))

    def close(self) -> None:
        """Remove the scratch folder."""
        if self._scratch is not None:
            self._scratch.close()

    def put(self, value: Any) -> Piece:
        stage = self._new_stage("put")
        write_chunks([[value]], stage / "0", synced=self.synced)
        return Piece(stage, 0, 0)

    def ask(self, function: Function, jobs: Sequence[Job], label: str | None = None) -> list[Any]:
        stage = self._name_stage(function.__name__)
        return self.run_calls([Call(function, job) for job in jobs], stage, label)

    def derive(
        self, function: Function, jobs: Sequence[Job], label: str | None = None
    ) -> Sequence[Handle]:
        return Pieces(self._store(function, jobs, label, is_generator=False), len(jobs), 0)

    def shuffle(
        self, function: Function, jobs: Sequence[Job], parts: int, label: str | None = None
    ) -> list[Sequence[Handle]]:
        stage = self._store(function, jobs, label, is_generator=True)
        return [Pieces(stage, len(jobs), part) for part in range(parts)]

    def read(self, handle: Handle) -> Any:
        return read_handles(handle)

    def drop(self, handles: Sequence[Handle]) -> None:
        """Remove files while the plan goes on."""
        for stage in {handle.stage for handle in handles}:
            remove_folder(stage, waits=False)

    def _store(
        self, function: Function, jobs: Sequence[Job], label: str | None, *, is_generator: bool
    ) -> Path:
        stage = self._new_stage(function.__name__)
        calls = [
            Call(function, job, stage / str(i), is_generator, self.synced)
            for i, job in enumerate(jobs)
        ]
        self.run_calls(calls, stage, label)
        return stage

    def _name_stage(self, name: str) -> Path:
        """Name the next stage. A run that is repeated names its stages alike."""
        self._num_stages += 1
        return self.folder / f"{self._num_stages:04}-{name}"

    def _new_stage(self, name: str) -> Path:
        stage = self._name_stage(name)
        with explained(stage):
            stage.mkdir(exist_ok=True)
        return stage


def make_scratch(parent: str | Path | None, *, is_local: bool) -> Scratch:
    """Make a scratch folder: by default a temporary one, if all workers are on this machine."""
    if parent is None and not is_local:
        raise OptionError(
            "no scratch folder is given, and the workers may be on other machines; expected a "
            "folder that client and workers share, as private as the log; pass scratch"
        )
    return Scratch(Path(parent or tempfile.gettempdir()))
