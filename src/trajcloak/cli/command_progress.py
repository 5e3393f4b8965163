"""The progress of a command: bars on a terminal, and how long a stage will still take."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trajcloak.cli.common import err
from trajcloak.progress import Progress as Listener
from trajcloak.progress_bars import draw_bars

SOON = 5.0
"""Seconds of a stage after which its end is foreseen."""

LONG = 120.0
"""Seconds that are worth a word in advance."""


class Forecast:
    """Foresees, once for each stage, how long it will still take, if that is minutes.

    Parameters
    ----------
    clock
        Tells the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._starts: dict[str, tuple[float, int]] = {}
        self._told: set[str] = set()

    def ask(self, stage: str, done: int, total: int) -> int | None:
        """Compute the minutes that are left; None if they are few, unknown, or told already."""
        now = self._clock()
        start, first = self._starts.get(stage, (now, done))
        if done <= first:
            # The stage begins, or begins again in the next window.
            self._starts[stage] = now, done
            return None
        passed = now - start
        left = passed * (total - done) / (done - first)
        if stage in self._told or passed < SOON or left < LONG:
            return None
        self._told.add(stage)
        return round(left / 60)


@contextmanager
def progress_bars(*, hidden: bool = False, transient: bool = False) -> Iterator[Listener]:
    """Draw a bar per stage on a terminal; yields the function that moves them.

    Also says, on a terminal or not, if a stage will take minutes. ``transient`` bars are taken
    away when all is done.
    """
    is_shown = err.is_terminal and not hidden
    forecast = Forecast()
    with draw_bars(err, disable=not is_shown, transient=transient) as draw:

        def listen(stage: str, done: int, total: int) -> None:
            name = stage.partition(",")[0]
            minutes = forecast.ask(name, done, total)
            if minutes is not None and not hidden:
                err.print(f"{name[:1].upper()}{name[1:]} will take about {minutes:,} more minutes.")
            draw(stage, done, total)

        yield listen
