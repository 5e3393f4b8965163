"""Turn a policy and the requests of a window into bundles, ready to publish."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from trajcloak.algorithms.policy import Policy
from trajcloak.cloaks import Cloaks, group_members, order_by_cloaks
from trajcloak.kernels.group import group_by_number
from trajcloak.kernels.threads import build_slices, run_all, run_sliced
from trajcloak.requests import Treatment
from trajcloak.trajectories import Window

MARKS_PER_REQUEST = 16
"""Up to this many bytes of marks per request, marking requests is faster than sorting them."""


@dataclass(frozen=True, repr=False)
class Bundles:
    """Bundles of one window, numbered from 0 in order of their cloak sequences.

    Attributes
    ----------
    window : int
    start, stop : int
        Half-open range of instants.
    cloaks : (bundles, instants, 4) uint32
        Cells, as :data:`trajcloak.cloaks.Cloaks`.
    sizes : (bundles,) int32
    request_bundle, request_instant, request_kind : int32
        The distinct requests of each bundle and instant, in that order. Instants
        count from ``start``.
    ids : pyarrow.Array
        Ids of the members, bundle after bundle, ascending in each bundle. Private.
    """

    window: int
    start: int
    stop: int
    cloaks: Cloaks
    sizes: npt.NDArray[np.int32]
    request_bundle: npt.NDArray[np.int32]
    request_instant: npt.NDArray[np.int32]
    request_kind: npt.NDArray[np.int32]
    ids: pa.Array

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
        )


def join_bundles(parts: Sequence[Bundles]) -> Bundles:
    """Join bundles of one window, one part after another."""
    starts = np.cumsum([0] + [len(part.sizes) for part in parts[:-1]])
    request_bundle = [
        part.request_bundle + np.int32(start) for part, start in zip(parts, starts, strict=True)
    ]
    return replace(
        parts[0],
        cloaks=np.concatenate([part.cloaks for part in parts]),
        sizes=np.concatenate([part.sizes for part in parts]),
        request_bundle=np.concatenate(request_bundle),
        request_instant=np.concatenate([part.request_instant for part in parts]),
        request_kind=np.concatenate([part.request_kind for part in parts]),
        ids=pa.concat_arrays([part.ids for part in parts]),
    )


@dataclass(frozen=True)
class NotPublished:
    """Participants and requests of a window that are left out on purpose.

    Attributes
    ----------
    is_suppressed : (n,) bool
        Whether each participant is suppressed.
    reported : int
        Suppressed participants who have a report in the window.
    suppressed_requests : int
        Requests of suppressed participants.
    rare_requests : int
        Requests of the others that are not published because few users sent a value.
    generalised_requests : int
        Requests that are published with a value replaced.
    """

    is_suppressed: npt.NDArray[np.bool_]
    reported: int
    suppressed_requests: int
    rare_requests: int
    generalised_requests: int


def build_bundles(
    window: Window,
    ids: pa.Array,
    policy: Policy,
    num_kinds: int,
    k: int,
    rare: Treatment | None = None,
    threads: int = 1,
) -> tuple[Bundles, NotPublished, npt.NDArray[np.int64]]:
    """Number a policy's bundles and collect the sets of requests of each.

    Requests are used only here, after members and cloaks are decided (invariant 1 of
    ``docs/guarantee.md``). A bundle of fewer than k users stops the run (invariant 3):
    that would be a defect of the algorithm, never of the log.

    Parameters
    ----------
    window : Window
    ids : pyarrow.Array
        Ids of the window's participants, ascending.
    policy : Policy
        For the window's participants, in the same order.
    num_kinds : int
        How many distinct requests the log has.
    k : int
    rare : Treatment, optional
        What becomes of requests with rare values; default: they are published.
    threads : int
        Changes the time, never the result.

    Returns
    -------
    bundles : Bundles
    not_published : NotPublished
    order : int64
        The number of each bundle in the policy.
    """
    sizes = policy.sizes
    if len(sizes) and int(sizes.min()) < k:
        raise AssertionError(f"a bundle has {int(sizes.min())} users, fewer than k = {k}")
    order = order_by_cloaks(policy.cloaks, sizes)
    number = np.full(policy.num_bundles + 1, -1, np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    bundle = number[policy.bundle]
    num_rare = num_generalised = 0
    is_suppressed = bundle < 0
    reported = int(window.reported[is_suppressed].sum())
    if rare is not None:
        window, num_rare, num_generalised = _treat_rare(window, bundle, rare)
        num_kinds = rare.kinds.num_rows
    (request_bundle, request_instant, request_kind), suppressed_requests = _gather_requests(
        window, bundle, (len(order), window.stop - window.start, num_kinds), threads
    )
    members, _ = group_members(bundle, len(order))
    bundles = Bundles(
        window=window.number,
        start=window.start,
        stop=window.stop,
        cloaks=policy.cloaks[order],
        sizes=sizes[order],
        request_bundle=request_bundle,
        request_instant=request_instant,
        request_kind=request_kind,
        ids=ids.take(pa.array(members)),
    )
    not_published = NotPublished(
        is_suppressed, reported, suppressed_requests, num_rare, num_generalised
    )
    return bundles, not_published, order


def _treat_rare(
    window: Window, bundle: npt.NDArray[np.int32], rare: Treatment
) -> tuple[Window, int, int]:
    """Withhold or replace rare requests of bundled users; returns also the counts of both."""
    is_bundled = bundle[window.request_user] >= 0
    kind = rare.number[window.request_kind]
    gone = is_bundled & (kind < 0)
    changed = is_bundled & rare.is_changed[window.request_kind]
    left = np.flatnonzero(~gone)
    treated = replace(
        window,
        request_user=window.request_user[left],
        request_instant=window.request_instant[left],
        # Requests of suppressed users are only counted, so any kind will do.
        request_kind=np.maximum(kind[left], 0),
    )
    return treated, int(gone.sum()), int(changed.sum())


def _gather_requests(
    window: Window, bundle: npt.NDArray[np.int32], shape: tuple[int, int, int], threads: int
) -> tuple[tuple[npt.NDArray[np.int32], ...], int]:
    """List the distinct requests by bundle, instant and kind; counts those of suppressed users.

    ``shape`` is the number of bundles, instants and kinds.
    """
    requests = window.request_user, window.request_instant, window.request_kind
    num_requests = len(window.request_user)
    if math.prod(shape) <= MARKS_PER_REQUEST * num_requests:
        marks = np.zeros(shape, np.bool_)
        num_sent = run_sliced(
            lambda start, stop: _mark(bundle, *requests, start, stop, marks), num_requests, threads
        )
        return _list_marked(marks, threads), num_requests - sum(num_sent)
    sender = bundle[window.request_user]
    sent = sender >= 0
    columns = [sender[sent], window.request_instant[sent], window.request_kind[sent]]
    packed = np.unique(np.ravel_multi_index(columns, shape))
    distinct = tuple(part.astype(np.int32) for part in np.unravel_index(packed, shape))
    return distinct, num_requests - int(sent.sum())


def _list_marked(
    marks: npt.NDArray[np.bool_], threads: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """List bundle, instant and kind of every mark, in that order."""
    slices = build_slices(len(marks), threads)
    counts = [np.count_nonzero(marks[start:stop]) for start, stop in slices]
    first = np.cumsum([0, *counts])
    bundle, instant, kind = (np.empty(first[-1], np.int32) for _ in range(3))
    jobs = [(start, stop, place) for (start, stop), place in zip(slices, first, strict=False)]
    run_all(
        lambda start, stop, place: _fill_marked(marks, start, stop, place, bundle, instant, kind),
        jobs,
        threads,
    )
    return bundle, instant, kind


@njit(cache=True, nogil=True)
def _mark(bundle, user, instant, kind, start, stop, marks):  # type: ignore[no-untyped-def]
    """Mark the requests of bundled users in a slice; returns how many there are.

    Several threads may write the same mark: all of them write True.
    """
    sent = 0
    for r in range(start, stop):
        b = bundle[user[r]]
        if b >= 0:
            sent += 1
            marks[b, instant[r], kind[r]] = True
    return sent


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
