"""The manifest's report on the log as it came in, against the auditor's own reading."""

from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.auditor.grid import Grid
from trajcloak.auditor.logs import Log
from trajcloak.auditor.manifest import INGEST, Manifest
from trajcloak.auditor.recount import Recount
from trajcloak.auditor.times import parse_duration, parse_moment

PERCENT = {"p5": 5, "median": 50, "p95": 95}


def find_ingest_problems(manifest: Manifest, log: Log, grid: Grid, counted: Recount) -> list[str]:
    """Recount what the manifest says of the log that came in."""
    found = manifest["ingest"]
    expected = _recount(log, grid, counted)
    read = {
        **found,
        "start": parse_moment(found["start"], log.stamped, log.zoned),
        "end": parse_moment(found["end"], log.stamped, log.zoned),
        "interval": found["interval"]
        and {name: parse_duration(gap, log.stamped) for name, gap in found["interval"].items()},
    }
    return [
        f"'ingest.{name}' is {found[name]!r}; recounted: {expected[name]!r}"
        for name in INGEST
        if read[name] != expected[name]
    ]


def _recount(log: Log, grid: Grid, counted: Recount) -> dict[str, Any]:
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
