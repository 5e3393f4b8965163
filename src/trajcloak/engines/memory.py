"""The plan in this process, with all shards in memory: one shard, unless sizes say otherwise."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from trajcloak.engines.engine import Engine, Handle, Job, Sizes
from trajcloak.kernels.threads import choose_threads, run_all
from trajcloak.progress import Progress, silent

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
        """See :class:`trajcloak.engines.engine.Engine`."""
        return self._sizes

    def put(self, value: Any) -> Handle:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return value

    def ask(
        self, function: Callable[..., Any], jobs: Sequence[Job], label: str | None = None
    ) -> list[Any]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return run_all(function, jobs, self.threads)

    derive = ask

    def shuffle(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Job],
        parts: int,
        label: str | None = None,
    ) -> list[Sequence[Handle]]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        chunks = [chunk for job in jobs for chunk in function(*job)]
        return [[chunk[part] for chunk in chunks] for part in range(parts)]

    def read(self, handle: Handle) -> Any:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return handle

    def drop(self, handles: Sequence[Handle]) -> None:
        """See :class:`trajcloak.engines.engine.Engine`."""
        if isinstance(handles, list):
            handles.clear()
