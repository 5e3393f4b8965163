"""The manifest that must have been published: every figure, computed again."""

import math
from typing import Any

import numpy as np

from trajcloak.auditor.audited_log import AuditedLog, Box
from trajcloak.auditor.audited_times import spell_duration, spell_moment
from trajcloak.auditor.expected_bundles import ExpectedBundles, count_suppressed
from trajcloak.options import LogColumns
from trajcloak.version import __version__

PERCENT = {"p5": 5, "median": 50, "p95": 95}


def expect_manifest(
    found: dict[str, Any],
    columns: LogColumns,
    bundles: ExpectedBundles,
    cloaks: Any,
    num_withheld_sets: int,
    num_requests: int,
) -> dict[str, Any]:
    """Build the manifest; only what the publisher alone knows is taken from the one found."""
    log, grid, members = bundles.log, bundles.grid, bundles.members
    least = found["parameters"]["members"] or found["k"]
    windows = np.unique(members.window)
    suppressed = count_suppressed(bundles, least)
    cost, area = _sum_areas(bundles, cloaks)
    # Users who are published, and then also those who are left out on purpose.
    known = np.zeros(len(log.ids), bool)
    known[members.user] = True
    num_published = int(known.sum())
    for window in np.flatnonzero(bundles.participants >= least).tolist():
        for users in bundles.unlisted[window]:
            known[users] = True
    return {
        **{name: found[name] for name in ("format_version", "software", "k", "algorithm")},
        **{name: found[name] for name in ("cloak", "region", "height")},
        "parameters": {
            **found["parameters"],
            **columns.reading,
            "tz": columns.tz,
            "requests": log.kinds.names,
        },
        "crs": log.plane_crs,
        "windows": len(windows),
        "instants": int(grid.lengths[windows].sum()),
        "users": num_published,
        "bundles": len(members.window),
        "smallest_bundle": int(members.sizes.min()),
        "cost": cost,
        "mean_cloak_area": area / len(cloaks),
        "requests": num_requests,
        "withheld": {
            "users": log.num_users - int(known.sum()),
            "windows": int((bundles.participants < least).sum()),
            "sets": num_withheld_sets,
        },
        "suppressed": int(suppressed.sum()),
        "attacker": "report-aware" if log.one_log else "tp-aware",
        "parts": found["parts"],
        "ingest": _expect_ingest(bundles),
    }


def _sum_areas(bundles: ExpectedBundles, cloaks: Any) -> tuple[float, float]:
    """Sum the areas of rectangles, once for each user in them and once for each rectangle.

    The sum over a bundle is rounded; over bundles it is exact, rounded once.
    """
    members = bundles.members
    costs: list[float] = []
    areas: list[float] = []
    ends = bundles.first_row[bundles.first_set]
    for window in np.unique(members.window).tolist():
        low, high = members.list_bundles(window)
        rows = slice(ends[low], ends[high])
        edges = bundles.cells.edges(cloaks[rows])
        of_row = (edges[:, 2] - edges[:, 0]) * (edges[:, 3] - edges[:, 1])
        if members.parts or bundles.grid.needed is not None:
            starts = ends[low:high] - ends[low]
            of_bundle = np.add.reduceat(of_row, starts)
            cost = np.add.reduceat(of_row * bundles.sizes[rows], starts)
        else:
            of_bundle = of_row.reshape(high - low, -1).sum(axis=1)
            cost = of_bundle * members.sizes[low:high]
        areas += of_bundle.tolist()
        costs += cost.tolist()
    return math.fsum(costs), math.fsum(areas)


def _expect_ingest(bundles: ExpectedBundles) -> dict[str, Any]:
    log, grid = bundles.log, bundles.grid
    names = ("reported", "interpolated", "held", "missing")
    end = grid.origin + grid.num_instants * grid.every
    return {
        "rows": log.num_read,
        "dropped": log.dropped,
        "repeated": log.repeated,
        "users": log.num_users,
        "start": spell_moment(grid.origin, log.stamped, log.zoned),
        "end": spell_moment(end, log.stamped, log.zoned),
        "instants": grid.num_instants,
        "interval": _find_quantiles(log),
        "long_gaps": sum(count for gap, count in log.gaps.items() if gap > grid.max_gap),
        "user_instants": dict(zip(names, bundles.located.tolist(), strict=True)),
        "crs": log.crs,
        "zone": log.clock or ("UTC" if log.zoned else None),
        "ambiguous": log.ambiguous,
        "nonexistent": log.nonexistent,
    }


def _find_quantiles(log: AuditedLog) -> dict[str, Any] | None:
    """Find quantiles: the least gap that this share of all gaps do not exceed, rounded."""
    if not log.gaps:
        return None
    ordered = sorted(log.gaps)
    total = np.cumsum([log.gaps[gap] for gap in ordered])
    quantiles = {}
    for name, percent in PERCENT.items():
        rank = -(-percent * int(total[-1]) // 100)
        gap = ordered[int(np.searchsorted(total, rank))]
        quantiles[name] = spell_duration(_round(gap), log.stamped)
    return quantiles


def _round(gap: int) -> int:
    """Round to two significant digits, halves up."""
    unit: int = 10 ** max(len(str(gap)) - 2, 0)
    return (2 * gap + unit) // (2 * unit) * unit


def find_figure_problems(
    found: dict[str, Any], expected: dict[str, Any], prefix: str = ""
) -> list[str]:
    """Compare the fields of a manifest, or those within the field that ``prefix`` names."""
    problems = []
    for name, value in expected.items():
        there = found[name]
        if isinstance(value, dict) and isinstance(there, dict):
            problems += find_figure_problems(there, value, f"{prefix}{name}.")
        # 1, 1.0 and true are different texts, though equal in Python.
        elif type(there) is not type(value) or there != value:
            problems.append(f"'{prefix}{name}' is {_show(there)}; computed again: {_show(value)}")
    return problems


def _show(value: Any) -> str:
    """Show numbers; text could be a user's id."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return repr(value) if isinstance(value, float) else "other text"


def list_free_values(found: dict[str, Any], bundles: ExpectedBundles) -> list[str]:
    """List what the publisher chose and no file can confirm, in words."""
    parameters, grid = found["parameters"], bundles.grid
    usual = {"seed": 0, "rare_below": 2}
    if grid.max_gap == 2 * grid.every or "stream" in parameters:
        usual["max_gap"] = parameters["max_gap"]
    names = (
        "seed", "suppress_above", "max_suppressed", "blocks", "clip", "max_speed", "max_gap",
        "rare_below",
    )  # fmt: skip
    free = [
        f"{name} {parameters[name]}"
        for name in names
        if parameters.get(name) not in (None, usual.get(name))
    ]
    for name, value in parameters.get("stream", {}).items():
        free.append(f"{name} {value}")
    if found["software"] != f"trajcloak {__version__}":
        free.append("the version of the software")
    if found["region"] != _fit_square(bundles.bounds, in_metres=found["crs"] is not None):
        free.append(
            "the region, which is fixed when a stream begins"
            if "stream" in parameters
            else "a region that is not the one fitted to the log"
        )
    return free


def _fit_square(bounds: Box, *, in_metres: bool) -> dict[str, float]:
    """Fit a region to reports, in multiples of a power of two: about 1/1000 of their extent."""
    low_x, low_y, high_x, high_y = bounds
    least = max(10.0 if in_metres else 1.0, max(map(abs, bounds)) * 2.0**-30)
    extent = max(high_x - low_x, high_y - low_y, least)
    unit = 2.0 ** math.floor(math.log2(extent)) / 1024
    left, bottom = ((math.ceil(low / unit) - 1) * unit for low in (low_x, low_y))
    reach = max(high_x - left, high_y - bottom, least)
    return {"x_min": left, "y_min": bottom, "side": (math.floor(reach / unit) + 1) * unit}
