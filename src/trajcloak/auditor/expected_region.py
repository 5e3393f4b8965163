"""The region on the plane, cut into cells.

Follows "Place" in ``docs/data-model.md`` word by word.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from trajcloak.auditor.audited_log import Box


@dataclass(frozen=True)
class RegionCells:
    """The region, cut into cells."""

    x_min: float
    y_min: float
    side: float
    height: int

    @property
    def cell(self) -> float:
        """Side of a cell."""
        return float(np.ldexp(self.side, -self.height))

    @property
    def num_cells(self) -> int:
        """How many cells an axis has."""
        return 1 << self.height

    def edges(self, boxes: Any) -> Any:
        """Compute the published edges of boxes of cells."""
        corner = np.array([self.x_min, self.y_min, self.x_min, self.y_min])
        return corner + boxes.astype(np.float64) * self.cell


def find_region_problems(region: dict[str, float], bounds: Box) -> list[str]:
    """Check that the region holds every report on the plane strictly inside."""
    corner = np.array([region["x_min"], region["y_min"]])
    inside = (corner < bounds[:2]).all() and (bounds[2:] < corner + region["side"]).all()
    return [] if inside else ["the region does not hold all reports of the log strictly inside"]


def fit_square(bounds: Box, *, in_metres: bool) -> dict[str, float]:
    """Fit a region to reports, in multiples of a power of two: about 1/1000 of their extent."""
    low_x, low_y, high_x, high_y = bounds
    least = max(10.0 if in_metres else 1.0, max(map(abs, bounds)) * 2.0**-30)
    extent = max(high_x - low_x, high_y - low_y, least)
    unit = 2.0 ** math.floor(math.log2(extent)) / 1024
    left, bottom = ((math.ceil(low / unit) - 1) * unit for low in (low_x, low_y))
    reach = max(high_x - left, high_y - bottom, least)
    return {"x_min": left, "y_min": bottom, "side": (math.floor(reach / unit) + 1) * unit}
