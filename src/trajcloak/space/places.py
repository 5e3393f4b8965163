"""All places of a log in the plane, and the region around them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.log import RequestLog
from trajcloak.space.checks import PlacedParts, check_inside, check_reach
from trajcloak.space.outliers import check_outliers
from trajcloak.space.projection import Projection, find_projection
from trajcloak.space.region import Region, check_cells, check_height, check_size, fit_region


@dataclass(frozen=True)
class Places:
    """Where the rows of a log are, in planar coordinates.

    Attributes
    ----------
    x, y : (rows,) float64
    region : Region
    crs : str or None
        PROJ string of the projection; None for coordinates used as they are.
    """

    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    region: Region
    crs: str | None


def build_places(
    log: RequestLog, *, height: int | None, region: Region | None, threads: int
) -> Places:
    """Project a log if need be, and lay the grid over it.

    Parameters
    ----------
    log : RequestLog
    height : int, optional
        Default: the smallest with cells of at most 10 m; 16 for planar logs.
    region : Region, optional
        A square to use instead of one fitted to the log.
    threads : int
    """
    check_height(height)
    projection = find_projection(log, is_fitted=region is None)
    x, y = projection.place(log, threads)
    region = choose_region(lambda: iter([(log, x, y)]), projection, height, region, threads)
    return Places(x, y, region, projection.crs)


def choose_region(
    placed: PlacedParts,
    projection: Projection,
    height: int | None,
    region: Region | None,
    threads: int,
) -> Region:
    """Fit the region to all places, or check that they are inside the one asked for."""
    bounds = projection.bounds
    if bounds is None:
        parts = [(x.min(), y.min(), x.max(), y.max()) for _, x, y in placed()]
        low, high = np.min(parts, axis=0), np.max(parts, axis=0)
        bounds = float(low[0]), float(low[1]), float(high[2]), float(high[3])
    check_reach(placed, bounds)
    if region is None:
        check_outliers(placed, bounds, threads)
        region = fit_region(bounds, height, in_metres=projection.crs is not None)
    else:
        check_inside(placed, bounds, region)
    check_cells(region)
    check_size(region)
    return region
