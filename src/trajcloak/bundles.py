"""Turn a policy and the requests of a window into bundles, ready to publish."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from trajcloak.algorithms.policy import Policy
from trajcloak.cloaks import Cloaks, order_by_cloaks
from trajcloak.kernels.sort import group_by_number
from trajcloak.kernels.threads import build_slices, run_all
from trajcloak.log.request_values import compress_numbers
from trajcloak.options import MBR
from trajcloak.parts import Parts, PartSettings, build_parts, join_parts
from trajcloak.trajectories import Window, join_marks

MARKS_PER_REQUEST = 16  # up to so many bytes of marks per request, marking is faster than sorting


class KindMap(NamedTuple):
    """What becomes of some distinct requests; all others are withheld."""

    kind: npt.NDArray[np.int32]  # Their numbers, ascending.
    number: npt.NDArray[np.int32]  # The new number of each; -1: withheld.


class ShownKinds(NamedTuple):
    """The distinct requests that some bundles of a window show."""

    kind: npt.NDArray[np.int32]  # Their numbers, ascending.
    bundles: npt.NDArray[np.int64]  # How many bundles show each.
    sets: npt.NDArray[np.int64]  # How many sets show each.


@dataclass(frozen=True, repr=False)
class Bundles:
    """Bundles of one window, numbered from 0 in order of their cloak sequences."""

    window: int
    start: int  # Half-open range of instants.
    stop: int
    # With parts: the boxes around them.
    cloaks: Cloaks
    sizes: npt.NDArray[np.int32]  # (bundles,)
    # The distinct requests of each bundle and instant, in that order. Instants count from
    # ``start``.
    request_bundle: npt.NDArray[np.int32]
    request_instant: npt.NDArray[np.int32]
    request_kind: npt.NDArray[np.int32]
    # Ids of the members, bundle after bundle, ascending in each bundle. Private.
    ids: pa.Array
    # (members, instants): as in :class:`trajcloak.trajectories.Window`, in the order of ``ids``;
    # also None if requests need not be safe against linking, for which alone it is kept. Private.
    has_row: npt.NDArray[np.bool_] | None = None
    # What is published instead of the cloaks, if members are shown in parts.
    parts: Parts | None = None

    def __repr__(self) -> str:
        """Show counts only: notebook output gets saved, so no ids."""
        return (
            f"Bundles(window={self.window}, start={self.start}, stop={self.stop}, "
            f"bundles={len(self.sizes)}, users={int(self.sizes.sum())})"
        )

    def take(self, chosen: npt.NDArray[np.integer]) -> "Bundles":
        """Select some bundles, in the order given."""
        number = np.full(len(self.sizes), -1, np.int32)
        number[chosen] = np.arange(len(chosen), dtype=np.int32)
        requests, first = group_by_number(number[self.request_bundle], len(chosen))
        members, _ = group_by_number(np.repeat(number, self.sizes), len(chosen))
        return replace(
            self,
            cloaks=self.cloaks[chosen],
            sizes=self.sizes[chosen],
            request_bundle=np.repeat(np.arange(len(chosen), dtype=np.int32), np.diff(first)),
            request_instant=self.request_instant[requests],
            request_kind=self.request_kind[requests],
            ids=self.ids.take(pa.array(members)),
            has_row=None if self.has_row is None else self.has_row[members],
            parts=None if self.parts is None else self.parts.take(chosen, members),
        )

    def renumber(self, kept: KindMap) -> "Bundles":
        """Give requests new numbers, and leave out those that are withheld."""
        seen, place = compress_numbers(
            self.request_kind, int(self.request_kind.max(initial=-1)) + 1
        )
        new = np.full(len(seen), -1, np.int32)
        _, one, other = np.intersect1d(seen, kept.kind, assume_unique=True, return_indices=True)
        new[one] = kept.number[other]
        number = new[place]
        is_left = number >= 0
        bundle, instant = self.request_bundle[is_left], self.request_instant[is_left]
        kind = number[is_left]
        if (np.diff(kept.number[kept.number >= 0]) <= 0).any():
            shape = len(self.sizes), self.stop - self.start, int(kept.number.max()) + 1
            bundle, instant, kind = sort_entries([bundle, instant, kind], shape)
        return replace(self, request_bundle=bundle, request_instant=instant, request_kind=kind)


def count_shown(bundles: Bundles) -> ShownKinds:
    """Count, for each distinct request, the bundles and the sets that show it."""
    num_kinds = int(bundles.request_kind.max(initial=-1)) + 1
    kind, place = compress_numbers(bundles.request_kind, num_kinds)
    counts = count_by_kind(bundles.request_bundle, place, len(kind))
    return ShownKinds(kind.astype(np.int32), counts[0], counts[1])


def join_bundles(found: Sequence[Bundles]) -> Bundles:
    """Join bundles of one window, in the given order."""
    starts = np.cumsum([0] + [len(some.sizes) for some in found[:-1]]).astype(np.int32)
    shown = [some.parts for some in found if some.parts is not None]
    alike: dict[str, Any] = {
        name: np.concatenate([getattr(some, name) for some in found])
        for name in ("cloaks", "sizes", "request_bundle", "request_instant", "request_kind")
    }
    alike["request_bundle"] += np.repeat(starts, [len(some.request_bundle) for some in found])
    return replace(
        found[0],
        **alike,
        ids=pa.concat_arrays([some.ids for some in found]),
        has_row=join_marks([some.has_row for some in found], [len(some.ids) for some in found]),
        parts=join_parts(shown) if shown else None,
    )


@dataclass(frozen=True)
class NotPublished:
    """What is not published of a window, or not yet decided; private."""

    reported: int  # Suppressed participants who have a report in the window.
    suppressed_requests: int  # Requests of suppressed participants.
    few_reporters: int  # Requests of the others in sets that are not eligible.
    sets: int  # How many sets are not eligible.
    kind: npt.NDArray[np.int32]  # Distinct requests in eligible sets, ascending.
    sent: npt.NDArray[np.int64]  # How often each was sent.


def build_bundles(
    window: Window,
    ids: pa.Array,
    policy: Policy,
    num_kinds: int,
    k: int,
    *,
    members: int | None = None,
    settings: PartSettings | None = None,
    cloak: str = MBR,
    keeps_rows: bool = False,
    threads: int = 1,
) -> tuple[Bundles, NotPublished, npt.NDArray[np.int64]]:
    """Number a policy's bundles and collect their eligible sets of requests.

    Requests are used only here, after members and cloaks are decided (invariant 1 of
    ``docs/guarantee.md``). A set is eligible if at least k members may have sent a request at
    its instant (invariant 8). A bundle with too few users stops the run (invariant 3): that
    would be a defect of the algorithm, never of the log.

    ``ids`` are those of the window's participants, ascending; the policy has them in the same
    order. ``num_kinds`` is how many distinct requests the log has. A bundle has at least
    ``members`` users, by default k. They are shown in parts as ``settings`` say, whose rectangles
    are of the kind ``cloak``; by default in one cloak. ``keeps_rows``: whether to keep
    ``has_row``.

    Returns also what is not published, and the number of each bundle in the policy.
    """
    sizes, least = policy.sizes, members or k
    if len(sizes) and int(sizes.min()) < least:
        raise AssertionError(f"a bundle has {int(sizes.min())} users, fewer than {least}")
    cloaks, parts = policy.cloaks, None
    if settings is not None:
        parts = build_parts(window.cells, policy, settings, cloak, threads)
        cloaks = parts.bound()
    order = order_by_cloaks(cloaks, sizes)
    if parts is not None:
        order = parts.break_ties(order, cloaks, sizes)
    number = np.full(policy.num_bundles + 1, -1, np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    bundle = number[policy.bundle]
    is_eligible = find_eligible(window, bundle, len(order), k)
    entries, not_published = _gather_requests(window, bundle, is_eligible, num_kinds, threads)
    grouped, _ = group_by_number(bundle, len(order))
    bundles = Bundles(
        window=window.number,
        start=window.start,
        stop=window.stop,
        cloaks=cloaks[order],
        sizes=sizes[order],
        request_bundle=entries[0],
        request_instant=entries[1],
        request_kind=entries[2],
        ids=ids.take(pa.array(grouped)),
        has_row=window.has_row[grouped] if keeps_rows and window.has_row is not None else None,
        parts=None if parts is None else parts.take(order, grouped),
    )
    return bundles, not_published, order


def find_eligible(
    window: Window, bundle: npt.NDArray[np.int32], num_bundles: int, k: int
) -> npt.NDArray[np.bool_]:
    """Find the sets that may be published: (bundles, instants).

    At least k members of the bundle may have sent a request at the instant. ``bundle`` is that
    of each participant; negative: suppressed.
    """
    shape = num_bundles, window.stop - window.start
    if window.has_row is None:
        return np.ones(shape, np.bool_)
    counts = np.zeros(shape, np.int32)
    _count_reporters(bundle, window.has_row, counts)
    return counts >= k


Entries = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]
"""Bundle, instant and kind of distinct requests, in that order."""


def _gather_requests(
    window: Window,
    bundle: npt.NDArray[np.int32],
    is_eligible: npt.NDArray[np.bool_],
    num_kinds: int,
    threads: int,
) -> tuple[Entries, NotPublished]:
    """List the distinct requests of eligible sets by bundle, instant and kind."""
    requests = window.request_user, window.request_instant, window.request_kind
    shape = (*is_eligible.shape, num_kinds)
    num_requests = len(window.request_user)
    if math.prod(shape) <= MARKS_PER_REQUEST * num_requests:
        marks = np.zeros(shape, np.bool_)
        slices = build_slices(num_requests, threads)
        sent = np.zeros((len(slices), num_kinds), np.int64)
        suppressed, few = np.sum(
            run_all(
                lambda i, start, stop: _mark(
                    bundle, *requests, is_eligible, start, stop, marks, sent[i]
                ),
                [(i, *ends) for i, ends in enumerate(slices)],
                threads,
            ),
            axis=0,
        ).tolist()
        total = sent.sum(axis=0)
        kind = np.flatnonzero(total).astype(np.int32)
        entries, count = _list_marked(marks, threads), total[kind]
    else:
        sender = bundle[window.request_user]
        shown = (sender >= 0) & is_eligible[sender, window.request_instant]
        columns = [column[shown] for column in (sender, *requests[1:])]
        entries = sort_entries(columns, shape)
        kind, count = np.unique(columns[2].astype(np.int32), return_counts=True)
        suppressed = int((sender < 0).sum())
        few = num_requests - suppressed - len(columns[0])
    reported = int(window.reported[bundle < 0].sum())
    num_sets = int((~is_eligible).sum())
    return entries, NotPublished(reported, suppressed, few, num_sets, kind, count)


def sort_entries(columns: Sequence[npt.NDArray[np.int32]], shape: tuple[int, int, int]) -> Entries:
    """Sort requests by bundle, instant and kind, each once; ``shape`` bounds these numbers."""
    packed = np.unique(np.ravel_multi_index(tuple(columns), shape))
    bundle, instant, kind = np.unravel_index(packed, shape)
    return bundle.astype(np.int32), instant.astype(np.int32), kind.astype(np.int32)


def _list_marked(marks: npt.NDArray[np.bool_], threads: int) -> Entries:
    """List bundle, instant and kind of every mark, in that order."""
    slices = build_slices(len(marks), threads)
    counts = [np.count_nonzero(marks[start:stop]) for start, stop in slices]
    first = np.cumsum([0, *counts])
    bundle, instant, kind = (np.empty(first[-1], np.int32) for _ in range(3))
    jobs = [(*ends, place) for ends, place in zip(slices, first, strict=False)]
    run_all(
        lambda start, stop, place: _fill_marked(marks, start, stop, place, bundle, instant, kind),
        jobs,
        threads,
    )
    return bundle, instant, kind


@njit(cache=True, nogil=True)
def _mark(bundle, user, instant, kind, is_eligible, start, stop, marks, sent):  # type: ignore[no-untyped-def]
    """Mark the requests of eligible sets in a slice, and count them by kind in ``sent``.

    Returns how many are of suppressed users, and in sets that are not eligible. Several
    threads may write the same mark: all of them write True.
    """
    suppressed = 0
    few = 0
    for r in range(start, stop):
        b = bundle[user[r]]
        if b < 0:
            suppressed += 1
        elif not is_eligible[b, instant[r]]:
            few += 1
        else:
            sent[kind[r]] += 1
            marks[b, instant[r], kind[r]] = True
    return suppressed, few


@njit(cache=True, nogil=True)
def count_by_kind(bundle, kind, num_kinds):  # type: ignore[no-untyped-def]
    """Count the bundles and the entries of each kind from 0 on; entries are in order of bundles."""
    counts = np.zeros((2, num_kinds), np.int64)
    last = np.full(num_kinds, -1, np.int32)
    for i in range(len(kind)):
        if kind[i] < 0:
            continue
        counts[1, kind[i]] += 1
        if last[kind[i]] != bundle[i]:
            last[kind[i]] = bundle[i]
            counts[0, kind[i]] += 1
    return counts


@njit(cache=True, nogil=True)
def _count_reporters(bundle, has_row, counts):  # type: ignore[no-untyped-def]
    """Count the members of each bundle that have a row at each instant."""
    for u in range(len(bundle)):
        if bundle[u] >= 0:
            for i in range(has_row.shape[1]):
                counts[bundle[u], i] += has_row[u, i]


@njit(cache=True, nogil=True)
def _fill_marked(marks, start, stop, place, bundle, instant, kind):  # type: ignore[no-untyped-def]
    """List the marks of bundles ``start`` up to ``stop``, writing from ``place`` on."""
    for b in range(start, stop):
        for i in range(marks.shape[1]):
            for k in range(marks.shape[2]):
                if marks[b, i, k]:
                    bundle[place] = b
                    instant[place] = i
                    kind[place] = k
                    place += 1
