"""Refuse request attributes that look like identifiers or places, where rare values are kept.

By default a request is published only if several bundles of a window show it, which leaves
no room for identifiers. With ``rare="keep"`` this check is all there is. It looks at the
distinct values of eligible sets alone (invariant 8 of ``docs/guarantee.md``).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log import RequestLog, ShardedLog
from trajcloak.release.result import BundleRange

_OCTET = r"(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_DEGREES = r"[-+]?[0-9]{1,3}\.[0-9]{2,}"
MANY_WORDS = r"\S\s+\S+\s+\S+\s+\S+\s+\S"
"""At least five words."""

MIN_TEXTS = 50
"""At least this many distinct values of many words are free text, not names of categories."""

TEXT_SHARE = 0.1
LONG_TEXT = 200
"""Characters; a value this long is free text even if it is the only one."""

MANY_VALUES = 200
"""An attribute with at most this many distinct values holds categories."""

LONG_ID = 6
"""A text of at least this many characters that is no number does not equal an id by chance."""

PATTERNS = {
    "e-mail addresses": r"[a-z0-9._%+-]+@[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}",
    "phone numbers": (
        r"^\s*(\+[0-9][0-9 ()./-]{6,}[0-9]"
        r"|\(?[0-9]{3}\)?[ .-]?[0-9]{3}[ .-][0-9]{4}"
        r"|0[0-9]{2,4}[ /-][0-9][0-9 -]{4,}[0-9]"
        r"|0[0-9]{9,13})\s*$"
    ),
    "network addresses": (
        rf"(^|[^0-9.])({_OCTET}\.){{3}}{_OCTET}($|[^0-9.])"
        r"|^([0-9a-f]{0,4}:){2,7}:[0-9a-f:.]*$|^[0-9a-f]{0,4}::[0-9a-f:.]*$"
        r"|^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$"
        r"|^([0-9a-f]{2}[:-]){5}[0-9a-f]{2}$"
    ),
    "tokens": (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
        r"|(^|[^0-9a-z])[0-9a-f]{16,}($|[^0-9a-z])"
    ),
    "web addresses with ids": r"^\s*[a-z][a-z0-9+.-]*://\S*([?&][^=\s]+=|[0-9]{4,}|@)",
    "coordinates": (
        rf"(^|[^0-9.]){_DEGREES}\s*(°?\s*[NS])?\s*[,;/ ]\s*{_DEGREES}($|[^0-9.])"
        rf"|[0-9]\s*°\s*[0-9NSEW]|^\s*(POINT|POLYGON|LINESTRING)\s*Z?\s*\("
    ),
    "JSON": r'^\s*\{\s*("|\})|^\s*\[\s*(["{[]|-?[0-9.]+\s*,)',
}
"""By what values look like, in the plural: what matches anywhere in them; case is ignored."""


def is_bytes(type_: pa.DataType) -> bool:
    """Whether values of a type are bytes that may mean anything."""
    variable = pa.binary(), pa.large_binary(), pa.binary_view()
    return type_ in variable or bool(pa.types.is_fixed_size_binary(type_))


def check_values(
    log: ShardedLog, ranges: Sequence[BundleRange], kinds: pa.Table, allow: Sequence[str]
) -> None:
    """Raise if an attribute looks like identifiers or places, and is not among ``allow``.

    ``ranges`` are the bundles of all windows, with the requests of their eligible sets; ``kinds``
    are the distinct requests of the log, which knows the ids of users.
    """
    sets = np.zeros(kinds.num_rows, np.int64)
    for r in ranges:
        sets[r.shown.kind] += r.shown.sets
    suspicions = []
    for name in kinds.column_names:
        if name in allow:
            continue
        encoded = kinds[name].filter(pa.array(sets > 0)).combine_chunks().dictionary_encode()
        values = encoded.dictionary
        code = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        shown = np.bincount(code + 1, sets[sets > 0], minlength=len(values) + 1)[1:]
        looks_like = find_suspicions(log, values, shown)
        if looks_like:
            suspicions.append(
                f"'{name}' holds {' and '.join(looks_like)} ({len(values):,} distinct values)"
            )
    if suspicions:
        raise InputError(
            f"request column {'; '.join(suspicions)}; expected values that many users share and "
            f"that name nobody and no place; leave the column out, pass --rare=drop instead of "
            f"keep, or publish it as it is with --allow=COLUMN"
        )


def find_suspicions(log: ShardedLog, values: pa.Array, shown: npt.NDArray[Any]) -> list[str]:
    """Say what distinct values look like; ``shown`` is how many sets show each."""
    if not len(values):
        return []
    if is_bytes(values.type):
        return ["bytes, which may mean anything"]
    found = []
    if pa.types.is_string(values.type):
        for name, regex in PATTERNS.items():
            if pc.any(pc.match_substring_regex(values, regex, ignore_case=True)).as_py():
                found.append(name)
        num_wordy = pc.sum(pc.match_substring_regex(values, MANY_WORDS)).as_py()
        is_long = pc.any(pc.greater_equal(pc.utf8_length(values), LONG_TEXT)).as_py()
        if is_long or num_wordy >= max(MIN_TEXTS, TEXT_SHARE * len(values)):
            found.append("free text")
    texts = pc.utf8_lower(pc.utf8_trim_whitespace(values.cast(pa.string())))
    num_ids, num_long = np.sum(log.ask(count_ids, texts), axis=0).tolist()
    if num_long or (len(values) > MANY_VALUES and num_ids > len(values) / 2):
        found.append(f"the ids of {num_ids:,} users")
    if not found and len(values) > MANY_VALUES and (shown == 1).sum() > len(values) / 2:
        found.append("near-unique values")
    return found


def count_ids(log: RequestLog, texts: pa.Array) -> tuple[int, int]:
    """Count the users of a shard whose id is among some texts, and those with a long text as id."""
    ids = pc.utf8_lower(log.users.cast(pa.string()))
    ids = ids.filter(pc.is_in(ids, value_set=texts))
    is_number = pc.match_substring_regex(ids, "^-?[0-9]+$")
    is_long = pc.and_not(pc.greater_equal(pc.utf8_length(ids), LONG_ID), is_number)
    return len(ids), pc.sum(is_long).as_py() or 0
