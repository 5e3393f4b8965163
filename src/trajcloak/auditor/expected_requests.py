"""The requests that must have been published: the rules of ``docs/guarantee.md`` on whole sets.

A *set* is what a bundle shows at an instant; an *entry* is a distinct request of a set. All
rules look at the entries of eligible sets and at members, never at senders or repetitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_columns import (
    PLAIN_INTEGER,
    Ints,
    Mask,
    compress,
    list_distinct,
    list_ranges,
    number_tuples,
    unify_zeros_and_nans,
)
from trajcloak.auditor.audited_requests import AuditedKinds
from trajcloak.auditor.expected_bundles import ExpectedBundles

PLAIN_DECIMAL = "^-?(0|[1-9][0-9]{0,14})[.][0-9]{1,15}$"
"""Texts that are taken for decimal numbers: one notation for each."""

MARKER = "(other)"
"""What a rare value becomes; a value of this very text always does."""

Vocabulary = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class ShownEntries:
    """Distinct requests of sets, ascending by set and request."""

    of_set: Ints
    bundle: Ints
    window: Ints
    scope: Ints  # where bundles that show the same are counted: the window, in a stream the instant
    kind: Ints  # which distinct request it is

    def keep(self, mask: Mask | Ints) -> "ShownEntries":
        """Keep some entries."""
        return ShownEntries(*(column[mask] for column in vars(self).values()))

    def replace(self, kind: Ints, num_kinds: int) -> "ShownEntries":
        """Give entries other requests; those of a set that become equal are one."""
        _, first = np.unique(self.of_set * num_kinds + kind, return_index=True)
        return replace(self, kind=kind).keep(first)

    def count_bundles(self, what: Ints, size: int) -> Ints:
        """Count, for each entry, the bundles of its scope that show the same."""
        place, _ = number_tuples([self.scope, what], [int(self.scope.max(initial=0)) + 1, size])
        num_places = int(place.max(initial=-1)) + 1
        num_pairs = (int(self.bundle.max(initial=-1)) + 1) * num_places
        pairs = list_distinct(self.bundle * num_places + place, num_pairs)
        return np.bincount(pairs % max(num_places, 1), minlength=num_places)[place]


def find_eligible_sets(bundles: ExpectedBundles, k: int) -> Mask:
    """Find the sets that may be published: at least k members may have sent a request."""
    if bundles.log.one_log:
        return np.asarray(bundles.reporters >= k)
    return ~bundles.is_silent


def expect_requests(
    bundles: ExpectedBundles, manifest: dict[str, Any], vocabulary: Vocabulary | None
) -> tuple[ShownEntries, Any]:
    """Apply the rules that a manifest names, and its vocabulary, if there is one.

    Returns the entries to publish, and the table of distinct requests, sorted, null first. The
    requests of the entries are rows of that table.
    """
    members, kinds = bundles.members, bundles.log.kinds
    k, made = manifest["k"], manifest["parameters"]
    keys = np.concatenate([np.zeros(0, np.int64), *bundles.sent])
    of_set, kind = np.divmod(keys, max(len(kinds), 1))
    allowed = find_eligible_sets(bundles, k)[of_set] & _find_listed(kinds, vocabulary)[kind]
    of_set, kind = of_set[allowed], kind[allowed]
    bundle = np.repeat(np.arange(len(members.window)), np.diff(bundles.first_set))[of_set]
    window = members.window[bundle]
    scope = window
    if bundles.grid.needed is not None:
        scope = bundles.grid.starts[window] + of_set - bundles.first_set[bundle]
    entries = ShownEntries(of_set, bundle, window, scope, kind)
    if not kinds.names:
        return entries, pa.table({})
    if made["rare"] == "other":
        entries, kinds = _replace_rare_values(entries, kinds, made["rare_below"])
    if made["rare"] != "keep":
        shown = entries.count_bundles(entries.kind, len(kinds))
        entries = entries.keep(shown >= made["rare_below"])
    if made["link_safe"]:
        entries = entries.keep(_find_link_safe(entries, bundles, k))
    return _sort_kinds(entries, kinds)


def _find_listed(kinds: AuditedKinds, vocabulary: Vocabulary | None) -> Mask:
    """Find the distinct requests that have no value off the list."""
    listed = np.ones(len(kinds), bool)
    if vocabulary is None:
        return listed
    for name, values, code in zip(kinds.names, kinds.values, kinds.codes, strict=True):
        given = vocabulary.get(name, ())
        words = pa.array([pa.scalar(word).cast(pa.string()).as_py() for word in given], pa.string())
        is_word = pc.is_in(pc.cast(values, pa.string()), value_set=words)
        # Null is no value, and takes the last entry.
        listed &= np.append(is_word.to_numpy(zero_copy_only=False), True)[code]
    return listed


def _replace_rare_values(
    entries: ShownEntries, kinds: AuditedKinds, below: int
) -> tuple[ShownEntries, AuditedKinds]:
    """Replace values that too few bundles of a window show by the marker; all become text."""
    texts, columns = [], []
    for values, code in zip(kinds.values, kinds.codes, strict=True):
        encoded = pc.cast(values, pa.string()).dictionary_encode()
        number = np.append(encoded.indices.to_numpy(), -1)[code][entries.kind].astype(np.int64)
        words = encoded.dictionary
        marker = len(words)
        is_marker = np.append(pc.equal(words, MARKER).to_numpy(zero_copy_only=False), False)
        rare = (number >= 0) & (entries.count_bundles(number, marker) < below)
        rare |= is_marker[number]
        columns.append(np.where(rare, marker, number))
        texts.append(pa.concat_arrays([words, pa.array([MARKER])]))
    kind, codes = number_tuples(columns, [len(t) for t in texts])
    replaced = AuditedKinds(kinds.names, texts, codes, False)
    return entries.replace(kind, len(replaced)), replaced


def _find_link_safe(entries: ShownEntries, bundles: ExpectedBundles, k: int) -> Mask:
    """Find the entries that stay safe if equal requests are taken for those of one sender.

    A request is shown in a window only if, of the members of each bundle that shows it there
    or in an earlier window that shows it, at least k may have sent it in all these windows.
    """
    safe = np.zeros(len(entries.kind), bool)
    # For each request: users who may have sent it in every window that shows it, and their bundle.
    possible: dict[int, tuple[Ints, Ints]] = {}
    order = np.lexsort([entries.of_set, entries.kind, entries.window])
    groups = np.column_stack([entries.window, entries.kind])[order]
    edges = np.flatnonzero((groups[1:] != groups[:-1]).any(axis=1)) + 1
    for here in np.split(order, edges) if len(order) else []:
        user, bundle = _list_possible(entries.keep(here), bundles)
        shows = np.unique(entries.bundle[here])
        kind = int(entries.kind[here[0]])
        common = user
        if kind in possible:
            before, of_bundle = possible[kind]
            common = np.intersect1d(before, user)
            shows = np.append(np.unique(of_bundle), shows)
            user, bundle = np.append(before, user), np.append(of_bundle, bundle)
        left = np.isin(user, common)
        if all(np.bincount(np.searchsorted(shows, bundle[left]), minlength=len(shows)) >= k):
            possible[kind] = user[left], bundle[left]
            safe[here] = True
    return safe


def _list_possible(here: ShownEntries, bundles: ExpectedBundles) -> tuple[Ints, Ints]:
    """List who may have sent a request of a window at every instant where their bundle shows it.

    Returns the users, and the bundle of each.
    """
    members = bundles.members
    shows, place = np.unique(here.bundle, return_inverse=True)
    sizes = members.sizes[shows]
    rank = np.repeat(np.arange(len(shows)), sizes)
    member = list_ranges(members.first[shows], sizes)
    if bundles.log.one_log:
        window = int(here.window[0])
        marks = bundles.marks[window]
        needed = np.zeros((len(shows), marks.shape[1]), bool)
        needed[place, here.of_set - bundles.first_set[here.bundle]] = True
        first = members.first[members.list_bundles(window)[0]]
        may_be = (marks[member - first] | ~needed[rank]).all(axis=1)
        member, rank = member[may_be], rank[may_be]
    return members.user[member], shows[rank]


def _sort_kinds(entries: ShownEntries, kinds: AuditedKinds) -> tuple[ShownEntries, Any]:
    """Sort the distinct requests that are shown; returns the entries so, and their table."""
    shown, place = compress(entries.kind, len(kinds))
    columns, ranks, sizes = [], [], []
    for values, code in zip(kinds.values, kinds.codes, strict=True):
        used, of_kind = np.unique(code[shown], return_inverse=True)
        has_null = int(len(used) > 0 and used[0] < 0)
        here = values.take(pa.array(used[has_null:], pa.int64()))
        # Types follow from what is shown, never from a value that is withheld.
        if not len(here):
            here = pa.array([], pa.string())
        elif kinds.is_text:
            here = _text_to_numbers(here)
        order = pc.sort_indices(here).to_numpy().astype(np.int64)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        columns.append(here.take(pa.array(order)))
        ranks.append(np.append(np.full(has_null, -1), rank)[of_kind].astype(np.int64))
        sizes.append(len(order))
    number, distinct = number_tuples(ranks, sizes)
    table = pa.table(
        [c.take(pa.array(d, mask=d < 0)) for c, d in zip(columns, distinct, strict=True)],
        names=kinds.names,
    )
    return entries.replace(number[place], table.num_rows), table


def _text_to_numbers(values: Any) -> Any:
    """Turn distinct texts into numbers, if all are numbers in plain notation and stay distinct."""
    if not len(values) or not pa.types.is_string(values.type):
        return values
    is_integer = pc.match_substring_regex(values, PLAIN_INTEGER)
    if pc.all(is_integer).as_py():
        return values.cast(pa.int64())
    if pc.all(pc.or_(is_integer, pc.match_substring_regex(values, PLAIN_DECIMAL))).as_py():
        numbers = unify_zeros_and_nans(values.cast(pa.float64()))
        return numbers if len(numbers.unique()) == len(values) else values
    return values


def count_possible_senders(entries: ShownEntries, bundles: ExpectedBundles) -> int:
    """Find how many possible senders the request with the fewest has; 0 if there is none."""
    if not len(entries.of_set):
        return 0
    counts = bundles.reporters if bundles.log.one_log else bundles.present
    return int(counts[entries.of_set].min())
