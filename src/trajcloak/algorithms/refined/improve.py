"""Lower the cost of neighbouring bundles by moving and exchanging trajectories."""

import numpy as np
from numba import njit

from trajcloak.algorithms.refined.boxes import (
    area,
    area_exchanged,
    area_with,
    area_without,
    empty_boxes,
    fill_box,
)

LEAST_GAIN = 1e-9
"""Smaller relative gains are taken for rounding."""


@njit(cache=True, nogil=True)
def improve_group(points, members, sizes, left_out, k, quad, passes, near, tries):  # type: ignore[no-untyped-def]
    """Improve a group of bundles in place until a pass finds nothing, or ``passes`` are done.

    For each trajectory t that makes its bundle a larger: a move to another bundle, if
    a can spare it, or an exchange with a trajectory u of one of the ``near`` bundles b
    that t fits best. Of the members of b, the ``tries`` that look best by

        |b| (area(b + t) - area(b) - saved(u)) + |a| (area(a + u) - area(a) - saved(t))

    are priced exactly, where saved(u) is what b's area falls by without u. The best
    change of all, if it lowers the cost, is made. Areas with one more trajectory are
    kept in a table and computed again only after their bundle has changed.

    A bundle that is left out has no area, whoever is in it: others exchange their
    dearest members for its own, and it keeps its size.

    Parameters
    ----------
    points : (n, 2, instants) uint32
        The trajectories of the group.
    members : (bundles, room) int64
        Rows of ``points``; the first ``sizes[b]`` of row b count.
    sizes : (bundles,) int64
    left_out : (bundles,) bool
        Bundles that will not be published.
    k : int
    quad : bool
        Whether cloaks are (semi-)quadrants instead of bounding boxes.
    passes, near, tries : int

    Returns how many changes were made.
    """
    num_bundles, room = members.shape
    boxes = empty_boxes(num_bundles, points.shape[2])
    areas = np.empty(num_bundles)
    version = np.zeros(num_bundles, np.int64)
    for b in range(num_bundles):
        fill_box(points, members[b, : sizes[b]], boxes, b)
        areas[b] = 0.0 if left_out[b] else np.float64(area(boxes.low[b], boxes.high[b], quad))
    # grown[t, b]: area of b with t; saved[t]: what t's own bundle loses without it.
    grown = np.empty((len(points), num_bundles))
    grown_at = np.full((len(points), num_bundles), -1, np.int64)
    saved = np.empty(len(points))
    saved_at = np.full(len(points), -1, np.int64)
    dearer = np.empty(num_bundles)
    guess = np.empty(room)
    changes = 0
    for _ in range(passes):
        changes_before = changes
        for a in range(num_bundles):
            j = 0
            while j < sizes[a]:
                t = members[a, j]
                if saved_at[t] != version[a]:
                    saved[t] = _save(boxes, areas, left_out, a, points[t], quad)
                    saved_at[t] = version[a]
                if saved[t] == 0.0:
                    j += 1
                    continue
                for b in range(num_bundles):
                    if b != a and grown_at[t, b] != version[b]:
                        grown[t, b] = _grow(boxes, left_out, b, points[t], quad)
                        grown_at[t, b] = version[b]
                    dearer[b] = np.inf if b == a else sizes[b] * (grown[t, b] - areas[b])
                best = -LEAST_GAIN * sizes[a] * areas[a]
                to = -1
                exchanged = -1
                if sizes[a] > k:
                    spared = areas[a] + (sizes[a] - 1) * saved[t]
                    for b in range(num_bundles):
                        if b != a and sizes[b] < room and not left_out[b]:
                            change = dearer[b] + grown[t, b] - spared
                            if change < best:
                                best = change
                                to = b
                most_saved = sizes[a] * saved[t]
                for _ in range(near):
                    b = int(np.argmin(dearer))
                    if dearer[b] == np.inf:
                        break
                    paid = dearer[b]
                    dearer[b] = np.inf
                    for q in range(sizes[b]):
                        u = members[b, q]
                        if saved_at[u] != version[b]:
                            saved[u] = _save(boxes, areas, left_out, b, points[u], quad)
                            saved_at[u] = version[b]
                        if grown_at[u, a] != version[a]:
                            grown[u, a] = _grow(boxes, left_out, a, points[u], quad)
                            grown_at[u, a] = version[a]
                        guess[q] = (
                            paid
                            - sizes[b] * saved[u]
                            + sizes[a] * (grown[u, a] - areas[a])
                            - most_saved
                        )
                    for _ in range(tries):
                        q = int(np.argmin(guess[: sizes[b]]))
                        if guess[q] == np.inf:
                            break
                        guess[q] = np.inf
                        u = members[b, q]
                        with_t = 0.0
                        if not left_out[b]:
                            with_t = np.float64(
                                area_exchanged(boxes, b, points[u], points[t], quad)
                            )
                        with_u = np.float64(area_exchanged(boxes, a, points[t], points[u], quad))
                        change = sizes[b] * (with_t - areas[b]) + sizes[a] * (with_u - areas[a])
                        if change < best:
                            best = change
                            to = b
                            exchanged = q
                if to >= 0:
                    changes += 1
                    if exchanged < 0:
                        members[to, sizes[to]] = t
                        sizes[to] += 1
                        sizes[a] -= 1
                        members[a, j] = members[a, sizes[a]]
                    else:
                        members[a, j] = members[to, exchanged]
                        members[to, exchanged] = t
                    for b in (a, to):
                        fill_box(points, members[b, : sizes[b]], boxes, b)
                        if not left_out[b]:
                            areas[b] = np.float64(area(boxes.low[b], boxes.high[b], quad))
                        version[b] = changes
                    saved_at[t] = -1
                j += 1
        if changes == changes_before:
            break
    return changes


@njit(cache=True, nogil=True, inline="always")
def _save(boxes, areas, left_out, b, member, quad):  # type: ignore[no-untyped-def]
    """Compute what the area of ``b`` falls by without one of its members."""
    if left_out[b]:
        return 0.0
    return areas[b] - np.float64(area_without(boxes, b, member, quad))


@njit(cache=True, nogil=True, inline="always")
def _grow(boxes, left_out, b, other, quad):  # type: ignore[no-untyped-def]
    """Compute the area of ``b`` with one more trajectory."""
    if left_out[b]:
        return 0.0
    return np.float64(area_with(boxes.low[b], boxes.high[b], other, quad))
