"""What the plan asks of an engine: to hold the shards, and to call functions on them.

A *shard* holds all rows of some users, or something derived from them. The plan in
:mod:`trajcloak.pipeline` needs three verbs: *ask* for a small answer about each shard,
*derive* new shards from shards, and *shuffle* pieces from all shards to all others. Engines
differ in where shards wait between two stages, and in who calls the functions.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from trajcloak.errors import OptionError
from trajcloak.kernels.threads import choose_threads, run_all
from trajcloak.progress import Progress, silent

Handle: TypeAlias = Any
"""Reference to a value in memory or in a scratch file."""

Job: TypeAlias = tuple[Any, ...]
"""Arguments of a call. Handles among them, or in lists among them, are replaced by their values."""

Function: TypeAlias = Callable[..., Any]

WriteFiles: TypeAlias = Callable[[Path, Sequence[Path]], None]
"""Writes a release and its private files."""

WRITING = "writing release"


@dataclass(frozen=True)
class Sizes:
    """How much one call works on at a time. Sizes change time and memory, not the release.

    ``refined`` is the exception: a window of several blocks is bundled block by block, and
    the manifest says so.
    """

    rows: int  # Rows of the log in a shard.
    # Users times instants in a run of windows, or in a part of a window that is taken apart.
    cells: int
    # Least number of bundles of k users in a block of ``refined``, however long the window is:
    # bundles cannot reach across the edges of a block.
    bundles: int = 400
    # Users times instants of a window that is bundled whole, at most.
    window_cells: int = sys.maxsize

    @property
    def is_whole(self) -> bool:
        """Whether the log is one shard, whatever its size."""
        return self.rows == sys.maxsize


class Engine(ABC):
    """Holds shards, and calls functions on them.

    Functions are pure, so that a call whose worker is lost can be repeated.

    Attributes
    ----------
    threads : int
        How many threads a function may use.
    progress : callable
        Listener for the stages of the plan.
    inner_progress : callable
        Listener that is passed into functions; silent where they run in other processes.
    """

    threads = 1

    def __init__(self, progress: Progress = silent) -> None:
        self.progress = progress
        self.inner_progress: Progress = silent

    @property
    def parallel(self) -> int:
        """How many calls run side by side."""
        return 1

    @abstractmethod
    def choose_sizes(self, num_rows: int) -> Sizes:
        """Choose how much a call works on for a log of so many rows."""

    def close(self) -> None:  # noqa: B027
        """Free everything that the engine holds."""

    @abstractmethod
    def put(self, value: Any) -> Handle:
        """Store a value that many jobs share, so that it is not sent with each of them."""

    @abstractmethod
    def ask(self, function: Function, jobs: Sequence[Job], label: str | None = None) -> list[Any]:
        """Call ``function(*job)`` for each job and return the values, which must be small.

        ``label`` names the stage for progress.
        """

    @abstractmethod
    def derive(
        self, function: Function, jobs: Sequence[Job], label: str | None = None
    ) -> Sequence[Handle]:
        """Call ``function(*job)`` for each job and return handles of the values.

        The sequence as a whole is a handle of the list of values.
        """

    @abstractmethod
    def shuffle(
        self, function: Function, jobs: Sequence[Job], parts: int, label: str | None = None
    ) -> list[Sequence[Handle]]:
        """Call a generator that yields, once or more often, a list of ``parts`` pieces.

        Returns, of each part, a handle of the list of its pieces from all jobs.
        """

    def store_frame(self, frame: Any, convert: Callable[[Any], Any]) -> Sequence[Handle]:
        """Store the partitions of a dask DataFrame, each converted by a function."""
        raise OptionError(
            "the log is a dask DataFrame; expected a cluster to work on; pass --engine, a "
            "distributed.Client"
        )

    def collect(self, handles: Sequence[Handle]) -> list[Any]:
        """Read values that are small, such as those that a shuffle yields beside large ones."""
        return list(self.read(handles))

    @abstractmethod
    def read(self, handle: Handle) -> Any:
        """Read a value."""

    @abstractmethod
    def drop(self, handles: Sequence[Handle]) -> None:
        """Free the values of a stage, which nobody needs any more."""

    def publish(self, write: WriteFiles, release: Path, private: Sequence[Path]) -> None:
        """Have a release and private files written: all appear complete, or none."""
        write(release, private)


WHOLE = Sizes(sys.maxsize, sys.maxsize)


class MemoryEngine(Engine):
    """Calls functions in threads; a handle is the value itself.

    By default all cores are used, and the whole log is one shard.
    """

    def __init__(
        self, threads: int | None = None, progress: Progress = silent, sizes: Sizes = WHOLE
    ) -> None:
        super().__init__(progress)
        self.inner_progress = progress
        self.threads = choose_threads(threads)
        self._sizes = sizes

    def choose_sizes(self, num_rows: int) -> Sizes:
        return self._sizes

    def put(self, value: Any) -> Handle:
        return value

    def ask(self, function: Function, jobs: Sequence[Job], label: str | None = None) -> list[Any]:
        return run_all(function, jobs, self.threads)

    derive = ask

    def shuffle(
        self, function: Function, jobs: Sequence[Job], parts: int, label: str | None = None
    ) -> list[Sequence[Handle]]:
        chunks = [chunk for job in jobs for chunk in function(*job)]
        return [[chunk[part] for chunk in chunks] for part in range(parts)]

    def read(self, handle: Handle) -> Any:
        return handle

    def drop(self, handles: Sequence[Handle]) -> None:
        if isinstance(handles, list):
            handles.clear()
