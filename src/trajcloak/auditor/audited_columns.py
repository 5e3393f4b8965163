"""Columns of Arrow as plain arrays; distinct values, tuples of them, and ids as numbers."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajcloak.parquet.memory_check import check_parquet

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

PLAIN_INTEGER = "^(0|-?[1-9][0-9]{0,17})$"
"""Texts that are taken for whole numbers: one notation for each."""

THREADS = os.cpu_count() or 1
FEW = 1 << 14
"""So few rows, users or bundles are left to one thread."""

UNREADABLE = (pa.ArrowException, OSError, ValueError, MemoryError)
"""What reading a damaged file raises."""


def run_in_parts(count: int, work: Callable[[int, int], Any]) -> list[Any]:
    """Call ``work`` for ranges that cover 0 up to ``count``, side by side."""
    parts = THREADS if count > FEW else 1
    edges = [count * i // parts for i in range(parts + 1)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(work, edges[:-1], edges[1:]))


def read_parquet(path: Path, columns: list[str] | None = None) -> Any:
    """Read a table, or some of its columns, as far as it has them; None if it is damaged."""
    try:
        check_parquet(path)
        with pq.ParquetFile(path) as file:
            table = file.read(columns)
        table.validate(full=True)
    except UNREADABLE:
        return None
    return table


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


def list_ranges(start: Ints, count: Ints) -> Ints:
    """List the numbers of ranges, one range after another: ``count`` numbers from ``start`` on."""
    before = np.cumsum(count) - count
    numbers: Ints = np.repeat(start - before, count) + np.arange(int(count.sum()))
    return numbers


def match_ids(wanted: Any, ids: Any) -> Ints:
    """Find the places of ids in a list of distinct ones; -1 for those that are not there."""
    if wanted.type != ids.type:
        wanted, ids = pc.cast(wanted, pa.string()), pc.cast(ids, pa.string())
    place: Ints = pc.fill_null(pc.index_in(wanted, value_set=ids), -1).to_numpy().astype(np.int64)
    return place
