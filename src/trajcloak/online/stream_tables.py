"""Tables of reports, and of requests, are checked before anything of them is used."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from trajcloak.errors import InputError

USER, TIME, X, Y = "user_id", "time", "x", "y"

EXPECTED = {
    USER: "whole numbers or text",
    TIME: "whole numbers (of int64) in the unit of --every",
    X: "numbers",
    Y: "numbers",
}
"""What columns hold; all others hold values that can be written as text."""


def check_reports(reports: pa.Table, names: Sequence[str]) -> None:
    """Raise if a table is none of reports that have a user and a time each.

    ``names`` are the request attributes that it must have. What it says of them does not matter,
    but for their types.
    """
    _check_columns(reports, "the reports", [USER, TIME, X, Y, *names])
    for name in (USER, TIME):
        column = reports[name]
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise InputError(
                f"the reports: row {row}: column '{name}' is empty, as in {column.null_count:,} of "
                f"{len(column):,} rows; expected a user and a time in each; leave such rows out"
            )


def check_requests(requests: pa.Table, names: Sequence[str]) -> None:
    """Raise if a table is none of requests; only its columns and their types matter."""
    _check_columns(requests, "the requests", [USER, TIME, *names])


def _check_columns(table: pa.Table, what: str, names: Sequence[str]) -> None:
    if not isinstance(table, pa.Table):
        raise InputError(
            f"{what}: are of type {type(table).__name__}; expected a table of pyarrow; pass "
            f"pyarrow.table(...) of them"
        )
    for name in names:
        count = table.column_names.count(name)
        if count != 1:
            raise InputError(
                f"{what}: {count or 'no'} column{'s' * (count > 1)} '{name}'; expected one; name "
                f"the columns {', '.join(names)}"
            )
        kind = table.schema.field(name).type
        if not _is_expected(name, kind):
            expected = EXPECTED.get(name, "text, numbers, or other single values")
            raise InputError(
                f"{what}: column '{name}' holds {kind}; expected {expected}; convert the column"
            )


def _is_expected(name: str, kind: pa.DataType) -> bool:
    """Whether a column may have a type; one without values may have none."""
    if kinds.is_null(kind):
        return True
    if name == USER:
        texts = pa.string(), pa.large_string(), pa.string_view()
        return _get_value_type(kind) in texts or _is_integer(kind)
    if name == TIME:
        return _is_integer(kind) and kind != pa.uint64()
    if name in (X, Y):
        return _is_integer(kind) or bool(kinds.is_floating(kind))
    kind = _get_value_type(kind)
    # Bytes may be no text, which must not be seen: a refusal tells nothing of what was sent.
    if any(is_kind(kind) for is_kind in (kinds.is_binary, kinds.is_large_binary)):
        return False
    try:
        pa.array([], kind).cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return not kinds.is_fixed_size_binary(kind)


def _get_value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if kinds.is_dictionary(kind) else kind


def _is_integer(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind))
