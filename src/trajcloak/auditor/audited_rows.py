"""The rows of a log: checked batch by batch, and those to drop.

Which rows are dropped is defined in ``docs/data-model.md``, "Rows that are dropped".
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_values import TimeColumn, decode_array, read_times
from trajcloak.errors import InputError
from trajcloak.options import LogColumns

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

EARTH = 6_371_008.8
FASTEST = 340.0


class CheckedRows:
    """Takes the batches of a log and checks each row by itself.

    Parameters
    ----------
    user, time, place
        Names of the columns.
    geographic
        Whether the place is longitude and latitude.
    requests
        Names of the request attributes.
    columns
        Says which rows to drop.
    """

    def __init__(
        self,
        user: str,
        time: str,
        place: tuple[str, str],
        geographic: bool,
        requests: tuple[str, ...],
        columns: LogColumns,
    ) -> None:
        self.user, self.time, self.place = user, time, place
        self.geographic = geographic
        self.columns = columns
        self.num_rows = 0
        self.num_read = 0
        self.dropped: dict[str, int] = {}
        self.users: list[Any] = []
        self.user_kinds: set[str] = set()
        self.times: list[TimeColumn] = []
        self.coordinates: tuple[list[Floats], list[Floats]] = ([], [])
        self.request_rows: list[Ints] = []
        self.requests: dict[str, list[Any]] = {name: [] for name in requests}
        self.request_kinds: dict[str, set[str]] = {name: set() for name in requests}

    def add(self, batch: dict[str, Any], is_csv: bool) -> None:
        """Check a batch and keep it.

        Raises
        ------
        InputError
            If a row breaks a rule of the data model.
        """
        batch = self._drop_rows(batch)
        for name in (self.user, self.time, *self.place):
            if batch[name].null_count:
                at = int(np.argmax(batch[name].is_null().to_numpy(zero_copy_only=False)))
                raise self._refuse(at, name, "is empty", "a value in every row")
        if not len(batch[self.user]):
            return
        self.users.append(self._take_users(batch[self.user], is_csv))
        self.times.append(self._take_times(batch[self.time]))
        for axis, name in enumerate(self.place):
            self.coordinates[axis].append(self._take_coordinate(batch[name], axis))
        self._take_requests(batch, is_csv)
        self.num_rows += len(batch[self.user])

    def _drop_rows(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Leave out the rows that are to be dropped, and count them."""
        self.num_read += len(batch[self.user])
        if self.columns.clip is None and not self.columns.drop:
            return batch
        names = [self.user, self.time, *self.place]
        gone = np.zeros(len(batch[self.user]), dtype=bool)
        for reason, mask in find_bad_rows(batch, names, self.columns, self.geographic).items():
            self.dropped[reason] = self.dropped.get(reason, 0) + int(mask.sum())
            gone |= mask
        if not gone.any():
            return batch
        return {name: column.filter(pa.array(~gone)) for name, column in batch.items()}

    def _take_users(self, column: Any, is_csv: bool) -> Any:
        kind = column.type
        if pa.types.is_integer(kind):
            column = try_cast(column, pa.int64())
            if column is None:
                raise self._refuse(0, self.user, "holds ids beyond 2^63", "smaller ids, or text")
            self.user_kinds.add("integer")
        elif pa.types.is_string(kind):
            self.user_kinds.add("csv" if is_csv else "text")
        else:
            raise self._refuse(0, self.user, f"is of type {kind}", "integers or text")
        if self.user_kinds >= {"integer", "text"}:
            raise self._refuse(0, self.user, "changes its type", "one type in all files")
        return column

    def _take_times(self, column: Any) -> TimeColumn:
        times = read_times(column)
        expected = "integers, timestamps or ISO 8601 text (all with a time zone or all without)"
        if times is None:
            at = _first_bad(column, lambda part: read_times(part) is None)
            raise self._refuse(at, self.time, "holds no time of that kind", expected)
        if self.times:
            first = self.times[0]
            if (first.stamped, first.zoned) != (times.stamped, times.zoned):
                raise self._refuse(0, self.time, "changes its kind of time", expected)
        return times

    def _take_coordinate(self, column: Any, axis: int) -> Floats:
        name = self.place[axis]
        values = try_cast(column, pa.float64())
        if values is None:
            at = _first_bad(column, lambda part: try_cast(part, pa.float64()) is None)
            raise self._refuse(at, name, "holds no number", "a finite number")
        numbers: Floats = values.to_numpy(zero_copy_only=False)
        bound = (180.0, 90.0)[axis] if self.geographic else np.inf
        bad = ~(np.isfinite(numbers) & (np.abs(numbers) <= bound))
        if bad.any():
            expected = "a finite number"
            if self.geographic:
                expected = f"{-bound:g}..{bound:g} degrees; are longitude and latitude swapped?"
            raise self._refuse(int(np.argmax(bad)), name, "is out of range", expected)
        return numbers

    def _take_requests(self, batch: dict[str, Any], is_csv: bool) -> None:
        if not self.requests:
            return
        filled = np.zeros(len(batch[self.user]), dtype=bool)
        for name in self.requests:
            if pa.types.is_nested(batch[name].type):
                raise self._refuse(0, name, f"is of type {batch[name].type}", "plain values")
            filled |= batch[name].is_valid().to_numpy(zero_copy_only=False)
        self.request_rows.append(np.flatnonzero(filled) + self.num_rows)
        mask = pa.array(filled)
        for name, parts in self.requests.items():
            is_text = is_csv and pa.types.is_string(batch[name].type)
            self.request_kinds[name].add("csv" if is_text else str(batch[name].type))
            parts.append(batch[name] if filled.all() else batch[name].filter(mask))

    def _refuse(self, at: int, name: str, found: str, expected: str) -> InputError:
        return InputError(
            f"log, row {self.num_rows + at + 1}: column '{name}' {found}; expected {expected}; "
            f"correct the row, or name another column"
        )


def try_cast(column: Any, kind: Any) -> Any:
    """Cast a column; None if a value cannot be cast."""
    try:
        return pc.cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _first_bad(column: Any, is_bad: Callable[[Any], bool]) -> int:
    """Find the first row that makes a column bad, by bisection."""
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if is_bad(column.slice(0, middle)) else (middle, bad)
    return good


def find_bad_rows(
    batch: dict[str, Any], names: list[str], columns: LogColumns, geographic: bool
) -> dict[str, Mask]:
    """Mark, by reason, the rows of a batch that are to be dropped; each for its first reason.

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
        values: Floats = pc.cast(decode_array(column), pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return np.full(len(column), np.nan)
    return values


def mark_swapped(lon: Floats, lat: Floats) -> Mask:
    """Find the rows far from the middle of the log that are near it with their axes swapped."""
    middle = (len(lon) - 1) // 2
    east, north = float(np.sort(lon)[middle]), float(np.sort(lat)[middle])
    as_given = np.maximum(np.abs(lon - east), np.abs(lat - north))
    turned = np.maximum(np.abs(lat - east), np.abs(lon - north))
    near = 4 * max(float(np.sort(as_given)[middle]), 0.01)
    return (turned <= near) & (as_given > 2 * near)


def mark_conflicts(user: Any, time: Ints, x: Floats, y: Floats) -> Mask:
    """Find all rows of a user at a time with several places; rows are by user and time."""
    group = _number_groups(user, time)
    first = np.flatnonzero(np.append(True, np.diff(group) > 0))
    moved = (x != x[first[group]]) | (y != y[first[group]])
    is_bad = np.bincount(group, weights=moved) > 0
    return is_bad[group]


def mark_teleports(
    user: Any, time: Ints, x: Floats, y: Floats, speed: float, geographic: bool
) -> Mask:
    """Find the rows that cannot be reached in time; rows are by user and time.

    Each report is compared with the last one kept. The first is kept only if the next
    one can be reached from it. Rows in conflict are passed over.
    """
    teleports = np.zeros(len(time), dtype=bool)
    group = _number_groups(user, time)
    passed = mark_conflicts(user, time, x, y)
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
    """Whether reports can be reached from others; ``speed`` is per tick."""
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
