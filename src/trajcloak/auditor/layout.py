"""The rows of ``bundles.parquet`` as bundles: which are whole, and in what order."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.auditor.arrays import find_runs, find_sorted, sort_by
from trajcloak.auditor.findings import first_few, first_rows
from trajcloak.auditor.grid import Grid
from trajcloak.auditor.parts import Bundles

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Whole bundles: each has one row for each instant of its window.

    Attributes
    ----------
    ids
        Of each bundle, ascending.
    first
        Of each bundle, its first row in ``rectangle``; its other rows follow.
    window, users
        Of each bundle.
    rectangle
        The cloaks by bundle, then instant.
    bundle
        Of each cloak, the index of its bundle.
    """

    ids: Ints
    first: Ints
    window: Ints
    users: Ints
    rectangle: npt.NDArray[np.float64]
    bundle: Ints

    def find(self, bundle_ids: npt.NDArray[Any]) -> Ints:
        """Find the index of bundles by their ids; -1 for those that do not exist."""
        return find_sorted(self.ids, bundle_ids)


def build_layout(bundles: Bundles, grid: Grid) -> tuple[Layout | None, list[str]]:
    """Group rows to bundles; returns them if they are whole, and what is wrong."""
    if not bundles.num_rows:
        return None, ["bundles.parquet has no rows"]
    order = sort_by(_ranks(bundles.bundle_id), bundles.instant.astype(np.int64))
    bundle_id = bundles.bundle_id[order]
    ids, counts = find_runs(bundle_id)
    first = np.cumsum(counts) - counts
    bundle = np.repeat(np.arange(len(ids)), counts)
    window = bundles.window[order][first].astype(np.int64)
    users = bundles.users[order][first].astype(np.int64)

    problems = []
    in_log = (window >= 0) & (window < grid.num_windows)
    expected = np.arange(len(bundle)) - first[bundle]
    whole = in_log & (counts == grid.window_sizes(window))
    for name, right in (
        ("window", bundles.window[order] == window[bundle]),
        ("instant", bundles.instant[order] == grid.window_starts(window)[bundle] + expected),
    ):
        wrong = np.sort(order[~right])
        if len(wrong):
            problems.append(f"wrong '{name}' in {first_rows(wrong)}")
            whole[bundle[~right]] = False
    if not whole.all():
        problems.append(
            f"{int((~whole).sum()):,} bundles without exactly one row for each instant of their "
            f"window ({first_few(ids[~whole])})"
        )
    differing = np.sort(order[bundles.users[order] != users[bundle]])
    if len(differing):
        problems.append(f"'users' changes within a bundle in {first_rows(differing)}")
    if ids[0] != 0 or ids[-1] != len(ids) - 1:
        problems.append(f"the ids of {len(ids):,} bundles are not 0, 1, 2, ...")
    layout = None
    if whole.all():
        layout = Layout(ids, first, window, users, bundles.rectangle[order], bundle)
    return layout, problems


def _ranks(values: Ints) -> Ints:
    return np.unique(values, return_inverse=True)[1]


def find_order_problems(bundles: Bundles, layout: Layout) -> list[str]:
    """Check the order of rows, and that ids follow windows and cloak sequences."""
    problems = []
    later = (bundles.bundle_id[1:] > bundles.bundle_id[:-1]) | (
        (bundles.bundle_id[1:] == bundles.bundle_id[:-1])
        & (bundles.instant[1:] > bundles.instant[:-1])
    )
    if not later.all():
        problems.append(f"out of order: {first_rows(np.flatnonzero(~later) + 1)}")
    back = np.flatnonzero(layout.window[1:] < layout.window[:-1]) + 1
    if len(back):
        problems.append(f"ids not window by window: bundles {first_few(layout.ids[back])}")
    unsorted = np.flatnonzero(_compare_with_next(layout) > 0) + 1
    if len(unsorted):
        problems.append(
            f"{len(unsorted):,} bundles not in the order of their cloak sequences "
            f"({first_few(layout.ids[unsorted])})"
        )
    return problems


def _compare_with_next(layout: Layout) -> Ints:
    """Compare each bundle but the last with the next one of its window.

    Returns -1, 0 or 1: the cloak sequence, then the users, are less, equal, greater.
    """
    outcome = np.sign(layout.users[:-1] - layout.users[1:])
    same_window = layout.window[:-1] == layout.window[1:]
    size = np.diff(np.append(layout.first, len(layout.bundle)))
    rows = np.flatnonzero(np.append(same_window, False)[layout.bundle])
    of_row = np.zeros(len(rows), dtype=np.int64)
    here = layout.rectangle[rows]
    there = layout.rectangle[rows + size[layout.bundle[rows]]]
    for column in range(here.shape[1]):
        one, other = here[:, column], there[:, column]
        sign = (one > other).astype(np.int64) - (one < other)
        of_row = np.where(of_row == 0, sign, of_row)
    decided = np.flatnonzero(of_row)
    # The first instant at which the two cloaks differ decides.
    bundle, at = np.unique(layout.bundle[rows[decided]], return_index=True)
    outcome[bundle] = of_row[decided[at]]
    return np.where(same_window, outcome, 0)
