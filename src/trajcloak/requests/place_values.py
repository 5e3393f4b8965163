"""Find request values that reveal where their row is."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.log import Bounds, RequestLog
from trajcloak.requests.attributes import Attribute
from trajcloak.requests.patterns import is_text

MIN_VALUES = 20
"""Fewer distinct numbers are grades or counts, and can be near a coordinate by chance."""

MIN_REQUESTS = 50
SAME = 0.5
"""A column is a coordinate if at least this share of its numbers is near their row's."""

FOLLOWS = 0.99
"""Least correlation with a coordinate at which a column reveals where its row is."""

DEGREES = 0.005
"""Largest error of degrees that are rounded to two decimals."""

EXTENT_SHARE = 1e-3
"""Share of the log's extent within which a planar number counts as near a coordinate."""

NUMBER = r"^\s*[-+]?[0-9]+(\.[0-9]+)?\s*$"


PlaceCounts = npt.NDArray[np.float64]
"""(2, 7), for each axis: requests with a number; those near the coordinate of their row; and the
sums of number, coordinate, their squares and their product. Counts of shards can be added."""


def count_near_places(log: RequestLog, attribute: Attribute, bounds: Bounds) -> PlaceCounts:
    """Compare the numbers of an attribute with the coordinates of their rows, in a shard.

    ``bounds`` are the bounds of the whole log.
    """
    counts = np.zeros((2, 7))
    numbers = _to_numbers(attribute.values)
    if numbers is None or attribute.num_values < MIN_VALUES or attribute.num_sent < MIN_REQUESTS:
        return counts
    if log.requests.row is None or not np.isfinite(numbers).any():
        return counts
    low_x, low_y, high_x, high_y = bounds
    extent = max(high_x - low_x, high_y - low_y)
    near = DEGREES if log.geographic else EXTENT_SHARE * extent
    # Sums of squares keep more digits if a middle is subtracted, the same in all shards.
    middle = float(np.median(numbers[np.isfinite(numbers)]))
    code = attribute.code[log.requests.kind]
    chosen = np.flatnonzero(code >= 0)
    value = numbers[code[chosen]]
    is_finite = np.isfinite(value)
    value, row = value[is_finite], log.requests.row[chosen[is_finite]]
    with np.errstate(over="ignore", invalid="ignore"):
        for axis, place in enumerate((log.x[row], log.y[row])):
            one = value - middle
            other = place - (bounds[axis] + bounds[2 + axis]) / 2
            counts[axis] += (
                len(value), np.sum(np.abs(value - place) <= near), one.sum(), other.sum(),
                one @ one, other @ other, one @ other,
            )  # fmt: skip
    return counts


def follows_place(counts: PlaceCounts) -> bool:
    """Whether the numbers of an attribute equal, or move with, a coordinate of their rows."""
    return any(
        of_axis[0] >= MIN_REQUESTS and (of_axis[1] >= SAME * of_axis[0] or _correlates(*of_axis))
        for of_axis in counts
    )


def _to_numbers(values: pa.Array) -> npt.NDArray[np.float64] | None:
    """Convert values to numbers, also text if all of it is numbers; None if they are not."""
    if is_text(values.type):
        if not pc.all(pc.match_substring_regex(values, NUMBER)).as_py():
            return None
        values = pc.utf8_trim_whitespace(values)
        values = pc.utf8_ltrim(values, characters="+")
    elif not (
        pa.types.is_integer(values.type)
        or pa.types.is_floating(values.type)
        or pa.types.is_decimal(values.type)
    ):
        return None
    numbers: npt.NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy()
    return numbers


def _correlates(
    count: float, _: float, one: float, other: float, one2: float, other2: float, both: float
) -> bool:
    """Whether two series correlate, from their sums, sums of squares and sum of products."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        spread = np.sqrt((one2 - one * one / count) * (other2 - other * other / count))
        correlation = (both - one * other / count) / spread
    return bool(np.isfinite(correlation) and abs(correlation) >= FOLLOWS)
