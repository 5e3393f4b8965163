"""What commands print: tables that fit the terminal, messages, JSON and progress."""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import click
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trajcloak.cli.shared_options import name_in_messages
from trajcloak.errors import TrajcloakError, show_text
from trajcloak.progress import Progress, draw_bars

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

WIDEST = 10_000
"""Wider than any table."""


def to_markup(text: str) -> str:
    """Turn text that others may have written into markup of rich that shows it as it is.

    Neither rich nor the terminal obeys anything in it.
    """
    return escape(show_text(text))


class ValueTable:
    """A table of short values, none of which is ever cut.

    A table too wide for the terminal is drawn without lines, with labels folded where they must,
    and at last as a list for every row. All texts are markup of rich. ``label`` is the heading of
    the first column, which names the rows, and ``numbers`` those of the others.
    """

    def __init__(
        self, title: str, label: str, numbers: Sequence[str], *, caption: str | None = None
    ) -> None:
        self._title = title
        self._names = [label, *numbers]
        self._caption = caption
        self._rows: list[tuple[Sequence[str], str] | None] = []  # None: a line between rows

    def add_group(self, name: str) -> None:
        """Name the group that the rows which follow belong to."""
        self._rows += [None, ([name], "italic")]

    def add_row(self, *cells: str, style: str = "") -> None:
        """Add a row: a label, and a value for each column."""
        self._rows.append((cells, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Choose the first layout that fits."""
        unlimited = options.update(max_width=WIDEST)
        with_lines, without_lines = self._draw(), self._draw(is_narrow=True)
        if Measurement.get(console, unlimited, with_lines).maximum <= options.max_width:
            yield with_lines
        elif Measurement.get(console, unlimited, without_lines).minimum <= options.max_width:
            yield without_lines
        else:
            yield from self._lists()

    def _draw(self, *, is_narrow: bool = False) -> Table:
        """Draw the table; narrow: one space between columns, a line per word of a heading."""
        table = Table(
            title=self._title, title_justify="left", caption=self._caption, caption_justify="left"
        )
        names = self._names
        if is_narrow:
            table.box, table.show_edge, table.padding = box.HORIZONTALS, False, (0, 0, 0, 0)
            names = [name.replace(" ", "\n") for name in names]
        table.add_column(names[0], style="bold", overflow="fold")
        for name in names[1:]:
            table.add_column(name, justify="right", no_wrap=True)
        for row in self._rows:
            if row is None:
                table.add_section()
            else:
                table.add_row(*row[0], style=row[1])
        return table

    def _lists(self) -> Iterator[Text | Padding]:
        yield Text.from_markup(self._title, style="italic")
        for cells, style in filter(None, self._rows):
            fields = Table.grid(padding=(0, 2, 0, 0))
            fields.add_column(overflow="fold")
            fields.add_column(overflow="fold", style=style)
            # The name of a group is the only cell of its row.
            for heading, cell in zip(self._names, cells, strict=False):
                fields.add_row(heading, cell)
            yield Padding(fields, (0, 0, 1, 0))
        if self._caption is not None:
            yield Text.from_markup(self._caption, style="dim italic")


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
    """Print a note, such as about input that is accepted, but probably a mistake."""
    _print_message("Note:", "bold yellow", message)


def note_whole_parts(parts: int | None, bundle_size: int) -> None:
    """Print a note if parts are as large as bundles must be, so that there are none."""
    if parts == bundle_size:
        print_note(
            f"parts of {parts} users are as large as bundles must be, so bundles are not shown in "
            f"parts; for parts, pass a smaller --parts"
        )


def _print_message(sign: str, style: str, message: str) -> None:
    text = Text.assemble((sign, style), " ", name_in_messages(message))
    err.print(text, soft_wrap=not err.is_terminal)


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object on standard output, values of types that JSON does not have as text."""
    click.echo(json.dumps(content, indent=2, default=str))


def progress_bars(
    *, hidden: bool = False, transient: bool = False
) -> AbstractContextManager[Progress]:
    """Draw a bar per stage on a terminal, as :func:`trajcloak.progress.draw_bars` does."""
    return draw_bars(err, disable=hidden or not err.is_terminal, transient=transient)
