"""What the manifest of a release says."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.bundles import Bundles
from trajcloak.cloaks import X_START, X_STOP, Y_START, Y_STOP
from trajcloak.log import RequestLog
from trajcloak.options import Options
from trajcloak.published import FORMAT_VERSION
from trajcloak.space import Places, Region
from trajcloak.trajectories import (
    Ingest,
    Located,
    TimeGrid,
    Window,
    format_duration,
    format_moment,
)
from trajcloak.version import __version__


class LeftOut:
    """Counts who and what is not published, and why."""

    def __init__(self, num_users: int) -> None:
        self.largest_window = 0
        self.num_suppressed = 0
        self.num_generalised = 0
        self.located = Located()
        self.num_requests = 0
        self.published_users = np.zeros(num_users, np.bool_)
        self.suppressed_users = np.zeros(num_users, np.bool_)
        self.why = {
            reason: {"user_windows": 0, "requests": 0}
            for reason in (
                "outside_windows",
                "missing_location",
                "window_below_k",
                "suppressed",
                "rare_value",
            )
        }

    def add(self, window: Window, bundles: Bundles | None) -> None:
        """Count a window: whose location is not known, and who is in none of its bundles."""
        self.add_missing(window)
        if bundles is None:
            self.add_below_k(window)
        else:
            self.add_suppressed(window, bundles)

    def _add(self, reason: str, users: int, requests: int) -> None:
        self.why[reason]["user_windows"] += users
        self.why[reason]["requests"] += requests

    def add_missing(self, window: Window) -> None:
        """Count the users of a window whose location is not known throughout."""
        self.largest_window = max(self.largest_window, len(window.user))
        self.located = self.located.plus(window.located)
        self.num_requests += window.left_out_requests + len(window.request_user)
        self._add("missing_location", window.left_out_users, window.left_out_requests)

    def add_outside(self, num_requests: int) -> None:
        """Count those of all requests that fall into no window; after the last window."""
        self._add("outside_windows", 0, num_requests - self.num_requests)

    def add_below_k(self, window: Window) -> None:
        """Count the participants of a window that has too few of them."""
        self._add("window_below_k", int(window.reported.sum()), len(window.request_user))

    def add_suppressed(self, window: Window, bundles: Bundles) -> None:
        """Count the participants and requests left out on purpose, and those published."""
        reported = int(window.reported[bundles.bundle < 0].sum())
        self._add("suppressed", reported, bundles.suppressed_requests)
        self._add("rare_value", 0, bundles.rare_requests)
        self.num_generalised += bundles.generalised_requests
        self.num_suppressed += bundles.num_suppressed
        self.published_users[bundles.user[bundles.bundle >= 0]] = True
        self.suppressed_users[bundles.user[bundles.bundle < 0]] = True


def build_manifest(
    log: RequestLog,
    asked: Options,
    grid: TimeGrid,
    max_gap: int,
    places: Places,
    published: Iterable[Bundles],
    left_out: LeftOut,
    ingest: Ingest,
) -> dict[str, Any]:
    """Build the content of ``manifest.json``, as ``docs/data-model.md`` lists it."""
    region = places.region
    totals = [_add_up(bundles, region) for bundles in published]
    num_cloaks = sum(total.cloaks for total in totals)
    gone = ~left_out.published_users & ~left_out.suppressed_users
    return {
        "format_version": FORMAT_VERSION,
        "software": f"trajcloak {__version__}",
        "k": asked.k,
        "algorithm": asked.algorithm,
        "parameters": {
            "origin": format_moment(log, grid.origin),
            "every": format_duration(grid.every, has_timestamps=log.has_timestamps),
            "max_gap": format_duration(max_gap, has_timestamps=log.has_timestamps),
            "length": asked.length,
            "missing": asked.missing,
            "tz": log.clock,
            **log.reading,
            "align": asked.align,
            "windows": asked.windows,
            "tree": asked.tree,
            "effort": asked.effort,
            "seed": asked.seed,
            "suppress_above": asked.suppress_above,
            "max_suppressed": asked.max_suppressed,
            "rare": asked.rare,
            "rare_below": asked.rare_below or asked.k,
        },
        "cloak": asked.cloak,
        "crs": places.crs,
        "region": {"x_min": region.x_min, "y_min": region.y_min, "side": region.side},
        "height": region.height,
        "windows": len(totals),
        "instants": sum(total.instants for total in totals),
        "users": int(left_out.published_users.sum()),
        "bundles": sum(total.bundles for total in totals),
        "smallest_bundle": min(total.smallest_bundle for total in totals),
        "cost": math.fsum(total.cost for total in totals),
        "mean_cloak_area": math.fsum(total.area for total in totals) / num_cloaks,
        "requests": sum(total.requests for total in totals),
        "withheld": {
            "users": int(gone.sum()),
            "requests": sum(counts["requests"] for counts in left_out.why.values()),
            "why": left_out.why,
        },
        "suppressed": left_out.num_suppressed,
        "generalised": left_out.num_generalised,
        "ingest": ingest.to_dict(),
    }


class _Totals(NamedTuple):
    """Counts and sums over the bundles of a window."""

    instants: int
    bundles: int
    smallest_bundle: int
    cloaks: int
    area: float
    cost: float
    requests: int


def _add_up(bundles: Bundles, region: Region) -> _Totals:
    areas = _published_areas(bundles, region)
    return _Totals(
        instants=bundles.stop - bundles.start,
        bundles=len(bundles.sizes),
        smallest_bundle=int(bundles.sizes.min()),
        cloaks=areas.size,
        area=float(areas.sum()),
        cost=float((areas.sum(axis=1) * bundles.sizes).sum()),
        requests=len(bundles.request_kind),
    )


def _published_areas(bundles: Bundles, region: Region) -> npt.NDArray[np.float64]:
    """Compute the area of every cloak from its edges as they are published."""
    left, bottom, right, top = (
        region.edges(axis, bundles.cloaks[..., side])
        for axis, side in ((0, X_START), (1, Y_START), (0, X_STOP), (1, Y_STOP))
    )
    areas: npt.NDArray[np.float64] = (right - left) * (top - bottom)
    return areas
