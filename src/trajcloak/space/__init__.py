"""Projection, region and grid: from coordinates to cells and back."""

from trajcloak.space.projection import choose_projection, place_log
from trajcloak.space.region import (
    Region,
    check_cells,
    check_height,
    choose_region,
    default_height,
    find_cell,
    fit_region,
)

__all__ = [
    "Region",
    "check_cells",
    "check_height",
    "choose_projection",
    "choose_region",
    "default_height",
    "find_cell",
    "fit_region",
    "place_log",
]
