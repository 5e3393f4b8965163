"""The report on a log that came in, as plain loops over rows (user, time, x, y, request)."""

from fractions import Fraction
from itertools import pairwise
from math import ceil

from .completion import location_at

DROPPED = ("clip", "empty", "out-of-range", "null-island", "swapped", "conflict", "teleport")
PERCENT = {"p5": 5, "median": 50, "p95": 95}


def report(rows, completed, max_gap, missing):
    """Count what the manifest says of a log; times are as in the rows."""
    times = {}
    places = {}
    for user, time, x, y, _ in rows:
        times.setdefault(user, []).append(time)
        places.setdefault(user, {})[time] = (x, y)
    gaps = []
    for times_of_user in times.values():
        times_of_user.sort()
        gaps += [b - a for a, b in pairwise(times_of_user)]
    counts = dict.fromkeys(("reported", "interpolated", "held", "missing"), 0)
    for window in completed.windows:
        for instant in range(window.start, window.stop):
            moment = completed.origin + instant * completed.every
            for reports in places.values():
                counts[_how(reports, moment, max_gap, missing)] += 1
    positive = sorted(gap for gap in gaps if gap > 0)
    return {
        "rows": len(rows),
        "dropped": dict.fromkeys(DROPPED, 0),
        "repeated": sum(gap == 0 for gap in gaps),
        "users": len(times),
        "start": completed.origin,
        "end": completed.origin + completed.num_instants * completed.every,
        "instants": completed.num_instants,
        "interval": {
            name: two_digits(positive[max(ceil(Fraction(percent * len(positive), 100)), 1) - 1])
            for name, percent in PERCENT.items()
        }
        if positive
        else None,
        "long_gaps": sum(gap > max_gap for gap in gaps),
        "user_instants": counts,
        "ambiguous": 0,
        "nonexistent": 0,
    }


def _how(reports, moment, max_gap, missing):
    if moment in reports:
        return "reported"
    if location_at(reports, moment, max_gap, "withhold") is not None:
        return "interpolated"
    return "held" if missing == "hold" else "missing"


def two_digits(gap):
    """Round to two significant digits, halves up."""
    unit = 1
    while gap >= 100 * unit:
        unit *= 10
    return int(Fraction(gap, unit) + Fraction(1, 2)) * unit
