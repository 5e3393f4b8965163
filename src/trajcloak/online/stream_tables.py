"""Tables of reports and of requests: checked before anything of them is used, users numbered."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from trajcloak.errors import InputError
from trajcloak.kernels.intern import IntegerIds, TextIds
from trajcloak.log.types import find_common_type
from trajcloak.requests.suspicions import is_bytes

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
    check_columns(reports, "the reports", [USER, TIME, X, Y, *names])
    for name in (USER, TIME):
        column = reports[name]
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise InputError(
                f"the reports: row {row}: column '{name}' is empty, as in {column.null_count:,} of "
                f"{len(column):,} rows; expected a user and a time in each; leave such rows out"
            )


def check_columns(table: pa.Table, what: str, names: Sequence[str]) -> None:
    """Raise if a table lacks a column, or has one of another type; values do not matter."""
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
    is_integer: bool = kinds.is_integer(kind)
    value = kind.value_type if kinds.is_dictionary(kind) else kind
    if name == USER:
        return is_integer or value in (pa.string(), pa.large_string(), pa.string_view())
    if name == TIME:
        return is_integer and kind != pa.uint64()
    if name in (X, Y):
        return is_integer or kinds.is_floating(kind)
    try:
        pa.array([], value).cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    # Bytes may be no text, which must not be seen: a refusal tells nothing of what was sent.
    return not is_bytes(find_common_type(value))


class StreamUsers:
    """Numbers the users who have reported, ``count`` of them; private."""

    def __init__(self) -> None:
        self._ids: IntegerIds | TextIds = TextIds()
        self.count = 0

    def number(self, column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
        """Number users, whose ids are all integers or all text; new ones get the next numbers."""
        ids = column.combine_chunks()
        is_integer = pa.types.is_integer(ids.type)
        if self.count and is_integer != isinstance(self._ids, IntegerIds):
            raise InputError(
                f"the reports: column 'user_id' holds {ids.type}, and before it held "
                f"{'text' if is_integer else 'whole numbers'}; expected one kind of ids; convert "
                f"the column"
            )
        if is_integer:
            if ids.type == pa.uint64() and len(ids) and pc.max(ids).as_py() >= 2**63:
                raise InputError(
                    "the reports: column 'user_id' holds numbers of 2^63 or more; expected smaller "
                    "ones, or text; convert the column to text"
                )
            ids = ids.cast(pa.int64())
        if not self.count:
            self._ids = IntegerIds() if ids.type == pa.int64() else TextIds()
        user = self._ids.intern(ids)
        self.count = max(self.count, int(user.max(initial=-1)) + 1)
        return user

    def find(self, column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
        """Find the numbers of users; -1 for those who have not reported.

        Ids may be any: of those who sent requests, nobody has checked them.
        """
        known = self._ids.distinct()
        fits = pa.types.is_integer(column.type) and column.type != pa.uint64()
        # Large text: all requests of an instant may hold more than text of Arrow can.
        kind = pa.int64() if fits and known.type == pa.int64() else pa.large_string()
        found = pc.index_in(column.cast(kind), value_set=known.cast(kind))
        number: npt.NDArray[np.int32] = found.fill_null(-1).to_numpy()
        return number

    def list_ids(self) -> pa.Array:
        """List the ids by number."""
        return self._ids.distinct()

    def keep(self, is_kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Forget the others, and number users in the order of their ids; returns the old numbers.

        New users are numbered as they come. The order in which lines arrive must decide
        nothing, not even a tie.
        """
        ids = self._ids.distinct()
        order: npt.NDArray[np.int64] = pc.array_sort_indices(ids).to_numpy().astype(np.int64)
        order = order[is_kept[order]]
        self.count = 0
        self.number(pa.chunked_array([ids.take(pa.array(order))]))
        return order


def add_users(values: npt.NDArray[Any], num_users: int, value: object) -> npt.NDArray[Any]:
    """Lengthen an array, which has a row for each user, to so many users at least."""
    more = num_users - len(values)
    if more <= 0:
        return values
    return np.concatenate([values, np.full((more, *values.shape[1:]), value, values.dtype)])
