"""Progress as bars, on a terminal or in a notebook."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from trajcloak.progress import Progress as Listener
from trajcloak.progress import silent

Heard: TypeAlias = bool | Listener
"""How callers in Python hear of progress: True shows bars; or a function of theirs is called."""


@contextmanager
def draw_bars(
    console: Console, *, disable: bool = False, transient: bool = False
) -> Iterator[Listener]:
    """Draw a bar per stage; yields the function that moves them.

    Kernels that are compiled on the way are named, too. ``transient`` bars are taken away when all
    is done.
    """
    if disable:
        yield silent
        return
    bars = Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        transient=transient,
    )
    tasks: dict[str, Task] = {}

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

    # Here, since it takes the compiler.
    from trajcloak.compilation import follow_compilation

    with bars, follow_compilation(listen):
        yield listen


@contextmanager
def listening(progress: Heard) -> Iterator[Listener]:
    """Yield the function to call as work is done: of bars, the caller's own, or a silent one."""
    if callable(progress):
        yield progress
    else:
        with draw_bars(Console(stderr=True), disable=not progress) as listen:
            yield listen
