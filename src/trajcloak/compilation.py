"""Which kernels are being compiled, and how long that takes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core.event import Event, Listener, install_listener

STAGE = "compiling, once per installation"


class Compilation(Listener):
    """Follows the compiler, which works in one thread at a time.

    A kernel is done after all kernels that it calls, so these are nested. ``seconds`` is the time
    spent so far, from start to end of the outermost kernels.
    """

    def __init__(self, listen: Callable[[str, int, int], None]) -> None:
        self.seconds = 0.0
        self._listen = listen
        self._running: list[str] = []
        self._names: set[str] = set()
        self._started = 0.0

    def on_start(self, event: Event) -> None:
        """Name the kernel."""
        if not self._running:
            self._started = time.monotonic()
        self._running.append(event.data["dispatcher"].py_func.__name__)
        self._names.add(self._running[-1])
        self._listen(f"{STAGE}: {self._running[-1]}", len(self._names), 0)

    def on_end(self, event: Event) -> None:
        """Name the kernel whose compilation goes on, or say how many kernels there were."""
        self._running.pop()
        num_kernels = len(self._names)
        if self._running:
            self._listen(f"{STAGE}: {self._running[-1]}", num_kernels, 0)
        else:
            self.seconds += time.monotonic() - self._started
            self._listen(f"{STAGE}: {num_kernels} kernels", num_kernels, num_kernels)


@contextmanager
def follow_compilation(
    listen: Callable[[str, int, int], None] = lambda *_: None,
) -> Iterator[Compilation]:
    """Report each kernel that is compiled, not read from the cache; see ``progress``."""
    with install_listener("numba:compile", Compilation(listen)) as compilation:
        yield compilation
