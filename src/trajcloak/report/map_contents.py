"""What the map shows: which bundles, and which of their requests."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trajcloak.query import PublishedRelease
from trajcloak.query.release_arrays import PublishedWindow, encode_values, read_request_table
from trajcloak.shown_text import show_text

Ints = npt.NDArray[np.int64]

MOST_RECTANGLES = 250_000
"""Rectangles on the map, over all windows and instants; what a page can hold."""

MOST_AT_ONCE = 6_000
"""Rectangles of an instant on the map; what a browser draws without stutter."""

MOST_WINDOWS = 400
"""Windows on the map."""

MOST_LISTED = 500_000
"""Requests that the page lists, over all bundles and instants."""

MOST_TEXT = 2_000_000
"""Characters of different requests on the page."""

LONGEST_VALUE = 200
"""Characters of a value that are shown."""

FREQUENT = 8
"""Values of an attribute that are listed with their numbers."""


@dataclass(frozen=True)
class DrawnWindow:
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
    bundle: Ints


def choose_drawn(
    release: PublishedRelease,
    most_rectangles: int = MOST_RECTANGLES,
    most_at_once: int = MOST_AT_ONCE,
    most_windows: int = MOST_WINDOWS,
) -> list[DrawnWindow]:
    """Choose windows, and in each the same share of bundles."""
    windows = release.windows
    chosen = space_evenly(len(windows), most_windows)
    share = min(1.0, most_rectangles / sum(len(windows[i].sizes) for i in chosen))
    drawn = []
    for number in map(int, chosen):
        window = windows[number]
        num_bundles, at_once = len(window.users), int(window.counts.sum(axis=0).max())
        most = max(1, int(min(share, most_at_once / at_once) * num_bundles))
        drawn.append(DrawnWindow(number, window, space_evenly(num_bundles, most)))
    return drawn


def space_evenly(total: int, most: int) -> Ints:
    """Choose at most ``most`` of the numbers from 0 to ``total`` - 1, evenly spaced.

    Examples
    --------
    >>> space_evenly(10, 4), space_evenly(3, 4)
    (array([0, 2, 5, 7]), array([0, 1, 2]))
    """
    number = min(total, most)
    return np.arange(number, dtype=np.int64) * total // max(number, 1)


@dataclass(frozen=True)
class AttributeSummary:
    """One request attribute.

    Attributes
    ----------
    name : str
    num_values : int
        Different values, null among them.
    frequent : list of (str, int)
        The most frequent values, and how many entries of the release have each.
    rare : list of str
        The values, null aside, that fewer than ``rare_below`` bundles of some window show.
    """

    name: str
    num_values: int
    frequent: list[tuple[str, int]]
    rare: list[str]


@dataclass(frozen=True)
class ReleaseRequests:
    """All requests of a release.

    Attributes
    ----------
    bundle, instant, kind : (requests,) int64
        ``kind`` is an index into ``kinds``.
    kinds : list of list of str
        The different requests, a text for each attribute.
    attributes : list of AttributeSummary
    """

    bundle: Ints
    instant: Ints
    kind: Ints
    kinds: list[list[str]]
    attributes: list[AttributeSummary]

    def count_by_instant(self, release: PublishedRelease) -> Ints:
        """Count the requests at each published instant."""
        instants = [np.arange(window.start, window.stop) for window in release.windows]
        found, number = np.unique(self.instant, return_counts=True)
        counts = dict(zip(found.tolist(), number.tolist(), strict=True))
        return np.array([counts.get(i, 0) for i in np.concatenate(instants).tolist()], np.int64)


def read_requests(release: PublishedRelease) -> ReleaseRequests:
    """Read the requests, and number the different ones."""
    names = release.attributes
    table, _ = read_request_table(release.requests, names, release.windows)
    bundle = table.column("bundle_id").to_numpy()
    codes, texts, rare = [], [], []
    for name in names:
        code, values = encode_values(release.requests.file, table.column(name))
        codes.append(code)
        texts.append([_show(value) for value in values])
        few = find_rare(code, bundle, release)
        rare.append(sorted(texts[-1][i] for i in few.tolist() if values[i] is not None))
    kind = np.zeros(table.num_rows, np.int64)
    for code, values in zip(codes, texts, strict=True):
        kind = kind * len(values) + code
        # Numbers of kinds stay small, however many attributes there are.
        kind = np.unique(kind, return_inverse=True)[1].astype(np.int64)
    first = np.unique(kind, return_index=True)[1] if len(names) else np.zeros(0, np.int64)
    return ReleaseRequests(
        bundle=bundle,
        instant=table.column("instant").to_numpy().astype(np.int64),
        kind=kind,
        kinds=[[t[int(c[row])] for c, t in zip(codes, texts, strict=True)] for row in first],
        attributes=[
            _describe(*attribute) for attribute in zip(names, codes, texts, rare, strict=True)
        ],
    )


def find_rare(code: Ints, bundle: Ints, release: PublishedRelease) -> Ints:
    """Find the values that too few bundles show, in any window where they are shown.

    Parameters
    ----------
    code, bundle : (requests,) int64
        The number of each request's value, and its bundle.
    release
        Its manifest says how many bundles are enough, and its windows which bundles they have.
    """
    first = [window.first_id for window in release.windows]
    num_bundles = first[-1] + len(release.windows[-1].users)
    value, bundle = np.divmod(np.unique(code * num_bundles + bundle), num_bundles)
    window = np.searchsorted(first, bundle, side="right")
    places = len(first) + 1
    shown, bundles = np.unique(value * places + window, return_counts=True)
    few: Ints = np.unique(shown[bundles < release.manifest["parameters"]["rare_below"]] // places)
    return few


def _show(value: Any) -> str:
    text = "(null)" if value is None else show_text(str(value))
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + " …"


def _describe(name: str, code: Ints, values: list[str], rare: list[str]) -> AttributeSummary:
    counts: Counter[str] = Counter()
    for value, number in zip(values, np.bincount(code, minlength=len(values)), strict=True):
        counts[value] += int(number)
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return AttributeSummary(name, len(values), frequent[:FREQUENT], rare)


@dataclass(frozen=True)
class ListedRequests:
    """The requests of the bundles on the map.

    Attributes
    ----------
    totals : list of (instants * bundles,) int64
        How many each bundle has at each instant; one array for each window.
    codes : list of int64
        The first ``most`` of each, bundle by bundle; indices into ``kinds``.
    kinds : list of list of str
    most : int
        Requests of a bundle and instant that are listed.
    """

    totals: list[Ints]
    codes: list[Ints]
    kinds: list[list[str]]
    most: int


def list_drawn(requests: ReleaseRequests, drawn: Sequence[DrawnWindow]) -> ListedRequests:
    """List the requests of the bundles on the map, as many of each as fit on the page."""
    parts = [_select(requests, part) for part in drawn]
    longest = max((int(total.max()) for total, _, _ in parts if total.size), default=0)
    most = longest
    while True:
        codes = [kind[rank < most] for _, kind, rank in parts]
        used = np.unique(np.concatenate(codes)) if codes else np.zeros(0, np.int64)
        characters = sum(sum(map(len, requests.kinds[i])) for i in used.tolist())
        listed = sum(map(len, codes))
        if most == 0 or (listed <= MOST_LISTED and characters <= MOST_TEXT):
            break
        most //= 2
    return ListedRequests(
        totals=[total for total, _, _ in parts],
        codes=[np.searchsorted(used, code) for code in codes],
        kinds=[requests.kinds[i] for i in used.tolist()],
        most=most,
    )


def _select(requests: ReleaseRequests, drawn: DrawnWindow) -> tuple[Ints, Ints, Ints]:
    """Select the requests of a window's bundles on the map.

    Returns the number of requests of each bundle and instant, the kind of each request, and
    its rank within its bundle and instant.
    """
    window, bundle = drawn.window, drawn.bundle
    start, stop = np.searchsorted(
        requests.bundle, [window.first_id, window.first_id + len(window.users)]
    )
    place = np.full(len(window.users), -1)
    place[bundle] = np.arange(len(bundle))
    number = place[requests.bundle[start:stop] - window.first_id]
    is_drawn = number >= 0
    length = window.stop - window.start
    slot = (number * length + requests.instant[start:stop] - window.start)[is_drawn]
    order = np.argsort(slot, kind="stable")
    slot, kind = slot[order], requests.kind[start:stop][is_drawn][order]
    totals = np.bincount(slot, minlength=len(bundle) * length)
    rank = np.arange(len(slot)) - (np.cumsum(totals) - totals)[slot]
    return totals, kind, rank
