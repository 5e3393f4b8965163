"""Parts: the members of a bundle shown in smaller groups, each with a rectangle of its own.

Requests stay with the bundle, and parts depend on locations alone, so a request has as many
possible senders as without parts (``docs/guarantee.md``). Parts are numbered in the order of their
rectangles, so that a part's number reveals nothing beyond its rectangles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from trajcloak.algorithms.division import divide_bundles
from trajcloak.algorithms.policy import Policy
from trajcloak.cloaks import X_START, X_STOP, Y_START, Y_STOP, Cloaks, build_covering_quads
from trajcloak.kernels.sort import group_by_number
from trajcloak.kernels.threads import run_sliced
from trajcloak.options import PER_INSTANT, QUAD


class PartSettings(NamedTuple):
    """How members are shown in parts."""

    users: int  # Least number of members of a part.
    per: str  # Whether a part keeps its members for the whole window, or for one instant.


@dataclass(frozen=True, repr=False)
class Parts:
    """The parts of some bundles of a window, at each instant."""

    counts: npt.NDArray[np.int32]  # (bundles, instants): how many parts there are.
    # (rows, 4): their rectangles, in order of bundle, instant and part; cells, as
    # :data:`trajcloak.cloaks.Cloaks`.
    cloaks: npt.NDArray[np.uint32]
    sizes: npt.NDArray[np.int32]  # (rows,): members of each part.
    # (members, 1) or (members, instants): the part of each member of each bundle, from 0; one
    # column if parts keep their members for the whole window. Private.
    part: npt.NDArray[np.int32]

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """Where the rows of each bundle and instant start; (bundles * instants + 1,)."""
        return np.concatenate([[0], np.cumsum(self.counts.ravel(), dtype=np.int64)])

    def bound(self) -> Cloaks:
        """Compute the boxes around all parts of each bundle and instant."""
        boxes = np.empty((*self.counts.shape, 4), np.uint32)
        starts = self.first[:-1]
        for reduce, sides in (
            (np.minimum.reduceat, slice(X_START, X_STOP)),
            (np.maximum.reduceat, slice(X_STOP, None)),
        ):
            boxes[..., sides] = reduce(self.cloaks[:, sides], starts).reshape(*self.counts.shape, 2)
        return boxes

    def take(self, chosen: npt.NDArray[np.integer], members: npt.NDArray[np.integer]) -> "Parts":
        """Select some bundles, in the order given; ``members`` are the positions of theirs."""
        ends = self.first[:: self.counts.shape[1]]
        num_rows = np.diff(ends)[chosen]
        before = np.cumsum(num_rows) - num_rows
        rows = np.arange(num_rows.sum()) + np.repeat(ends[:-1][chosen] - before, num_rows)
        return Parts(self.counts[chosen], self.cloaks[rows], self.sizes[rows], self.part[members])

    def break_ties(
        self, order: npt.NDArray[np.int64], cloaks: Cloaks, sizes: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int64]:
        """Sort bundles with the same boxes and sizes by their parts.

        ``order`` lists the bundles sorted by ``cloaks``, the boxes around their parts, and
        ``sizes``, their members.
        """
        before, after = order[:-1], order[1:]
        is_tied = (cloaks[before] == cloaks[after]).all(axis=(1, 2))
        is_tied &= sizes[before] == sizes[after]
        edges = np.concatenate([[0], np.flatnonzero(~is_tied) + 1, [len(order)]])
        order = order.copy()
        ends = self.first[:: self.counts.shape[1]]

        def list_parts(b: int) -> list[list[int]]:
            rows = slice(ends[b], ends[b + 1])
            return [a.tolist() for a in (self.counts[b], self.cloaks[rows], self.sizes[rows])]

        for start, stop in pairwise(edges.tolist()):
            if stop - start > 1:
                order[start:stop] = sorted(order[start:stop].tolist(), key=list_parts)
        return order


def join_parts(given: Sequence[Parts]) -> Parts:
    """Join the parts of bundles of one window."""
    fields = zip(*(vars(one).values() for one in given), strict=True)
    return Parts(*map(np.concatenate, fields))


def build_parts(
    cells: npt.NDArray[np.uint32], policy: Policy, settings: PartSettings, cloak: str, threads: int
) -> Parts:
    """Show the members of a policy's bundles in parts; its own, if it has any.

    ``cells`` is (n, instants, 2), ``cloak`` the kind of the rectangles. Bundles are as the policy
    numbers them; ``part`` is that of each trajectory, in the order of ``cells``, -1 if it is in no
    bundle.
    """
    part = policy.part
    if part is None:
        part = divide_bundles(
            cells,
            policy.bundle,
            policy.num_bundles,
            settings.users,
            cloak,
            threads,
            per_instant=settings.per == PER_INSTANT,
        )
    members, first = group_by_number(policy.bundle, policy.num_bundles)
    counts = np.empty((policy.num_bundles, part.shape[1]), np.int32)
    run_sliced(
        lambda start, stop: _count_parts(part, members, first, start, stop, counts),
        policy.num_bundles,
        threads,
    )
    length = cells.shape[1]
    counts = np.repeat(counts, length // part.shape[1], axis=1)
    parts = Parts(
        counts, np.empty((counts.sum(), 4), np.uint32), np.empty(counts.sum(), np.int32), part
    )
    row = parts.first
    run_sliced(
        lambda start, stop: _fill_parts(
            cells, part, members, first, row, start, stop, parts.cloaks, parts.sizes
        ),
        policy.num_bundles,
        threads,
    )
    if len(parts.sizes) and int(parts.sizes.min()) < settings.users:
        raise AssertionError(f"a part has {int(parts.sizes.min())} users, not {settings.users}")
    if cloak == QUAD:
        parts.cloaks[:] = build_covering_quads(parts.cloaks)
    run_sliced(
        lambda start, stop: _number_parts(
            members, first, row, start, stop, length, part, parts.cloaks, parts.sizes
        ),
        policy.num_bundles,
        threads,
    )
    return parts


@njit(cache=True, nogil=True)
def _count_parts(part, members, first, start, stop, counts):  # type: ignore[no-untyped-def]
    """Count the parts of bundles ``start`` up to ``stop`` in each column of ``part``."""
    for b in range(start, stop):
        counts[b] = 0
        for m in range(first[b], first[b + 1]):
            for column in range(part.shape[1]):
                counts[b, column] = max(counts[b, column], part[members[m], column] + 1)


@njit(cache=True, nogil=True)
def _fill_parts(cells, part, members, first, row, start, stop, boxes, sizes):  # type: ignore[no-untyped-def]
    """Compute boxes and sizes of the parts of bundles ``start`` up to ``stop``.

    The rows of bundle ``b`` at instant ``i`` start at ``row[b * instants + i]``.
    """
    length = cells.shape[1]
    span = length // part.shape[1]
    for b in range(start, stop):
        for r in range(row[b * length], row[(b + 1) * length]):
            boxes[r, X_START] = boxes[r, Y_START] = np.uint32(0xFFFFFFFF)
            boxes[r, X_STOP] = boxes[r, Y_STOP] = np.uint32(0)
            sizes[r] = 0
        for m in range(first[b], first[b + 1]):
            member = members[m]
            for i in range(length):
                r = row[b * length + i] + part[member, i // span]
                x = cells[member, i, 0]
                y = cells[member, i, 1]
                boxes[r, X_START] = min(boxes[r, X_START], x)
                boxes[r, Y_START] = min(boxes[r, Y_START], y)
                boxes[r, X_STOP] = max(boxes[r, X_STOP], x + np.uint32(1))
                boxes[r, Y_STOP] = max(boxes[r, Y_STOP], y + np.uint32(1))
                sizes[r] += 1


@njit(cache=True, nogil=True)
def _number_parts(members, first, row, start, stop, length, part, cloaks, sizes):  # type: ignore[no-untyped-def]
    """Number the parts of bundles ``start`` up to ``stop`` in the order of their rectangles.

    Those of a whole window are compared instant by instant. If all rectangles are the same, the
    smaller part is first.
    """
    span = length // part.shape[1]
    for b in range(start, stop):
        for column in range(part.shape[1]):
            top = b * length + column * span
            count = row[top + 1] - row[top]
            # order[p]: which part comes p-th, by insertion.
            order = np.empty(count, np.int64)
            for p in range(count):
                place = p
                while place > 0 and _is_before(
                    cloaks, sizes, row[top : top + span], p, order[place - 1]
                ):
                    order[place] = order[place - 1]
                    place -= 1
                order[place] = p
            number = np.empty(count, np.int32)
            for p in range(count):
                number[order[p]] = p
            for m in range(first[b], first[b + 1]):
                part[members[m], column] = number[part[members[m], column]]
            for r in row[top : top + span]:
                cloaks[r : r + count] = cloaks[r : r + count][order]
                sizes[r : r + count] = sizes[r : r + count][order]


@njit(cache=True, nogil=True)
def _is_before(cloaks, sizes, rows, p, q):  # type: ignore[no-untyped-def]
    """Whether part p comes before part q; ``rows`` is where each instant's parts start."""
    for r in rows:
        for side in range(4):
            if cloaks[r + p, side] != cloaks[r + q, side]:
                return cloaks[r + p, side] < cloaks[r + q, side]
    return sizes[rows[0] + p] < sizes[rows[0] + q]
