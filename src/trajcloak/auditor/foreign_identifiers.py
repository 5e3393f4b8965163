"""Identifiers in a foreign table: ids of users of the log, and what looks like others."""

import math
import re
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_columns import Ints, match_ids
from trajcloak.auditor.foreign_candidates import CandidateCounts
from trajcloak.auditor.foreign_table import ForeignTable

LONG = 6
"""Ids with fewer characters may occur in any text."""

BY_CHANCE, FEW, ABOVE_CHANCE = 0.01, 3, 4
"""Numbers in a text that are ids are taken for ids if fewer than the first number are expected by
chance; or if they are more than the second number, and than the third times as many as expected."""

LEAST_OWN, DEVIATIONS = 3, 4
"""A column names users inside their rectangles if it does so in this many rows or more, and in more
than expected by chance, by this many standard deviations."""

UUID = "^([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})$"

MANY_VALUES = 200
PATTERNS = {
    "e-mail addresses": r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+\.[A-Za-z]{2,}",
    "tokens": r"^[0-9A-Fa-f]{16,}$|[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",
    "network addresses": r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$",
    "phone numbers": r"^\+[0-9][0-9 ()/-]{6,}[0-9]$",
    "coordinates": r"^[-+]?[0-9]{1,3}\.[0-9]{2,}[,; ]+[-+]?[0-9]{1,3}\.[0-9]{2,}$",
}


def find_named_users(foreign: ForeignTable, ids: Any) -> dict[str, Ints]:
    """Find, in each column that names users, the user of each row, or -1.

    The name is the whole value, or the only number in it.
    """
    named = {}
    for name, values in foreign.columns.items():
        text = pc.cast(values, pa.string())
        whole = match_ids(text, ids)
        digits = pc.replace_substring_regex(text, "^[^0-9]*([0-9]+)[^0-9]*$", "\\1")
        users = np.where(whole >= 0, whole, match_ids(digits, ids))
        if (users >= 0).any():
            named[name] = users
    return named


def find_own_ids(named: dict[str, Ints], counts: CandidateCounts, num_users: int) -> list[str]:
    """Find columns that name users inside their row's rectangle, far more often than chance."""
    problems = []
    inside = counts.candidates[0] / num_users
    for (name, users), own in zip(named.items(), counts.own, strict=True):
        share = inside[users >= 0]
        spread = math.sqrt(float((share * (1 - share)).sum()))
        by_chance = float(share.sum()) + DEVIATIONS * spread
        if own >= LEAST_OWN and 2 * own >= len(share) and own > by_chance:
            problems.append(
                f"column '{name}' has the id of a user inside the rectangle in {own:,} of "
                f"{len(share):,} rows with an id"
            )
    return problems


def find_long_ids(foreign: ForeignTable, ids: Any) -> list[str]:
    """Search the table for ids of users that are long enough to tell from chance."""
    names, numbers = _list_long_ids(ids)
    problems = []
    for name, values in foreign.columns.items():
        text = _join(values)
        num_found = _count_names(names, text) + _count_numbers(numbers, text)
        if num_found:
            problems.append(f"column '{name}' holds the ids of {num_found:,} users")
    return problems


def _list_long_ids(ids: Any) -> tuple[set[str], set[str]]:
    """List the long ids: names, in lower case, and numbers without their sign."""
    ids = pc.cast(ids, pa.string())
    ids = ids.filter(pc.greater_equal(pc.utf8_length(ids), LONG))
    is_number = pc.match_substring_regex(ids, "^-?[0-9]+$")
    names = pc.utf8_lower(ids.filter(pc.invert(is_number)))
    tokens = names.filter(pc.match_substring_regex(names, UUID))
    spelled = [
        pc.replace_substring_regex(tokens, UUID, parts)
        for parts in (r"\1\2\3\4\5", r"\1-\2-\3-\4-\5")
    ]
    digits = pc.utf8_ltrim(ids.filter(is_number), characters="-").to_pylist()
    words = pa.concat_arrays([names, *spelled]).to_pylist()
    return set(words), {number for number in digits if len(number) >= LONG}


def _join(values: Any) -> str:
    """Join the distinct values of a column, as text."""
    texts = pc.cast(values.unique(), pa.string())
    return "\0".join(texts.drop_null().to_pylist()).lower()


def _count_names(names: set[str], text: str) -> int:
    """Count the names that occur anywhere in a text."""
    found = set[str]()
    for length in {len(name) for name in names}:
        starts = range(len(text) - length + 1)
        found |= names.intersection(text[start : start + length] for start in starts)
    return len(found)


def _count_numbers(ids: set[str], text: str) -> int:
    """Count the ids among the numbers of a text, or 0 if chance explains them.

    Chance makes as many, for each length, as the text has distinct numbers, times the share of
    all numbers that are ids.
    """
    numbers = set(re.findall("[0-9]+", text))
    ids_by_length = Counter(map(len, ids))
    by_chance = sum(ids_by_length[len(number)] / 10.0 ** len(number) for number in numbers)
    num_found = len(numbers & ids)
    if by_chance > BY_CHANCE and num_found <= max(FEW, ABOVE_CHANCE * by_chance):
        return 0
    return num_found


def find_lookalikes(foreign: ForeignTable) -> list[str]:
    """Find other columns that look like identifiers or places."""
    problems = []
    for name, values in foreign.columns.items():
        distinct = values.unique().drop_null()
        found = []
        if pa.types.is_string(distinct.type):
            found = [
                what
                for what, regex in PATTERNS.items()
                if pc.any(pc.match_substring_regex(distinct, regex)).as_py()
            ]
        if len(distinct) > max(MANY_VALUES, len(values) / 2):
            found.append("near-unique values")
        if found:
            problems.append(f"column '{name}' looks like {', '.join(found)}")
    return problems
