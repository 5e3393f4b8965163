"""The plan in this process, job after job in a few threads."""

from collections.abc import Callable, Sequence
from typing import Any

from trajcloak.engines.engine import Handle, Job
from trajcloak.kernels.threads import run_all


class LocalEngine:
    """Runs functions in threads of this process; a handle is the value itself.

    Parameters
    ----------
    threads
        How many functions run at once.
    """

    def __init__(self, threads: int = 1) -> None:
        self._jobs_at_once = threads

    @property
    def threads(self) -> int:
        """One for each function, since several run at once."""
        return 1

    def put(self, value: Any) -> Handle:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return value

    def run(self, function: Callable[..., Any], jobs: Sequence[Job]) -> list[Handle]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return run_all(function, jobs, self._jobs_at_once)

    def exchange(
        self, function: Callable[..., Sequence[Any]], jobs: Sequence[Job], parts: int
    ) -> list[Sequence[Handle]]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        pieces = self.run(function, jobs)
        return [[of_job[part] for of_job in pieces] for part in range(parts)]

    def ask(self, function: Callable[..., Any], jobs: Sequence[Job]) -> list[Any]:
        """See :class:`trajcloak.engines.engine.Engine`."""
        return self.run(function, jobs)
