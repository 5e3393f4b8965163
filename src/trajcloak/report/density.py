"""The density surface of the map: expected users in each square of a coarse grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import CellGrid, PublishedWindow, build_cell_grid
from trajcloak.report.map_contents import DrawnWindow

Floats = npt.NDArray[np.float64]

MOST_SQUARES = 2_000_000
"""Squares of all instants on the page, a byte each."""

FINEST, COARSEST = 128, 16
"""Most and fewest squares along the longer side of the map."""

CAP = 0.998
"""Share of squares that are not empty whose colour is not the strongest one."""

SHADES = 255


@dataclass(frozen=True)
class DensityGrid:
    """The squares in which users are counted.

    Attributes
    ----------
    low : (float, float)
        Lower left corner, in cells of the release's grid.
    side : float
        Of a square, in cells.
    columns, rows : int
    """

    low: tuple[float, float]
    side: float
    columns: int
    rows: int


@dataclass(frozen=True)
class MapDensity:
    """The density surface of the windows on the map.

    Attributes
    ----------
    grid : DensityGrid
    greatest : float
        Expected users of a square with the strongest colour.
    shades : list of (instants, rows, columns) int64
        Of each window.
    """

    grid: DensityGrid
    greatest: float
    shades: list[npt.NDArray[np.int64]]


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
    density: Floats = np.maximum(sums[:, : grid.rows, : grid.columns], 0.0)
    return density


def _list_changes(
    start: Floats, stop: Floats, number: int
) -> list[tuple[npt.NDArray[np.int64], Floats]]:
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


def choose_greatest(densities: Sequence[Floats]) -> float:
    """Choose the expected users of a square that has the strongest colour."""
    found = np.concatenate([density[density > 0] for density in densities])
    return float(np.quantile(found, CAP))


def shade(density: Floats, greatest: float) -> npt.NDArray[np.int64]:
    """Turn expected users into shades: 0 for none, growing with their square root."""
    share = np.sqrt(np.minimum(density / greatest, 1.0))
    shades: npt.NDArray[np.int64] = np.ceil(share * SHADES - 1e-6).astype(np.int64)
    return shades


def find_bounds(release: PublishedRelease, drawn: Sequence[DrawnWindow]) -> list[int]:
    """Find the box around all rectangles of the windows on the map, in cells."""
    grid = build_cell_grid(release.manifest)
    low = np.min([part.window.rectangles[:2].min(axis=1) for part in drawn], axis=0)
    high = np.max([part.window.rectangles[2:].max(axis=1) for part in drawn], axis=0)
    cells: list[int] = grid.to_cells(np.concatenate([low, high])).tolist()
    return cells


def build_density(release: PublishedRelease, drawn: Sequence[DrawnWindow]) -> MapDensity:
    """Compute the density surface, of all bundles of each window on the map."""
    cells = build_cell_grid(release.manifest)
    num_instants = sum(part.window.stop - part.window.start for part in drawn)
    grid = build_density_grid(find_bounds(release, drawn), num_instants)
    densities = [compute_density(part.window, cells, grid) for part in drawn]
    greatest = choose_greatest(densities)
    return MapDensity(grid, greatest, [shade(density, greatest) for density in densities])
