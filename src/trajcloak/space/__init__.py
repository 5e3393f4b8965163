"""Projection, region and grid: from coordinates to cells and back."""

from trajcloak.log import Bounds, ShardedLog
from trajcloak.space.projection import choose_projection, place_log
from trajcloak.space.region import (
    Region,
    check_cells,
    check_height,
    check_size,
    default_height,
    find_cell,
    fit_region,
)
from trajcloak.space.region_checks import check_inside, check_outliers, check_reach

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


def choose_region(
    log: ShardedLog,
    bounds: Bounds,
    *,
    height: int | None,
    region: Region | None,
    in_metres: bool,
) -> Region:
    """Fit the region to all places, or check that they are inside the region asked for.

    Parameters
    ----------
    log
        With planar coordinates.
    bounds
        Bounds of its places on the plane.
    height
        Default: the smallest with cells of at most 10 m; 16 for planar logs.
    region
        A square to use instead of one fitted to the log.
    in_metres
        Whether the unit of the plane is known.
    """
    check_reach(log, bounds)
    if region is None:
        check_outliers(log, bounds)
        region = fit_region(bounds, height, in_metres=in_metres)
    else:
        check_inside(log, bounds, region)
    check_cells(region)
    check_size(region)
    return region
