"""Tables that fit the terminal without losing a value."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trajcloak.shown_text import show_text

WIDEST = 10_000
"""Wider than any table."""

LONGEST_LABEL = 24
"""Where labels are folded; longer ones go on in the next line."""


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
