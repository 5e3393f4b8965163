"""Which kernels are being compiled, and how long that takes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core.event import Event, Listener, install_listener


class Compilation(Listener):
    """Follows the compiler, which works in one thread at a time.

    A kernel is done after all kernels that it calls, so these are nested. ``seconds`` is the time
    spent so far, from start to end of the outermost kernels.
    """

    def __init__(self, on_kernel: Callable[[str | None], None]) -> None:
        self.seconds = 0.0
        self._on_kernel = on_kernel
        self._names: list[str] = []
        self._started = 0.0

    def on_start(self, event: Event) -> None:
        """Remember the kernel, and name it."""
        if not self._names:
            self._started = time.monotonic()
        self._names.append(event.data["dispatcher"].py_func.__name__)
        self._on_kernel(self._names[-1])

    def on_end(self, event: Event) -> None:
        """Name the kernel that is compiled on, or none."""
        self._names.pop()
        if not self._names:
            self.seconds += time.monotonic() - self._started
        self._on_kernel(self._names[-1] if self._names else None)


@contextmanager
def follow_compilation(
    on_kernel: Callable[[str | None], None] = lambda name: None,
) -> Iterator[Compilation]:
    """Call ``on_kernel`` with the name of each kernel that is compiled, and with None after it.

    Kernels that are read from the cache on disk are not compiled.
    """
    with install_listener("numba:compile", Compilation(on_kernel)) as compilation:
        yield compilation
