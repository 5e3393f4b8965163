"""Windows, users, counts, costs and the report on the log against the recount."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_log import Log
from trajcloak.auditor.audited_manifest import INGEST, REASONS, Manifest
from trajcloak.auditor.audited_values import duration_to_ticks, moment_to_ticks
from trajcloak.auditor.bundle_checks import BundleLayout, Members
from trajcloak.auditor.findings import first_few, first_rows
from trajcloak.auditor.recount import Recount
from trajcloak.auditor.search import list_distinct

Ints = npt.NDArray[np.int64]

COST_TOLERANCE = 1e-9
"""Relative difference that the order of summation explains."""

PERCENT = {"p5": 5, "median": 50, "p95": 95}


def find_window_problems(counted: Recount, layout: BundleLayout, manifest: Manifest) -> list[str]:
    """Check that the windows with at least k participants, and no others, are published."""
    published = np.zeros(len(counted.participants), dtype=bool)
    published[layout.window] = True
    enough = counted.participants >= manifest["k"]
    problems = []
    for wrong, what in (
        (enough & ~published, "with at least k participants are not published"),
        (published & ~enough, "with fewer than k participants are published"),
    ):
        if wrong.any():
            windows = np.flatnonzero(wrong)
            problems.append(f"{len(windows):,} windows {what} ({first_few(windows)})")
    return problems


def find_member_problems(
    counted: Recount, members: Members, manifest: Manifest, suppressed: Ints
) -> list[str]:
    """Check that all who take part are in a bundle, but the suppressed, and no others.

    ``suppressed`` are counted by window.
    """
    problems = []
    num_suppressed = int(suppressed.sum())
    strangers = np.sort(members.row[~counted.takes_part])
    if len(strangers):
        problems.append(
            f"users who do not take part in the window in {first_rows(strangers)} of the policy"
        )
    if num_suppressed != manifest["suppressed"]:
        problems.append(
            f"{num_suppressed:,} pairs of a user who takes part and a published window are in no "
            f"bundle; the manifest has {manifest['suppressed']:,} suppressed"
        )
    too_many = np.flatnonzero(suppressed > _list_budgets(counted, manifest))
    if len(too_many):
        problems.append(
            f"more users are in no bundle than the parameters allow in {len(too_many):,} windows "
            f"({first_few(too_many)})"
        )
    return problems


def _list_budgets(counted: Recount, manifest: Manifest) -> Ints:
    """List how many users may be left out of each window on purpose."""
    share = manifest.parameters["max_suppressed"]
    if share is not None:
        most: Ints = np.floor(share * counted.participants).astype(np.int64)
        return most
    # 'suppress_above' alone sets no limit on how many.
    may_suppress = manifest.parameters["suppress_above"] is not None
    return counted.participants * int(may_suppress)


def count_suppressed(counted: Recount, k: int) -> Ints:
    """Count, by window, who takes part without a bundle where there are at least k."""
    window = np.concatenate(counted.unlisted_window)
    missing = np.bincount(window, minlength=len(counted.participants))
    return np.where(counted.participants >= k, missing, 0)


def find_count_problems(
    manifest: Manifest,
    grid: InstantGrid,
    layout: BundleLayout,
    members: Members,
    num_requests: int,
    num_generalised: int,
) -> list[str]:
    """Recount what the manifest counts."""
    windows = list_distinct(layout.window)
    users = list_distinct(members.key // grid.num_windows)
    return _compare(
        manifest.fields,
        {
            "windows": len(windows),
            "instants": int(grid.window_sizes(windows).sum()),
            "users": len(users),
            "bundles": len(layout.ids),
            "smallest_bundle": int(members.sizes.min()),
            "requests": num_requests,
            "generalised": num_generalised,
        },
    )


def find_cost_problems(manifest: Manifest, layout: BundleLayout, members: Members) -> list[str]:
    """Recompute the costs."""
    x_min, y_min, x_max, y_max = layout.rectangle.T
    with np.errstate(over="ignore", invalid="ignore"):
        areas = (x_max - x_min) * (y_max - y_min)
        recomputed = {
            "cost": float((areas * members.sizes[layout.bundle]).sum()),
            "mean_cloak_area": float(areas.mean()),
        }
    return [
        f"'{name}' is {manifest[name]!r}; recomputed: {value!r}"
        for name, value in recomputed.items()
        if not math.isclose(manifest[name], value, rel_tol=COST_TOLERANCE)
    ]


def find_withheld_problems(
    manifest: Manifest, grid: InstantGrid, counted: Recount, members: Members, num_users: int
) -> list[str]:
    """Recount what was left out, and why."""
    k = manifest["k"]
    below = counted.participants < k
    in_bundle = np.zeros(num_users, dtype=bool)
    in_bundle[members.key // grid.num_windows] = True
    unlisted_user = np.concatenate(counted.unlisted_user)
    unlisted_window = np.concatenate(counted.unlisted_window)
    suppressed = np.zeros(num_users, dtype=bool)
    suppressed[unlisted_user[~below[unlisted_window]]] = True
    pairs = (
        0,
        counted.missing_pairs,
        int(counted.unlisted_reporting[below].sum()),
        int(counted.unlisted_reporting[~below].sum()),
        0,
    )
    requests = (
        counted.outside_requests,
        counted.missing_requests,
        int(counted.unlisted_requests[below].sum()),
        int(counted.unlisted_requests[~below].sum()),
        counted.rare_requests,
    )
    withheld = manifest["withheld"]
    problems = _compare(
        withheld,
        {"users": int((~in_bundle & ~suppressed).sum()), "requests": sum(requests)},
        "withheld.",
    )
    for reason, num_pairs, num_requests in zip(REASONS, pairs, requests, strict=True):
        problems += _compare(
            withheld["why"][reason],
            {"user_windows": num_pairs, "requests": num_requests},
            f"withheld.why.{reason}.",
        )
    return problems


def _compare(found: dict[str, int], recounted: dict[str, int], prefix: str = "") -> list[str]:
    return [
        f"'{prefix}{name}' is {found[name]:,}; recounted: {value:,}"
        for name, value in recounted.items()
        if found[name] != value
    ]


def find_ingest_problems(
    manifest: Manifest, log: Log, grid: InstantGrid, counted: Recount
) -> list[str]:
    """Recount what the manifest reports on the log."""
    found = manifest["ingest"]
    expected = _recount(log, grid, counted)
    read = {
        **found,
        "start": moment_to_ticks(found["start"], log.stamped, log.zoned),
        "end": moment_to_ticks(found["end"], log.stamped, log.zoned),
        "interval": found["interval"]
        and {name: duration_to_ticks(gap, log.stamped) for name, gap in found["interval"].items()},
    }
    return [
        f"'ingest.{name}' is {found[name]!r}; recounted: {expected[name]!r}"
        for name in INGEST
        if read[name] != expected[name]
    ]


def _recount(log: Log, grid: InstantGrid, counted: Recount) -> dict[str, Any]:
    follows = log.user[1:] == log.user[:-1]
    gaps = (log.time[1:] - log.time[:-1])[follows]
    reported, interpolated, held = counted.located.tolist()
    everywhere = log.num_users * int(grid.window_sizes(np.arange(grid.num_windows)).sum())
    return {
        "rows": len(log.row) + sum(log.dropped.values()),
        "dropped": log.dropped,
        "repeated": int((gaps == 0).sum()),
        "requests": len(log.request_row),
        "users": log.num_users,
        "start": grid.origin,
        "end": grid.origin + grid.num_instants * grid.every,
        "instants": grid.num_instants,
        "interval": _find_quantiles(gaps[gaps > 0]),
        "long_gaps": int((gaps > grid.max_gap).sum()),
        "user_instants": {
            "reported": reported,
            "interpolated": interpolated,
            "held": held,
            "missing": everywhere - reported - interpolated - held,
        },
        "crs": log.crs,
        "zone": log.clock or ("UTC" if log.zoned else None),
        "ambiguous": log.ambiguous,
        "nonexistent": log.nonexistent,
    }


def _find_quantiles(gaps: npt.NDArray[np.int64]) -> dict[str, int] | None:
    """Find quantiles: the least gap that this share of all gaps do not exceed, rounded."""
    if not len(gaps):
        return None
    ranks = {name: max(-(-percent * len(gaps) // 100) - 1, 0) for name, percent in PERCENT.items()}
    ordered = np.partition(gaps, list(ranks.values()))
    return {name: _round(int(ordered[rank])) for name, rank in ranks.items()}


def _round(gap: int) -> int:
    """Round to two significant digits, halves up."""
    unit: int = 10 ** max(len(str(gap)) - 2, 0)
    return (2 * gap + unit) // (2 * unit) * unit
