"""What the map shows: which bundles, which of their requests, and how dense users are."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.errors import show_text
from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import (
    CellGrid,
    PublishedWindow,
    build_cell_grid,
    encode_values,
    read_request_table,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_RECTANGLES = 250_000  # on the map, over all windows and instants; what a page can hold
MOST_AT_ONCE = 6_000  # rectangles of an instant on the map; what a browser draws without stutter
MOST_WINDOWS = 400  # on the map
MOST_LISTED = 500_000  # requests that the page lists, over all bundles and instants
MOST_TEXT = 2_000_000  # characters of different requests on the page
LONGEST_VALUE = 200  # characters of a value that are shown
FREQUENT = 8  # values of an attribute that are listed with their numbers
MOST_SQUARES = 2_000_000  # squares of all instants on the page, a byte each
FINEST, COARSEST = 128, 16  # most and fewest squares along the longer side of the map
CAP = 0.998  # share of squares that are not empty whose colour is not the strongest one
SHADES = 255


@dataclass(frozen=True)
class DrawnWindow:
    """The part of a window that the map shows."""

    number: int  # the window's place in the release, from 0
    window: PublishedWindow
    bundle: Ints  # counted from the window's first, ascending


def choose_drawn(
    release: PublishedRelease,
    most_rectangles: int = MOST_RECTANGLES,
    most_at_once: int = MOST_AT_ONCE,
    most_windows: int = MOST_WINDOWS,
) -> list[DrawnWindow]:
    """Choose windows, and in each the same share of bundles."""
    windows = release.windows
    chosen = space_evenly(len(windows), most_windows).tolist()
    share = min(1.0, most_rectangles / sum(len(windows[i].sizes) for i in chosen))
    drawn = []
    for number in chosen:
        window = windows[number]
        num_bundles, at_once = len(window.users), int(window.counts.sum(axis=0).max())
        most = max(1, int(min(share, most_at_once / at_once) * num_bundles))
        drawn.append(DrawnWindow(number, window, space_evenly(num_bundles, most)))
    return drawn


def space_evenly(total: int, most: int) -> Ints:
    """Choose at most ``most`` of the numbers from 0 to ``total`` - 1, evenly spaced.

    Examples
    --------
    >>> space_evenly(10, 4), space_evenly(3, 4)
    (array([0, 2, 5, 7]), array([0, 1, 2]))
    """
    number = min(total, most)
    return np.arange(number, dtype=np.int64) * total // max(number, 1)


@dataclass(frozen=True)
class AttributeSummary:
    """One request attribute."""

    name: str
    num_values: int  # different values, null among them
    frequent: list[tuple[str, int]]  # the most frequent values, and how many entries have each
    rare: list[str]  # values, null aside, that too few bundles of some window show


@dataclass(frozen=True)
class ReleaseRequests:
    """All requests of a release."""

    bundle: Ints
    instant: Ints
    kind: Ints  # index into ``kinds``
    kinds: list[list[str]]  # the different requests, a text for each attribute
    attributes: list[AttributeSummary]

    def count_by_instant(self, release: PublishedRelease) -> Ints:
        """Count the requests at each published instant."""
        counts = np.bincount(self.instant, minlength=release.windows[-1].stop)
        return np.concatenate([counts[window.start : window.stop] for window in release.windows])


def read_requests(release: PublishedRelease) -> ReleaseRequests:
    """Read the requests, and number the different ones."""
    names = release.attributes
    table, _ = read_request_table(release.requests, names, release.windows)
    bundle = table.column("bundle_id").to_numpy()
    codes, texts, rare = [], [], []
    for name in names:
        code, values = encode_values(release.requests.file, table.column(name))
        codes.append(code)
        texts.append([_show(value) for value in values])
        few = find_rare(code, bundle, release)
        rare.append(sorted(texts[-1][i] for i in few.tolist() if values[i] is not None))
    kind = np.zeros(table.num_rows, np.int64)
    for code, values in zip(codes, texts, strict=True):
        kind = kind * len(values) + code
        # Numbers of kinds stay small, however many attributes there are.
        kind = np.unique(kind, return_inverse=True)[1].astype(np.int64)
    first = np.unique(kind, return_index=True)[1]
    return ReleaseRequests(
        bundle=bundle,
        instant=table.column("instant").to_numpy().astype(np.int64),
        kind=kind,
        kinds=[[t[int(c[row])] for c, t in zip(codes, texts, strict=True)] for row in first],
        attributes=[
            _describe(*attribute) for attribute in zip(names, codes, texts, rare, strict=True)
        ],
    )


def find_rare(code: Ints, bundle: Ints, release: PublishedRelease) -> Ints:
    """Find the values, given for each request by number, that too few bundles of a window show."""
    first = [window.first_id for window in release.windows]
    num_bundles = first[-1] + len(release.windows[-1].users)
    value, bundle = np.divmod(np.unique(code * num_bundles + bundle), num_bundles)
    window = np.searchsorted(first, bundle, side="right")
    places = len(first) + 1
    shown, bundles = np.unique(value * places + window, return_counts=True)
    few: Ints = np.unique(shown[bundles < release.manifest["parameters"]["rare_below"]] // places)
    return few


def _show(value: Any) -> str:
    text = "(null)" if value is None else show_text(str(value))
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + " …"


def _describe(name: str, code: Ints, values: list[str], rare: list[str]) -> AttributeSummary:
    counts = np.bincount(code, minlength=len(values)).tolist()
    frequent = sorted(zip(values, counts, strict=True), key=lambda item: (-item[1], item[0]))
    return AttributeSummary(name, len(values), frequent[:FREQUENT], rare)


@dataclass(frozen=True)
class ListedRequests:
    """The requests of the bundles on the map, window by window."""

    totals: list[Ints]  # how many each bundle has at each instant
    codes: list[Ints]  # the first ``most`` of each, bundle by bundle; indices into ``kinds``
    kinds: list[list[str]]
    most: int  # requests of a bundle and instant that are listed


def list_drawn(requests: ReleaseRequests, drawn: Sequence[DrawnWindow]) -> ListedRequests:
    """List the requests of the bundles on the map, as many of each as fit on the page."""
    parts = [_select(requests, part) for part in drawn]
    most = max(int(total.max()) for total, _, _ in parts)
    while True:
        codes = [kind[rank < most] for _, kind, rank in parts]
        used = np.unique(np.concatenate(codes))
        characters = sum(sum(map(len, requests.kinds[i])) for i in used.tolist())
        listed = sum(map(len, codes))
        if most == 0 or (listed <= MOST_LISTED and characters <= MOST_TEXT):
            break
        most //= 2
    return ListedRequests(
        totals=[total for total, _, _ in parts],
        codes=[np.searchsorted(used, code) for code in codes],
        kinds=[requests.kinds[i] for i in used.tolist()],
        most=most,
    )


def _select(requests: ReleaseRequests, drawn: DrawnWindow) -> tuple[Ints, Ints, Ints]:
    """Select the requests of a window's bundles on the map.

    Returns how many each bundle and instant has, and the kind of each and its rank among these.
    """
    window, bundle = drawn.window, drawn.bundle
    start, stop = np.searchsorted(
        requests.bundle, [window.first_id, window.first_id + len(window.users)]
    )
    place = np.full(len(window.users), -1)
    place[bundle] = np.arange(len(bundle))
    number = place[requests.bundle[start:stop] - window.first_id]
    is_drawn = number >= 0
    length = window.stop - window.start
    slot = (number * length + requests.instant[start:stop] - window.start)[is_drawn]
    order = np.argsort(slot, kind="stable")
    slot, kind = slot[order], requests.kind[start:stop][is_drawn][order]
    totals = np.bincount(slot, minlength=len(bundle) * length)
    rank = np.arange(len(slot)) - (np.cumsum(totals) - totals)[slot]
    return totals, kind, rank


@dataclass(frozen=True)
class DensityGrid:
    """The squares in which users are counted: their lower left corner and side are in cells."""

    low: tuple[float, float]
    side: float
    columns: int
    rows: int


@dataclass(frozen=True)
class MapDensity:
    """The density surface of the windows on the map."""

    bounds: list[int]  # the box around all rectangles, in cells
    grid: DensityGrid
    greatest: float  # the expected users of a square with the strongest colour
    shades: list[Ints]  # of each window, by instant, row and column


def build_density_grid(bounds: Sequence[int], num_instants: int) -> DensityGrid:
    """Choose squares that cover a box, as small as the page can hold for so many instants.

    Examples
    --------
    >>> build_density_grid([0, 100, 640, 420], 30)
    DensityGrid(low=(0.0, 100.0), side=5.0, columns=128, rows=64)
    """
    width, height = bounds[2] - bounds[0], bounds[3] - bounds[1]
    fitting = int(np.sqrt(MOST_SQUARES / num_instants))
    side = max(width, height) / min(max(fitting, COARSEST), FINEST)
    columns, rows = (max(1, int(np.ceil(extent / side))) for extent in (width, height))
    return DensityGrid((float(bounds[0]), float(bounds[1])), side, columns, rows)


def compute_density(window: PublishedWindow, cells: CellGrid, grid: DensityGrid) -> Floats:
    """Count the expected users of each square: (instants, rows, columns).

    Every rectangle spreads its users evenly over its area. The share of a rectangle in a column
    of squares changes only where the rectangle starts and where it ends; these changes, times those
    along rows, are noted down and then summed up.
    """
    length = window.stop - window.start
    corner = np.array([*grid.low, *grid.low])[:, None]
    x_min, y_min, x_max, y_max = (cells.to_cells(window.rectangles) - corner) / grid.side
    weight = window.sizes / ((x_max - x_min) * (y_max - y_min))
    instant = np.repeat(np.tile(np.arange(length), len(window.users)), window.counts.ravel())
    # An edge on the last line, or after rounding beyond it, changes nothing inside.
    shape = length, grid.rows + 2, grid.columns + 2
    changes = np.zeros(length * shape[1] * shape[2])
    for (row, height), (column, width) in product(
        _list_changes(y_min, y_max, grid.rows), _list_changes(x_min, x_max, grid.columns)
    ):
        place = (instant * shape[1] + row) * shape[2] + column
        changes += np.bincount(place, weight * height * width, minlength=len(changes))
    sums = changes.reshape(shape).cumsum(axis=1).cumsum(axis=2)
    return np.asarray(np.maximum(sums[:, : grid.rows, : grid.columns], 0.0))


def _list_changes(start: Floats, stop: Floats, number: int) -> list[tuple[Ints, Floats]]:
    """List where, and by how much, the overlap with squares along an axis changes.

    Between two squares it grows by what the first square misses of a rectangle that starts
    there, then by the rest of 1; where the rectangle stops, it falls likewise.
    """
    changes = []
    for edge, sign in ((start, 1.0), (stop, -1.0)):
        square = np.clip(np.floor(edge), 0, number).astype(np.int64)
        share = edge - square
        changes += [(square, sign * (1 - share)), (square + 1, sign * share)]
    return changes


def shade(density: Floats, greatest: float) -> Ints:
    """Turn expected users into shades: 0 for none, growing with their square root."""
    share = np.sqrt(np.minimum(density / greatest, 1.0))
    shades: Ints = np.ceil(share * SHADES - 1e-6).astype(np.int64)
    return shades


def build_density(release: PublishedRelease, drawn: Sequence[DrawnWindow]) -> MapDensity:
    """Compute the density surface, of all bundles of each window on the map."""
    cells = build_cell_grid(release.manifest)
    low = np.min([part.window.rectangles[:2].min(axis=1) for part in drawn], axis=0)
    high = np.max([part.window.rectangles[2:].max(axis=1) for part in drawn], axis=0)
    bounds = cells.to_cells(np.concatenate([low, high])).tolist()
    num_instants = sum(part.window.stop - part.window.start for part in drawn)
    grid = build_density_grid(bounds, num_instants)
    densities = [compute_density(part.window, cells, grid) for part in drawn]
    somebody = np.concatenate([density[density > 0] for density in densities])
    greatest = float(np.quantile(somebody, CAP))
    return MapDensity(bounds, grid, greatest, [shade(density, greatest) for density in densities])
