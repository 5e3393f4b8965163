"""The map: the elements that its script fills, and the data that the script reads."""

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from itertools import pairwise
from string import Template
from typing import Any
from xml.etree import ElementTree

import numpy as np

from trajcloak.errors import show_text
from trajcloak.quantities import NO_BREAK, Unit, show_count, show_number
from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import CellGrid, build_cell_grid, list_ranges
from trajcloak.report.figures import CLASSES, Figures
from trajcloak.report.html_elements import Element, element, pack, read_part, render, section
from trajcloak.report.map_contents import DrawnWindow, ListedRequests, MapDensity
from trajcloak.report.sections import describe_instant

SIZE = "size of the rectangle, as the side of a square as large"


def build_map_section(
    release: PublishedRelease,
    figures: Figures,
    drawn: Sequence[DrawnWindow],
    unit: Unit,
    density: MapDensity,
    backdrop: str | None,
) -> Element:
    """Build the map's controls, its legend and the panel of the chosen bundle: ``map.html``."""
    square = density.grid.side * build_cell_grid(release.manifest).cell
    windows = [
        element(
            "option",
            f"{part.number + 1} of {len(release.windows):,}: from "
            f"{describe_instant(release, part.window.start)}",
            value=i,
        )
        for i, part in enumerate(drawn)
    ]
    choice = element("label", "Window ", element("select", *windows, id="window"))
    expected = f"expected users in a square with sides of {unit.length(square)}"
    legends = [
        _build_legend("density", expected, label_density(density.greatest), scale="d"),
        _build_legend("area", SIZE, _area_labels(figures, unit)),
        _build_legend("users", "users of the bundle", _size_labels(figures)),
    ]
    filled = Template(read_part("map.html")).substitute(
        rectangle=_explain_rectangles(release),
        sample=escape(f"{describe_sample(release, drawn)}{backdrop or ''}"),
        controls="controls several" if len(drawn) > 1 else "controls",
        windows=render([choice]) if len(drawn) > 1 else "",
        legends=render(legends),
    )
    parts = ElementTree.fromstring(filled)  # noqa: S314 (a file of ours)
    return section("map", "Where users were", *parts)


def _explain_rectangles(release: PublishedRelease) -> str:
    if release.manifest["parts"] is None:
        return (
            "A rectangle is a cloak, the area in which all users of one bundle were, and all that "
            "is published of where they were."
        )
    return (
        "A rectangle is the area in which a part of a bundle's users were, and all that is "
        "published of where they were; requests belong to the bundle as a whole."
    )


def describe_sample(release: PublishedRelease, drawn: Sequence[DrawnWindow]) -> str:
    """Say how much of the release the map shows."""
    shown = sum(len(part.bundle) for part in drawn)
    total = sum(len(window.users) for window in release.windows)
    of_windows = f"in {len(drawn):,} of {show_count(len(release.windows), 'window')}"
    at_a_time = ", one window at a time" if len(drawn) > 1 else ""
    words = f"The map shows {shown:,} of {show_count(total, 'bundle')}, {of_windows}{at_a_time}."
    if shown < total:
        words += (
            " They are evenly spaced by number, so that the page stays small and quick; the "
            "colours count all bundles of a window."
        )
    return words


def label_density(greatest: float) -> list[str]:
    """Name the colours of the density, whose shades grow with its square root.

    Examples
    --------
    >>> label_density(36.0)
    ['1', '4', '9', '16', '25', '36 and more']
    """
    users = [greatest * (i / CLASSES) ** 2 for i in range(1, CLASSES + 1)]
    labels = [show_number(float(f"{number:.2g}")) for number in users]
    return [*labels[:-1], f"{labels[-1]} and more"]


def _build_legend(name: str, title: str, labels: list[str], scale: str = "c") -> Element:
    items = (
        element("li", element("span", class_=f"swatch {scale}{colour}"), label)
        for colour, label in zip(spread_colours(len(labels)), labels, strict=True)
    )
    return element(
        "div",
        element("span", title, class_="name"),
        element("ul", *items),
        class_="legend",
        id=f"legend-{name}",
        hidden=None if name == "density" else "",
    )


def spread_colours(number: int) -> list[int]:
    """Choose colours for some classes, from all over the scale.

    Examples
    --------
    >>> spread_colours(1), spread_colours(3), spread_colours(6)
    ([0], [0, 2, 5], [0, 1, 2, 3, 4, 5])
    """
    return [i * (CLASSES - 1) // max(number - 1, 1) for i in range(number)]


def _area_labels(figures: Figures, unit: Unit) -> list[str]:
    """Name classes of areas by the sides of squares as large."""
    sides = [unit.length(float(np.sqrt(area))) for area in figures.area_breaks]
    between = [f"{_shorten(low, high)}–{high}" for low, high in pairwise(sides)]
    return [f"up to {sides[0]}", *between, f"{sides[-1]} and more"]


def _shorten(low: str, high: str) -> str:
    """Leave out the unit of the lower end if the upper end has the same."""
    number, space, unit = low.partition(NO_BREAK)
    return number if high.endswith(space + unit) else low


def _size_labels(figures: Figures) -> list[str]:
    edges = [figures.smallest, *figures.size_breaks, figures.largest + 1]
    return [f"{a:,}" if a + 1 == b else f"{a:,}–{b - 1:,}" for a, b in pairwise(edges)]


def build_map_data(
    release: PublishedRelease,
    figures: Figures,
    drawn: Sequence[DrawnWindow],
    listed: ListedRequests,
    density: MapDensity,
    unit: Unit,
    roads: dict[str, Any] | None,
) -> dict[str, Any]:
    """Gather what the script reads, rectangles in cells of the grid."""
    grid = build_cell_grid(release.manifest)
    return {
        "cell": grid.cell,
        "cells": 2 ** release.manifest["height"],
        "corner": grid.low,
        "bounds": density.bounds,
        "metres": unit.in_metres,
        "moments": release.times.moments,
        "zone": release.times.zone,
        "density": {**asdict(density.grid), "greatest": density.greatest},
        "hasParts": release.manifest["parts"] is not None,
        "areaBreaks": [area / grid.cell**2 for area in figures.area_breaks],
        "areaColours": spread_colours(len(figures.area_breaks) + 1),
        "sizeBreaks": figures.size_breaks,
        "sizeColours": spread_colours(len(figures.size_breaks) + 1),
        "attributes": [show_text(name) for name in release.attributes],
        "kinds": listed.kinds,
        "mostListed": listed.most,
        "roads": roads,
        "windows": [
            _build_window(part, grid, listed, i) | {"density": pack(density.shades[i].ravel())}
            for i, part in enumerate(drawn)
        ],
    }


def _build_window(
    drawn: DrawnWindow, grid: CellGrid, listed: ListedRequests, i: int
) -> dict[str, Any]:
    window, bundle = drawn.window, drawn.bundle
    # The script reads instant by instant.
    start = window.first[:-1].reshape(window.counts.shape)[bundle].T.ravel()
    count = window.counts[bundle].T.ravel()
    cells = grid.to_cells(window.rectangles[:, list_ranges(start, count)])
    # Corner and extent less one: they fit into as many bits as the height of the grid.
    cells = np.concatenate([cells[:2], cells[2:] - cells[:2] - 1])
    return {
        "start": window.start,
        "length": window.stop - window.start,
        "ids": pack(bundle + window.first_id),
        "users": pack(window.users[bundle]),
        "counts": pack(count),
        "rectangles": pack(cells.T.ravel()),
        "totals": pack(listed.totals[i]),
        "codes": pack(listed.codes[i]),
    }
