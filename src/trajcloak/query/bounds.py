"""Bounds that hold for certain, and estimates between them: proved in ``docs/queries.md``.

First for the users of each part who are inside a region, then for those of each bundle, and
then for the requests that they sent. In a release without parts each bundle is one part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.query.questions import Rectangle, RouteStep
from trajcloak.query.release_arrays import (
    CellGrid,
    Edges,
    Numbers,
    PublishedWindow,
    RequestRows,
    list_ranges,
    reduce_runs,
)
from trajcloak.query.spread import Spread

Flags = npt.NDArray[np.bool_]

ASSUMPTIONS = (
    "Bounds assume nothing but that the release is what its manifest says.",
    "Estimates assume that users are spread over the rectangle that they are in as the rectangles "
    "of the instant suggest, independently of each other and of what they send, that half of those "
    "who are shown together keep their place within the rectangle while it moves, and the others "
    "do not, and that every published request has one sender.",
    "Answers are about what is published: users and requests that were withheld are not in the "
    "release.",
)

UNLINKED = (
    "The steps lie in different windows, which are not linked: the estimate assumes that where "
    "users are in one window says nothing about where they are in another, and is crude."
)
"""What an estimate assumes besides, if the steps of a question lie in different windows."""

STAYING = 0.5
"""Share of users who are taken to keep their place within a rectangle that moves.

Measured on releases with and without parts, in windows of 5 to 30 minutes, a half gave smaller
errors than none, a quarter and three quarters. Shares that fall with time, with the distance that
the rectangle went, or with the change of its shape, were no better.
"""

MARKS_PER_KEY = 16  # up to so many bytes per key, marking those that occur beats sorting them


@dataclass(frozen=True)
class Answer:
    """A number of users or requests: at least, about, and at most.

    The bounds hold for certain; the estimate between them rests on :data:`ASSUMPTIONS`.
    """

    lower: int
    estimate: float
    upper: int


ZERO = Answer(0, 0.0, 0)


@dataclass(frozen=True)
class RequestAnswer:
    """How often a value was asked for."""

    # Entries of the release, which are distinct in window, bundle, instant and all attributes, with
    # at least one sender among the users asked about.
    requests: Answer
    users: Answer  # Distinct users among them who sent such a request.


@dataclass(frozen=True)
class CountBounds:
    """How many users of each bundle, or of each part, are counted: at least, about, at most."""

    lower: Numbers
    estimate: npt.NDArray[np.float64]
    upper: Numbers

    def sum(self) -> Answer:
        """Add up all bundles, which have no user in common."""
        return Answer(int(self.lower.sum()), float(self.estimate.sum()), int(self.upper.sum()))

    def total(self) -> "CountBounds":
        """Add up all bundles, as if they were one."""
        return self.add_parts(np.array([len(self.lower)]))

    def add_parts(self, counts: Numbers) -> "CountBounds":
        """Add up the parts of each bundle, so many each, which have no user in common."""
        return CountBounds(*(reduce_runs(np.add, bound, counts) for bound in vars(self).values()))


@dataclass(frozen=True)
class Presence:
    """Which users of a window are asked about, at each of the instants at which requests count."""

    window: PublishedWindow
    instants: list[int]
    bounds: list[CountBounds]
    most: Numbers  # of each bundle: the most users who can be asked about at any instant


def bound_followers(
    window: PublishedWindow, steps: Sequence[RouteStep], boxes: CellGrid | None
) -> CountBounds:
    """Bound how many users of each bundle of a window are at all steps.

    ``boxes`` is the grid of cells, if rectangles are bounding boxes of their users' cells. A part
    that keeps its members is followed by itself; else only the bundle links parts of two instants.
    """
    is_only = len(steps) == 1
    bounds, shown = [], []
    for step in steps:
        parts = window.find_parts(step.instant)
        users, spread = window.sizes[parts], window.spread_at(step.instant)
        shown.append(window.rectangles[:, parts])
        bounds.append(bound_inside(shown[-1], users, step.region, boxes, spread, is_only=is_only))
    places = [step.instant - window.start for step in steps]
    counts = window.counts.T[places]
    if window.keeps_members:
        together = relate_steps(shown, [step.region for step in steps])
        return intersect_bounds(bounds, users, together).add_parts(counts[0])
    by_bundle = [of_step.add_parts(count) for of_step, count in zip(bounds, counts, strict=True)]
    return intersect_bounds(by_bundle, window.present.T[places])


def bound_inside(
    rectangles: Edges,
    users: Numbers,
    region: Rectangle,
    boxes: CellGrid | None,
    spread: Spread,
    *,
    is_only: bool,
) -> CountBounds:
    """Bound how many of the users in each rectangle are inside a region.

    ``rectangles`` are (4, rectangles): least x and y, greatest x and y. ``boxes`` is the grid of
    cells, if they are bounding boxes of their users' cells. ``is_only``: no other step is asked
    about. Otherwise shares of several steps are multiplied, and estimates leave out that somebody
    is at each side of a box: often the same users are there at all steps, and they would be taken
    for independent.
    """
    x_min, y_min, x_max, y_max = rectangles
    left, bottom, right, top = region
    meets = (x_min <= right) & (left <= x_max) & (y_min <= top) & (bottom <= y_max)
    spans_x = (left <= x_min) & (x_max <= right)
    spans_y = (bottom <= y_min) & (y_max <= top)
    lower = np.where(spans_x & spans_y, users, 0)
    upper = np.where(meets, users, 0)
    share = spread.share(rectangles, region)
    if boxes is not None:
        covers_x, misses_x = _look_at_sides(x_min, x_max, left, right, boxes, 0)
        covers_y, misses_y = _look_at_sides(y_min, y_max, bottom, top, boxes, 1)
        lower = np.maximum(lower, (spans_y & covers_x) | (spans_x & covers_y))
        upper = np.where(meets, users - np.maximum(misses_x, misses_y), 0)
        if is_only:
            even_x, held_x = _share_axis(x_min, x_max, left, right, users, boxes, 0)
            even_y, held_y = _share_axis(y_min, y_max, bottom, top, users, boxes, 1)
            share = share + held_x * held_y - even_x * even_y
    return CountBounds(lower, np.clip(users * share, lower, upper), upper)


def _share_axis(
    low: Edges, high: Edges, start: float, stop: float, users: Numbers, grid: CellGrid, axis: int
) -> tuple[Edges, Edges]:
    """Estimate which share of each box's users is from ``start`` to ``stop`` on an axis.

    First if all are spread evenly; then if one is in the first row or column of cells, one in the
    last, and the others are spread evenly. Without them the box would be smaller.
    """

    def overlap(begin: Edges, end: Edges) -> Edges:
        width = np.minimum(end, stop) - np.maximum(begin, start)
        share: Edges = np.maximum(width, 0.0) / (end - begin)
        return share

    even = overlap(low, high)
    ends = overlap(low, grid.shift(low, axis, 1)) + overlap(grid.shift(high, axis, -1), high)
    return even, (ends + np.maximum(users - 2, 0) * even) / np.maximum(users, 2)


def _look_at_sides(
    low: Edges, high: Edges, start: float, stop: float, grid: CellGrid, axis: int
) -> tuple[Flags, Numbers]:
    """Find whether a range covers the first or the last cells of boxes, and how many it misses."""
    first_stop = grid.shift(low, axis, 1)
    last_start = grid.shift(high, axis, -1)
    covers = ((start <= low) & (first_stop <= stop)) | ((start <= last_start) & (high <= stop))
    misses = (first_stop < start).astype(np.int64) + (stop < last_start)
    return covers, misses


def relate_steps(rectangles: Sequence[Edges], regions: Sequence[Rectangle]) -> Edges:
    """Estimate which share of users is inside all regions besides those of independent steps.

    ``rectangles`` are, for each step, those of the same users.
    """
    low, high = np.zeros_like(rectangles[0][:2]), np.ones_like(rectangles[0][:2])
    independent = np.ones_like(rectangles[0][0])
    for shown, region in zip(rectangles, regions, strict=True):
        # Which part of each rectangle the region covers; sides have length 1.
        corners = np.array(region)[:, None].reshape(2, 2, 1)
        start, stop = np.clip((corners - shown[:2]) / (shown[2:] - shown[:2]), 0.0, 1.0)
        low, high = np.maximum(low, start), np.minimum(high, stop)
        independent *= (stop - start).prod(axis=0)
    related: Edges = STAYING * (np.maximum(high - low, 0.0).prod(axis=0) - independent)
    return related


def intersect_bounds(
    steps: list[CountBounds], users: Numbers, together: Edges | float = 0.0
) -> CountBounds:
    """Bound how many users of each bundle, or of each part, are counted at every step.

    ``users`` are all users of each, in a row for each step or, if they are the same at every
    step, in one row. Users who leave do not come back: those of the step with the fewest are at
    all of them. ``together`` is the share of :func:`relate_steps`.
    """
    if len(steps) == 1:
        return steps[0]
    present = np.broadcast_to(users, (len(steps), len(steps[0].lower)))
    left = present.min(axis=0)
    outside = sum(all_ - step.lower for all_, step in zip(present, steps, strict=True))
    lower = np.maximum(left - outside, 0)
    upper = reduce(np.minimum, (step.upper for step in steps), left)
    shares = [s.estimate / np.maximum(p, 1) for p, s in zip(present, steps, strict=True)]
    about = left * (reduce(np.multiply, shares) + together)
    return CountBounds(lower, np.clip(about, lower, upper), upper)


def count_by_value(
    rows: RequestRows, windows: list[Presence], most_users: int
) -> dict[Any, RequestAnswer]:
    """Count requests and their senders by value, without values that nobody can have sent.

    ``most_users`` is how many users can be asked about, over all windows.
    """
    entries, senders = (
        np.stack(found)
        for found in zip(*(_count_in_window(rows, window) for window in windows), strict=True)
    )
    requests = entries.sum(axis=0)
    # A user may have sent a value in several windows.
    lower, upper = senders[:, 0].max(axis=0), senders[:, 2].sum(axis=0)
    users = np.stack([lower, senders[:, 1].sum(axis=0), upper]).clip(max=most_users)
    found = {
        value: RequestAnswer(_to_answer(requests[:, code]), _to_answer(users[:, code]))
        for code, value in enumerate(rows.values)
        if requests[2, code]
    }
    return dict(sorted(found.items(), key=lambda item: -item[1].requests.estimate))


def _to_answer(bounds: Edges) -> Answer:
    return Answer(int(bounds[0]), float(bounds[1]), int(bounds[2]))


def _count_in_window(rows: RequestRows, presence: Presence) -> tuple[Edges, Edges]:
    """Count, for each value, the entries and the users of a window: (3, values) bounds."""
    bundle, column, code, num_entries = _select(rows, presence)
    places = np.array(presence.instants) - presence.window.start
    users = presence.window.present[bundle, places[column]]
    certain = np.stack([b.lower for b in presence.bounds])[column, bundle] == users
    share = np.stack([b.estimate for b in presence.bounds])[column, bundle] / users
    upper = np.stack([b.upper for b in presence.bounds])[column, bundle]
    senders = np.minimum(num_entries, users) * share
    weights = certain * num_entries, share * num_entries, num_entries
    entries = _sum_by_code(code, weights, len(rows.values))

    num_keys = len(presence.window.users) * len(rows.values)
    group, distinct = _number(bundle * len(rows.values) + code, num_keys)
    bundle, code = np.divmod(distinct, max(len(rows.values), 1))
    add_up = partial(np.bincount, group, minlength=len(distinct))
    least = np.minimum(add_up(certain), 1)
    most = np.minimum(add_up(upper), presence.most[bundle])
    estimate = np.clip(add_up(senders), least, most)
    return entries, _sum_by_code(code, (least, estimate, most), len(rows.values))


def _select(rows: RequestRows, presence: Presence) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Select the values that the users asked about can have sent.

    Returns the bundle, the place of the instant, the code and the number of entries of each.
    """
    is_possible = np.stack([b.upper > 0 for b in presence.bounds])
    bundle, column = np.nonzero(is_possible.T)
    of_set = presence.window.to_sets(bundle, np.array(presence.instants)[column])
    start = rows.first[of_set]
    count = rows.first[of_set + 1] - start
    chosen = list_ranges(start, count)
    return (
        np.repeat(bundle, count),
        np.repeat(column, count),
        rows.code[chosen],
        rows.num_entries[chosen],
    )


def _number(key: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Number the distinct keys below ``size``; returns the number of each, and the keys."""
    if size > max(MARKS_PER_KEY * len(key), 1 << 16):
        distinct, number = np.unique(key, return_inverse=True)
        return number, distinct
    is_seen = np.zeros(size, np.bool_)
    is_seen[key] = True
    return (np.cumsum(is_seen) - 1)[key], np.flatnonzero(is_seen)


def _sum_by_code(code: Numbers, weights: tuple[npt.NDArray[Any], ...], num_codes: int) -> Edges:
    """Add up lower bounds, estimates and upper bounds, value by value."""
    return np.stack([np.bincount(code, weight, minlength=num_codes) for weight in weights])
