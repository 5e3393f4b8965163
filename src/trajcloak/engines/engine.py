"""What the plan asks of an engine."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

Handle: TypeAlias = Any
"""A value that is somewhere: in this process, or in a file."""

Job: TypeAlias = tuple[Any, ...]
"""Arguments of a function; handles among them, or in lists among them, stand for their values."""


class Engine(Protocol):
    """Runs functions on values that stay where they are.

    Functions are pure: one whose worker is lost is called again.
    """

    @property
    def threads(self) -> int:
        """How many threads a function may use."""

    def put(self, value: Any) -> Handle:
        """Hand over a value that many jobs need; otherwise each would carry it along."""

    def run(self, function: Callable[..., Any], jobs: Sequence[Job]) -> Sequence[Handle]:
        """Call ``function(*job)`` for each job; returns handles of the values.

        The sequence as a whole is a handle, too: of the list of the values.
        """

    def exchange(
        self, function: Callable[..., Sequence[Any]], jobs: Sequence[Job], parts: int
    ) -> list[Sequence[Handle]]:
        """Call a function that returns ``parts`` pieces for each job.

        Returns, of each part, the piece of each job: what workers exchange.
        """

    def ask(self, function: Callable[..., Any], jobs: Sequence[Job]) -> list[Any]:
        """Call ``function(*job)`` for each job, and fetch the values, which are to be small."""


def fetch(engine: Engine, handles: Sequence[Handle]) -> list[Any]:
    """Fetch values, which are to be small."""
    return engine.ask(_get, [(handle,) for handle in handles])


def _get(value: Any) -> Any:
    return value
