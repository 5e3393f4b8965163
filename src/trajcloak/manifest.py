"""What the manifest of a release says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.bundles import Bundles
from trajcloak.cloaks import X_START, X_STOP, Y_START, Y_STOP
from trajcloak.log import AnyLog
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
        self.count_suppressed(window, bundles)
        self.mark_users(bundles.user[bundles.bundle >= 0], bundles.user[bundles.bundle < 0])

    def count_suppressed(self, window: Window, bundles: Bundles) -> None:
        """Count them without remembering who they are."""
        reported = int(window.reported[bundles.bundle < 0].sum())
        self._add("suppressed", reported, bundles.suppressed_requests)
        self._add("rare_value", 0, bundles.rare_requests)
        self.num_generalised += bundles.generalised_requests
        self.num_suppressed += bundles.num_suppressed

    def mark_users(
        self, published: npt.NDArray[np.int32], suppressed: npt.NDArray[np.int32]
    ) -> None:
        """Remember who is published in a window, and who is left out of it on purpose."""
        self.published_users[published] = True
        self.suppressed_users[suppressed] = True

    @property
    def num_published_users(self) -> int:
        """How many users are published in some window."""
        return int(self.published_users.sum())

    @property
    def num_gone_users(self) -> int:
        """How many users are in no window, for other reasons than suppression."""
        return int((~self.published_users & ~self.suppressed_users).sum())

    def merge(self, other: "LeftOut") -> None:
        """Add the counts of other users; the largest window is left out."""
        self.num_suppressed += other.num_suppressed
        self.num_generalised += other.num_generalised
        self.located = self.located.plus(other.located)
        self.num_requests += other.num_requests
        for reason, counts in other.why.items():
            self._add(reason, counts["user_windows"], counts["requests"])
        self.published_users = np.append(self.published_users, other.published_users)
        self.suppressed_users = np.append(self.suppressed_users, other.suppressed_users)


@dataclass(frozen=True)
class Totals:
    """What bundles add up to.

    Attributes
    ----------
    bundles, smallest, requests : int
        How many there are, users of the smallest, distinct requests.
    area, cost : tuple of float
        Summed area of the cloaks, once for each bundle and once for each user: floats
        whose sum is the exact sum of the areas of all bundles.
    low, high : (2,) uint32
        Corners of the box around all cloaks, in cells, half open.
    """

    bundles: int
    smallest: int
    requests: int
    area: tuple[float, ...]
    cost: tuple[float, ...]
    low: npt.NDArray[np.uint32]
    high: npt.NDArray[np.uint32]


def add_up(bundles: Bundles, region: Region) -> Totals:
    """Add up the bundles of a window, or some of them; at least one."""
    area = _published_areas(bundles, region).sum(axis=1)
    corners = bundles.cloaks.reshape(-1, 4)
    return Totals(
        len(bundles.sizes),
        int(bundles.sizes.min()),
        len(bundles.request_kind),
        _sum_exactly(area.tolist()),
        _sum_exactly((area * bundles.sizes).tolist()),
        corners[:, :2].min(axis=0),
        corners[:, 2:].max(axis=0),
    )


def merge_totals(parts: Sequence[Totals]) -> Totals:
    """Add up parts, at least one; their order does not matter."""
    return Totals(
        sum(part.bundles for part in parts),
        min(part.smallest for part in parts),
        sum(part.requests for part in parts),
        _sum_exactly([number for part in parts for number in part.area]),
        _sum_exactly([number for part in parts for number in part.cost]),
        np.min([part.low for part in parts], axis=0),
        np.max([part.high for part in parts], axis=0),
    )


def _sum_exactly(numbers: list[float]) -> tuple[float, ...]:
    """Sum numbers as a few floats, without rounding: each is what those before leave over."""
    parts: list[float] = []
    while rest := math.fsum(numbers + [-part for part in parts]):
        parts.append(rest)
    return tuple(parts)


def build_manifest(
    log: AnyLog,
    asked: Options,
    grid: TimeGrid,
    max_gap: int,
    places: Places,
    windows: Sequence[tuple[int, Totals]],
    left_out: LeftOut,
    ingest: Ingest,
    attributes: Sequence[str],
) -> dict[str, Any]:
    """Build the content of ``manifest.json``, as ``docs/data-model.md`` lists it.

    ``windows`` are the published ones: how many instants each has, and its totals.
    ``attributes`` are the names of what requests have.
    """
    region = places.region
    total = merge_totals([totals for _, totals in windows])
    num_cloaks = sum(length * totals.bundles for length, totals in windows)
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
            "requests": list(attributes),
            "allow": sorted(set(asked.allow)),
            "rare": asked.rare,
            "rare_below": asked.rare_below or asked.k,
        },
        "cloak": asked.cloak,
        "crs": places.crs,
        "region": {"x_min": region.x_min, "y_min": region.y_min, "side": region.side},
        "height": region.height,
        "windows": len(windows),
        "instants": sum(length for length, _ in windows),
        "users": left_out.num_published_users,
        "bundles": total.bundles,
        "smallest_bundle": total.smallest,
        "cost": math.fsum(total.cost),
        "mean_cloak_area": math.fsum(total.area) / num_cloaks,
        "requests": total.requests,
        "withheld": {
            "users": left_out.num_gone_users,
            "requests": sum(counts["requests"] for counts in left_out.why.values()),
            "why": left_out.why,
        },
        "suppressed": left_out.num_suppressed,
        "generalised": left_out.num_generalised,
        "ingest": ingest.to_dict(),
    }


def _published_areas(bundles: Bundles, region: Region) -> npt.NDArray[np.float64]:
    """Compute the area of every cloak from its edges as they are published."""
    left, bottom, right, top = (
        region.edges(axis, bundles.cloaks[..., side])
        for axis, side in ((0, X_START), (1, Y_START), (0, X_STOP), (1, Y_STOP))
    )
    areas: npt.NDArray[np.float64] = (right - left) * (top - bottom)
    return areas
