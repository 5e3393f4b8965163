"""What attackers know in tiny worlds: by name, and at random."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from guarantee.worlds import Known
from reference.publishing import Rules

ONE = (("1",),)
TWO = (("1",), ("x",))
PAIRS = (("1", "x"), ("1", None), ("2", "x"))
"""Requests of one value, of two, and of two attributes."""

VOCABULARY = (frozenset({"1"}), frozenset({"x"}))
"""The values that each attribute may have, where there is a list."""

MOST_WORLDS = 1 << 13


def list_rules(k: int, one_log: bool, num_attributes: int = 1) -> Iterator[Rules]:
    """List all combinations of the options that decide about requests."""
    rare = [("keep", 2), *product(("drop", "other"), (2, 3))]
    for (rule, below), listed, link_safe in product(rare, (False, True), (False, True)):
        vocabulary = VOCABULARY[:num_attributes] if listed else None
        yield Rules(k, one_log, rule, below, vocabulary, link_safe)


NUM_COMBINATIONS = len(list(list_rules(2, True)))


def number(*groups: Sequence[Any]) -> dict[int, frozenset[Any]]:
    """Number the bundles of a window, given by their members."""
    return {bundle: frozenset(members) for bundle, members in enumerate(groups)}


def everywhere(users: Sequence[Any], num_instants: int) -> tuple[tuple[Any, int], ...]:
    """A row of every user at every instant."""
    return tuple(product(users, range(num_instants)))


TWO_INPUTS = Rules(2)
ONE_LOG = Rules(2, one_log=True)
THREE_PAIRS = {0: number("ab", "cd", "ef")}
EXAMPLES = {
    "one instant": Known(
        everywhere("abcd", 1), {0: range(1)}, {0: number("ab", "cd")}, TWO, TWO_INPUTS
    ),
    "three windows": Known(
        everywhere("abcd", 3),
        {0: range(1), 1: range(1, 2), 2: range(2, 3)},
        {0: number("ab", "cd"), 1: number("ab", "cd"), 2: number("ac", "bd")},
        ONE,
        TWO_INPUTS,
    ),
    "one log, three bundles": Known(
        everywhere("abcdef", 1), {0: range(1)}, THREE_PAIRS, TWO, ONE_LOG
    ),
    "one log, windows with missing rows": Known(
        tuple((user, 0) for user in "abcdef") + tuple((user, 1) for user in "bcdef"),
        {0: range(1), 1: range(1, 2)},
        {0: number("abc", "def"), 1: number("abd", "cef")},
        ONE,
        ONE_LOG,
    ),
    "one log, two rows in an instant": Known(
        (("a", 0), ("a", 0), ("b", 0), ("c", 0), ("d", 0), ("d", 0), ("e", 0)),
        {0: range(1)},
        {0: number("ab", "cd")},
        TWO,
        ONE_LOG,
    ),
    "three bundles": Known(everywhere("abcdef", 1), {0: range(1)}, THREE_PAIRS, TWO, TWO_INPUTS),
    "bundles of three": Known(
        everywhere("abcdef", 2), {0: range(2)}, {0: number("abc", "def")}, ONE, Rules(3)
    ),
    "sent twice": Known(
        everywhere("abcd", 1), {0: range(1)}, {0: number("ab", "cd")}, TWO, TWO_INPUTS, most=2
    ),
    "users and instants outside": Known(
        everywhere("abcde", 2),
        {0: range(1, 2)},
        {0: number("ab", "cd")},
        ONE,
        TWO_INPUTS,
        strangers=("z",),
        instants=(0, 1),
    ),
    "two windows": Known(
        everywhere("abcdef", 2),
        {0: range(1), 1: range(1, 2)},
        {0: number("abc", "def"), 1: number("abd", "cef")},
        ONE,
        TWO_INPUTS,
    ),
    "two attributes": Known(
        everywhere("abcd", 1), {0: range(1)}, {0: number("ab", "cd")}, PAIRS, TWO_INPUTS
    ),
    "one log": Known(everywhere("abcd", 2), {0: range(2)}, {0: number("ab", "cd")}, TWO, ONE_LOG),
    "one log, missing rows": Known(
        (("a", 0), ("b", 0), ("c", 0), ("d", 0), ("e", 0), ("b", 1), ("c", 1), ("d", 1)),
        {0: range(2)},
        {0: number("abc", "def")},
        TWO,
        ONE_LOG,
    ),
    "one log, two attributes": Known(
        everywhere("abcde", 1), {0: range(1)}, {0: number("abe", "cd")}, PAIRS, ONE_LOG
    ),
}


def list_combinations(known: Known) -> Iterator[Known]:
    """The same with all combinations of options."""
    for rules in list_rules(known.rules.k, known.rules.one_log, len(known.values[0])):
        yield replace(known, rules=rules)


def draw_known(
    seed: int,
    most_worlds: int = MOST_WORLDS,
    *,
    one_log: bool | None = None,
    combination: int | None = None,
) -> Known:
    """Draw users, rows, windows, bundles and values; also the kind of log and the options.

    There are rows at the first and at the last instant.
    ``combination``: which one of :func:`list_rules`.
    """
    rng = np.random.default_rng(seed)
    while True:
        is_one_log = bool(rng.random() < 0.6) if one_log is None else one_log
        number = int(rng.integers(NUM_COMBINATIONS)) if combination is None else combination
        known = _draw(rng, is_one_log, number)
        instants = {instant for _, instant in known.rows}
        is_whole = {0, max(known.windows[len(known.windows) - 1])} <= instants
        if is_whole and 16 <= known.num_worlds <= most_worlds:
            return known


def _draw(rng: np.random.Generator, one_log: bool, combination: int) -> Known:
    """Draw anything; or what puts the rule about links to the test; or many bundles."""
    is_linked, is_wide = rng.random(2) < 0.4
    k = 2 if is_linked or is_wide else int(rng.choice([2, 2, 3]))
    users = "abcdef"[: 6 if is_wide else rng.integers(4 if is_linked else k, 7)]
    length = 1 if is_linked or is_wide else int(rng.choice([1, 1, 2]))
    num_windows = 2 if is_linked else 1 if is_wide else int(rng.integers(1, 4))
    windows = {w: range(w * length, (w + 1) * length) for w in range(num_windows)}
    keep = rng.choice([1.0, 0.8, 0.6]) if one_log else 1.0
    rows = [row for row in everywhere(users, num_windows * length) if rng.random() < keep]
    if one_log:
        rows += [row for row in rows if rng.random() < 0.1]
    values = ONE if is_linked or is_wide else [ONE, TWO, PAIRS[:2], PAIRS][rng.integers(4)]
    return Known(
        tuple(rows),
        windows,
        {window: _draw_bundles(rng, users, k) for window in windows},
        values,
        list(list_rules(k, one_log, len(values[0])))[combination],
        strangers=("z",) if rng.random() < 0.2 else (),
    )


def _draw_bundles(rng: np.random.Generator, users: str, k: int) -> dict[int, frozenset[Any]]:
    """Divide users into bundles; sometimes one of them is in none."""
    names = rng.permutation(list(users)).tolist()[int(rng.random() < 0.2) :]
    groups = []
    while len(names) >= k:
        size = min(k + int(rng.random() < 0.3), len(names))
        if len(names) - size < k:
            size = len(names)
        groups.append(names[:size])
        names = names[size:]
    return number(*groups)
