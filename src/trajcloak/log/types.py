"""Convert columns to common types, check that values are not damaged, and flatten structs."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log.bad_rows import BadRows, Trouble
from trajcloak.log.formats import WantedColumns
from trajcloak.options import TIME_UNITS

MAX_EPOCH = 2**62
"""Microseconds since 1970 that a time may be away."""

PLAIN = {
    pa.string_view(): pa.string(),
    pa.large_string(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.large_binary(): pa.binary(),
}
"""Types of text and bytes: which of them a library uses should not show in a release."""

SEPARATOR = "."
"""Between the name of a struct and the name of its field."""

MAX_DEPTH = 32
"""Most levels of structs within each other."""


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


def decode_times(
    column: pa.Array, wanted: WantedColumns, rows_before: int, bad: BadRows
) -> pa.Array:
    """Turn numbers since 1970, or text of a given form, into timestamps.

    Times that cannot be read become empty, and are noted in ``bad``. ``rows_before``: rows of
    the log before the first.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if wanted.time_unit is not None:
        times, found = _read_epochs(column, wanted)
        expected = f"a number since 1970 in {wanted.time_unit}, as --time-unit says"
    else:
        times, found = _read_texts(column, wanted)
        expected = f"a time such as {wanted.time_format}, as --time-format says"
    lost = pc.and_(column.is_valid(), times.is_null()).to_numpy(zero_copy_only=False)
    if lost.any():
        rows = np.flatnonzero(lost)
        bad.add_unreadable(
            Trouble(f"column '{wanted.time}' {found}", expected, "correct or remove the row"),
            rows + rows_before,
            str(column[int(rows[0])].as_py()),
        )
    return times


def _read_epochs(column: pa.Array, wanted: WantedColumns) -> tuple[pa.Array, str]:
    assert wanted.time_unit is not None
    type_, scale = column.type, TIME_UNITS[wanted.time_unit]
    if not (pa.types.is_integer(type_) or pa.types.is_floating(type_)):
        raise InputError(
            f"column '{wanted.time}' is of type {type_}, and --time-unit is "
            f"'{wanted.time_unit}'; expected numbers since 1970; leave out --time-unit, or convert "
            f"the times"
        )
    kind = pa.int64() if pa.types.is_integer(type_) else pa.float64()
    numbers = column.cast(kind, safe=False)
    filled = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    # Not "greater than": NaN is out of range, too.
    is_bad = ~(np.abs(filled) <= MAX_EPOCH // scale)
    ticks = np.rint(np.where(is_bad, 0, filled) * scale).astype(np.int64)
    mask = is_bad | numbers.is_null().to_numpy(zero_copy_only=False)
    return pa.array(ticks, mask=mask).cast(pa.timestamp("us", "UTC")), "is out of range"


def _read_texts(column: pa.Array, wanted: WantedColumns) -> tuple[pa.Array, str]:
    type_ = column.type
    if not (pa.types.is_string(type_) or pa.types.is_large_string(type_)):
        raise InputError(
            f"column '{wanted.time}' is of type {type_}, and --time-format is given; expected "
            f"text; leave out --time-format"
        )
    assert wanted.time_format is not None
    texts = pc.utf8_trim_whitespace(column)
    if "%f" in wanted.time_format:
        # Arrow knows no fractions of a second here.
        times = [_read_text(text, wanted.time_format) for text in texts.to_pylist()]
        zone = "UTC" if "%z" in wanted.time_format else None
        return pa.array(times, pa.timestamp("us", zone)), "cannot be read"
    times = pc.strptime(texts, format=wanted.time_format, unit="us", error_is_null=True)
    return times, "cannot be read"


def _read_text(text: str | None, form: str) -> datetime | None:
    try:
        return None if text is None else datetime.strptime(text, form)
    except ValueError:
        return None


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
    damaged = np.fromiter(_find_damaged(column), np.int64)
    if not len(damaged):
        return column, damaged
    edges = [-1, *damaged.tolist(), len(column)]
    pieces: list[pa.Array] = []
    for before, after in pairwise(edges):
        pieces += [column.slice(before + 1, after - before - 1), pa.nulls(1, column.type)]
    return pa.concat_arrays(pieces[:-1]), damaged


def _find_damaged(column: pa.Array, start: int = 0) -> Iterator[int]:
    """Yield the positions of damaged values, in order."""
    if _is_sound(column):
        return
    if len(column) == 1:
        yield start
        return
    middle = len(column) // 2
    yield from _find_damaged(column.slice(0, middle), start)
    yield from _find_damaged(column.slice(middle), start + middle)


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
    """Select attributes of a batch by name; a struct becomes one attribute for each field.

    Raises
    ------
    InputError
        If a field is missing, a struct has none, or two attributes would have one name.
    """
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


def _walk(name: str, column: pa.Array, depth: int = 0) -> Iterator[tuple[str, pa.Array]]:
    if not pa.types.is_struct(column.type):
        yield name, column
        return
    if depth == MAX_DEPTH:
        raise InputError(
            f"a request column holds structs in more than {MAX_DEPTH} levels; expected few; name "
            f"single fields with --request=COLUMN.FIELD"
        )
    for field, values in zip(column.type, column.flatten(), strict=True):
        yield from _walk(f"{name}{SEPARATOR}{field.name}", values, depth + 1)
