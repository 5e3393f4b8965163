"""Small charts as SVG; each has a sentence for those who cannot see it, and its data as a table."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trajcloak.report.figures import Floats, Histogram, round_up
from trajcloak.report.markup import Element, details, element, table
from trajcloak.report.words import show_number

WIDTH, HEIGHT = 380, 210
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 12, 42
"""Margins for the axes."""

PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
MOST_POINTS = 240
MOST_ROWS = 60
"""Rows of a data table; longer series are summarised."""


class Axis(NamedTuple):
    """One axis.

    Attributes
    ----------
    name : str
        What it measures, with the unit.
    labels : sequence of (float, str)
        Where, as shares of its length, which words stand.
    """

    name: str
    labels: Sequence[tuple[float, str]]


def draw_histogram(
    name: str, title: str, histogram: Histogram, x_name: str, y_name: str, note: str
) -> Element:
    """Draw how many values are in each range.

    Parameters
    ----------
    name
        Id of the figure.
    title
        Heading.
    histogram
    x_name, y_name
        What the axes measure.
    note
        What to see, in a sentence.
    """
    edges, counts = histogram.edges, histogram.counts
    top = _choose_top(float(counts.max()))
    width = PLOT_WIDTH / len(counts)
    bars = [
        element(
            "rect",
            element("title", f"{_show_range(edges, i)}: {int(number):,}"),
            class_="bar",
            x=_round(LEFT + i * width + min(1.0, width / 8)),
            y=_round(TOP + PLOT_HEIGHT * (1 - number / top)),
            width=_round(width - 2 * min(1.0, width / 8)),
            height=_round(PLOT_HEIGHT * number / top),
        )
        for i, number in enumerate(counts)
        if number
    ]
    is_whole = _is_whole(edges)
    ticks = np.linspace(0, len(counts) - 1 if is_whole else len(counts), min(len(counts), 5))
    places = sorted({round(tick) for tick in ticks})
    offset = 0.5 if is_whole else 0.0
    x_axis = Axis(
        x_name, [((i + offset) / len(counts), show_number(float(edges[i]))) for i in places]
    )
    rows = [[_show_range(edges, i), f"{int(number):,}"] for i, number in enumerate(counts)]
    return _frame(
        name, title, note, [*_draw_axes(x_axis, _count_axis(y_name, top)), *bars],
        table([x_name, y_name], rows),
    )  # fmt: skip


def draw_series(
    name: str, title: str, values: Floats, moments: Sequence[str], y_name: str, note: str
) -> Element:
    """Draw a value at each instant; many instants are gathered, and drawn as their mean."""
    groups = np.array_split(np.arange(len(values)), min(len(values), MOST_POINTS))
    means = [float(values[group].mean()) for group in groups]
    top = _choose_top(max(means))
    x = [LEFT + PLOT_WIDTH * (i + 0.5) / len(means) for i in range(len(means))]
    y = [TOP + PLOT_HEIGHT * (1 - mean / top) for mean in means]
    points = " ".join(f"{_round(a)},{_round(b)}" for a, b in zip(x, y, strict=True))
    base = TOP + PLOT_HEIGHT
    area = f"{_round(x[0])},{base} {points} {_round(x[-1])},{base}"
    marks = [element("circle", class_="dot", cx=_round(x[0]), cy=_round(y[0]), r=2.5)]
    last = len(moments) - 1
    places = sorted({0, last // 2, last})
    shown = _shorten([moments[i] for i in places])
    x_axis = Axis(
        f"time, {len(values):,} instants",
        [((i + 0.5) / len(values), text) for i, text in zip(places, shown, strict=True)],
    )
    rows = [
        [moments[int(group[0])], show_number(float(values[group].mean()))]
        for group in np.array_split(np.arange(len(values)), min(len(values), MOST_ROWS))
    ]
    shape = [element("polygon", class_="area", points=area)]
    line = [element("polyline", class_="line", points=points)] if len(x) > 1 else marks
    return _frame(
        name, title, note, [*shape, *_draw_axes(x_axis, _count_axis(y_name, top)), *line],
        table(["from", y_name], rows),
    )  # fmt: skip


class Bar(NamedTuple):
    """One bar of a share.

    Attributes
    ----------
    label : str
    share : float
        From 0 to 1.
    words : str
        What stands beside it.
    """

    label: str
    share: float
    words: str


def draw_shares(title: str, bars: Sequence[Bar], *, is_good: bool) -> Element:
    """Draw shares as lying bars, each with its words."""
    row, label, length = 44, 0, 250
    parts: list[Element] = []
    for i, bar in enumerate(bars):
        y = i * row
        width = length * bar.share
        parts += [
            element("text", bar.label, class_="name", x=label, y=y + 14),
            element("rect", class_="track", x=0, y=y + 20, width=length, height=10),
            element("rect", class_="bad", x=0, y=y + 20, width=_round(width), height=10)
            if bar.share
            else element("rect", class_="good", x=0, y=y + 20, width=3, height=10),
            element("text", bar.words, class_="words", x=length + 8, y=y + 29),
        ]
    words = "; ".join(f"{bar.label}: {bar.words}" for bar in bars)
    drawing = element(
        "svg", element("title", f"{title}. {words}."), *parts,
        viewBox=f"0 0 {WIDTH} {row * len(bars)}", role="img", class_="shares",
    )  # fmt: skip
    return element(
        "figure", element("figcaption", element("h3", title)), drawing,
        class_=f"chart {'good' if is_good else 'bad'}",
    )  # fmt: skip


def _frame(name: str, title: str, note: str, parts: list[Element], data: Element) -> Element:
    drawing = element(
        "svg",
        element("title", f"{title}. {note}"),
        *parts,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
    )
    caption = element("figcaption", element("h3", title), element("p", note))
    return element(
        "figure", caption, drawing, details("Data as a table", data), class_="chart", id=name
    )


def _draw_axes(x_axis: Axis, y_axis: Axis) -> list[Element]:
    base = TOP + PLOT_HEIGHT
    parts = []
    for share, text in y_axis.labels:
        y = _round(TOP + PLOT_HEIGHT * (1 - share))
        parts += [
            element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y),
            element("text", text, x=LEFT - 6, y=_round(y + 3.5), text_anchor="end"),
        ]
    for share, text in x_axis.labels:
        anchor = "start" if share < 0.04 else "end" if share > 0.96 else "middle"
        x = _round(LEFT + PLOT_WIDTH * share)
        parts.append(element("text", text, x=x, y=base + 15, text_anchor=anchor))
    end, below = WIDTH - RIGHT, base + 34
    parts.append(element("text", x_axis.name, class_="axis", x=end, y=below, text_anchor="end"))
    parts.append(element("text", y_axis.name, class_="axis", x=0, y=below))
    return parts


def _count_axis(name: str, top: float) -> Axis:
    return Axis(f"↑ {name}", [(share, show_number(top * share)) for share in (0, 0.5, 1)])


def _choose_top(value: float) -> float:
    """Choose the upper end of an axis: a round number, of which half is one too."""
    return 2 * round_up(value / 2) if value > 0 else 1.0


def _is_whole(edges: Floats) -> bool:
    """Whether each range holds a single whole number."""
    return bool((np.diff(edges) == 1).all() and (edges == np.rint(edges)).all())


def _show_range(edges: Floats, i: int) -> str:
    if _is_whole(edges):
        return f"{int(edges[i]):,}"
    return f"{show_number(float(edges[i]))} to {show_number(float(edges[i + 1]))}"


def _shorten(moments: list[str]) -> list[str]:
    """Leave out of later moments the date that they share with the first."""
    date = moments[0].partition(" ")[0]
    if not all(" " in moment and moment.startswith(date) for moment in moments):
        return [moment.partition(" ")[0] for moment in moments]
    return [moment.partition(" ")[2] for moment in moments]


def _round(value: float) -> float:
    return round(float(value), 2)
