"""Options and displays that several commands share."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from trajcloak.options import LogColumns
from trajcloak.progress import Progress as Listener

F = TypeVar("F", bound=Callable[..., Any])

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

PATH = click.Path(path_type=Path)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."
)


def log_options(function: F) -> F:
    """Add the options that say how to read a log; passes them on as ``columns``."""

    @click.option("--user", default="user_id", show_default=True, help="Column of user ids.")
    @click.option("--time", default="time", show_default=True, help="Column of times.")
    @click.option("--lon", help="Column of longitudes (degrees).  [default: lon]")
    @click.option("--lat", help="Column of latitudes (degrees).  [default: lat]")
    @click.option("--x", help="Column of planar x coordinates.  [default: x]")
    @click.option("--y", help="Column of planar y coordinates.  [default: y]")
    @click.option(
        "--request",
        "requests",
        multiple=True,
        metavar="COLUMN",
        help="Request attribute to publish; repeat for more. No other column is ever published.",
    )
    @wraps(function)
    def wrapped(
        user: str,
        time: str,
        lon: str | None,
        lat: str | None,
        x: str | None,
        y: str | None,
        requests: tuple[str, ...],
        **rest: Any,
    ) -> Any:
        columns = LogColumns(user, time, lon, lat, x, y, requests)
        return function(columns=columns, **rest)

    return wrapped  # type: ignore[return-value]


def time_options(function: F) -> F:
    """Add the options that say how a log is laid on instants and windows."""
    for option in (
        click.option(
            "--missing",
            type=click.Choice(["withhold", "hold"]),
            help="Users with unknown locations: leave out, or hold the nearest known one.  "
            "[default: withhold]",
        ),
        click.option("--max-gap", help="Longest gap to interpolate.  [default: 2 x every]"),
        click.option("--length", type=int, help="Instants in a window.  [default: the whole log]"),
        click.option("--every", help="Step of instants, such as 60s.  [default: the log's own]"),
    ):
        function = option(function)
    return function


@contextmanager
def progress_bars(*, hidden: bool = False) -> Iterator[Listener]:
    """Draw a bar per stage on a terminal; yields the listener that moves them."""
    bars = Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=err,
        disable=hidden or not err.is_terminal,
    )
    tasks: dict[str, TaskID] = {}

    def listen(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(_describe(stage), total=total)
        bars.update(tasks[stage], completed=done, total=total)

    with bars:
        yield listen


def _describe(stage: str) -> str:
    """Say so where a stage first has to compile its kernels, which takes seconds."""
    from trajcloak.kernels.sort import sort_words

    compiled = any(Path(str(sort_words.stats.cache_path)).glob("sort.sort_words-*.nbi"))
    return stage if compiled else f"{stage} (compiling on first use)"


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    click.echo(json.dumps(content, indent=2, ensure_ascii=False))


def facts_table(title: str, facts: list[tuple[str, str]]) -> Table:
    """Lay out names and values in two columns."""
    table = Table(title=title, title_justify="left", show_header=False, min_width=48)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right")
    for name, value in facts:
        table.add_row(name, value)
    return table
