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
from trajcloak.requests.patterns import is_bytes, is_text, match_patterns

MANY_VALUES = 200
"""An attribute with at most this many distinct values holds categories."""

LONG_ID = 6
"""A text of at least this many characters that is no number does not equal an id by chance."""


def check_values(
    log: ShardedLog, ranges: Sequence[BundleRange], kinds: pa.Table, allow: Sequence[str]
) -> None:
    """Raise if an attribute looks like identifiers or places, and is not allowed.

    Parameters
    ----------
    log
        Knows the ids of users.
    ranges
        The bundles of all windows, with the requests of their eligible sets.
    kinds
        The distinct requests of the log.
    allow
        Names of attributes to publish whatever they look like.

    Raises
    ------
    InputError
        If an attribute is refused.
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
    found = [name for name, _ in match_patterns(values)] if is_text(values.type) else []
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
