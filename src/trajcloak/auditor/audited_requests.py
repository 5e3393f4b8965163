"""The requests of a log: the values of their attributes as numbers, and the distinct requests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_columns import (
    Codes,
    Ints,
    NumberedValues,
    get_value_type,
    number_tuples,
    unify_zeros_and_nans,
)
from trajcloak.errors import InputError
from trajcloak.log.types import flatten_columns, to_plain

ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())
"""Values of this type are numbered as they are, which is faster."""


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
        columns = flatten_columns(batch, self.wanted)
        for name, column in columns.items():
            if self.is_text:
                columns[name] = _to_text(column)
            elif column.type != ENCODED_TEXT:
                columns[name] = to_plain(column)
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
        # Nothing is known about attributes of files without any row.
        numbered = self.numbered or {name: NumberedValues() for name in self.wanted}
        if not numbered:
            return AuditedKinds([], [], [], self.is_text), np.zeros(0, np.int32)
        values, codes = [], []
        for place, of in enumerate(numbered.values()):
            merged, new = _merge_equal(of.values)
            values.append(merged)
            parts = [distinct[place] for distinct in self._tuples]
            codes.append(new[np.concatenate([np.zeros(0, np.int64), *parts])])
        number, distinct = number_tuples(codes, [len(v) for v in values])
        kinds = AuditedKinds(list(numbered), values, distinct, self.is_text)
        return kinds, number.astype(np.int32)


def _merge_equal(values: Any) -> tuple[Any, Codes]:
    """List values without equal ones, and the new number of each old one; then -1, for null."""
    encoded = unify_zeros_and_nans(values).dictionary_encode()
    return encoded.dictionary, np.append(encoded.indices.to_numpy(), -1).astype(np.int32)


def _to_text(column: Any) -> Any:
    """Write values as text, numbers in plain notation: 1.0 and 1 become the same text."""
    plain = to_plain(column)
    if pa.types.is_string(plain.type):
        return plain
    if not pa.types.is_floating(plain.type):
        return pc.cast(plain, pa.string())
    encoded = unify_zeros_and_nans(plain).dictionary_encode()
    numbers = encoded.dictionary.to_numpy(zero_copy_only=False)
    texts = [np.format_float_positional(number, trim="-") for number in numbers]
    return pa.array(texts, pa.string()).take(encoded.indices)
