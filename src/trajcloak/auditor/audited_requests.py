"""The request values of a log: distinct values and distinct requests, as numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_values import (
    Codes,
    Ints,
    NumberedValues,
    merge_equal,
    number_tuples,
    unify_zeros_and_nans,
)
from trajcloak.errors import InputError
from trajcloak.log.types import flatten_columns

ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class AuditedKinds:
    """Distinct requests.

    Attributes
    ----------
    names
        The request attributes.
    values
        Of each attribute: an Arrow array of distinct values.
    codes
        Of each attribute: the value of each distinct request; -1 is null.
    is_text
        Whether a file of the requests is text, which has no types.
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

    Attributes
    ----------
    wanted
        The attributes as they were asked for: a struct counts as one.
    is_text
        Whether a file of the requests is text. Then all values become text.
    numbered
        By attribute: its distinct values. Empty before the first rows are there.
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
                self.numbered[name].add_type(_get_value_type(column))
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
            codes = [np.zeros(0, np.int32) for _ in names]
        if not names:
            return AuditedKinds([], [], [], self.is_text), np.zeros(0, np.int32)
        number, distinct = number_tuples(codes, [len(v) for v in values])
        return AuditedKinds(names, values, distinct, self.is_text), number.astype(np.int32)


def _get_value_type(column: Any) -> Any:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _to_plain(column: Any) -> Any:
    """Decode a dictionary, unless it is one of texts, which is numbered faster as it is."""
    if not pa.types.is_dictionary(column.type) or column.type == ENCODED_TEXT:
        return column
    return pc.cast(column, column.type.value_type)


def _to_text(column: Any) -> Any:
    """Write values as text, numbers in plain notation: 1.0 and 1 become the same text."""
    plain = pc.cast(column, _get_value_type(column))
    if pa.types.is_string(plain.type):
        return plain
    if not pa.types.is_floating(plain.type):
        return pc.cast(plain, pa.string())
    encoded = unify_zeros_and_nans(plain).dictionary_encode()
    numbers = encoded.dictionary.to_numpy(zero_copy_only=False)
    texts = [np.format_float_positional(number, trim="-") for number in numbers]
    return pa.array(texts, pa.string()).take(encoded.indices)
