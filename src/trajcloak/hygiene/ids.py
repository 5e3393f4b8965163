"""The ids of users as they may stand in requests."""

import re
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.hygiene.patterns import is_bytes, is_text

LONG_ID = 6
"""Characters of an id that does not equal a value by chance, unless both are numbers."""

MIN_FOUND = 3
ABOVE_CHANCE = 4
"""Ids are published if more than ``MIN_FOUND`` are, and so many times more than by chance."""

BY_CHANCE = 0.01
"""Numbers in texts that may be ids by chance before a single one means nothing."""

WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,18}")
LIMIT = 2**63
"""Integer ids are smaller."""

Positions = npt.NDArray[np.int64]


class Ids:
    """The ids of the users of a log.

    Parameters
    ----------
    users
        The ids, ascending: integers or text.
    num_digits
        How many ids are numbers of so many digits, where these are only some of the ids.
    """

    def __init__(self, users: pa.Array, num_digits: Positions | None = None) -> None:
        self._users = users
        self._given_digits = num_digits
        self._is_integer = pa.types.is_integer(users.type)

    def match(self, texts: pa.Array) -> tuple[Positions, Positions]:
        """Find the users whose id, as :func:`spell` spells it, is among some texts.

        Returns their positions, and those of the texts.
        """
        if self._is_integer:
            return self._match_numbers(texts)
        found = pc.index_in(self._spelt, value_set=texts, skip_nulls=True)
        user = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        return user, found.drop_null().to_numpy().astype(np.int64)

    def count_inside(self, texts: pa.Array) -> int:
        """Count the long ids that stand anywhere in some texts, as the audit searches them.

        A number must be all the digits that stand together; those that may be ids by
        chance are none.
        """
        distinct = set(texts.to_pylist())
        if self._is_integer:
            return self._count_numbers(distinct)
        is_number = pc.match_substring_regex(self._users, "^-?[0-9]+$")
        names = self._users.filter(pc.invert(is_number))
        lengths = [n for n in pc.utf8_length(names).unique().to_pylist() if n >= LONG_ID]
        parts = {text[i : i + n] for n in lengths for text in distinct
                 for i in range(len(text) - n + 1)}  # fmt: skip
        found = pc.is_in(names, value_set=pa.array(sorted(parts), names.type)) if parts else None
        num_found = 0 if found is None else int(pc.sum(found).as_py() or 0)
        return num_found + self._count_numbers(distinct)

    def expect(self, texts: pa.Array) -> float:
        """How many whole numbers would be ids by chance: length by length, as digits go."""
        digits = texts.filter(pc.match_substring_regex(texts, "^[0-9]+$"))
        counts = np.bincount(pc.utf8_length(digits).to_numpy(), minlength=1)
        size = min(len(counts), len(self.num_digits))
        return float((self.num_digits[:size] * counts[:size] / 10.0 ** np.arange(size)).sum())

    @cached_property
    def _spelt(self) -> pa.Array:
        return spell(self._users)

    @cached_property
    def num_digits(self) -> Positions:
        """How many ids are numbers of so many digits."""
        if self._given_digits is not None:
            return self._given_digits
        if self._is_integer:
            numbers = self._users.to_numpy()
            sizes = np.concatenate([[0], 10 ** np.arange(1, 19)])
            # Those below 0 have a sign, which no text of digits has.
            counts = np.diff(np.searchsorted(numbers, sizes), append=len(numbers))
            return np.concatenate([[0], counts])
        digits = self._spelt.filter(pc.match_substring_regex(self._spelt, "^[0-9]+$"))
        return np.bincount(pc.utf8_length(digits).to_numpy(), minlength=1)

    def _match_numbers(self, texts: pa.Array) -> tuple[Positions, Positions]:
        numbers = [int(text) if text and WHOLE_NUMBER.fullmatch(text) else LIMIT
                   for text in texts.to_pylist()]  # fmt: skip
        value = np.flatnonzero([-LIMIT <= number < LIMIT for number in numbers])
        wanted = np.array([numbers[i] for i in value], np.int64)
        users = self._users.to_numpy()
        user = np.searchsorted(users, wanted)
        is_found = users[np.minimum(user, len(users) - 1)] == wanted
        return user[is_found], value[is_found]

    def _count_numbers(self, texts: set[str]) -> int:
        numbers = {n for text in texts for n in re.findall("[0-9]+", text) if len(n) >= LONG_ID}
        found = pa.array(sorted(numbers), pa.string())
        if not numbers or self.expect(found) > BY_CHANCE:
            return 0
        return len(self.match(found)[0])


def spell(values: pa.Array) -> pa.Array:
    """Spell values as ids are spelt, without regard to case."""
    type_ = values.type
    if is_text(type_):
        return pc.utf8_lower(pc.utf8_trim_whitespace(values)).cast(pa.string())
    if is_bytes(type_):
        return spell(pa.array(map(_decode, values.to_pylist()), pa.string()))
    if pa.types.is_floating(type_):
        numbers = values.to_numpy(zero_copy_only=False)
        is_whole = (np.abs(numbers) < 2**53) & (np.rint(numbers) == numbers)
        values = pa.array(np.where(is_whole, numbers, 0).astype(np.int64), mask=~is_whole)
    elif not pa.types.is_integer(type_):
        return pa.nulls(len(values), pa.string())
    return values.cast(pa.string())


def _decode(value: bytes) -> str | None:
    """Take bytes as text, where they are text."""
    try:
        return value.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return None
