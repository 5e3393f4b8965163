"""Requests of a log: distinct name-value sets, numbered in sorted order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log.types import flatten_columns, join_types, to_plain

PLAIN_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
"""Text that stays the same when it is read as int64 and written again."""

ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())
PLAIN_DECIMAL = r"^-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}$"


@dataclass(frozen=True)
class Requests:
    """The requests of a log: those that its rows carry, or those of a second input."""

    kind: npt.NDArray[np.int32]  # (requests,): row of ``kinds`` of each request.
    kinds: pa.Table  # The distinct requests, one column per attribute, sorted, null first.
    # (requests,): one log: row of the log of each request, ascending.
    row: npt.NDArray[np.int64] | None = None
    # (requests,): two inputs: position of each request's user in the log's ``users``.
    user: npt.NDArray[np.int32] | None = None
    # (requests,): two inputs: when each request was sent, as the times of the log.
    time: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class SentRequests:
    """Requests of a second input, not matched to the users of the log yet."""

    users: pa.Array  # The distinct ids of their users.
    user: npt.NDArray[np.int32]  # (requests,): position of each request's user in ``users``.
    time: npt.NDArray[np.int64]  # (requests,)
    kind: npt.NDArray[np.int32]  # (requests,), as in :class:`Requests`.
    kinds: pa.Table


AnyRequests = TypeVar("AnyRequests", Requests, SentRequests)


def drop_unsent(requests: AnyRequests) -> AnyRequests:
    """Remove the distinct requests that no row has, and number the others again."""
    is_sent = np.zeros(requests.kinds.num_rows, np.bool_)
    is_sent[requests.kind] = True
    number = np.cumsum(is_sent, dtype=np.int32) - np.int32(1)
    kinds = requests.kinds.take(pa.array(np.flatnonzero(is_sent)))
    return replace(requests, kind=number[requests.kind], kinds=kinds)


def infer_types(kinds: pa.Table) -> pa.Table:
    """Turn text columns that hold only numbers in plain notation into int64 or float64.

    For values of text files, which have no types. Different rows stay different, but may be
    out of order: :func:`merge_kinds` sorts them.
    """
    for position, name in enumerate(kinds.column_names):
        column = kinds.column(position).combine_chunks()
        if pa.types.is_string(column.type):
            encoded = column.dictionary_encode()
            numbers = to_plain_numbers(encoded.dictionary)
            kinds = kinds.set_column(position, name, numbers.take(encoded.indices))
    return kinds


class RequestBuilder:
    """Collects requests batch by batch.

    ``names`` are the request attributes; a struct counts as one for each of its fields. If a file
    of the log is text (``has_text``), all values become text.
    """

    def __init__(self, names: tuple[str, ...], *, has_text: bool = False) -> None:
        self._named = names
        self._has_text = has_text
        self._types: dict[str, pa.DataType] = {}
        self._rows: list[npt.NDArray[np.int64]] = []
        self._columns: dict[str, list[pa.DictionaryArray]] = {}

    def add(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Add the requests of a batch; ``first_row`` is the number of its first row, from 0."""
        if not self._named:
            return
        columns = {
            name: _to_encoded_or_plain(column)
            for name, column in flatten_columns(batch, self._named).items()
        }
        self._check_named(list(columns))
        self._check_names(list(columns))
        for name, column in columns.items():
            type_ = pa.string() if column.type == ENCODED_TEXT else column.type
            _check_type(name, type_)
            if self._has_text and type_ != pa.string():
                columns[name] = _spell(name, column)
                type_ = pa.string()
            self._add_type(name, type_)
        sent = _find_valid(columns.values())
        rows = np.flatnonzero(sent.to_numpy(zero_copy_only=False))
        if not len(rows):
            return
        self._rows.append(rows + first_row)
        for name, column in columns.items():
            column = column.filter(sent)
            is_encoded = pa.types.is_dictionary(column.type)
            self._columns[name].append(column if is_encoded else column.dictionary_encode())

    def add_kinds(self, kinds: pa.Table) -> None:
        """Add the distinct requests of a shard."""
        self._check_names(kinds.column_names)
        for name, column in zip(kinds.column_names, kinds.columns, strict=True):
            self._add_type(name, column.type)
            self._columns[name] += column.dictionary_encode().chunks

    def finish_kinds(self) -> tuple[npt.NDArray[np.int32], pa.Table]:
        """Give each distinct request a number; returns that of each request, and the table."""
        first = next(iter(self._columns.values()), [])
        if not any(map(len, first)):
            nothing = {name: pa.array([], type_) for name, type_ in self._types.items()}
            return np.empty(0, np.int32), pa.table(nothing)
        return number_kinds(self._columns, self._types)

    def _check_named(self, names: list[str]) -> None:
        """Raise if objects of a text file would be published, whose fields nobody named.

        Which fields there are would tell of requests that are not shown.
        """
        unnamed = [name for name in names if name not in self._named]
        if self._has_text and unnamed:
            raise InputError(
                f"request column '{unnamed[0]}' is a field of objects; expected to be told which "
                f"fields to publish, as text files do not list them; name each with --request, "
                f"such as --request={unnamed[0]}"
            )

    def _check_names(self, names: list[str]) -> None:
        """Remember the attributes of the first batch; raise if another batch has others."""
        if not self._types:
            self._types = dict.fromkeys(names, pa.null())
            self._columns = {name: [] for name in names}
        elif names != list(self._types):
            raise InputError(
                "a request column has other fields in one file than in another; expected the same "
                "fields, in one order, in every file; convert one of them, or name the fields that "
                "they share with --request=COLUMN.FIELD"
            )

    def _add_type(self, name: str, type_: pa.DataType) -> None:
        """Widen the type of an attribute, so that it holds the values of all files."""
        known = self._types[name]
        try:
            self._types[name] = join_types(known, type_)
        except pa.ArrowException:
            raise InputError(
                f"request column '{name}' is of type {known} in one file and {type_} in "
                f"another; expected one type; convert one of them"
            ) from None

    def finish(self) -> Requests:
        """Build the requests of one log."""
        kind, kinds = self.finish_kinds()
        return Requests(kind, kinds, np.concatenate([np.empty(0, np.int64), *self._rows]))


def _check_type(name: str, type_: pa.DataType) -> None:
    """Raise if values of a type cannot be published."""
    if type_ == pa.float16() or pa.types.is_interval(type_):
        raise InputError(
            f"request column '{name}' is of type {type_}, which few readers know; expected "
            f"float32, float64 or durations; convert it"
        )
    if pa.types.is_nested(type_):
        raise InputError(
            f"request column '{name}' holds lists or maps; expected one value per row; make "
            f"a row or a column of each of their values, or leave the column out"
        )


def find_sent(batch: pa.RecordBatch, names: Sequence[str]) -> pa.BooleanArray:
    """Find the rows of a batch that have a value of some request attribute."""
    if not names:
        return pa.array(np.zeros(batch.num_rows, np.bool_))
    return _find_valid(flatten_columns(batch, names).values())


def _find_valid(columns: Iterable[pa.Array]) -> pa.BooleanArray:
    """Find the rows that are not null in some column."""
    return reduce(pc.or_, (column.is_valid() for column in columns))


def _spell(name: str, column: pa.Array) -> pa.Array:
    """Write values as text, numbers in plain notation: 1.0 and 1 become the same text."""
    encoded = column.dictionary_encode()
    values = encoded.dictionary
    if pa.types.is_floating(values.type):
        numbers = to_one_spelling(values).to_numpy()
        texts = [np.format_float_positional(number, trim="-") for number in numbers]
        return pa.array(texts, pa.string()).take(encoded.indices)
    try:
        return values.cast(pa.string()).take(encoded.indices)
    except pa.ArrowException:
        raise InputError(
            f"request column '{name}' is of type {column.type} in one file, and another file is "
            f"text; expected values that can be written as text; convert one of them"
        ) from None


def number_kinds(
    columns: dict[str, list[pa.DictionaryArray]], types: dict[str, pa.DataType]
) -> tuple[npt.NDArray[np.int32], pa.Table]:
    """Number requests by their place among the distinct ones, sorted, null first.

    ``columns`` are the values of each attribute, in chunks; emptied on the way, since they may be
    large. Returns the number of each request, and the distinct ones.
    """
    names = list(columns)
    sorted_ = [_sort_codes(columns.pop(name), types[name]) for name in names]
    kind, codes = _number_rows([code for code, _ in sorted_], [len(v) + 1 for _, v in sorted_])
    kinds = pa.table(
        [
            values.take(pa.array(code - 1, mask=code == 0))
            for (_, values), code in zip(sorted_, codes, strict=True)
        ],
        names=names,
    )
    return kind, kinds


def merge_kinds(
    tables: Sequence[pa.Table],
) -> tuple[pa.Table, list[npt.NDArray[np.int32]]]:
    """Merge the distinct requests of several shards; returns also their new numbers by table."""
    builder = RequestBuilder(tuple(tables[0].column_names))
    for table in tables:
        builder.add_kinds(table)
    number, kinds = builder.finish_kinds()
    ends = np.cumsum([table.num_rows for table in tables])[:-1]
    return kinds, np.split(number, ends)


def _to_encoded_or_plain(column: pa.Array) -> pa.Array:
    """Keep a dictionary of distinct texts as it is; convert all other columns to plain ones."""
    if column.type == ENCODED_TEXT and len(column.dictionary) <= len(column):
        texts = column.dictionary
        if texts.null_count == 0 and len(texts.unique()) == len(texts):
            return column
    return to_plain(column)


def _sort_codes(
    chunks: list[pa.DictionaryArray], type_: pa.DataType
) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Encode a column as the rank of each value, from 1; 0 is null."""
    if pa.types.is_null(type_):
        # Arrow does not unify dictionaries without values.
        return np.zeros(sum(map(len, chunks)), np.int64), pa.array([], type_)
    same_type = [
        chunk
        if chunk.type.value_type == type_
        else pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(type_))
        for chunk in chunks
    ]
    unified = pa.chunked_array(same_type).unify_dictionaries()
    values = unified.chunk(0).dictionary
    codes = np.concatenate(
        [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in unified.chunks]
    )
    if pa.types.is_floating(values.type):
        encoded = to_one_spelling(values).dictionary_encode()
        values = encoded.dictionary
        # Null has code -1 and takes the last entry.
        codes = np.append(encoded.indices.to_numpy(), -1)[codes]
    order = pc.sort_indices(values).to_numpy()
    rank = np.zeros(len(order) + 1, np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    return rank[codes], values.take(pa.array(order))


def to_one_spelling(values: pa.Array) -> pa.Array:
    """Give floats that are the same number the same bits: 0 and -0, and all NaN.

    Otherwise invisible differences could identify senders; and they have no sorting order.
    """
    numbers = values.to_numpy(zero_copy_only=False)
    zero, nan = numbers.dtype.type(0), numbers.dtype.type(np.nan)
    return pa.array(np.where(np.isnan(numbers), nan, numbers + zero), values.type)


def to_plain_numbers(values: pa.Array) -> pa.Array:
    """Turn text into numbers if every value is a number in plain notation."""
    if len(values) == 0:
        return values
    if pc.all(pc.match_substring_regex(values, PLAIN_INTEGER)).as_py():
        return values.cast(pa.int64())
    decimal = pc.or_(
        pc.match_substring_regex(values, PLAIN_INTEGER),
        pc.match_substring_regex(values, PLAIN_DECIMAL),
    )
    if pc.all(decimal).as_py():
        numbers = to_one_spelling(values.cast(pa.float64()))
        # Not if different texts become one number, such as 1.0 and 1.00, or 0.0 and -0.0.
        if len(numbers.unique()) == len(values):
            return numbers
    return values


def _number_rows(
    codes: list[npt.NDArray[np.int64]], sizes: list[int]
) -> tuple[npt.NDArray[np.int32], list[npt.NDArray[np.int64]]]:
    """Number the distinct rows of code columns in lexicographic order; returns also their codes."""
    seen, number = compress_numbers(codes[0], sizes[0])
    distinct = [seen]
    for code, size in zip(codes[1:], sizes[1:], strict=True):
        seen, number = compress_numbers(number * size + code, len(seen) * size)
        before, last = np.divmod(seen, size)
        distinct = [*(column[before] for column in distinct), last]
    return number.astype(np.int32), distinct


def compress_numbers(
    number: npt.NDArray[np.integer], size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """List the distinct numbers below ``size``, ascending, and the place of each number there."""
    if size <= max(len(number), 1 << 16):
        rank = np.zeros(size, np.int64)
        rank[number] = 1
        seen = np.flatnonzero(rank)
        rank[seen] = np.arange(len(seen))
        return seen, rank[number]
    return np.unique(number, return_inverse=True)
