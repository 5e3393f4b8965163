"""How long-running stages report their progress, and bars of it.

A stage calls ``progress(stage, done, total)``; the listener decides what to show.
The library is silent by default; the command line draws bars.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the stage's name, the work done so far and the whole work.

``total`` is 0 if it is not known in advance. ``done == total`` ends the stage. Text
after a comma in the name is not part of the name, but a detail to show.
"""

Heard: TypeAlias = bool | Progress
"""How callers in Python hear of progress: True shows bars; or a function of theirs is called."""


def silent(stage: str, done: int, total: int) -> None:
    """Ignore all progress; the default listener."""


@contextmanager
def draw_bars(
    console: "Console", *, disable: bool = False, transient: bool = False
) -> Iterator[Progress]:
    """Draw a bar per stage, on a terminal or in a notebook; yields the function that moves them.

    Kernels that are compiled are stages, too. ``transient`` bars are taken away at the end.
    """
    if disable:
        yield silent
        return
    # Here, since only bars take rich and the compiler.
    from rich import progress as rich

    from trajcloak.compilation import follow_compilation

    bars = rich.Progress(
        rich.SpinnerColumn(finished_text="[green]✓"),
        rich.TextColumn("{task.description}"),
        rich.BarColumn(bar_width=30),
        rich.TaskProgressColumn(),
        rich.TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        transient=transient,
    )
    tasks: dict[str, rich.Task] = {}

    def listen(stage: str, done: int, total: int) -> None:
        name = stage.partition(",")[0]
        if name not in tasks:
            bars.add_task(stage, total=total or None)
            tasks[name] = bars.tasks[-1]
        task = tasks[name]
        if done < total or not total:
            # The stage begins again in the next window.
            task.finished_time = None
        task.total = total or None
        bars.update(task.id, description=stage, completed=done)

    with bars, follow_compilation(listen):
        yield listen


@contextmanager
def listening(progress: Heard) -> Iterator[Progress]:
    """Yield the function to call as work is done: of bars, the caller's own, or a silent one."""
    if callable(progress):
        yield progress
        return
    from rich.console import Console

    with draw_bars(Console(stderr=True), disable=not progress) as listen:
        yield listen
