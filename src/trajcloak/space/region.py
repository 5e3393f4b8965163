"""The region, a square that holds a log, and its grid of cells."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.errors import InputError, OptionError
from trajcloak.options import MAX_COORDINATE, MAX_HEIGHT, MIN_CELL_ULPS

PLANAR_HEIGHT = 16
CELL_METRES = 10.0
GRANULES = 1024
"""The region's corner and side are multiples of about a thousandth of the log's extent."""


@dataclass(frozen=True)
class Region:
    """A square, cut into ``2**height`` by ``2**height`` cells.

    Attributes
    ----------
    x_min, y_min
        Lower left corner.
    side
        Length of a side.
    height
        The side has ``2**height`` cells.
    """

    x_min: float
    y_min: float
    side: float
    height: int

    @property
    def cell(self) -> float:
        """Side of a cell."""
        return math.ldexp(self.side, -self.height)

    def edges(self, axis: int, cells: npt.NDArray[np.uint32]) -> npt.NDArray[np.float64]:
        """Compute the lower edge of cells on an axis (0: x, 1: y)."""
        low = (self.x_min, self.y_min)[axis]
        edges: npt.NDArray[np.float64] = low + cells.astype(np.float64) * self.cell
        return edges


def check_height(height: int | None) -> None:
    """Raise if the height asked for cannot be used."""
    if height is not None and not 1 <= height <= MAX_HEIGHT:
        raise OptionError(f"height is {height}; expected 1..{MAX_HEIGHT}; pass another --height")


def fit_region(
    bounds: tuple[float, float, float, float], height: int | None, *, in_metres: bool
) -> Region:
    """Fit a square around a box, with the box strictly inside.

    Its corner and side are multiples of a granule, which is a power of two. So they reveal
    no exact coordinate of the log, and cell edges are exact floating-point numbers.

    Examples
    --------
    >>> fit_region((3.0, 4.0, 9.0, 6.0), 4, in_metres=False)
    Region(x_min=2.99609375, y_min=3.99609375, side=6.0078125, height=4)
    """
    x_min, y_min, x_max, y_max = bounds
    magnitude = max(map(abs, bounds))
    check_size(Region(x_min, y_min, 2 * magnitude, 1))
    extent = max(x_max - x_min, y_max - y_min)
    smallest = max(CELL_METRES if in_metres else 1.0, magnitude * 2.0**-30)
    granule = 2.0 ** math.floor(math.log2(max(extent, smallest))) / GRANULES
    left = (math.ceil(x_min / granule) - 1) * granule
    bottom = (math.ceil(y_min / granule) - 1) * granule
    reach = max(x_max - left, y_max - bottom, smallest)
    side = (math.floor(reach / granule) + 1) * granule
    height = default_height(side, in_metres=in_metres) if height is None else height
    return Region(left, bottom, side, height)


def default_height(side: float, *, in_metres: bool) -> int:
    """Choose the smallest height with cells of at most 10 m; 16 where there is no unit."""
    if not in_metres:
        return PLANAR_HEIGHT
    return min(max(1, math.ceil(math.log2(side / CELL_METRES))), MAX_HEIGHT)


def check_cells(region: Region) -> None:
    """Raise if cells are so small that their edges could be exact coordinates of users."""
    corners = region.x_min, region.y_min, region.x_min + region.side, region.y_min + region.side
    if region.cell < MIN_CELL_ULPS * math.ulp(max(map(abs, corners))):
        raise OptionError(
            f"height is {region.height}, which makes cells smaller than coordinates can be told "
            f"apart; expected larger cells; pass a smaller --height, or move the log's origin"
        )


def check_size(region: Region) -> None:
    """Raise if the region is so large that areas could not be summed in floating point."""
    reach = max(abs(region.x_min), abs(region.y_min)) + region.side
    if not reach <= MAX_COORDINATE:
        raise InputError(
            f"the log or its region reaches beyond {MAX_COORDINATE:g}; expected coordinates of a "
            f"place; are they damaged? correct them, or pass another --region"
        )


@njit(cache=True, nogil=True, inline="always")
def find_cell(value, low, cell, num_cells):  # type: ignore[no-untyped-def]
    """Find the cell of a coordinate, so that it is within the cell's published edges.

    The division may round across an edge. The comparison with the edges, computed as
    in :meth:`Region.edges`, corrects that.
    """
    i = min(max(np.int64((value - low) / cell), 0), num_cells - 1)
    if low + i * cell > value:
        i -= 1
    elif low + (i + 1) * cell < value:
        i += 1
    return np.uint32(i)
