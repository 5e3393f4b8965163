"""What anybody can check of a release without its log: whether it agrees with itself."""

import math
from typing import Any, NamedTuple

import numpy as np

from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import build_cell_grid
from trajcloak.report.figures import Figures
from trajcloak.report.words import show_number

TOLERANCE = 1e-9
"""Relative difference of sums of areas that is put down to rounding."""


class PublicCheck(NamedTuple):
    """The outcome of one check.

    Attributes
    ----------
    name : str
    passed : bool
    detail : str
    """

    name: str
    passed: bool
    detail: str


def check_release(release: PublishedRelease, figures: Figures) -> list[PublicCheck]:
    """Compare the manifest of a release with its other files.

    Who is in which bundle is not in the release, so that k is as the release states it.
    """
    manifest, k = release.manifest, release.manifest["k"]
    sums = [int(window.users.sum()) for window in release.windows]
    small = sum(int((window.users < k).sum()) for window in release.windows)
    users = manifest["users"]
    return [
        PublicCheck(
            "at least k users in every bundle",
            small == 0,
            f"{small:,} of {figures.num_bundles:,} bundles state fewer than k = {k}; the "
            f"smallest states {figures.smallest:,}",
        ),
        _compare("smallest bundle", manifest.get("smallest_bundle"), figures.smallest),
        _compare("windows", manifest.get("windows"), len(release.windows)),
        _compare("instants", manifest.get("instants"), len(figures.instant)),
        _compare("bundles", manifest.get("bundles"), figures.num_bundles),
        PublicCheck(
            "users",
            max(sums) <= users <= sum(sums) and (len(sums) > 1 or users == sums[0]),
            f"the manifest says {users:,}; bundles hold {max(sums):,} in the largest window",
        ),
        _compare("requests", manifest.get("requests"), int(figures.requests.sum())),
        _compare("cost", manifest.get("cost"), figures.cost),
        _compare("mean cloak area", manifest.get("mean_cloak_area"), figures.mean_area),
        _check_cloaks(release),
    ]


def _compare(name: str, stated: Any, counted: float) -> PublicCheck:
    is_number = isinstance(stated, int | float)
    is_same = is_number and math.isclose(stated, counted, rel_tol=TOLERANCE)
    if is_same:
        return PublicCheck(name, True, f"{show_number(stated)}, as the manifest says")
    shown = f"{stated:,}" if is_number else "nothing"
    return PublicCheck(name, False, f"the manifest says {shown}; counted: {counted:,}")


def _check_cloaks(release: PublishedRelease) -> PublicCheck:
    grid = build_cell_grid(release.manifest)
    num_cells = 2 ** int(release.manifest["height"])
    low = np.array([*grid.low, *grid.low])[:, None, None]
    wrong = 0
    for window in release.windows:
        cells = grid.to_cells(window.cloaks)
        is_good = (window.cloaks == low + cells * grid.cell).all(axis=0)
        is_good &= (cells[:2] >= 0).all(axis=0) & (cells[2:] <= num_cells).all(axis=0)
        is_good &= (cells[:2] < cells[2:]).all(axis=0)
        wrong += int((~is_good).sum())
    total = sum(window.cloaks[0].size for window in release.windows)
    return PublicCheck(
        "cloaks on the grid", wrong == 0, f"{wrong:,} of {total:,} cloaks are no rectangles of it"
    )
