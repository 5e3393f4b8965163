"""What commands print: tables that fit the terminal, messages, JSON and progress."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import click
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trajcloak.cli.standard_input import name_in_messages
from trajcloak.errors import TrajcloakError
from trajcloak.progress import Progress
from trajcloak.progress_bars import draw_bars
from trajcloak.shown_text import show_text

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

WIDEST = 10_000
"""Wider than any table."""

LONGEST_LABEL = 24
"""Where labels are folded; longer ones go on in the next line."""

SOON = 1.0
"""Seconds after the first step of a stage from which on its end is foreseen by the other steps."""

LATER = 5.0
"""Seconds of a stage after which its end is foreseen by all steps: the first may have compiled."""

LONG = 120.0
"""Seconds that are worth a word in advance."""


def to_markup(text: str) -> str:
    """Turn text that others may have written into markup of rich that shows it as it is.

    Neither rich nor the terminal obeys anything in it.
    """
    return escape(show_text(text))


class ValueTable:
    """A table of short values, none of which is ever cut.

    A table too wide for the terminal is drawn without lines, then with long labels folded, and
    at last as a list for every row. All texts are markup of rich.

    Parameters
    ----------
    title
    label
        Heading of the first column, which names the rows.
    numbers
        Headings of the other columns.
    bars
        Heading of a last column, of bars, if there is one.
    group
        Heading of the groups that rows are in, if any; see :meth:`add_group`.
    caption
    """

    def __init__(
        self,
        title: str,
        label: str,
        numbers: Sequence[str],
        *,
        bars: str | None = None,
        group: str | None = None,
        caption: str | None = None,
    ) -> None:
        self._title = title
        self._names = [label, *numbers] + ([] if bars is None else [bars])
        self._has_bars = bars is not None
        self._group = group
        self._caption = caption
        self._groups: list[tuple[str, list[tuple[Sequence[str], str]]]] = []

    def add_group(self, name: str) -> None:
        """Let the rows that follow belong to a group."""
        self._groups.append((name, []))

    def add_row(self, *cells: str, style: str = "") -> None:
        """Add a row: a label, and a value for each column."""
        if not self._groups:
            self.add_group("")
        self._groups[-1][1].append((cells, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Choose the first layout that fits."""
        for table in (
            self._with_lines(),
            self._without_lines(),
            self._without_lines(longest_label=LONGEST_LABEL),
        ):
            wide = Measurement.get(console, options.update(max_width=WIDEST), table)
            if wide.maximum <= options.max_width:
                yield table
                return
        yield from self._lists()

    def _with_lines(self) -> Table:
        table = self._start()
        if self._group is not None:
            table.add_column(self._group, style="bold", no_wrap=True)
        self._add_columns(table, self._names)
        for name, rows in self._groups:
            table.add_section()
            for number, (cells, style) in enumerate(rows):
                group = [] if self._group is None else ["" if number else name]
                table.add_row(*group, *cells, style=style)
        return table

    def _without_lines(self, longest_label: int | None = None) -> Table:
        """Use one space between columns, a line per word of a heading, a row per group's name."""
        table = self._start(box=box.HORIZONTALS, show_edge=False, padding=0)
        label, *others = self._names
        self._add_columns(table, [label, *(name.replace(" ", "\n") for name in others)])
        table.columns[0].max_width = longest_label
        for name, rows in self._groups:
            table.add_section()
            if self._group is not None:
                table.add_row(name, style="bold")
            for cells, style in rows:
                table.add_row(*cells, style=style)
        return table

    def _lists(self) -> Iterator[Text | Table | Padding]:
        yield Text.from_markup(self._title, style="italic")
        for name, rows in self._groups:
            if self._group is not None:
                yield Text.from_markup(f"{self._group}: {name}", style="bold")
            for cells, style in rows:
                fields = Table.grid(padding=(0, 2, 0, 0))
                fields.add_column(overflow="fold")
                fields.add_column(overflow="fold", style=style)
                for heading, cell in zip(self._names, cells, strict=True):
                    fields.add_row(heading, cell)
                yield Padding(fields, (0, 0, 1, 0))
        if self._caption is not None:
            yield Text.from_markup(self._caption, style="dim italic")

    def _start(self, **settings: object) -> Table:
        return Table(
            title=self._title, title_justify="left", caption=self._caption, caption_justify="left",
            **settings,  # type: ignore[arg-type]
        )  # fmt: skip

    def _add_columns(self, table: Table, names: Sequence[str]) -> None:
        table.add_column(names[0], style="" if self._group else "bold", overflow="fold")
        for name in names[1:]:
            table.add_column(name, justify="right", no_wrap=True)
        if self._has_bars:
            table.columns[-1].justify = "left"


def facts_table(title: str, facts: Sequence[tuple[str, str]]) -> Table:
    """Lay out names and values in two columns."""
    table = Table(title=to_markup(title), title_justify="left", show_header=False, min_width=48)
    table.add_column(style="bold", overflow="fold")
    table.add_column(justify="right", overflow="fold")
    for name, value in facts:
        table.add_row(name, to_markup(value))
    return table


def print_error(error: TrajcloakError) -> None:
    """Print an error: words wrapped on a terminal, one line in a file.

    If a log is refused for several reasons, each has a line.
    """
    if len(error.reasons) == 1:
        _print_message("Error:", "bold red", error.with_options)
        return
    _print_message("Error:", "bold red", f"the log is refused for {len(error.reasons)} reasons:")
    for number, reason in enumerate(error.reasons, 1):
        _print_message(f"  {number}.", "bold", reason)


def print_note(message: str) -> None:
    """Print a note about what is probably meant otherwise."""
    _print_message("Note:", "bold yellow", message)


def _print_message(sign: str, style: str, message: str) -> None:
    text = Text.assemble((sign, style), " ", name_in_messages(message))
    err.print(text, soft_wrap=not err.is_terminal)


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    click.echo(json.dumps(content, indent=2))


def ingest_facts(ingest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List what was read of a log, and how many locations are known; zeros are left out."""
    interval = ingest["interval"]
    located = ingest["user_instants"]
    everywhere = sum(located.values()) or 1
    return [
        ("rows read", f"{ingest['rows']:,}"),
        *chain.from_iterable(
            _unless_zero(f"rows dropped ({reason.replace('_', ' ')})", number)
            for reason, number in ingest["dropped"].items()
        ),
        *_unless_zero(
            "repeated times", ingest["repeated"], "{:,} rows (one location, all requests kept)"
        ),
        ("users", f"{ingest['users']:,}"),
        ("first instant", show_time(ingest["start"])),
        ("last instant ends", show_time(ingest["end"])),
        ("instants of the log", f"{ingest['instants']:,}"),
        ("time between reports", "none" if interval is None else _quantiles(interval)),
        *_unless_zero("longer than max-gap", ingest["long_gaps"]),
        *(
            (f"locations {how}", f"{number / everywhere:.1%} ({number:,})")
            for how, number in located.items()
            if number or how == "missing"
        ),
        ("coordinates", ingest["crs"] or "planar"),
        ("time zone", ingest["zone"] or "none"),
        *chain.from_iterable(
            _unless_zero(f"{what} local times", ingest[what])
            for what in ("ambiguous", "nonexistent")
        ),
    ]


def _unless_zero(name: str, number: int, text: str = "{:,}") -> list[tuple[str, str]]:
    return [(name, text.format(number))] if number else []


def show_time(time: int | str) -> str:
    """Write a time of a manifest for people: ``2024-05-06 08:00:00``."""
    return re.sub(r"\.0+(?=[Z+-]|$)", "", str(time)).replace("T", " ", 1)


def show_duration(duration: int | str) -> str:
    """Write a duration of a manifest for people: ``12h`` instead of ``43200s``.

    Examples
    --------
    >>> [show_duration(text) for text in ("60s", "300s", "43200s", "1500ms", 7)]
    ['60s', '5min', '12h', '1500ms', '7']
    """
    seconds = re.fullmatch(r"([0-9]+)s", str(duration))
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds and int(seconds[1]) > 60 and int(seconds[1]) % length == 0:
            return f"{int(seconds[1]) // length}{unit}"
    return str(duration)


def _quantiles(interval: Mapping[str, Any]) -> str:
    median, low, high = (show_duration(interval[name]) for name in ("median", "p5", "p95"))
    return f"{median} (90% from {low} to {high})"


class Forecast:
    """Foresees, once for each stage, how long it will still take, if that is minutes."""

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
def progress_bars(*, hidden: bool = False, transient: bool = False) -> Iterator[Progress]:
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
