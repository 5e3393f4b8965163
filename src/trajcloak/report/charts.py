"""Small charts as SVG; each has a sentence for those who cannot see it, and its data as a table."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trajcloak.quantities import show_number
from trajcloak.report.figures import Floats, Histogram, Ints, round_up
from trajcloak.report.html_elements import Element, details, element, table

WIDTH, HEIGHT = 380, 210
LEFT, RIGHT, TOP, BOTTOM = 62, 10, 12, 42  # margins for the axes
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
WIDEST_BAR = 48
MOST_POINTS = 240  # values of a series that are drawn and listed; longer series are summarised


def draw_histogram(
    name: str, title: str, histogram: Histogram, x_name: str, y_name: str, note: str
) -> Element:
    """Draw how many values are in each range; ``note`` says in a sentence what the chart shows."""
    edges, counts = histogram.edges, histogram.counts
    top = round_up(float(counts.max()))
    width = PLOT_WIDTH / len(counts)
    bar = min(width - 2 * min(1.0, width / 8), WIDEST_BAR)
    bars = [
        element(
            "rect",
            element("title", f"{_show_range(edges, i)}: {int(number):,}"),
            class_="bar",
            x=_round(LEFT + (i + 0.5) * width - bar / 2),
            y=_round(TOP + PLOT_HEIGHT * (1 - number / top)),
            width=_round(bar),
            height=_round(PLOT_HEIGHT * number / top),
        )
        for i, number in enumerate(counts)
        if number
    ]
    is_whole = _is_whole(edges)
    ticks = np.linspace(0, len(counts) - 1 if is_whole else len(counts), min(len(counts), 5))
    places = sorted({round(tick) for tick in ticks})
    offset = 0.5 if is_whole else 0.0
    x_labels = [((i + offset) / len(counts), show_number(float(edges[i]))) for i in places]
    rows = [[_show_range(edges, i), f"{int(number):,}"] for i, number in enumerate(counts)]
    return _frame(
        name, title, note, [*_draw_axes(x_name, x_labels, y_name, top), *bars],
        table([x_name, y_name], rows),
    )  # fmt: skip


def draw_series(
    name: str,
    title: str,
    values: Floats,
    instants: Ints,
    moments: Sequence[str],
    y_name: str,
    note: str,
) -> Element:
    """Draw a value at each of some instants, placed by time; the line is broken between others.

    Many instants are grouped, and drawn as their mean. ``moments`` are names of the instants.
    """
    since = instants - instants[0]
    span = int(since[-1]) + 1
    num_places = min(span, MOST_POINTS)
    place, first = np.unique(since * num_places // span, return_index=True)
    means = np.add.reduceat(values, first) / np.diff(first, append=len(values))
    top = round_up(float(means.max()))
    x = LEFT + PLOT_WIDTH * (place + 0.5) / num_places
    y = TOP + PLOT_HEIGHT * (1 - means / top)
    cuts = np.flatnonzero(np.diff(place) > 1) + 1
    if len(cuts):
        note += " The release has no instants where the line is broken."
    shapes, lines = [], []
    for run in np.split(np.arange(len(place)), cuts):
        points = " ".join(f"{_round(x[i])},{_round(y[i])}" for i in run)
        base = TOP + PLOT_HEIGHT
        area = f"{_round(x[run[0]])},{base} {points} {_round(x[run[-1]])},{base}"
        shapes.append(element("polygon", class_="area", points=area))
        lines.append(
            element("polyline", class_="line", points=points)
            if len(run) > 1
            else element("circle", class_="dot", cx=_round(x[run[0]]), cy=_round(y[run[0]]), r=2.5)
        )
    axes = _draw_axes(f"time, {len(values):,} instants", _label_times(since, moments), y_name, top)
    rows = [
        [moments[int(i)], show_number(float(mean))] for i, mean in zip(first, means, strict=True)
    ]
    return _frame(
        name, title, note, [*shapes, *axes, *lines],
        table(["from", y_name], rows),
    )  # fmt: skip


def _label_times(since: Ints, moments: Sequence[str]) -> list[tuple[float, str]]:
    """Label the first and the last instant, and one about halfway, if there is one."""
    shares = (since + 0.5) / (since[-1] + 1)
    middle = int(np.abs(since - since[-1] // 2).argmin())
    ends = {0, len(since) - 1}
    # Labels must not overlap.
    places = sorted({*ends, middle} if 0.32 <= shares[middle] <= 0.68 else ends)
    shown = _shorten([moments[i] for i in places])
    return [(float(shares[i]), text) for i, text in zip(places, shown, strict=True)]


class Bar(NamedTuple):
    """A share from 0 to 1, the same in words, and a note below its bar."""

    name: str
    share: float
    words: str
    note: str


def draw_shares(title: str, bars: Sequence[Bar]) -> Element:
    """Draw shares as horizontal bars; a share of 0 is drawn as good, any other as bad."""
    width, row = 300, 58
    parts: list[Element] = []
    for y, bar in zip(range(0, row * len(bars), row), bars, strict=True):
        state, length = ("bad", width * bar.share) if bar.share else ("good", 3.0)
        parts += [
            element("text", bar.name, class_="name", x=0, y=y + 13),
            element("text", bar.words, class_="words", x=width, y=y + 13, text_anchor="end"),
            element("rect", class_="track", x=0, y=y + 19, width=width, height=9),
            element("rect", class_=state, x=0, y=y + 19, width=_round(length), height=9),
            element("text", bar.note, x=0, y=y + 42),
        ]
    words = "; ".join(f"{bar.name}: {bar.words}, {bar.note}" for bar in bars)
    drawing = element(
        "svg",
        element("title", f"{title}. {words}."),
        *parts,
        viewBox=f"0 0 {width} {row * len(bars)}",
        role="img",
        class_="shares",
    )
    return element("figure", element("figcaption", element("h3", title)), drawing, class_="chart")


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


def _draw_axes(
    x_name: str, x_labels: list[tuple[float, str]], y_name: str, top: float
) -> list[Element]:
    """Draw both axes; labels of the x axis stand at shares of its length."""
    base = TOP + PLOT_HEIGHT
    parts = []
    for share in (0, 0.5, 1):
        y = _round(TOP + PLOT_HEIGHT * (1 - share))
        label = show_number(top * share)
        parts += [
            element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y),
            element("text", label, x=LEFT - 6, y=_round(y + 3.5), text_anchor="end"),
        ]
    for share, text in x_labels:
        anchor = "start" if share < 0.04 else "end" if share > 0.96 else "middle"
        x = _round(LEFT + PLOT_WIDTH * share)
        parts.append(element("text", text, x=x, y=base + 15, text_anchor=anchor))
    end, below = WIDTH - RIGHT, base + 34
    parts.append(element("text", x_name, class_="axis", x=end, y=below, text_anchor="end"))
    parts.append(element("text", f"↑ {y_name}", class_="axis", x=0, y=below))
    return parts


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
