"""What the plan asks of an engine."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

Handle: TypeAlias = Any
"""A value that is, or will be, somewhere: in this process, or on a worker."""

Job: TypeAlias = tuple[Any, ...]
"""Arguments of a function; handles among them, or in lists among them, stand for their values."""


class Engine(Protocol):
    """Runs functions on values that stay where they are.

    Functions are pure: a value that is lost is computed again.
    """

    @property
    def threads(self) -> int:
        """How many threads a function may use."""

    def run(self, function: Callable[..., Any], jobs: Sequence[Job]) -> list[Handle]:
        """Call ``function(*job)`` for each job; the values stay with the workers."""

    def exchange(
        self, function: Callable[..., Sequence[Any]], jobs: Sequence[Job], parts: int
    ) -> list[list[Handle]]:
        """Call a function that returns ``parts`` pieces for each job.

        Returns, of each part, the piece of each job: what workers exchange.
        """

    def gather(self, handles: Sequence[Handle]) -> list[Any]:
        """Fetch values, which are to be small."""
