"""What dask and Spark share: calls on workers that must not log what they work on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajcloak.engines.engine import Handle, Sizes
from trajcloak.engines.shard_files import Scratch, remove_folder
from trajcloak.engines.stored import Call, StoredEngine
from trajcloak.errors import OptionError
from trajcloak.progress import Progress, silent

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


class WorkersEngine(StoredEngine):
    """Base of the engines whose calls run on workers.

    A worker that is lost takes no shard with it: only the call that it was running is repeated.
    The workers see the files of the log and the scratch folder under the same paths as the
    client.

    Parameters
    ----------
    scratch
        Where shards wait.
    progress
        Called as work is done.
    sizes
        Default: such that a call needs some hundred megabytes.
    """

    def __init__(
        self, scratch: Scratch, progress: Progress = silent, sizes: Sizes | None = None
    ) -> None:
        super().__init__(scratch.folder, progress, sizes)
        self.scratch = scratch

    def drop(self, handles: Sequence[Handle]) -> None:
        """Remove files while the plan goes on."""
        for stage in {handle.stage for handle in handles}:
            remove_folder(stage, waits=False)

    def close(self) -> None:
        """Remove the scratch folder."""
        self.scratch.close()


def choose_parent(scratch: str | Path | None, default: Path | None) -> Path:
    """Choose the folder in which the scratch folder is made.

    ``default`` is None where workers may be on other machines.

    Raises
    ------
    OptionError
        If none is given, and there is no default.
    """
    if scratch is not None:
        return Path(scratch)
    if default is not None:
        return default
    raise OptionError(
        "no scratch folder is given, and the workers may be on other machines; expected a folder "
        "that client and workers share, as private as the log; pass scratch"
    )
