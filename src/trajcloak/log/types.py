"""Convert columns to common types, and check that their values are not damaged."""

import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError

PLAIN = {
    pa.string_view(): pa.string(),
    pa.large_string(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.large_binary(): pa.binary(),
}
"""Types of text and bytes: which of them a library uses should not show in a release."""


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


def check_batch(batch: pa.RecordBatch, rows_before: int) -> None:
    """Raise if a value is damaged: text that is not UTF-8, or whose bounds are outside the file.

    The readers of Parquet and Arrow files check neither, and compiled code would read
    outside its memory.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not _is_sound(column):
            start, stop = 0, len(column)
            while stop - start > 1:
                middle = (start + stop) // 2
                if _is_sound(column.slice(start, middle - start)):
                    start = middle
                else:
                    stop = middle
            raise InputError(
                f"row {rows_before + start + 1}: column '{name}' is damaged, or holds text that is "
                f"not UTF-8; expected a value of type {column.type}; correct the row, or make the "
                f"file again"
            )


def _is_sound(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
