"""The ids of users as they may stand in requests."""

import re
from decimal import Decimal
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
"""Where at most so many numbers in texts would be ids by chance, a single id is no chance."""

UUID = "^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$"
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

    @property
    def are_some(self) -> bool:
        """Whether there are other ids than these."""
        return self._given_digits is not None

    def match(self, texts: pa.Array) -> tuple[Positions, Positions]:
        """Find the users whose id, as :func:`spell` spells it, is among some texts.

        Returns their positions, and those of the texts.
        """
        if self._is_integer:
            return self._match_numbers(texts)
        found = pc.index_in(self._spelt, value_set=texts, skip_nulls=True)
        user = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        return user, found.drop_null().to_numpy().astype(np.int64)

    def count_names(self, texts: pa.Array) -> int:
        """Count the long ids that are no numbers and stand anywhere in some texts.

        Case means nothing, nor do the dashes of ids that are UUIDs.
        """
        if self._is_integer:
            return 0
        is_long = pc.greater_equal(pc.utf8_length(self._spelt), LONG_ID)
        is_number = pc.match_substring_regex(self._spelt, "^-?[0-9]+$")
        names = self._spelt.filter(pc.and_not(is_long, is_number))
        lowered = pc.utf8_lower(texts.unique())
        is_found = _is_inside(names, lowered)
        is_uuid = pc.match_substring_regex(names, UUID).to_numpy(zero_copy_only=False)
        if is_uuid.any():
            bare = pc.replace_substring(names.filter(pa.array(is_uuid)), "-", "")
            is_found[is_uuid] |= _is_inside(bare, pc.replace_substring(lowered, "-", ""))
        return int(is_found.sum())

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


def _is_inside(names: pa.Array, texts: pa.Array) -> npt.NDArray[np.bool_]:
    """Tell which names stand anywhere in some texts."""
    lengths = pc.utf8_length(names).unique().to_pylist()
    parts = {text[i : i + n] for n in lengths for text in texts.to_pylist()
             for i in range(len(text) - n + 1)}  # fmt: skip
    is_found: npt.NDArray[np.bool_] = pc.is_in(
        names, value_set=pa.array(parts, names.type)
    ).to_numpy(zero_copy_only=False)
    return is_found.copy()


def spell(values: pa.Array) -> pa.Array:
    """Spell values as ids are spelt, without regard to case.

    Moments, days and durations are spelt as the numbers that they are stored as; numbers
    that are not whole, and what else is neither text nor a number, as null.
    """
    type_ = values.type
    texts = to_text(values)
    if texts is not None:
        return pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    if pa.types.is_decimal(type_):
        return pa.array(map(_spell_decimal, values.to_pylist()), pa.string())
    if pa.types.is_floating(type_):
        numbers = values.to_numpy(zero_copy_only=False)
        is_whole = (np.abs(numbers) < 2**53) & (np.rint(numbers) == numbers)
        values = pa.array(np.where(is_whole, numbers, 0).astype(np.int64), mask=~is_whole)
    elif pa.types.is_temporal(type_):
        values = values.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    elif not pa.types.is_integer(type_):
        return pa.nulls(len(values), pa.string())
    return values.cast(pa.string())


def to_text(values: pa.Array) -> pa.Array | None:
    """Take text, and bytes as far as they are text, as it is; None for other types."""
    if is_text(values.type):
        return values.cast(pa.string())
    if is_bytes(values.type):
        decoded = (value.rstrip(b"\0").decode(errors="replace") for value in values.to_pylist())
        return pa.array(decoded, pa.string())
    return None


def _spell_decimal(value: Decimal) -> str | None:
    numerator, denominator = value.as_integer_ratio()
    return str(numerator) if denominator == 1 else None
