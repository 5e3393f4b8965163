"""The progress of a command: bars on a terminal, and how long a stage will still take."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trajcloak.cli.common import err
from trajcloak.progress import Progress as Listener
from trajcloak.progress_bars import draw_bars

SOON = 1.0
"""Seconds after the first step of a stage from which on its end is foreseen by the other steps."""

LATER = 5.0
"""Seconds of a stage after which its end is foreseen by all steps: the first may have compiled."""

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
        self._marks: dict[str, list[tuple[float, int]]] = {}
        self._told: set[str] = set()

    def ask(self, stage: str, done: int, total: int) -> int | None:
        """Compute the minutes that are left; None if they are few, unknown, or told already."""
        now = self._clock()
        marks = self._marks.setdefault(stage, [(now, done)])
        if done <= marks[0][1]:
            # The stage begins, or begins again in the next window.
            self._marks[stage] = [(now, done)]
            return None
        if len(marks) == 1:
            marks.append((now, done))
        for (start, first), enough in zip(reversed(marks), (SOON, LATER), strict=True):
            passed = now - start
            if passed >= enough and done > first:
                left = passed * (total - done) / (done - first)
                if stage in self._told or left < LONG:
                    return None
                self._told.add(stage)
                return round(left / 60)
        return None


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
