"""Numbers that say where their row is."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.hygiene.attributes import Attribute
from trajcloak.hygiene.patterns import is_text
from trajcloak.log import RequestLog

MIN_VALUES = 20
"""Fewer distinct numbers are grades or counts, and can be near a coordinate by chance."""

MIN_REQUESTS = 50
SAME = 0.5
"""A column is a coordinate if so large a share of it equals that of its row."""

FOLLOWS = 0.99
"""Correlation with a coordinate from which on a column says where its row is."""

DEGREES = 0.005
"""Two decimals of a degree, rounded."""

EXTENT_SHARE = 1e-3
"""Of the log's extent: how near a planar coordinate counts as rounded."""

NUMBER = r"^\s*[-+]?[0-9]+(\.[0-9]+)?\s*$"


def follows_place(log: RequestLog, attribute: Attribute) -> bool:
    """Whether the numbers of an attribute equal, or move with, a coordinate of their rows."""
    numbers = _to_numbers(attribute.values)
    if numbers is None or attribute.num_values < MIN_VALUES or attribute.num_sent < MIN_REQUESTS:
        return False
    code = attribute.code[log.requests.kind]
    chosen = np.flatnonzero(code >= 0)
    value = numbers[code[chosen]]
    is_finite = np.isfinite(value)
    value, row = value[is_finite], log.requests.row[chosen[is_finite]]
    if len(value) < MIN_REQUESTS:
        return False
    low_x, low_y, high_x, high_y = log.bounds
    extent = max(high_x - low_x, high_y - low_y)
    near = DEGREES if log.geographic else EXTENT_SHARE * extent
    return any(
        np.mean(np.abs(value - place[row]) <= near) >= SAME or _correlate(value, place[row])
        for place in (log.x, log.y)
    )


def _to_numbers(values: pa.Array) -> npt.NDArray[np.float64] | None:
    """Take values as numbers, text too if all of it is numbers; None if they are not."""
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


def _correlate(value: npt.NDArray[np.float64], place: npt.NDArray[np.float64]) -> bool:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        one, other = value - value.mean(), place - place.mean()
        correlation = (one @ other) / np.sqrt((one @ one) * (other @ other))
    return bool(np.isfinite(correlation) and abs(correlation) >= FOLLOWS)
