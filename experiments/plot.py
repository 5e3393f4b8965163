"""Draw the figures from result files alone.

``python -m experiments.plot RESULTS -o FOLDER`` reads the files that
``experiments.run`` wrote. A point that ran out of time is drawn hollow, on a dashed line:
extrapolated from the growth that was measured, never as measured.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

Result = dict[str, Any]

FIT_POINTS = 3
"""Largest measured points that an extrapolation is fitted to."""
EXTRAPOLATED = "extrapolated, not measured"
SQUARE_KM = 1e6
DPI = 150
UNDATED: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}}
"""Leaves program and date out of a file, so that the same results give the same file."""

# The colours of Okabe and Ito, which the colour-blind can tell apart. Markers and lines
# differ as well, for print without colours; dashes are kept for what was not measured.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
STYLES: dict[str, tuple[str, str, Any]] = {
    "traj-anon": (BLACK, "o", "-"),
    "refined": (BLUE, "s", "-"),
    "baseline": (GREEN, "D", ":"),
    "fast-clustering": (ORANGE, "v", "-."),
    "slow-clustering": (RED, "^", (0, (5, 1, 1, 1, 1, 1))),
    "hilbert-clustering": (PURPLE, "P", "-."),
}
"""Colour, marker and line of each algorithm."""
LENGTH_STYLES: dict[int, tuple[str, str, Any]] = {10: (BLUE, "s", "-."), 30: (BLACK, "o", "-")}

PHASES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "load: read": (("read",), SKY, ""),
    "load: grid, pivot": (("grid and region", "schedule", "pivot"), BLUE, "//"),
    "configuration: sort keys": (("sort keys",), ORANGE, "--"),
    "configuration: tree, rows": (("build tree", "solve rows", "read configuration"), RED, "xx"),
    "policy: assign, cloaks": (("assign", "cloaks"), BLACK, ""),
    "publish: bundle requests": (("bundle requests", "decide requests"), YELLOW, ".."),
    "publish: write": (("manifest", "write release"), GREEN, "\\\\"),
}
"""Stages of ``benchmarks/child.py``, colour and hatch of each phase.

A phase has the name that the paper gives it, if it is one of the paper's."""


@dataclass(frozen=True)
class Series:
    """The points of one curve, in order."""

    x: list[float]  # Measured.
    y: list[float]
    beyond: list[float]  # The ``x`` where time ran out.
    extrapolated: list[float]  # The ``y`` there; empty where too little was measured.


def main() -> None:
    """Draw every figure that has results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--format", choices=("png", "svg"), default="png")
    asked = parser.parse_args()
    draw_all(read_results(asked.results), asked.output, asked.format)


def read_results(folder: Path) -> list[Result]:
    """Read every result file of a folder."""
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not results:
        raise SystemExit(f"{folder}: no results; expected files *.json; run `make experiments`")
    return results


def draw_all(results: Sequence[Result], folder: Path, ending: str) -> None:
    """Write one file per figure, and tell which have no results."""
    for name, (experiment, draw) in FIGURES.items():
        chosen = [result for result in results if result["experiment"] == experiment]
        if not any(is_measured(result) for result in chosen):
            print(f"{name}: nothing measured, not drawn")
            continue
        path = folder / f"{name}.{ending}"
        save(draw(chosen), path)
        print(f"{path}: drawn")


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the same results give the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "trajcloak"}):
        figure.savefig(path, dpi=DPI, metadata=UNDATED[path.suffix[1:]])


def is_measured(result: Result) -> bool:
    """Whether a point has figures of its own."""
    return bool(result["status"] == "ok")


def extrapolate(x: Sequence[float], y: Sequence[float], beyond: Sequence[float]) -> list[float]:
    """Continue a curve by the growth of its last points.

    The straight line of least squares through the logarithms of the last
    :data:`FIT_POINTS` points, which makes ``y`` a power of ``x``. Empty where fewer than
    two points were measured.
    """
    if len(x) < 2:
        return []
    power, start = np.polyfit(np.log(x[-FIT_POINTS:]), np.log(y[-FIT_POINTS:]), 1)
    return [float(np.exp(start + power * np.log(value))) for value in beyond]


def build_series(
    results: Sequence[Result], x: str, y: Callable[[Result], float], least: str | None = None
) -> Series:
    """Sort the results of one curve; ``least`` names what a point out of time exceeds."""
    results = sorted(results, key=lambda result: result[x])
    measured = [result for result in results if is_measured(result)]
    late = [result for result in results if result["status"] == "out of time"]
    known_x = [result[x] for result in measured]
    known_y = [y(result) for result in measured]
    beyond = [result[x] for result in late]
    extrapolated = extrapolate(known_x, known_y, beyond)
    if least:
        extrapolated = [max(e, r[least]) for e, r in zip(extrapolated, late, strict=False)]
    return Series(known_x, known_y, beyond, extrapolated)


def draw_curve(axes: Axes, series: Series, label: str, style: tuple[str, str, Any]) -> None:
    """Draw what was measured and, dashed and hollow, what was not."""
    colour, marker, line = style
    if series.beyond and not series.extrapolated:
        label += f" (out of time from {short(series.beyond[0])})"
    axes.plot(series.x, series.y, color=colour, marker=marker, linestyle=line, label=label)
    if series.extrapolated:
        axes.plot(
            [series.x[-1], *series.beyond],
            [series.y[-1], *series.extrapolated],
            color=colour,
            marker=marker,
            markerfacecolor="white",
            markevery=slice(1, None),
            linestyle="--",
            linewidth=1,
        )


def draw_algorithms(
    results: Sequence[Result], x: str, y: Callable[[Result], float], least: str | None = None
) -> tuple[Figure, Axes]:
    """Draw a curve per algorithm on logarithmic axes."""
    figure, axes = new_figure()
    axes.set(xscale="log", yscale="log")
    extrapolated = False
    for algorithm, style in STYLES.items():
        chosen = [result for result in results if result["algorithm"] == algorithm]
        if chosen:
            series = build_series(chosen, x, y, least)
            draw_curve(axes, series, algorithm, style)
            extrapolated |= bool(series.extrapolated)
    add_legend(figure, axes, extrapolated)
    show_ticks(axes, sorted({result[x] for result in results}))
    return figure, axes


def new_figure() -> tuple[Figure, Axes]:
    """Make a figure with one pair of axes and a light grid behind it."""
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.grid(color="0.88", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def add_legend(figure: Figure, axes: Axes, extrapolated: bool = False) -> None:
    """Put the legend below the axes, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if extrapolated:
        handles.append(
            Line2D([], [], color="0.3", marker="o", markerfacecolor="white", linestyle="--")
        )
        labels.append(EXTRAPOLATED)
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3, handlelength=3.5, frameon=False
    )


def show_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Mark the values that were asked for."""
    axes.xaxis.set_major_locator(FixedLocator(list(values)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def short(number: float) -> str:
    """Write 20000 as 20k, and 2000000 as 2M."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{letter}"
    return f"{number:g}"


def seconds(result: Result) -> float:
    """Return the median time of a point's runs."""
    return float(median(result["seconds"]))


def cost(result: Result) -> float:
    """Return the cost of a point."""
    return float(result["cost"])


def mean_area(result: Result) -> float:
    """Return the cost per user and instant, in square kilometres."""
    return float(cost(result) / (result["users"] * result["length"] * SQUARE_KM))


def draw_total_time(results: Sequence[Result]) -> Figure:
    """Figure 9: time from file to release against users, quickest to slowest run.

    Plain axes show whether it is linear.
    """
    figure, axes = new_figure()
    for length, style in LENGTH_STYLES.items():
        chosen = [result for result in results if result["length"] == length]
        draw_curve(axes, build_series(chosen, "users", seconds), f"length {length}", style)
        for result in filter(is_measured, chosen):
            taken = result["seconds"]
            axes.vlines(result["users"], min(taken), max(taken), color=style[0], linewidth=1)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.set(xlabel="users", ylabel="time from log file to release (s)")
    add_legend(figure, axes)
    return figure


def draw_phases(results: Sequence[Result]) -> Figure:
    """Figure 10: share of the time that each phase takes, and the time above the bar."""
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    panels = figure.subplots(1, len(LENGTH_STYLES), sharey=True)
    for axes, length in zip(panels, LENGTH_STYLES, strict=True):
        chosen = [r for r in results if r["length"] == length and is_measured(r)]
        draw_shares(axes, sorted(chosen, key=lambda result: result["users"]))
        axes.set(title=f"length {length}", xlabel="users")
    panels[0].set_ylabel("share of the time (%); seconds above")
    add_legend(figure, panels[0])
    return figure


def draw_shares(axes: Axes, results: Sequence[Result]) -> None:
    """Draw a bar per result, cut into phases."""
    names = [short(result["users"]) for result in results]
    totals = np.array([sum(result["stages"].values()) for result in results])
    bottom = np.zeros(len(results))
    for phase, (stages, colour, hatch) in PHASES.items():
        taken = np.array([sum(result["stages"][stage] for stage in stages) for result in results])
        share = 100 * taken / totals
        axes.bar(
            names, share, 0.75, bottom,
            color=colour, hatch=hatch, edgecolor="black", linewidth=0.4, label=phase,
        )  # fmt: skip
        bottom += share
    for name, total in zip(names, totals, strict=True):
        axes.annotate(f"{total:.2g}", (name, 100), (0, 2), textcoords="offset points", ha="center")
    axes.set_ylim(0, 107)


def draw_cost(results: Sequence[Result]) -> Figure:
    """Figures 11 and 13: cost against users."""
    figure, axes = draw_algorithms(results, "users", cost)
    axes.set(xlabel="users", ylabel="cost: area summed over users and instants (m²)")
    return figure


def draw_time(results: Sequence[Result]) -> Figure:
    """Figures 12 and 14: time against users."""
    figure, axes = draw_algorithms(results, "users", seconds, least="limit")
    axes.set(xlabel="users", ylabel="time from trajectories to bundles (s)")
    return figure


def draw_cost_by_k(results: Sequence[Result]) -> Figure:
    """Cost against k."""
    figure, axes = draw_algorithms(results, "k", mean_area)
    axes.set(
        xlabel="k: least number of users in a bundle", ylabel="cost per user and instant (km²)"
    )
    return figure


def draw_cost_by_length(results: Sequence[Result]) -> Figure:
    """Cost against the length of trajectories, on plain axes."""
    figure, axes = draw_algorithms(results, "length", mean_area)
    axes.set(xscale="linear", yscale="linear", ylim=(0, None))
    show_ticks(axes, sorted({result["length"] for result in results}))
    axes.set(
        xlabel="length of the trajectories (instants)", ylabel="cost per user and instant (km²)"
    )
    return figure


FIGURES: dict[str, tuple[str, Callable[[Sequence[Result]], Figure]]] = {
    "figure-09-time": ("phases", draw_total_time),
    "figure-10-phases": ("phases", draw_phases),
    "figure-11-cost": ("clustering", draw_cost),
    "figure-12-time": ("clustering", draw_time),
    "figure-13-hilbert-cost": ("hilbert", draw_cost),
    "figure-14-hilbert-time": ("hilbert", draw_time),
    "cost-by-k": ("k", draw_cost_by_k),
    "cost-by-length": ("length", draw_cost_by_length),
}
"""The experiment that each figure shows, and what draws it."""

if __name__ == "__main__":
    main()
