"""Convert columns to common types, check that values are not damaged, and flatten structs."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log.bad_rows import BadRows, Trouble, find_bad

PLAIN = {
    pa.string_view(): pa.string(),
    pa.large_string(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.large_binary(): pa.binary(),
}
"""Types of text and bytes: which of them a library uses should not show in a release."""

SEPARATOR = "."
"""Between the name of a struct and the name of its field."""


def to_common_type(column: pa.Array) -> pa.Array:
    """Convert a column to a type that all functions of Arrow support, with the same values.

    Extension types become their storage types; views, large types, run-end encoded values and short
    decimals, also within structs, become plain.
    """
    while isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_run_end_encoded(column.type):
        return to_common_type(pc.run_end_decode(column))
    type_ = find_common_type(column.type)
    return column if type_ == column.type else column.cast(type_)


def to_plain(column: pa.Array) -> pa.Array:
    """Decode a dictionary column, and convert it to a common type."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return to_common_type(column)


def find_common_type(type_: pa.DataType) -> pa.DataType:
    """Find the type that :func:`to_common_type` converts a type to."""
    if isinstance(type_, pa.BaseExtensionType):
        return find_common_type(type_.storage_type)
    if pa.types.is_run_end_encoded(type_):
        return find_common_type(type_.value_type)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(find_common_type(field.type)) for field in type_])
    if pa.types.is_decimal32(type_) or pa.types.is_decimal64(type_):
        return pa.decimal128(type_.precision, type_.scale)
    return PLAIN.get(type_, type_)


def join_types(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Find a type that holds values of both types; raises an error of Arrow if there is none."""
    if one == other:
        return one
    schemas = [pa.schema([("", type_)]) for type_ in (one, other)]
    return pa.unify_schemas(schemas, promote_options="permissive").types[0]


def empty_damaged(batch: pa.RecordBatch, rows_before: int, bad: BadRows) -> pa.RecordBatch:
    """Empty values that are damaged: text that is not UTF-8, or whose bounds are outside the file.

    The readers of Parquet and Arrow files check neither, and compiled code would read
    outside its memory. They are noted in ``bad``. ``rows_before``: rows of the log before the
    first.
    """
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kept = column
        if not _is_sound(column):
            kept, damaged = _split_damaged(column)
            trouble = Trouble(
                f"column '{name}' is damaged, or holds text that is not UTF-8",
                f"a value of type {column.type}",
                "correct the row, or make the file again",
            )
            bad.add_unreadable(trouble, damaged + rows_before)
        columns.append(kept)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _split_damaged(column: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return a column with its damaged values empty, and their positions."""
    if pa.types.is_dictionary(column.type):
        values, damaged = _split_damaged(column.dictionary)
        index = column.indices.to_numpy(zero_copy_only=False)
        is_empty = column.indices.is_null().to_numpy(zero_copy_only=False)
        wrong = ~is_empty & (np.isin(index, damaged) | (index < 0) | (index >= len(values)))
        indices = pa.array(np.where(wrong | is_empty, 0, index), mask=wrong | is_empty)
        kept = pa.DictionaryArray.from_arrays(indices.cast(column.type.index_type), values)
        return kept, np.flatnonzero(wrong)
    damaged = np.fromiter(
        find_bad(lambda a, b: _is_sound(column.slice(a, b - a)), len(column)), np.int64
    )
    if not len(damaged):
        return column, damaged
    edges = [-1, *damaged.tolist(), len(column)]
    pieces: list[pa.Array] = []
    for before, after in pairwise(edges):
        pieces += [column.slice(before + 1, after - before - 1), pa.nulls(1, column.type)]
    return pa.concat_arrays(pieces[:-1]), damaged


def _is_sound(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def list_roots(names: Sequence[str], present: Sequence[str]) -> list[str]:
    """List the columns of a file that hold some attributes: ``a`` for ``a.b``, each once."""
    return list(dict.fromkeys(_find_root(name, present) for name in names))


def flatten_columns(batch: pa.RecordBatch, names: Sequence[str]) -> dict[str, pa.Array]:
    """Select attributes of a batch by name; a struct becomes one attribute for each field."""
    columns: dict[str, pa.Array] = {}
    for name in names:
        fields = list(_walk(name, _find(batch, name)))
        if not fields:
            raise InputError(
                f"request column '{name}' holds objects without fields; expected values; leave the "
                f"column out"
            )
        for path, column in fields:
            if path in columns:
                raise InputError(
                    f"request column '{path}' is there twice; expected each field once; rename "
                    f"one, or leave out the struct or its field"
                )
            columns[path] = column
    return columns


def _find_root(name: str, present: Sequence[str]) -> str:
    parts = name.split(SEPARATOR)
    for size in range(len(parts), 0, -1):
        root = SEPARATOR.join(parts[:size])
        if root in present:
            return root
    return name


def _find(batch: pa.RecordBatch, name: str) -> pa.Array:
    root = _find_root(name, batch.schema.names)
    column = batch.column(root)
    for field in name[len(root) :].split(SEPARATOR)[1:]:
        index = column.type.get_field_index(field) if pa.types.is_struct(column.type) else -1
        if index < 0:
            raise InputError(
                f"request column '{root}' has no field '{name[len(root) + 1 :]}'; expected it in "
                f"every file; name another --request"
            )
        column = column.flatten()[index]
    return column


def _walk(name: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if not pa.types.is_struct(column.type):
        yield name, column
        return
    for field, values in zip(column.type, column.flatten(), strict=True):
        yield from _walk(f"{name}{SEPARATOR}{field.name}", values)
