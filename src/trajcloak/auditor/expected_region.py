"""The plane that a log is projected to, and the region on it that is cut into cells.

Follows "Place" in ``docs/data-model.md`` word by word.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from trajcloak.auditor.audited_log import AuditedLog, Box

PROJECTION = "+proj=laea +lat_0={lat} +lon_0={lon} +datum=WGS84 +units=m +no_defs"


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


def find_plane_crs(log: AuditedLog) -> str | None:
    """Find the coordinate system of the plane: that of a planar log, or a projection.

    It is centred on the log, to two decimals of a degree.
    """
    if not log.geographic:
        return log.crs
    west, south, east, north = log.bounds
    if log.crosses_meridian:
        west, east = log.eastern
    lon, lat = round((west + east) / 2, 2), round((south + north) / 2, 2)
    return PROJECTION.format(lat=lat, lon=lon)


def find_region_problems(region: dict[str, float], bounds: Box) -> list[str]:
    """Check that the region holds every report on the plane strictly inside."""
    low_x, low_y, high_x, high_y = bounds
    inside = (
        region["x_min"] < low_x
        and region["y_min"] < low_y
        and high_x < region["x_min"] + region["side"]
        and high_y < region["y_min"] + region["side"]
    )
    return [] if inside else ["the region does not hold all reports of the log strictly inside"]


def fit_square(bounds: Box, *, in_metres: bool) -> dict[str, float]:
    """Fit a region to reports: its corner and side are multiples of a power of two.

    That is about a thousandth of the extent of the reports.
    """
    low_x, low_y, high_x, high_y = bounds
    least = max(10.0 if in_metres else 1.0, max(map(abs, bounds)) * 2.0**-30)
    extent = max(high_x - low_x, high_y - low_y, least)
    unit = 2.0 ** math.floor(math.log2(extent)) / 1024
    left, bottom = ((math.ceil(low / unit) - 1) * unit for low in (low_x, low_y))
    reach = max(high_x - left, high_y - bottom, least)
    return {"x_min": left, "y_min": bottom, "side": (math.floor(reach / unit) + 1) * unit}
