"""Rows of a log that were to be dropped, found by the auditor's own rules.

The rules are those of ``docs/data-model.md``, "Rows that are dropped".
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.files import plain
from trajcloak.options import LogColumns

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

EARTH = 6_371_008.8
FASTEST = 340.0


def find_bad_rows(
    batch: dict[str, Any], names: list[str], columns: LogColumns, geographic: bool
) -> dict[str, Mask]:
    """Tell, by reason, which rows of a batch are to be dropped; each for its first reason.

    ``names`` are those of the user, the time and the two coordinates.
    """
    x_name, y_name = names[2:]
    empty = np.zeros(len(batch[x_name]), dtype=bool)
    for name in names:
        empty |= batch[name].is_null().to_numpy(zero_copy_only=False)
    x, y = (_numbers(batch[name]) for name in (x_name, y_name))
    wild = np.zeros(len(empty), dtype=bool)
    for name, values, bound in ((x_name, x, 180.0), (y_name, y, 90.0)):
        good = np.isfinite(values)
        if geographic:
            good &= np.abs(values) <= bound
        wild |= ~good & batch[name].is_valid().to_numpy(zero_copy_only=False)
    found = {"empty": empty, "out-of-range": wild, "null-island": (x == 0.0) & (y == 0.0)}
    chosen = {reason: mask for reason, mask in found.items() if reason in columns.drop}
    if columns.clip is not None:
        low_x, low_y, high_x, high_y = columns.clip
        chosen["clip"] = (x < low_x) | (y < low_y) | (x > high_x) | (y > high_y)
    gone = np.zeros(len(empty), dtype=bool)
    for reason, mask in chosen.items():
        chosen[reason] = mask & ~gone
        gone |= mask
    return chosen


def _numbers(column: Any) -> Floats:
    try:
        values: Floats = pc.cast(plain(column), pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return np.full(len(column), np.nan)
    return values


def find_swapped(lon: Floats, lat: Floats) -> Mask:
    """Find the rows far from the middle of the log that are near it with their axes swapped."""
    middle = (len(lon) - 1) // 2
    east, north = float(np.sort(lon)[middle]), float(np.sort(lat)[middle])
    as_given = np.maximum(np.abs(lon - east), np.abs(lat - north))
    turned = np.maximum(np.abs(lat - east), np.abs(lon - north))
    near = 4 * max(float(np.sort(as_given)[middle]), 0.01)
    return (turned <= near) & (as_given > 2 * near)


def find_conflicts(user: Any, time: Ints, x: Floats, y: Floats) -> Mask:
    """Find all rows of a user at a time with several places; rows are by user and time."""
    group = _number_groups(user, time)
    first = np.flatnonzero(np.append(True, np.diff(group) > 0))
    moved = (x != x[first[group]]) | (y != y[first[group]])
    is_bad = np.bincount(group, weights=moved) > 0
    return is_bad[group]


def find_teleports(
    user: Any, time: Ints, x: Floats, y: Floats, speed: float, geographic: bool
) -> Mask:
    """Find the rows that cannot be reached in time; rows are by user and time.

    Each report is compared with the last one kept. The first is kept only if the next
    one can be reached from it. Rows in conflict are passed over.
    """
    teleports = np.zeros(len(time), dtype=bool)
    group = _number_groups(user, time)
    passed = find_conflicts(user, time, x, y)
    first = np.flatnonzero(np.append(True, np.diff(group) > 0))
    first = first[~passed[first]]
    near = _can_reach(first[:-1], first[1:], time, x, y, speed, geographic)
    follows = user[first[1:]] == user[first[:-1]]
    # Only users with a report that is too far from the one before need to be followed.
    suspects = np.unique(user[first[1:]][follows & ~near])
    bad = set()
    for suspect in suspects:
        reports = first[np.searchsorted(user[first], suspect, "left") :]
        reports = reports[: np.searchsorted(user[reports], suspect, "right")]
        last, settled = reports[0], False
        for report in reports[1:]:
            if _can_reach(last, report, time, x, y, speed, geographic):
                last, settled = report, True
            elif settled:
                bad.add(int(group[report]))
            else:
                bad.add(int(group[last]))
                last = report
    teleports[np.isin(group, list(bad))] = True
    return teleports


def find_too_fast(
    user: Any, time: Ints, x: Floats, y: Floats, speed: float, geographic: bool
) -> Ints:
    """Find the rows that cannot be reached from the row before, of the same user, in time."""
    one = np.flatnonzero(user[1:] == user[:-1])
    # Two formulas may round to both sides of a speed that is just reached.
    near = _can_reach(one, one + 1, time, x, y, speed * (1 + 1e-9), geographic)
    fast: Ints = one[~near] + 1
    return fast


def _number_groups(user: Any, time: Ints) -> Ints:
    """Number the distinct pairs of a user and a time, in order."""
    new = (user[1:] != user[:-1]) | (time[1:] != time[:-1])
    return np.concatenate([[0], np.cumsum(new)]).astype(np.int64)


def _can_reach(
    one: Any, other: Any, time: Ints, x: Floats, y: Floats, speed: float, geographic: bool
) -> Any:
    """Tell whether reports can be reached from others; ``speed`` is per tick."""
    if not geographic:
        distance = np.hypot(x[other] - x[one], y[other] - y[one])
        return distance <= speed * (time[other] - time[one])
    lat_one, lat_other = np.radians(y[one]), np.radians(y[other])
    chord = np.sin((lat_other - lat_one) / 2) ** 2
    chord = chord + np.cos(lat_one) * np.cos(lat_other) * (
        np.sin(np.radians(x[other] - x[one]) / 2) ** 2
    )
    distance = 2 * EARTH * np.arcsin(np.minimum(1.0, np.sqrt(chord)))
    return distance <= speed * (time[other] - time[one])
