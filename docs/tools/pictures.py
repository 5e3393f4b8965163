"""Draw the pictures of the documentation from a generated city.

``python -m docs.tools.pictures`` (``make pictures``) writes them to ``docs/figures``.
"""

import argparse
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from docs.tools.city import LENGTH, City, build_city
from trajcloak.attackers.candidate_sets import ATTACKERS, attack_snapshots
from trajcloak.options import TP_AWARE

FOLDER = Path(__file__).parents[1] / "figures"
DPI = 110
COLORS = 256
BLACK, ORANGE, SKY, GREEN, BLUE, RED = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00",
)  # fmt: skip
DARK_RED = "#9C3F00"
ROADS = "#c9c9c9"
LABEL = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}
"""The ground of a label that stands on roads."""

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "path.simplify": True,
}


def draw_attack(city: City) -> Figure:
    """Before and after: who fits the requests of one sender."""
    sender, instants = _choose_victim(city)
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    before, after = figure.subplots(1, 2, sharex=True, sharey=True)
    fits = np.ones(len(city.cells), bool)
    for number, instant in enumerate(instants):
        snapshot = city.snapshots[instant]
        cloak = snapshot.cloak[sender]
        fits &= snapshot.cloak == cloak
        edges = city.to_km(snapshot.cloaks[cloak, 0])
        _add_boxes(before, edges[None], RED, 0.12)
        before.annotate(
            f"request {number + 1}, minute {instant}", (edges[2], edges[1]), xytext=(4, -4),
            textcoords="offset points", va="top", color=DARK_RED, fontsize=11, fontweight="bold",
            bbox=LABEL,
        )  # fmt: skip
    bundle = city.policy.bundle[sender]
    members = np.flatnonzero(city.policy.bundle == bundle)
    cloaks = city.to_km(city.policy.cloaks[bundle])
    _add_boxes(after, cloaks[instants], GREEN, 0.12)
    for axes in (before, after):
        _add_roads(axes, city)
    _add_paths(before, city.places[fits], BLACK, 1.6)
    _add_paths(after, city.places[members], BLUE, 0.7)
    before.set_title(f"An area for each request: {fits.sum()} person fits both", fontsize=11)
    after.set_title(f"A bundle: {len(members)} people fit all the time", fontsize=11)
    shown = np.concatenate([city.places[members].reshape(-1, 2), city.places[fits][0]])
    _zoom(before, shown)
    return figure


def draw_bundle(city: City) -> Figure:
    """The cloaks of one bundle as time goes by, and the people inside."""
    bundle = _choose_bundle(city)
    members = city.policy.bundle == bundle
    cloaks = city.to_km(city.policy.cloaks[bundle])
    figure = Figure(figsize=(9, 2.9), layout="constrained")
    panels = figure.subplots(1, 4, sharex=True, sharey=True)
    for axes, instant in zip(panels, np.linspace(0, LENGTH - 1, 4).astype(int), strict=True):
        _add_roads(axes, city)
        _add_paths(axes, city.places[members][:, : instant + 1], SKY, 0.5)
        _add_boxes(axes, cloaks[instant][None], GREEN, 0.15)
        here = city.places[members, instant]
        axes.plot(here[:, 0], here[:, 1], ".", color=BLUE, markersize=3)
        axes.set_title(f"minute {instant}")
    _zoom(panels[0], city.places[members].reshape(-1, 2))
    return figure


def draw_tree(city: City) -> Figure:
    """How the binary US-tree splits: one axis of one instant at a time."""
    splits = ["root", "x at 1", "x at 2", "y at 1", "y at 2", "x at 1", "x at 2"]
    path = np.array([[0.62, 0.70], [0.80, 0.38]])
    figure = Figure(figsize=(9, 3.0), layout="constrained")
    panels = figure.subplots(2, len(splits))
    low, high = np.zeros((2, 2)), np.ones((2, 2))
    for column, split in enumerate(splits):
        if column:
            instant, axis = int(split[-1]) - 1, "xy".index(split[0])
            middle = (low[instant, axis] + high[instant, axis]) / 2
            half = low if path[instant, axis] >= middle else high
            half[instant, axis] = middle
        for instant in range(2):
            axes = panels[instant, column]
            corner, size = low[instant], high[instant] - low[instant]
            is_new = column and split.endswith(f"at {instant + 1}")
            _frame(axes)
            color = ORANGE if is_new else SKY
            axes.add_patch(Rectangle(tuple(corner), *size, facecolor=color, alpha=0.6))
            axes.plot(*path[instant], "o", color=BLACK, markersize=4)
            if not instant:
                axes.set_title("all" if not column else f"split {split}")
            if not column:
                axes.set_ylabel(f"instant {instant + 1}")
    return figure


def draw_city(city: City) -> Figure:
    """Where the people are at the first minute."""
    figure = Figure(figsize=(5.4, 5.2), layout="constrained")
    axes = figure.subplots()
    _add_roads(axes, city)
    axes.plot(*city.places[:, 0].T, ",", color=BLUE, alpha=0.5)
    axes.set_title(f"{len(city.places):,} people at minute 0")
    _zoom(axes, city.places.reshape(-1, 2))
    return figure


def draw_cloaks(city: City) -> Figure:
    """All cloaks of one instant."""
    figure = Figure(figsize=(5.4, 5.2), layout="constrained")
    axes = figure.subplots()
    _add_roads(axes, city)
    edges = city.to_km(city.policy.cloaks[:, LENGTH // 2])
    _add_boxes(axes, edges, GREEN, 0.02, width=0.15)
    axes.set_title(f"The cloaks of {len(edges):,} bundles at minute {LENGTH // 2}")
    _zoom(axes, city.places.reshape(-1, 2))
    return figure


def draw_attackers(city: City) -> Figure:
    """The share of requests whose sender is found, by policy and attacker."""
    figure = Figure(figsize=(6.4, 2.9), layout="constrained")
    axes = figure.subplots()
    policies = list(dict.fromkeys(finding.policy for finding in city.attack.findings))
    for number, (policy, color) in enumerate(zip(policies, (ORANGE, RED, GREEN), strict=True)):
        found = [f for f in city.attack.findings if f.policy == policy]
        shares = [100 * f.identified / f.requests for f in found]
        places = np.arange(len(found)) + 0.27 * (number - 1)
        bars = axes.bar(places, shares, 0.25, color=color, label=policy)
        axes.bar_label(bars, [f"{share:.0f}" for share in shares], padding=1, fontsize=8)
    axes.set_xticks(range(len(ATTACKERS)), [name.replace("-", "-\n") for name in ATTACKERS])
    axes.set(ylabel="senders found (%)", ylim=(0, 108))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    return figure


PICTURES: dict[str, Callable[[City], Figure]] = {
    "attack": draw_attack,
    "bundle": draw_bundle,
    "us-tree": draw_tree,
    "city": draw_city,
    "cloaks": draw_cloaks,
    "attackers": draw_attackers,
}
"""The name of each picture, and what draws it."""


def draw_all(city: City, folder: Path) -> None:
    """Write every picture to a folder."""
    with mpl.rc_context(STYLE):
        for name, draw in PICTURES.items():
            drawn = BytesIO()
            draw(city).savefig(drawn, dpi=DPI, metadata={"Software": None})
            # A palette makes the files a quarter as large.
            Image.open(drawn).convert("RGB").quantize(COLORS, Image.Quantize.MAXCOVERAGE).save(
                folder / f"{name}.png"
            )


def _choose_victim(city: City) -> tuple[int, npt.NDArray[np.int32]]:
    """Find a sender of requests at two instants whom nobody else fits, and who moved far."""
    everybody = np.ones(city.cells.shape[:2], np.bool_)
    sizes, _ = attack_snapshots(city.snapshots, city.sent, everybody, threads=1)
    first, last = city.sent.first[:-1], city.sent.first[1:] - 1
    instant = city.sent.instant
    is_pair = (last - first == 1) & (instant[first] < instant[last])
    senders = np.flatnonzero((sizes[TP_AWARE][first] == 1) & is_pair)
    users = city.sent.user[first[senders]]
    chosen = senders[np.argmax(_travelled(city)[users])]
    return int(city.sent.user[first[chosen]]), instant[first[chosen] : last[chosen] + 1]


def _choose_bundle(city: City) -> int:
    """Find the bundle whose people moved farthest for the size of its cloaks."""
    edges = city.to_km(city.policy.cloaks)
    side = (edges[..., 2:] - edges[..., :2]).mean(axis=(1, 2))
    centre = (edges[..., 2:] + edges[..., :2]) / 2
    way = np.hypot(*(centre[:, -1] - centre[:, 0]).T)
    return int(np.argmax(way / side))


def _travelled(city: City) -> npt.NDArray[np.float64]:
    way: npt.NDArray[np.float64] = np.hypot(*(city.places[:, -1] - city.places[:, 0]).T)
    return way


def _add_roads(axes: Axes, city: City) -> None:
    network = city.network
    nodes = np.column_stack([network.x, network.y]) / 1000
    once = network.tails < network.heads
    width = np.where(network.classes[once] <= 2, 0.7, 0.25)
    lines = np.stack([nodes[network.tails[once]], nodes[network.heads[once]]], axis=1)
    axes.add_collection(
        LineCollection(list(lines), colors=ROADS, linewidths=width, zorder=0), autolim=False
    )


def _add_paths(axes: Axes, places: npt.NDArray[np.float64], color: str, width: float) -> None:
    axes.add_collection(LineCollection(list(places), colors=color, linewidths=width, alpha=0.8))


def _add_boxes(
    axes: Axes, edges: npt.NDArray[np.float64], color: str, alpha: float, width: float = 0.8
) -> None:
    boxes = [Rectangle((x, y), right - x, top - y) for x, y, right, top in edges]
    axes.add_collection(PatchCollection(boxes, facecolor=color, alpha=alpha))
    axes.add_collection(PatchCollection(boxes, facecolor="none", edgecolor=color, linewidth=width))


def _zoom(axes: Axes, places: npt.NDArray[np.float64]) -> None:
    """Show all places in a square, with some room around."""
    low, high = places.min(axis=0), places.max(axis=0)
    half = (high - low).max() * 0.58
    middle = (low + high) / 2
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    for panel in axes.figure.axes:
        panel.set_aspect("equal")
        panel.set_xlabel("km")


def _frame(axes: Axes) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[], aspect="equal")


def main() -> None:
    """Draw every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    draw_all(build_city(users=20_000, k=50, junctions=20_000), parser.parse_args().output)


if __name__ == "__main__":
    main()
