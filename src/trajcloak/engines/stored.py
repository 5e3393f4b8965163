"""What engines share whose shards wait in files: the folder engine, dask and Spark.

Such an engine only has to run calls, see :meth:`StoredEngine.run_calls`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajcloak.engines.engine import Handle, Job, Sizes
from trajcloak.engines.shard_files import Piece, Pieces, explained, remove_folder, write_chunks
from trajcloak.progress import Progress, silent

SHARD_ROWS = 1 << 22
RUN_CELLS = 1 << 22
MAX_SHARDS = 1 << 11
"""Shards exchange as many pieces as there are pairs of them, so very large logs get larger ones."""


@dataclass(frozen=True)
class Call:
    """A call of a function.

    Attributes
    ----------
    function : callable
    job : tuple
        Its arguments. Handles among them are read just before the call.
    """

    function: Callable[..., Any]
    job: Job

    def run(self) -> Any:
        """Call the function."""
        return self.function(*map(read_handles, self.job))


@dataclass(frozen=True)
class StoringCall(Call):
    """A call whose value is written to a file.

    Attributes
    ----------
    path : Path
    is_generator : bool
        Whether the function yields chunks of pieces. Otherwise its value is the only piece.
    synced : bool
        As :func:`trajcloak.engines.shard_files.write_chunks` takes it.
    """

    path: Path
    is_generator: bool
    synced: bool = False

    def run(self) -> None:
        """Call the function and write what it returns or yields."""
        value = super().run()
        write_chunks(value if self.is_generator else [[value]], self.path, synced=self.synced)


def read_handles(argument: Any) -> Any:
    """Replace handles by their values, also in lists."""
    if isinstance(argument, Piece | Pieces):
        return argument.read()
    return [read_handles(item) for item in argument] if isinstance(argument, list) else argument


class StoredEngine(ABC):
    """Base of the engines whose shards wait in files.

    A process holds what its running function needs, and nothing else. Each stage ends before
    the next one begins.

    Parameters
    ----------
    folder
        Private folder for the files.
    progress
        Called as work is done.
    sizes
        Default: such that a call needs some hundred megabytes.
    """

    synced = False
    """Whether files must survive a machine that goes down."""

    def __init__(
        self, folder: Path, progress: Progress = silent, sizes: Sizes | None = None
    ) -> None:
        self.folder = folder
        self.progress = progress
        self.inner_progress: Progress = silent
        self._sizes = sizes
        self._num_stages = 0

    @property
    def threads(self) -> int:
        """One for each function: several run side by side."""
        return 1

    @property
    @abstractmethod
    def parallel(self) -> int:
        """See :class:`trajcloak.engines.engine.Engine`."""

    @abstractmethod
    def run_calls(self, calls: Sequence[Call], stage: Path, label: str | None) -> list[Any]:
        """Run calls in any order and return their values, or raise the error of the first."""

    def choose_sizes(self, num_rows: int) -> Sizes:
        """See :class:`trajcloak.engines.engine.Engine`."""
        if self._sizes is not None:
            return self._sizes
        num_shards = max(1, -(-num_rows // SHARD_ROWS))
        if num_shards > 1:
            # Workers that share the shards evenly end at the same time.
            num_shards = -(-num_shards // self.parallel) * self.parallel
        rows = -(-num_rows // min(MAX_SHARDS, num_shards))
        return Sizes(max(1, rows), max(RUN_CELLS, rows))

    @abstractmethod
    def close(self) -> None:
        """See :class:`trajcloak.engines.engine.Engine`."""

    def put(self, value: Any) -> Piece:
        """See :class:`trajcloak.engines.engine.Engine`."""
        stage = self._new_stage("put")
        write_chunks([[value]], stage / "0", synced=self.synced)
        return Piece(stage, 0, 0)

    def ask(
        self, function: Callable[..., Any], jobs: Sequence[Job], label: str | None = None
    ) -> list[Any]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        stage = self._name_stage(function.__name__)
        return self.run_calls([Call(function, job) for job in jobs], stage, label)

    def derive(
        self, function: Callable[..., Any], jobs: Sequence[Job], label: str | None = None
    ) -> Sequence[Handle]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return Pieces(self._store(function, jobs, label, is_generator=False), len(jobs), 0)

    def shuffle(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Job],
        parts: int,
        label: str | None = None,
    ) -> list[Sequence[Handle]]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        stage = self._store(function, jobs, label, is_generator=True)
        return [Pieces(stage, len(jobs), part) for part in range(parts)]

    def collect(self, handles: Sequence[Handle]) -> list[Any]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return list(self.read(handles))

    def read(self, handle: Handle) -> Any:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return read_handles(handle)

    def drop(self, handles: Sequence[Handle]) -> None:
        """See :class:`trajcloak.engines.engine.Engine`."""
        for stage in {handle.stage for handle in handles}:
            remove_folder(stage)

    def publish(
        self,
        write: Callable[[Path, Sequence[Path]], None],
        release: Path,
        private: Sequence[Path],
    ) -> None:
        """See :class:`trajcloak.engines.engine.Engine`."""
        write(release, private)

    def _store(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Job],
        label: str | None,
        *,
        is_generator: bool,
    ) -> Path:
        stage = self._new_stage(function.__name__)
        calls = [
            StoringCall(function, job, stage / str(i), is_generator, self.synced)
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
