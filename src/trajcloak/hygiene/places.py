"""Numbers that say where their row is."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.hygiene.attributes import Attribute
from trajcloak.hygiene.patterns import is_text
from trajcloak.log import RequestLog

Pair = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

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
    low_x, low_y, high_x, high_y = log.bounds
    extent = max(high_x - low_x, high_y - low_y)
    near = DEGREES if log.geographic else EXTENT_SHARE * extent
    return any(
        _is_near(partial(_list_pairs, log, attribute, numbers, axis), near)
        or _correlate(partial(_list_pairs, log, attribute, numbers, axis))
        for axis in ("x", "y")
    )


def _list_pairs(
    log: RequestLog, attribute: Attribute, numbers: npt.NDArray[np.float64], axis: str
) -> Iterator[Pair]:
    """Yield, part by part, the finite values and the coordinates of their rows."""
    for part in log.parts():
        code = attribute.code[part.requests.kind]
        chosen = np.flatnonzero(code >= 0)
        value = numbers[code[chosen]]
        is_finite = np.isfinite(value)
        place = getattr(part, axis)[part.requests.row[chosen[is_finite]]]
        yield value[is_finite], place


def _is_near(pairs: Callable[[], Iterator[Pair]], near: float) -> bool:
    """Whether many values equal the coordinate."""
    counts = [(len(value), np.sum(np.abs(value - place) <= near)) for value, place in pairs()]
    total, num_near = map(sum, zip(*counts, strict=True))
    return total >= MIN_REQUESTS and num_near / total >= SAME


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


def _correlate(pairs: Callable[[], Iterator[Pair]]) -> bool:
    """Whether the values move with the coordinate."""
    sums = [(len(value), value.sum(), place.sum()) for value, place in pairs()]
    total, *both = map(sum, zip(*sums, strict=True))
    if total < MIN_REQUESTS:
        return False
    mean_value, mean_place = (each / total for each in both)
    products = np.zeros(3)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for value, place in pairs():
            one, other = value - mean_value, place - mean_place
            products += one @ other, one @ one, other @ other
        correlation = products[0] / np.sqrt(products[1] * products[2])
    return bool(np.isfinite(correlation) and abs(correlation) >= FOLLOWS)
