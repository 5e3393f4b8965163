"""What the manifest of a release says."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.bundles import Bundles
from trajcloak.log import LogFacts
from trajcloak.options import REPORT_AWARE, TP_AWARE
from trajcloak.release.manifest_schema import FORMAT_VERSION
from trajcloak.space import Region, list_edges
from trajcloak.trajectories import Ingest, Layout, format_duration, format_moment
from trajcloak.version import __version__

USER_REASONS = ("missing_location", "small_window", "suppressed")
"""Why users are not published in a window."""

REASONS = {
    "dropped_row": "row dropped",
    "unknown_user": "user without location reports",
    "outside_windows": "outside all windows",
    "missing_location": "location not known throughout the window",
    "small_window": "window with too few users",
    "suppressed": "suppressed",
    "few_reporters": "too few members with a row",
    "vocabulary": "not in the vocabulary",
    "rare": "shown by too few bundles",
    "link_safe": "linked with other windows",
}
"""Why requests are not published, in the order in which it is decided, and in words."""


@dataclass
class LeftOut:
    """Counts who and what is not published, and why."""

    published_users: int = 0  # Users who are published in some window.
    gone_users: int = 0  # Users who are in no window, for other reasons than suppression.
    num_suppressed: int = 0  # Participants left out on purpose, once for each window.
    num_windows: int = 0  # Windows in which too few users take part.
    num_sets: int = 0  # Sets of requests of written bundles that are not eligible.
    num_requests: int = 0  # Requests that fall into a window.
    # By reason: users, once for each window.
    user_windows: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)  # By reason; private.

    def add(self, reason: str, users: int, requests: int) -> None:
        """Count users and requests that are not published."""
        self.user_windows[reason] += users
        self.requests[reason] += requests

    def merge(self, other: "LeftOut") -> None:
        """Add the counts of other users."""
        self.published_users += other.published_users
        self.gone_users += other.gone_users
        self.num_requests += other.num_requests
        self.user_windows.update(other.user_windows)
        self.requests.update(other.requests)


@dataclass(frozen=True)
class Totals:
    """What bundles add up to."""

    bundles: int
    users: int  # Members of all of them.
    smallest: int  # Members of the smallest.
    rows: int  # How many rectangles are published: one for each bundle, or part, and instant.
    # Summed area of the rectangles, once each and once for each user in it: floats whose sum is the
    # exact sum of the areas of all bundles.
    area: tuple[float, ...]
    cost: tuple[float, ...]
    # (2,): corners of the box around all cloaks, in cells, half open.
    low: npt.NDArray[np.uint32]
    high: npt.NDArray[np.uint32]


def add_up(bundles: Bundles, region: Region) -> Totals:
    """Add up the bundles of a window, or some of them; at least one."""
    parts = bundles.parts
    if parts is None:
        area = compute_published_areas(bundles.cloaks, region).sum(axis=1)
        return build_totals(
            bundles.sizes, bundles.cloaks.reshape(-1, 4), area, area * bundles.sizes
        )
    areas = compute_published_areas(parts.cloaks, region)
    first = parts.first[: -1 : parts.counts.shape[1]]
    area, cost = (np.add.reduceat(summed, first) for summed in (areas, areas * parts.sizes))
    return build_totals(bundles.sizes, parts.cloaks, area, cost)


def build_totals(
    sizes: npt.NDArray[Any],
    rectangles: npt.NDArray[np.uint32],
    area: npt.NDArray[np.float64],
    cost: npt.NDArray[np.float64],
) -> Totals:
    """Build the totals of bundles: members, summed area and cost of each; and all rectangles."""
    return Totals(
        len(sizes),
        int(sizes.sum()),
        int(sizes.min()),
        len(rectangles),
        sum_exactly(area.tolist()),
        sum_exactly(cost.tolist()),
        rectangles[:, :2].min(axis=0),
        rectangles[:, 2:].max(axis=0),
    )


def merge_totals(parts: Sequence[Totals]) -> Totals:
    """Add up parts, at least one; their order does not matter."""
    return Totals(
        sum(part.bundles for part in parts),
        sum(part.users for part in parts),
        min(part.smallest for part in parts),
        sum(part.rows for part in parts),
        sum_exactly([number for part in parts for number in part.area]),
        sum_exactly([number for part in parts for number in part.cost]),
        np.min([part.low for part in parts], axis=0),
        np.max([part.high for part in parts], axis=0),
    )


def sum_exactly(numbers: list[float]) -> tuple[float, ...]:
    """Sum numbers as a few floats, without rounding: each is what those before leave over."""
    parts: list[float] = []
    while rest := math.fsum(numbers + [-part for part in parts]):
        parts.append(rest)
    return tuple(parts)


def build_manifest(
    facts: LogFacts,
    layout: Layout,
    windows: Sequence[tuple[int, Totals]],
    left_out: LeftOut,
    ingest: Ingest,
    attributes: Sequence[str],
    num_requests: int,
    num_blocks: int,
) -> dict[str, Any]:
    """Build the content of ``manifest.json``, as ``docs/data-model.md`` lists it.

    ``windows`` are the published ones: how many instants each has, and its totals.
    ``attributes`` are the names of what requests have, ``num_requests`` the rows of
    ``requests.parquet``. ``num_blocks`` is how many blocks ``refined`` bundled apart from each
    other; 0 if no window was taken apart.
    """
    asked, grid, region = layout.asked, layout.grid, layout.region
    total = merge_totals([totals for _, totals in windows])
    return {
        "format_version": FORMAT_VERSION,
        "software": f"trajcloak {__version__}",
        "k": asked.k,
        "algorithm": asked.algorithm,
        "parameters": {
            "origin": format_moment(facts, grid.origin),
            "every": format_duration(grid.every, has_timestamps=facts.has_timestamps),
            "max_gap": format_duration(layout.max_gap, has_timestamps=facts.has_timestamps),
            "length": asked.length,
            "missing": asked.missing,
            "tz": facts.clock,
            **facts.reading,
            "align": asked.align,
            "windows": asked.windows,
            "tree": asked.tree,
            "effort": asked.effort,
            "seed": asked.seed,
            "suppress_above": asked.suppress_above,
            "max_suppressed": asked.max_suppressed,
            "members": asked.members,
            "rows_alike": asked.rows_alike,
            "requests": list(attributes),
            "vocabulary": asked.vocabulary is not None,
            "rare": asked.rare,
            "rare_below": asked.rare_below,
            "link_safe": asked.link_safe,
            "allow": sorted(set(asked.allow)),
            **({"blocks": num_blocks} if num_blocks else {}),
        },
        "cloak": asked.cloak,
        "crs": layout.crs,
        "region": {"x_min": region.x_min, "y_min": region.y_min, "side": region.side},
        "height": region.height,
        "windows": len(windows),
        "instants": sum(length for length, _ in windows),
        "users": left_out.published_users,
        "bundles": total.bundles,
        "smallest_bundle": total.smallest,
        "cost": math.fsum(total.cost),
        "mean_cloak_area": math.fsum(total.area) / total.rows,
        "requests": num_requests,
        "withheld": {
            "users": left_out.gone_users,
            "windows": left_out.num_windows,
            "sets": left_out.num_sets,
        },
        "suppressed": left_out.num_suppressed,
        "attacker": REPORT_AWARE if facts.is_one_log else TP_AWARE,
        "parts": None if asked.parts is None else {"users": asked.parts, "per": asked.parts_per},
        "ingest": ingest.to_dict(),
    }


def build_figures(
    facts: LogFacts, left_out: LeftOut, counts: Any, num_requests: int
) -> dict[str, Any]:
    """Build the private figures about requests: what became of each request of the log.

    ``counts`` is a :class:`trajcloak.requests.decide.RequestCounts`.
    """
    withheld = {
        "dropped_row": facts.dropped_requests,
        "unknown_user": facts.unknown_requests,
        "outside_windows": facts.num_requests
        - facts.dropped_requests
        - facts.unknown_requests
        - left_out.num_requests,
        **{reason: left_out.requests[reason] for reason in (*USER_REASONS, "few_reporters")},
        "vocabulary": counts.vocabulary,
        "rare": counts.rare,
        "link_safe": counts.link_safe,
    }
    return {
        "requests": facts.num_requests,
        "published": num_requests,
        "equal": counts.published - num_requests,
        "withheld": withheld,
        "replaced": counts.replaced,
        "kept_rare": counts.kept_rare,
        "user_windows": {reason: left_out.user_windows[reason] for reason in USER_REASONS},
    }


def compute_published_areas(
    cloaks: npt.NDArray[np.uint32], region: Region
) -> npt.NDArray[np.float64]:
    """Compute the area of every rectangle from its edges as they are published."""
    left, bottom, right, top = list_edges(region, cloaks)
    areas: npt.NDArray[np.float64] = (right - left) * (top - bottom)
    return areas
