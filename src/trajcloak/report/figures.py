"""The figures of a release, counted over all its bundles, and what anybody can check with them."""

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trajcloak.quantities import Unit, show_k
from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import PublishedWindow, build_cell_grid, reduce_runs
from trajcloak.release.reading import BUNDLES_FILE, MANIFEST_FILE, REQUESTS_FILE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_BARS = 24
FILES = (BUNDLES_FILE, REQUESTS_FILE, MANIFEST_FILE)
CLASSES = 6  # colours of the map
TOLERANCE = 1e-9  # relative difference of sums of areas that rounding explains


class Histogram(NamedTuple):
    """How many values are in each of some half-open ranges; the last one is closed."""

    edges: Floats
    counts: Ints


@dataclass(frozen=True)
class Figures:
    """What is counted in a release."""

    sizes: Histogram  # bundles by their number of users
    sides: Histogram  # rectangles, one for each cloak or part, by their sides, each with both
    instant: Ints  # the published instants, those of all windows
    users: Ints  # published users of each instant
    requests: Ints  # published requests of each instant
    cost_by_instant: Floats  # sum, over users, of the area of the rectangle that each is in
    num_bundles: int
    smallest: int
    largest: int
    num_sets: int  # sets of requests, one for each bundle and instant
    cost: float
    mean_area: float
    area_breaks: list[float]  # where the classes of the map's colours end: areas of rectangles
    size_breaks: list[int]  # the same for users of bundles
    digests: dict[str, str]  # SHA-256 of each file of the release


def count_figures(release: PublishedRelease, requests: Ints) -> Figures:
    """Count the figures of a release; ``requests`` are those of each published instant."""
    windows = release.windows
    sides = [window.rectangles[2:] - window.rectangles[:2] for window in windows]
    areas = [width * height for width, height in sides]
    users = np.concatenate([window.users for window in windows])
    costs = [_add_by_instant(area * w.sizes, w) for area, w in zip(areas, windows, strict=True)]
    every_area = np.concatenate(areas)
    return Figures(
        sizes=build_size_histogram(users),
        sides=_build_side_histogram(np.concatenate([both.ravel() for both in sides])),
        instant=np.concatenate([np.arange(window.start, window.stop) for window in windows]),
        users=np.concatenate([window.present.sum(axis=0) for window in windows]),
        requests=requests,
        cost_by_instant=np.concatenate(costs),
        num_bundles=len(users),
        smallest=int(users.min()),
        largest=int(users.max()),
        num_sets=sum(int((window.counts > 0).sum()) for window in windows),
        cost=math.fsum(cost.sum() for cost in costs),
        mean_area=math.fsum(area.sum() for area in areas) / len(every_area),
        area_breaks=choose_area_breaks(every_area),
        size_breaks=choose_size_breaks(users),
        digests=dict(zip(FILES, digest_files(release.path / name for name in FILES), strict=True)),
    )


def digest_files(files: Iterable[Path]) -> list[str]:
    """Compute the SHA-256 of each file."""
    digests = []
    for path in files:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return digests


def _add_by_instant(values: Floats, window: PublishedWindow) -> Floats:
    """Add up values of a window's rectangles, instant by instant."""
    by_bundle = reduce_runs(np.add, values, window.counts.ravel())
    return np.asarray(by_bundle.reshape(window.counts.shape).sum(axis=0))


def build_size_histogram(users: Ints) -> Histogram:
    """Count bundles by size; a bar is one size, or as few as fit."""
    low, high = int(users.min()), int(users.max())
    width = -(-(high - low + 1) // MOST_BARS)
    edges = np.arange(low, high + width + 1, width)
    counts = np.bincount((users - low) // width, minlength=len(edges) - 1)
    return Histogram(edges.astype(np.float64), counts)


def _build_side_histogram(sides: Floats) -> Histogram:
    """Count sides of rectangles, from 0 to a round number."""
    step = round_up(float(sides.max()) / MOST_BARS)
    bars = max(1, math.ceil(float(sides.max()) / step))
    counts, edges = np.histogram(sides, bars, (0, bars * step))
    return Histogram(edges, counts)


def round_up(value: float) -> float:
    """Round up to 1, 2, 2.5 or 5 times a power of ten; 1 if there is nothing to round.

    Examples
    --------
    >>> [round_up(value) for value in (0.9, 3, 180, 2200)]
    [1.0, 5.0, 200.0, 2500.0]
    """
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= value * (1 - 1e-9))


def choose_area_breaks(areas: Floats) -> list[float]:
    """Divide areas into classes of about equally many; at squares with sides of two digits."""
    shares = np.arange(1, CLASSES) / CLASSES
    sides = {float(f"{side:.2g}") for side in np.sqrt(np.quantile(areas, shares))}
    return [side * side for side in sorted(sides)]


def choose_size_breaks(users: Ints) -> list[int]:
    """Divide sizes of bundles into classes of equal width."""
    low, high = int(users.min()), int(users.max())
    width = -(-(high - low + 1) // CLASSES)
    return list(range(low + width, high + 1, width))


class PublicCheck(NamedTuple):
    """The outcome of one check: what was found, and what the check asks for."""

    name: str
    passed: bool
    detail: str
    asks: str


def check_release(release: PublishedRelease, figures: Figures, unit: Unit) -> list[PublicCheck]:
    """Compare the manifest of a release with its other files.

    Who is in which bundle is not in the release, so the sizes of bundles are those it states.
    """
    manifest, k = release.manifest, release.manifest["k"]
    users, parts = manifest["users"], manifest["parts"]
    sums = [int(window.users.sum()) for window in release.windows]
    small = sum(int((window.users < k).sum()) for window in release.windows)
    checks = [
        PublicCheck(
            "at least k users in every bundle",
            small == 0,
            f"{small:,} of {figures.num_bundles:,} bundles state fewer than {show_k(k)}; the "
            f"smallest states {figures.smallest:,}",
            "No bundle says that it has fewer than k users.",
        ),
        _compare("smallest bundle", manifest["smallest_bundle"], figures.smallest),
        _compare("windows", manifest["windows"], len(release.windows)),
        _compare("instants", manifest["instants"], len(figures.instant)),
        _compare("bundles", manifest["bundles"], figures.num_bundles),
        PublicCheck(
            "users",
            max(sums) <= users <= sum(sums) and (len(sums) > 1 or users == sums[0]),
            f"the manifest says {users:,}; bundles hold {max(sums):,} in the largest window",
            "The users of all bundles of a window add up to no more than there are.",
        ),
        _compare("requests", manifest["requests"], int(figures.requests.sum())),
        _compare("cost", manifest["cost"], figures.cost, unit.area),
        _compare("mean cloak area", manifest["mean_cloak_area"], figures.mean_area, unit.area),
        _check_cloaks(release),
    ]
    if parts is not None:
        least = min(int(window.sizes.min()) for window in release.windows)
        checks.append(
            PublicCheck(
                "enough users in every part",
                least >= parts["users"],
                f"the smallest part states {least:,}; the manifest promises {parts['users']:,}",
                "No part of a bundle says that it has fewer users than promised.",
            )
        )
    return checks


def _compare(
    name: str, stated: float, counted: float, show: Callable[[float], str] = "{:,}".format
) -> PublicCheck:
    """Compare a figure of the manifest with that of the other files."""
    passed = math.isclose(stated, counted, rel_tol=TOLERANCE)
    detail = f"{show(stated)}, as the manifest says"
    if not passed:
        detail = f"the manifest says {stated:,}; counted: {counted:,}"
    return PublicCheck(name, passed, detail, "The manifest's figure is that of the files.")


def _check_cloaks(release: PublishedRelease) -> PublicCheck:
    # That they lie within the region was checked when the release was opened.
    grid = build_cell_grid(release.manifest)
    low = np.array([*grid.low, *grid.low])[:, None]
    wrong = 0
    for window in release.windows:
        on_grid = low + grid.to_cells(window.rectangles) * grid.cell
        wrong += int((window.rectangles != on_grid).any(axis=0).sum())
    total = sum(len(window.sizes) for window in release.windows)
    return PublicCheck(
        "cloaks on the grid",
        wrong == 0,
        f"{wrong:,} of {total:,} published rectangles are none of the grid",
        "Areas end at lines of the grid, so that none tells where exactly somebody was.",
    )
