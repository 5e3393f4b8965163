"""Values of columns: plain types, numbers for distinct values and requests, times as ticks.

A tick is one instant of a log with integer times, otherwise a microsecond.
"""

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log.types import flatten_columns

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

PLAIN_INTEGER = "^(0|-?[1-9][0-9]{0,17})$"
PLAIN_DECIMAL = "^-?(0|[1-9][0-9]{0,14})[.][0-9]{1,15}$"
"""Texts that are taken for numbers: one notation for each."""

_MICROSECONDS = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "m": 6 * 10**7,
    "h": 36 * 10**8,
    "d": 864 * 10**8,
}
_DURATION = re.compile(r"([0-9]{1,19}) ?(us|ms|s|m|h|d)")
_DAY = _MICROSECONDS["d"]
MOST_TICKS = 2**62

THREADS = os.cpu_count() or 1
FEW = 1 << 14
"""So few rows, users or bundles are left to one thread."""

ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())

UNREADABLE = (pa.ArrowException, OSError, ValueError, MemoryError)
"""What reading a damaged file raises."""


@dataclass(frozen=True)
class TimeColumn:
    """A part of a time column: instants, or microseconds since 1970 if it has timestamps.

    Those that are ``zoned`` are in UTC.
    """

    ticks: Ints
    stamped: bool
    zoned: bool


def read_ticks(column: Any) -> TimeColumn | None:
    """Read a column without nulls as times; None if its values are no times."""
    kind = column.type
    if pa.types.is_integer(kind):
        return _take(column, pa.int64())
    if pa.types.is_timestamp(kind):
        return _take(column, pa.timestamp("us", kind.tz))
    if pa.types.is_date(kind):
        return _take(column, pa.timestamp("us"))
    if not pa.types.is_string(kind):
        return None
    return _take(column, pa.timestamp("us")) or _take(column, pa.timestamp("us", "UTC"))


def _take(column: Any, kind: Any) -> TimeColumn | None:
    stamped = pa.types.is_timestamp(kind)
    # What is finer than a microsecond is cut off, as the release cannot hold it.
    finer = pa.types.is_timestamp(column.type) and column.type.unit == "ns"
    try:
        ticks = pc.cast(pc.cast(column, kind, safe=not finer), pa.int64())
    except pa.ArrowInvalid:
        return None
    return TimeColumn(
        ticks.to_numpy(zero_copy_only=False), stamped, stamped and kind.tz is not None
    )


def duration_to_ticks(value: object, stamped: bool) -> int | None:
    """Read the manifest's ``every`` or ``max_gap``; None if it is not a duration."""
    if not stamped:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return value if is_whole and 0 < value <= MOST_TICKS else None  # type: ignore[operator, return-value]
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    ticks = int(match[1]) * _MICROSECONDS[match[2]] if match else 0
    return ticks if 0 < ticks <= MOST_TICKS else None


def spell_moment(ticks: int, stamped: bool, zoned: bool) -> int | str:
    """Write a moment as a manifest does: an integer instant, or ISO 8601 text."""
    return str(np.datetime64(ticks, "us")) + ("Z" if zoned else "") if stamped else ticks


def spell_duration(ticks: int, stamped: bool) -> int | str:
    """Write a duration as a manifest does: in the largest unit up to seconds that is whole."""
    if not stamped:
        return ticks
    unit = next(unit for unit in ("s", "ms", "us") if ticks % _MICROSECONDS[unit] == 0)
    return f"{ticks // _MICROSECONDS[unit]}{unit}"


def local_to_utc(local: Ints, zone: str) -> tuple[Ints, int, int]:
    """Convert local times to UTC; also counts those that occur twice, and that are skipped.

    The offset of the day before is used where it fits, and for skipped times; otherwise that
    of the day after. So a time that occurs twice is the first of the two, and a skipped one
    is as much later as the clock was set forward.
    """
    before, after = _offset(local - _DAY, zone), _offset(local + _DAY, zone)
    fits_before = _offset(local - before, zone) == before
    fits_after = _offset(local - after, zone) == after
    twice = fits_before & fits_after & (before != after)
    skipped = ~fits_before & ~fits_after
    offset = np.where(fits_before | skipped, before, after)
    return local - offset, int(twice.sum()), int(skipped.sum())


def _offset(moments: Ints, zone: str) -> Ints:
    """Find how far the clock of a zone is ahead of UTC at moments."""
    zoned = pc.cast(pa.array(moments), pa.timestamp("us", zone))
    clock: Ints = pc.cast(pc.local_timestamp(zoned), pa.int64()).to_numpy()
    return clock - moments


def run_in_parts(count: int, work: Callable[[int, int], Any]) -> list[Any]:
    """Call ``work`` for ranges that cover 0 up to ``count``, side by side."""
    parts = THREADS if count > FEW else 1
    edges = [count * i // parts for i in range(parts + 1)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))


def decode_array(array: Any) -> Any:
    """Decode dictionaries and repeated values, and cast all kinds of text to one type."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        array = pc.cast(array, array.type.value_type)
    kind = array.type
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return pc.cast(array, pa.string())
    return array


def unify_zeros_and_nans(values: Any) -> Any:
    """Make all zeros of floats one value, and all NaNs; other types are left as they are."""
    kind = values.type
    if not pa.types.is_floating(kind):
        return values
    zero, nan = pa.scalar(0.0, kind), pa.scalar(float("nan"), kind)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, zero))


def try_cast(column: Any, kind: Any) -> Any:
    """Cast a column; None if a value cannot be cast."""
    try:
        return pc.cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def to_floats(column: Any) -> Floats:
    """Read a column as numbers; NaN for null, and all NaN if a value is no number."""
    numbers = try_cast(column, pa.float64())
    if numbers is None:
        return np.full(len(column), np.nan)
    values: Floats = numbers.to_numpy(zero_copy_only=False)
    return values


def get_value_type(column: Any) -> Any:
    """Get the type of a column's values, which may be encoded as a dictionary."""
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


class NumberedValues:
    """Gives each distinct value a number, in the order of their first occurrence.

    The type of the values is that of the first array, widened where a later one needs it.
    """

    def __init__(self) -> None:
        self.values: Any = pa.array([], pa.null())

    def add_type(self, kind: Any) -> None:
        """Widen the type so that it holds values of another type, too, if there is such a type."""
        if kind != self.values.type:
            schemas = [pa.schema([("v", one)]) for one in (self.values.type, kind)]
            wider = pa.unify_schemas(schemas, promote_options="permissive").types[0]
            self.values = self.values.cast(wider)

    def number(self, array: Any) -> Codes:
        """Number the values of an array; -1 is null."""
        self.add_type(get_value_type(array))
        if pa.types.is_null(array.type):
            return np.full(len(array), -1, np.int32)
        if pa.types.is_dictionary(array.type):
            # A null has index -1, and takes the last entry.
            number: Codes = np.append(self.number(array.dictionary), np.int32(-1))
            index: Ints = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            return number[index]
        array = array.cast(self.values.type)
        numbers = np.concatenate(run_in_parts(len(array), partial(self._find, array)))
        is_new = numbers < 0
        if is_new.any():
            is_new &= array.is_valid().to_numpy(zero_copy_only=False)
            encoded = array.filter(pa.array(is_new)).dictionary_encode()
            numbers[is_new] = len(self.values) + encoded.indices.to_numpy()
            self.values = pa.concat_arrays([self.values, encoded.dictionary])
        return numbers

    def _find(self, array: Any, begin: int, end: int) -> Codes:
        """Find the numbers of some values of an array; -1 for null and for new ones."""
        place = pc.index_in(array[begin:end], value_set=self.values)
        numbers: Codes = place.fill_null(-1).to_numpy().astype(np.int32, copy=False)
        return numbers

    def number_all(self, parts: Sequence[Any]) -> Codes:
        """Number the values of several arrays, one after another."""
        if len({str(part.type) for part in parts}) == 1 and not pa.types.is_dictionary(
            parts[0].type
        ):
            parts = [pa.concat_arrays(parts)]
        return np.concatenate([np.zeros(0, np.int32), *(self.number(part) for part in parts)])


def merge_equal(values: Any) -> tuple[Any, Codes]:
    """List distinct values without equal ones, and the new number of each old one.

    The last new number, for null, is -1.
    """
    encoded = unify_zeros_and_nans(values).dictionary_encode()
    return encoded.dictionary, np.append(encoded.indices.to_numpy(), -1).astype(np.int32)


def list_distinct(numbers: Ints, size: int) -> Ints:
    """List the distinct numbers, all below ``size``, ascending."""
    if size > max(32 * len(numbers), 1 << 20):
        # Sorts, where ``np.unique`` alone would look each number up, which takes longer.
        return np.unique(numbers, return_index=True)[0]
    seen = np.zeros(size, np.bool_)
    seen[numbers] = True
    return np.flatnonzero(seen)


def compress(numbers: npt.NDArray[Any], size: int) -> tuple[Ints, Ints]:
    """List the distinct numbers, all below ``size``, and the place of each number in the list."""
    if size > max(4 * len(numbers), 1 << 20):
        return np.unique(numbers, return_inverse=True)
    place = np.zeros(size, np.int64)
    place[numbers] = 1
    distinct = np.flatnonzero(place)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[numbers]


def number_tuples(
    columns: Sequence[npt.NDArray[Any]], sizes: Sequence[int]
) -> tuple[Ints, list[Ints]]:
    """Number tuples in ascending order; returns their numbers, and the distinct tuples by column.

    Each value is at least -1, for null, and below its column's size.
    """
    number = np.zeros(len(columns[0]), np.int64)
    distinct: list[Ints] = []
    count = 1
    for column, size in zip(columns, sizes, strict=True):
        wide = size + 1
        seen, number = compress(number * wide + (column + 1), count * wide)
        before, last = np.divmod(seen, wide)
        distinct = [*(part[before] for part in distinct), last - 1]
        count = len(seen)
    return number, distinct


def text_to_numbers(values: Any) -> Any:
    """Turn distinct texts into numbers, if all are numbers in plain notation and stay distinct."""
    if not len(values) or not pa.types.is_string(values.type):
        return values
    is_integer = pc.match_substring_regex(values, PLAIN_INTEGER)
    if pc.all(is_integer).as_py():
        return values.cast(pa.int64())
    if pc.all(pc.or_(is_integer, pc.match_substring_regex(values, PLAIN_DECIMAL))).as_py():
        numbers = unify_zeros_and_nans(values.cast(pa.float64()))
        return numbers if len(numbers.unique()) == len(values) else values
    return values


@dataclass(frozen=True)
class AuditedKinds:
    """Distinct requests.

    For each attribute: its name, an Arrow array of its distinct values, and the value of each
    distinct request, -1 for null. ``is_text``: whether they come from text, which has no types.
    """

    names: list[str]
    values: list[Any]
    codes: list[Ints]
    is_text: bool

    def __len__(self) -> int:
        """How many distinct requests there are."""
        return len(self.codes[0]) if self.codes else 0


@dataclass
class RequestValues:
    """Collects the requests of a log.

    ``wanted`` are the attributes as they were asked for, a struct counting as one; ``numbered``
    has the distinct values of each attribute, once there are rows. If a file of the requests is
    text, all values become text.
    """

    wanted: tuple[str, ...]
    is_text: bool
    numbered: dict[str, NumberedValues] = field(default_factory=dict)
    _tuples: list[list[Ints]] = field(default_factory=list)
    _count: int = 0

    def take(self, batch: Any) -> tuple[Ints, list[Any]]:
        """List the rows of a batch that have a request, and their values by attribute."""
        if not self.wanted:
            return np.zeros(0, np.int64), []
        columns = {
            name: _to_text(column) if self.is_text else _to_plain(column)
            for name, column in flatten_columns(batch, self.wanted).items()
        }
        if not self.numbered:
            self.numbered = {name: NumberedValues() for name in columns}
        if list(columns) != list(self.numbered):
            raise InputError(
                "a request column has other fields in one file than in another; expected the same "
                "fields in every file; convert one of them"
            )
        filled = np.zeros(batch.num_rows, dtype=bool)
        for name, column in columns.items():
            try:
                self.numbered[name].add_type(get_value_type(column))
            except pa.ArrowException:
                raise InputError(
                    f"request column '{name}' has types in two files that have none in common; "
                    f"expected one type; convert one of them"
                ) from None
            filled |= column.is_valid().to_numpy(zero_copy_only=False)
        mask = pa.array(filled)
        return np.flatnonzero(filled), [column.filter(mask) for column in columns.values()]

    def number(self, parts: Sequence[Sequence[Any]]) -> list[Codes]:
        """Number the values of some batches, by attribute; ``parts`` are from :meth:`take`."""
        numbered = self.numbered.values()
        return [
            of.number_all(list(p)) for of, p in zip(numbered, zip(*parts, strict=True), strict=True)
        ]

    def number_kinds(self, codes: Sequence[Codes]) -> Codes:
        """Number requests by their values; :meth:`finish` makes the numbers of all final."""
        if not codes:
            return np.zeros(0, np.int32)
        sizes = [len(of.values) for of in self.numbered.values()]
        number, distinct = number_tuples(codes, sizes)
        number += self._count
        self._tuples.append(distinct)
        self._count += len(distinct[0])
        return number.astype(np.int32)

    def finish(self) -> tuple[AuditedKinds, Codes]:
        """List the distinct requests; returns them, and the final number of each number."""
        names, values, codes = list(self.numbered), [], []
        for place, of in enumerate(self.numbered.values()):
            merged, new = merge_equal(of.values)
            values.append(merged)
            parts = [distinct[place] for distinct in self._tuples]
            codes.append(new[np.concatenate([np.zeros(0, np.int64), *parts])])
        if not names:
            # Nothing is known about attributes of files without any row.
            names = list(self.wanted)
            values = [pa.array([], pa.string()) for _ in names]
            none = [np.zeros(0, np.int64) for _ in names]
            return AuditedKinds(names, values, none, self.is_text), np.zeros(0, np.int32)
        number, distinct = number_tuples(codes, [len(v) for v in values])
        return AuditedKinds(names, values, distinct, self.is_text), number.astype(np.int32)


def _to_plain(column: Any) -> Any:
    """Decode a dictionary, unless it is one of texts, which is numbered faster as it is."""
    return column if column.type == ENCODED_TEXT else pc.cast(column, get_value_type(column))


def _to_text(column: Any) -> Any:
    """Write values as text, numbers in plain notation: 1.0 and 1 become the same text."""
    plain = pc.cast(column, get_value_type(column))
    if pa.types.is_string(plain.type):
        return plain
    if not pa.types.is_floating(plain.type):
        return pc.cast(plain, pa.string())
    encoded = unify_zeros_and_nans(plain).dictionary_encode()
    numbers = encoded.dictionary.to_numpy(zero_copy_only=False)
    texts = [np.format_float_positional(number, trim="-") for number in numbers]
    return pa.array(texts, pa.string()).take(encoded.indices)
