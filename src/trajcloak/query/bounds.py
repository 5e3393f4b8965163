"""How many users of each bundle are inside a region: proved in ``docs/queries.md``."""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from trajcloak.query.answers import Answer
from trajcloak.query.questions import Region

Numbers = npt.NDArray[np.int64]
Edges = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Grid:
    """The grid of cells that the edges of cloaks lie on.

    Attributes
    ----------
    low : (float, float)
        Its lower left corner.
    cell : float
        Side of a cell.
    """

    low: tuple[float, float]
    cell: float

    def to_cells(self, cloaks: Edges) -> Numbers:
        """Number the cell edges that the edges of cloaks, (4, ...), lie on."""
        low = np.array([*self.low, *self.low]).reshape(4, *[1] * (cloaks.ndim - 1))
        cells: Numbers = np.rint((cloaks - low) / self.cell).astype(np.int64)
        return cells

    def shift(self, edges: Edges, axis: int, cells: int) -> Edges:
        """Move edges by whole cells; rounds as edges were rounded when they were published."""
        low = self.low[axis]
        shifted: Edges = low + (np.rint((edges - low) / self.cell) + cells) * self.cell
        return shifted


@dataclass(frozen=True)
class Bounds:
    """Of each bundle: how many of its users are meant.

    Attributes
    ----------
    lower, upper : (bundles,) int64
    estimate : (bundles,) float64
        Between the bounds.
    """

    lower: Numbers
    estimate: npt.NDArray[np.float64]
    upper: Numbers

    def sum(self) -> Answer:
        """Add up all bundles, which have no user in common."""
        return Answer(int(self.lower.sum()), float(self.estimate.sum()), int(self.upper.sum()))


def bound_inside(cloaks: Edges, users: Numbers, region: Region, boxes: Grid | None) -> Bounds:
    """Bound how many users of each bundle are inside a region at an instant.

    Parameters
    ----------
    cloaks : (4, bundles) float64
        Least x and y, greatest x and y.
    users : (bundles,) int64
    region : Region
    boxes : Grid, optional
        If the cloaks are bounding boxes of their users' cells: the grid of cells.
    """
    x_min, y_min, x_max, y_max = cloaks
    left, bottom, right, top = region
    meets = (x_min <= right) & (left <= x_max) & (y_min <= top) & (bottom <= y_max)
    spans_x = (left <= x_min) & (x_max <= right)
    spans_y = (bottom <= y_min) & (y_max <= top)
    lower = np.where(spans_x & spans_y, users, 0)
    upper = np.where(meets, users, 0)
    if boxes is not None:
        covers_x, misses_x = _look_at_sides(x_min, x_max, left, right, boxes, 0)
        covers_y, misses_y = _look_at_sides(y_min, y_max, bottom, top, boxes, 1)
        lower = np.maximum(lower, (spans_y & covers_x) | (spans_x & covers_y))
        upper = np.where(meets, users - np.maximum(misses_x, misses_y), 0)
    width = np.minimum(x_max, right) - np.maximum(x_min, left)
    height = np.minimum(y_max, top) - np.maximum(y_min, bottom)
    share = np.where(meets, (width / (x_max - x_min)) * (height / (y_max - y_min)), 0.0)
    return Bounds(lower, np.clip(users * share, lower, upper), upper)


def _look_at_sides(
    low: Edges, high: Edges, start: float, stop: float, grid: Grid, axis: int
) -> tuple[Flags, Numbers]:
    """Look at the first and the last cells of boxes on an axis.

    Returns whether ``start`` to ``stop`` covers one of the two, and how many it misses.
    """
    first_stop = grid.shift(low, axis, 1)
    last_start = grid.shift(high, axis, -1)
    covers = ((start <= low) & (first_stop <= stop)) | ((start <= last_start) & (high <= stop))
    misses = (first_stop < start).astype(np.int64) + (stop < last_start)
    return covers, misses


def intersect_bounds(steps: list[Bounds], users: Numbers) -> Bounds:
    """Bound how many users of each bundle are counted at every step."""
    outside = sum(users - step.lower for step in steps)
    lower = np.maximum(users - outside, 0)
    upper = reduce(np.minimum, (step.upper for step in steps))
    share = reduce(np.multiply, (step.estimate / users for step in steps))
    return Bounds(lower, np.clip(users * share, lower, upper), upper)
