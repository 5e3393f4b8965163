"""Decide which requests of each window are published, and in which words.

The rules, in order: the vocabulary, rare values, rare requests, safety against linking.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.bundles import Bundles, KindMap, ShownKinds, count_by_kind, count_shown
from trajcloak.engines.engine import Engine
from trajcloak.errors import InputError, OptionError
from trajcloak.log.request_values import infer_types, merge_kinds
from trajcloak.options import KEEP, OTHER, Options
from trajcloak.release.result import BundleRange
from trajcloak.requests.link_safe import keep_unlinked
from trajcloak.requests.suspicions import is_bytes

MARKER = "(other)"
"""What a rare value becomes. A value of this very text is always replaced, too, so that the
marker never stands for a value."""


@dataclass
class RequestCounts:
    """What becomes of the requests in eligible sets, counted with repetitions; private."""

    # Withheld by each rule.
    vocabulary: int = 0
    rare: int = 0
    link_safe: int = 0

    published: int = 0  # Those whose set shows them.
    replaced: int = 0  # Published ones with a value replaced.
    kept_rare: int = 0  # Published ones that would be rare, had ``rare="keep"`` not been asked for.


class DecidedRequests(NamedTuple):
    """What is published of the requests."""

    # The bundles of each window with the requests that are published.
    windows: list[list[BundleRange]]
    kinds: pa.Table  # The distinct requests that bundles refer to, sorted, null first.
    counts: RequestCounts


@dataclass
class WindowKinds:
    """The distinct requests of a window while the rules are applied; all numbers are the log's."""

    kind: npt.NDArray[np.int32]  # Those in eligible sets, ascending.
    sent: npt.NDArray[np.int64]  # How often each was sent.
    number: npt.NDArray[np.int32] = field(init=False)  # What each has become; -1: withheld.

    def __post_init__(self) -> None:
        self.number = self.kind.copy()

    @property
    def left(self) -> npt.NDArray[np.int32]:
        """The distinct requests that are not withheld, ascending."""
        return np.unique(self.number[self.number >= 0])

    def keep(self, shown: npt.NDArray[np.bool_]) -> int:
        """Withhold what is not in ``shown``, a mask of numbers; returns how many requests."""
        gone = (self.number >= 0) & ~np.append(shown, False)[self.number]
        self.number[gone] = -1
        return int(self.sent[gone].sum())


def decide_requests(
    engine: Engine,
    windows: Sequence[Sequence[BundleRange]],
    found: Sequence[WindowKinds],
    kinds: pa.Table,
    asked: Options,
    *,
    is_text: bool,
) -> DecidedRequests:
    """Apply the rules to the eligible sets of all windows.

    ``windows`` are the bundles of each window with all requests of their eligible sets, ``found``
    the distinct requests of each window, ``kinds`` those of the log. If it ``is_text``, types are
    found from the text that is published.
    """
    counts = RequestCounts()
    if not kinds.num_columns:
        return DecidedRequests([list(ranges) for ranges in windows], kinds, counts)
    is_known = find_known(kinds, asked.vocabulary)
    for of_window in found:
        counts.vocabulary += of_window.keep(is_known)
    changed: list[npt.NDArray[np.bool_]] = [np.zeros(len(w.kind), np.bool_) for w in found]
    if asked.rare == OTHER:
        kinds, changed = _replace_rare(engine, windows, found, kinds, asked.rare_below)
        windows = _apply(engine, windows, [KindMap(w.kind, w.number) for w in found])
    is_rare = [_find_rare(of_window, kinds.num_rows, asked.rare_below) for of_window in windows]
    for of_window, rare in zip(found, is_rare, strict=True):
        if asked.rare == KEEP:
            shown = of_window.number >= 0
            counts.kept_rare += int(of_window.sent[shown][rare[of_window.number[shown]]].sum())
        else:
            counts.rare += of_window.keep(~rare)
    if asked.link_safe:
        shown_kinds = [of_window.left for of_window in found]
        unlinked = keep_unlinked(engine, windows, shown_kinds, kinds.num_rows, asked.k)
        for of_window, safe in zip(found, unlinked, strict=True):
            counts.link_safe += of_window.keep(safe)
    for of_window, is_changed in zip(found, changed, strict=True):
        counts.published += int(of_window.sent[of_window.number >= 0].sum())
        counts.replaced += int(of_window.sent[is_changed & (of_window.number >= 0)].sum())
    chosen = np.unique(np.concatenate([of_window.left for of_window in found]))
    num_before = kinds.num_rows
    kinds = kinds.take(pa.array(chosen))
    if is_text and asked.rare != OTHER:
        kinds = infer_types(kinds)
    kinds, (rank,) = merge_kinds([_forget_types(kinds)])
    number = np.full(num_before, -1, np.int32)
    number[chosen] = rank
    maps = [KindMap(of_window.left, number[of_window.left]) for of_window in found]
    return DecidedRequests(_apply(engine, windows, maps), kinds, counts)


def check_vocabulary(vocabulary: Mapping[str, Sequence[Any]] | None, names: Sequence[str]) -> None:
    """Raise unless a vocabulary has a list of values for each of these attributes."""
    if vocabulary is None:
        return
    if set(vocabulary) != set(names):
        odd = sorted(set(vocabulary) ^ set(names))[0]
        what = "no list" if odd in names else "a list, but is no request attribute"
        raise OptionError(
            f"'{odd}' has {what} in the vocabulary; expected a list of values for each request "
            f"attribute; check --vocabulary and --request"
        )
    for name in names:
        _list_words(name, vocabulary[name])


def _list_words(name: str, values: Any) -> pa.Array:
    """List the values that an attribute may have, as text."""
    try:
        if isinstance(values, str):
            raise TypeError("its letters would be taken for the values")
        words = [pa.scalar(value).cast(pa.string()).as_py() for value in values]
        return pa.array(words, pa.string())
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        raise OptionError(
            f"the vocabulary has {type(values).__name__} for '{name}'; expected a list of values "
            f"that can be written as text, such as ['food', 'fuel']; check --vocabulary"
        ) from None


def check_request_options(kinds: pa.Table, asked: Options) -> None:
    """Raise if the options do not fit the request attributes, whatever was sent.

    ``kinds`` are the distinct requests of the log, of which names and types matter.
    """
    names = kinds.column_names
    for name in asked.allow:
        if name not in names:
            raise OptionError(
                f"'{name}' is allowed but is no request column; expected one of those named with "
                f"--request; check --allow"
            )
    check_vocabulary(asked.vocabulary, names)
    if asked.vocabulary is None and asked.rare != OTHER:
        return
    for attribute in kinds.schema:
        if is_bytes(attribute.type):
            raise InputError(
                f"request column '{attribute.name}' is of type {attribute.type}; expected values "
                f"that can be written as text, as --vocabulary and --rare=other need them; convert "
                f"the column, or leave it out"
            )


def find_known(
    kinds: pa.Table, vocabulary: Mapping[str, Sequence[Any]] | None
) -> npt.NDArray[np.bool_]:
    """Mark the distinct requests that have only values of the vocabulary, compared as text."""
    is_known = np.ones(kinds.num_rows, np.bool_)
    if vocabulary is None:
        return is_known
    for name in kinds.column_names:
        words = _list_words(name, vocabulary[name])
        values = kinds[name].cast(pa.string())
        is_allowed = pc.or_(values.is_null(), pc.is_in(values, value_set=words))
        is_known &= is_allowed.to_numpy()
    return is_known


def _forget_types(kinds: pa.Table) -> pa.Table:
    """Make attributes text that no published request has.

    Otherwise their type could tell of values that are not shown, where the log's own types
    depend on its values: a table from pandas, say, has one type for a column that is empty, and
    another for one that holds a number.
    """
    for position, name in enumerate(kinds.column_names):
        if kinds.column(position).null_count == kinds.num_rows:
            nothing = pa.nulls(kinds.num_rows, pa.string())
            kinds = kinds.set_column(position, name, nothing)
    return kinds


def _find_rare(ranges: Sequence[BundleRange], num_kinds: int, below: int) -> npt.NDArray[np.bool_]:
    """Mark the distinct requests that fewer than ``below`` bundles of a window show."""
    total = np.zeros(num_kinds, np.int64)
    for of_range in ranges:
        total[of_range.shown.kind] += of_range.shown.bundles
    return total < below


def _replace_rare(
    engine: Engine,
    windows: Sequence[Sequence[BundleRange]],
    found: Sequence[WindowKinds],
    kinds: pa.Table,
    below: int,
) -> tuple[pa.Table, list[npt.NDArray[np.bool_]]]:
    """Replace values that fewer than ``below`` bundles of a window show, in ``found``.

    Returns the new distinct requests, all values as text, and which kinds of each window have
    changed.
    """
    columns = [kinds[name].cast(pa.string()).combine_chunks() for name in kinds.column_names]
    encoded = [column.dictionary_encode() for column in columns]
    codes = [e.indices.fill_null(-1).to_numpy(zero_copy_only=False) for e in encoded]
    shared = engine.put(codes)
    jobs = [
        (r.handle, r.place, shared, KindMap(of_window.kind, of_window.number))
        for of_window, ranges in zip(found, windows, strict=True)
        for r in ranges
    ]
    answers = iter(engine.ask(_count_values, jobs))
    rows, changed = [], []
    for of_window, ranges in zip(found, windows, strict=True):
        of_ranges = [next(answers) for _ in ranges]
        before = np.column_stack([code[of_window.kind] for code in codes])
        after = before.copy()
        for a, column in enumerate(encoded):
            size = len(column.dictionary)
            total = np.zeros(size + 1, np.int64)
            for of_range in of_ranges:
                value, bundles = of_range[a]
                total[value] += bundles
            is_rare = total < below
            is_rare[:-1] |= pc.equal(column.dictionary, MARKER).to_numpy(zero_copy_only=False)
            # Null has code -1, and takes the last entry: it is no value, and never rare.
            is_rare[-1] = False
            after[is_rare[before[:, a]], a] = size
        changed.append((after != before).any(axis=1))
        rows.append(after)
    distinct, number = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    ends = np.cumsum([len(part) for part in rows])[:-1]
    for of_window, new in zip(found, np.split(number.reshape(-1), ends), strict=True):
        of_window.number = np.where(of_window.number >= 0, new, -1).astype(np.int32)
    values = [pa.concat_arrays([e.dictionary, pa.array([MARKER])]) for e in encoded]
    table = pa.table(
        [
            value.take(pa.array(code, mask=code < 0))
            for value, code in zip(values, distinct.T, strict=True)
        ],
        names=kinds.column_names,
    )
    return table, changed


def _count_values(
    run: Sequence[Bundles], place: int, codes: Sequence[npt.NDArray[np.int32]], kept: KindMap
) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Count the bundles of a range that show each value in a request that is not withheld.

    Returns, for each attribute, codes of values, and how many bundles show each.
    """
    bundles = run[place]
    is_left = np.zeros(len(codes[0]), np.bool_)
    is_left[kept.kind] = kept.number >= 0
    counts = []
    for of_kind in codes:
        of_entry = np.where(is_left, of_kind, -1)[bundles.request_kind]
        num_values = int(of_kind.max(initial=-1)) + 1
        total = count_by_kind(bundles.request_bundle, of_entry, num_values)[0]
        shown = np.flatnonzero(total)
        counts.append((shown, total[shown]))
    return counts


def _apply(
    engine: Engine, windows: Sequence[Sequence[BundleRange]], maps: Sequence[KindMap]
) -> list[list[BundleRange]]:
    """Give the requests of all windows their new numbers, and leave out what is withheld."""
    if all(
        np.array_equal(kept.kind, kept.number)
        and all(np.isin(r.shown.kind, kept.kind).all() for r in ranges)
        for ranges, kept in zip(windows, maps, strict=True)
    ):
        return [list(ranges) for ranges in windows]
    # A handle may hold a run of windows, which is changed as a whole.
    runs: dict[int, list[tuple[BundleRange, KindMap]]] = {}
    for ranges, kept in zip(windows, maps, strict=True):
        for r in ranges:
            runs.setdefault(id(r.handle), []).append((r, kept))
    handles = [run[0][0].handle for run in runs.values()]
    jobs = [
        (handle, [r.place for r, _ in run], [kept for _, kept in run])
        for handle, run in zip(handles, runs.values(), strict=True)
    ]
    changed, shown = engine.shuffle(renumber_requests, jobs, 2)
    new = {}
    for run, handle, of_run in zip(runs.values(), changed, engine.collect(shown), strict=True):
        for (r, _), of_range in zip(run, of_run, strict=True):
            new[id(r)] = replace(r, handle=handle, shown=of_range)
    engine.drop(handles)
    return [[new[id(r)] for r in ranges] for ranges in windows]


def renumber_requests(
    run: Sequence[Bundles | None], places: Sequence[int], maps: Sequence[KindMap]
) -> Iterator[tuple[list[Bundles | None], list[ShownKinds]]]:
    """Give the requests of some bundles new numbers; yields the bundles, and what they show."""
    changed, shown = list(run), []
    for place, kept in zip(places, maps, strict=True):
        bundles = run[place]
        assert bundles is not None
        changed[place] = bundles = bundles.renumber(kept)
        shown.append(count_shown(bundles))
    yield changed, shown
