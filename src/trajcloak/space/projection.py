"""Project longitude and latitude to the plane."""

import math

import numpy as np
import numpy.typing as npt
import pyproj

from trajcloak.errors import InputError
from trajcloak.kernels.threads import build_slices, run_sliced
from trajcloak.log import Bounds, Change, RequestLog, ShardedLog, SomeRows
from trajcloak.log.sharded_log import merge_bounds

HALF_TURN = 180.0
CENTRE_DECIMALS = 2
PROJECTION_BLOCK = 1 << 18


def place_log(log: ShardedLog) -> tuple[ShardedLog, str | None, Bounds]:
    """Give the rows of a log planar coordinates; a planar log is used as it is.

    Returns the log, the coordinate system of the plane (None if it is not known), and the
    bounds on the plane.
    """
    facts = log.facts
    if not facts.geographic:
        return log, facts.crs, facts.bounds
    bounds, joins = _join_hemispheres(log)
    crs = choose_projection(bounds)
    placed = log.change(log.derive(_place_shard, crs, joins, log.engine.threads))
    bounds = merge_bounds(placed.ask(_bound_plane))
    if not all(map(math.isfinite, bounds)):
        rows = SomeRows(placed.ask(_find_unplaced), facts.files)
        raise InputError(
            f"{rows} at places that cannot be projected; expected an area on one half of the "
            f"globe; correct or remove them, or leave them out with --clip"
        )
    return placed, crs, bounds


def _place_shard(log: RequestLog, crs: str, joins: bool, threads: int) -> Change:
    lon = _continue_east(log.x) if joins else log.x
    x, y = _project(log, lon, crs, threads)
    return {"plane_x": x, "plane_y": y}


def _find_unplaced(log: RequestLog) -> npt.NDArray[np.int64]:
    x, y = log.plane
    return log.number_rows(np.flatnonzero(~(np.isfinite(x) & np.isfinite(y))))


def _bound_plane(log: RequestLog) -> Bounds:
    x, y = log.plane
    return float(x.min()), float(y.min()), float(x.max()), float(y.max())


def _join_hemispheres(log: ShardedLog) -> tuple[Bounds, bool]:
    """Decide whether a log crosses the 180th meridian, so that longitudes continue beyond 180.

    Returns the bounds of the log in degrees, and whether it does.
    """
    west, south, east, north = log.facts.bounds
    if east - west <= HALF_TURN:
        return log.facts.bounds, False
    lows, highs = zip(*log.ask(_bound_east), strict=True)
    if max(highs) - min(lows) > HALF_TURN:
        return log.facts.bounds, False
    return (min(lows), south, max(highs), north), True


def _bound_east(log: RequestLog) -> tuple[float, float]:
    """Find a shard's least and greatest longitude, if longitudes continue beyond 180 degrees."""
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
        # A transformer may be used by one thread only.
        transformer = pyproj.Transformer.from_crs(log.crs, crs, always_xy=True)
        for a, b in build_slices(stop - start, (stop - start) // PROJECTION_BLOCK + 1):
            part = slice(start + a, start + b)
            x[part], y[part] = transformer.transform(lon[part], log.y[part])

    run_sliced(project, log.num_rows, threads)
    return x, y
