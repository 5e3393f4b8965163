"""From longitude and latitude to the plane."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyproj

from trajcloak.errors import InputError
from trajcloak.kernels.threads import build_slices, run_sliced
from trajcloak.log import RequestLog
from trajcloak.log.misplaced import check_misplaced
from trajcloak.space.region import Bounds

HALF_TURN = 180.0
CENTRE_DECIMALS = 2
PROJECTION_BLOCK = 1 << 18


@dataclass(frozen=True)
class Projection:
    """How the coordinates of a log become planar ones.

    Attributes
    ----------
    crs : str or None
        Of the planar coordinates; None if it is not known.
    bounds : (float, float, float, float) or None
        Of the planar coordinates, if they are those of the log itself.
    joins : bool
        Whether longitudes go on beyond the 180th meridian.
    """

    crs: str | None
    bounds: Bounds | None
    joins: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether planar coordinates are others than those of the log."""
        return self.bounds is None

    def place(
        self, log: RequestLog, threads: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Compute the planar coordinates of all rows of a log, or of a part of it."""
        if not self.is_needed:
            return log.x, log.y
        lon = _continue_east(log.x) if self.joins else log.x
        return _project(log, lon, str(self.crs), threads)


def find_projection(log: RequestLog, *, is_fitted: bool) -> Projection:
    """Choose how to project a log, or to take its coordinates as they are.

    ``is_fitted``: whether the region is to be fitted to them, so that they had better be right.
    """
    if is_fitted:
        check_misplaced(log)
    if not log.geographic:
        return Projection(log.crs, log.bounds)
    bounds, joins = join_hemispheres(log)
    return Projection(choose_projection(bounds), None, joins)


def join_hemispheres(log: RequestLog) -> tuple[Bounds, bool]:
    """Let the longitudes of a log that crosses the 180th meridian go on beyond it.

    Returns the bounds of the log, and whether it is so.
    """
    return join_bounds(log.bounds, lambda: [bound_east(part) for part in log.parts()])


def join_bounds(
    bounds: Bounds, bound_parts: Callable[[], Sequence[tuple[float, float]]]
) -> tuple[Bounds, bool]:
    """Join hemispheres by the bounds of a log, and those of its parts if need be.

    ``bound_parts`` lists what :func:`bound_east` finds of each part.
    """
    west, south, east, north = bounds
    if east - west <= HALF_TURN:
        return bounds, False
    lows, highs = zip(*bound_parts(), strict=True)
    if max(highs) - min(lows) > HALF_TURN:
        return bounds, False
    return (min(lows), south, max(highs), north), True


def bound_east(log: RequestLog) -> tuple[float, float]:
    """Find the least and the greatest longitude of a log if it goes on beyond 180 degrees."""
    lon = _continue_east(log.x)
    return float(lon.min()), float(lon.max())


def _continue_east(lon: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Number the longitudes of the western hemisphere from 180 to 360."""
    return np.where(lon < 0, lon + 2 * HALF_TURN, lon)


def choose_projection(bounds: Bounds) -> str:
    """Choose the equal-area projection centred on a longitude-latitude box."""
    west, south, east, north = bounds
    if east - west > HALF_TURN:
        raise InputError(
            "the log spans more than 180 degrees of longitude, also across the 180th meridian; "
            "expected an area on one half of the globe; leave rows out with --clip, or publish "
            "two logs"
        )
    lon = round((west + east) / 2, CENTRE_DECIMALS)
    lat = round((south + north) / 2, CENTRE_DECIMALS)
    return f"+proj=laea +lat_0={lat} +lon_0={lon} +datum=WGS84 +units=m +no_defs"


def _project(
    log: RequestLog, lon: npt.NDArray[np.float64], crs: str, threads: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    x = np.empty_like(log.x)
    y = np.empty_like(log.y)

    def project(start: int, stop: int) -> None:
        # A transformer belongs to one thread.
        transformer = pyproj.Transformer.from_crs(log.crs, crs, always_xy=True)
        for a, b in build_slices(stop - start, (stop - start) // PROJECTION_BLOCK + 1):
            part = slice(start + a, start + b)
            x[part], y[part] = transformer.transform(lon[part], log.y[part])

    run_sliced(project, log.num_rows, threads)
    if not all(map(math.isfinite, (x.min(), y.min(), x.max(), y.max()))):
        row = int(np.argmin(np.isfinite(x) & np.isfinite(y)))
        raise InputError(
            f"row {log.number_rows(np.array(row))}: the place cannot be projected; expected an "
            f"area on one half of the globe; correct or remove the row"
        )
    return x, y
