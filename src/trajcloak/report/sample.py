"""Which bundles the map shows: all of them or, of a very large release, a stated sample.

The sample depends on the release alone. Bundles are numbered by their cloaks, so that
evenly spaced numbers are spread over the region.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import PublishedWindow

Numbers = npt.NDArray[np.int64]

MOST_CLOAKS = 250_000
"""Cloaks on the map, over all windows and instants; what a page can hold."""

MOST_BUNDLES = 6_000
"""Bundles of a window on the map; what a browser draws without stutter."""

MOST_WINDOWS = 400
"""Windows on the map."""


@dataclass(frozen=True)
class Drawn:
    """The part of a window that the map shows.

    Attributes
    ----------
    number : int
        The window's place in the release, from 0.
    window : PublishedWindow
    bundle : int64
        The bundles, counted from the window's first, ascending.
    """

    number: int
    window: PublishedWindow
    bundle: Numbers


def choose_drawn(
    release: PublishedRelease,
    most_cloaks: int = MOST_CLOAKS,
    most_bundles: int = MOST_BUNDLES,
    most_windows: int = MOST_WINDOWS,
) -> list[Drawn]:
    """Choose windows, and in each the same share of bundles."""
    windows = release.windows
    chosen = space_evenly(len(windows), most_windows)
    lengths = [windows[i].stop - windows[i].start for i in chosen]
    cloaks = sum(length * len(windows[i].users) for i, length in zip(chosen, lengths, strict=True))
    share = min(1.0, most_cloaks / cloaks)
    drawn = []
    for number in map(int, chosen):
        num_bundles = len(windows[number].users)
        most = max(1, min(most_bundles, int(share * num_bundles)))
        drawn.append(Drawn(number, windows[number], space_evenly(num_bundles, most)))
    return drawn


def space_evenly(total: int, most: int) -> Numbers:
    """Choose at most so many of the numbers from 0, evenly spaced.

    Examples
    --------
    >>> space_evenly(10, 4), space_evenly(3, 4)
    (array([0, 2, 5, 7]), array([0, 1, 2]))
    """
    number = min(total, most)
    return np.arange(number, dtype=np.int64) * total // max(number, 1)
