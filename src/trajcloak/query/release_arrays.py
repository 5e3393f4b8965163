"""The files of a release as arrays: bundles by window, requests by value, the grid of cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.options import PER_WINDOW
from trajcloak.query.questions import PublishedTimes
from trajcloak.query.spread import Spread, build_spread
from trajcloak.release.manifest_schema import MAX_TICKS, Manifest
from trajcloak.release.reading import PublishedTable, damage_error

Numbers = npt.NDArray[np.int64]
Edges = npt.NDArray[np.float64]

EDGES = ("x_min", "y_min", "x_max", "y_max")
KEYS = {"window": pa.int32(), "bundle_id": pa.int64(), "instant": pa.int32()}
"""The first columns of both files."""

BUNDLE_TYPES = {
    **KEYS,
    **dict.fromkeys(EDGES, pa.float64()),
    "users": pa.int32(),
    "geometry": pa.binary(),
}
OUT_OF_ORDER = "rows are missing or out of order"
MOST_SILENT = 4096  # a file of a stream that has more sets than this for each row is damaged
MOMENT_TYPES = (pa.timestamp("us"), pa.timestamp("us", "UTC"))  # of ``t_start`` and ``t_end``


@dataclass(frozen=True)
class CellGrid:
    """The grid of cells that the edges of cloaks lie on: lower left corner, and side of a cell."""

    low: tuple[float, float]
    cell: float

    def to_cells(self, cloaks: Edges) -> Numbers:
        """Number the cell edges that the edges of cloaks, (4, ...), lie on."""
        low = np.array([*self.low, *self.low]).reshape(4, *[1] * (cloaks.ndim - 1))
        cells: Numbers = np.rint((cloaks - low) / self.cell).astype(np.int64)
        return cells

    def shift(self, edges: Edges, axis: int, cells: int) -> Edges:
        """Move edges by whole cells; rounds as edges were rounded when they were published."""
        low = self.low[axis]
        shifted: Edges = low + (np.rint((edges - low) / self.cell) + cells) * self.cell
        return shifted


def build_cell_grid(manifest: Manifest) -> CellGrid:
    """Build the grid of cells that a manifest describes."""
    region = manifest["region"]
    cell = math.ldexp(region["side"], -manifest["height"])
    return CellGrid((float(region["x_min"]), float(region["y_min"])), cell)


@dataclass(frozen=True)
class PublishedWindow:
    """The bundles of a window.

    Each bundle has at each instant a set of requests and one rectangle or, with parts, one
    rectangle for each part. In the release of a stream, members may leave, and a bundle with too
    few members left is silent until the window ends: it has no rectangles.
    """

    first_id: int  # its first bundle
    first_set: int  # its first set, as sets are numbered over all windows
    start: int  # half-open range of instants
    stop: int
    users: Numbers  # of each bundle at the first instant
    counts: Numbers  # (bundles, instants): parts; 1 in a release without them, 0 if it is silent
    rectangles: Edges  # (4, parts), by bundle, instant and part: least x and y, greatest x and y
    sizes: Numbers  # users of each part
    keeps_members: bool  # whether a part is there at all instants, with the same users
    _spreads: dict[int, Spread] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def first(self) -> Numbers:
        """Where the parts of each bundle and instant start; (bundles * instants + 1,)."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @cached_property
    def cloaks(self) -> Edges:
        """The boxes around all parts, (4, bundles, instants); zeros where a bundle is silent."""
        low, high = self.rectangles[:2], self.rectangles[2:]
        counts = self.counts.ravel()
        boxes = np.concatenate(
            [reduce_runs(np.minimum, low, counts), reduce_runs(np.maximum, high, counts)]
        )
        return boxes.reshape(4, *self.counts.shape)

    @cached_property
    def present(self) -> Numbers:
        """Users of each bundle at each instant; (bundles, instants)."""
        sums: Numbers = reduce_runs(np.add, self.sizes, self.counts.ravel())
        return sums.reshape(self.counts.shape)

    def find_parts(self, instant: int) -> Numbers:
        """Find the parts at an instant, by bundle and number."""
        start = self.first[instant - self.start : -1 : self.stop - self.start]
        return list_ranges(start, self.counts[:, instant - self.start])

    def spread_at(self, instant: int) -> Spread:
        """Estimate, once, how the users are spread at an instant."""
        if instant not in self._spreads:
            parts = self.find_parts(instant)
            self._spreads[instant] = build_spread(self.rectangles[:, parts], self.sizes[parts])
        return self._spreads[instant]

    def to_sets(self, bundle: Numbers, instant: Numbers) -> Numbers:
        """Number the sets of requests of bundles, counted from the first, at instants."""
        sets: Numbers = self.first_set + bundle * (self.stop - self.start) + instant - self.start
        return sets


def list_ranges(start: Numbers, count: Numbers) -> Numbers:
    """List the numbers of ranges, one range after another: ``count`` numbers from ``start`` on.

    Examples
    --------
    >>> list_ranges(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    before = np.cumsum(count) - count
    numbers: Numbers = np.repeat(start - before, count) + np.arange(int(count.sum()))
    return numbers


def reduce_runs(ufunc: np.ufunc, values: npt.NDArray[Any], counts: Numbers) -> npt.NDArray[Any]:
    """Reduce runs of so many values each, along the last axis; 0 where a run is empty.

    Examples
    --------
    >>> reduce_runs(np.add, np.array([1, 2, 4, 8]), np.array([2, 0, 2, 0])).tolist()
    [3, 0, 12, 0]
    """
    reduced = np.zeros((*values.shape[:-1], len(counts)), values.dtype)
    is_there = counts > 0
    starts = (np.cumsum(counts) - counts)[is_there]
    if len(starts):
        reduced[..., is_there] = ufunc.reduceat(values, starts, axis=-1)
    return reduced


@dataclass(frozen=True)
class RequestRows:
    """How often each value of an attribute stands in each set of requests."""

    first: Numbers  # (sets + 1,): where the values of each set start in ``code``
    code: Numbers  # the distinct values of each set, as places in ``values``
    num_entries: Numbers  # how many requests have the value
    values: list[Any]  # the attribute's values; None where it is null


def read_windows(published: PublishedTable, manifest: Manifest) -> list[PublishedWindow]:
    """Read the bundles, and put them into one block of numbers per window."""
    file, parts = published.file, manifest["parts"]
    part_types = {} if parts is None else {"part": pa.int32()}
    published.check_types({**BUNDLE_TYPES, **part_types})
    table = published.read([*KEYS, *part_types, *EDGES, "users"])
    if any(column.null_count for column in table.columns):
        raise damage_error(file, "values are missing")
    if not table.num_rows:
        raise damage_error(file, OUT_OF_ORDER)
    rectangles = np.stack([table.column(name).to_numpy() for name in EDGES])
    sizes = table.column("users").to_numpy().astype(np.int64)
    _check_rectangles(file, rectangles, sizes, manifest)
    first = np.arange(table.num_rows) if parts is None else _find_first_parts(file, table)
    edges = np.append(first, table.num_rows)
    number, bundle, instant = (
        table.column(name).to_numpy()[first].astype(np.int64) for name in KEYS
    )
    epoch = manifest["parameters"]["length"] if "stream" in manifest["parameters"] else None
    cuts = (np.flatnonzero(np.diff(number)) + 1).tolist()
    windows: list[PublishedWindow] = []
    first_id = first_set = next_instant = 0
    for start, stop in pairwise([0, *cuts, len(number)]):
        here = slice(start, stop)
        if epoch is None:
            first_instant, most = int(instant[start]), stop - start
            length = int(instant[stop - 1]) - first_instant + 1
        else:
            first_instant, most = int(number[start]) * epoch, (stop - start) * MOST_SILENT
            length = epoch
        num_bundles = int(bundle[stop - 1]) - first_id + 1
        if not 0 < num_bundles * length <= most or first_instant < next_instant:
            raise damage_error(file, OUT_OF_ORDER)
        place = (bundle[here] - first_id) * length + instant[here] - first_instant
        is_inside = (instant[here] >= first_instant) & (instant[here] < first_instant + length)
        if not (is_inside.all() and (np.diff(place) > 0).all() and place[0] == 0):
            raise damage_error(file, OUT_OF_ORDER)
        counts = np.zeros(num_bundles * length, np.int64)
        counts[place] = np.diff(edges[start : stop + 1])
        rows = slice(edges[start], edges[stop])
        window = PublishedWindow(
            first_id=first_id,
            first_set=first_set,
            start=first_instant,
            stop=first_instant + length,
            users=reduce_runs(np.add, sizes[rows], counts)[::length],
            counts=counts.reshape(num_bundles, length),
            rectangles=rectangles[:, rows],
            sizes=sizes[rows],
            keeps_members=epoch is None and (parts is None or parts["per"] == PER_WINDOW),
        )
        if epoch is None:
            is_good = _keeps_users(window)
        else:
            # Users only leave: neither they nor silent bundles come back.
            is_good = not ((window.users <= 0).any() or (np.diff(window.present, axis=1) > 0).any())
        if not is_good:
            raise damage_error(file, "a bundle or a part has other numbers of users at other times")
        windows.append(window)
        first_id += num_bundles
        first_set += counts.size
        next_instant = window.stop
    return windows


def _keeps_users(window: PublishedWindow) -> bool:
    """Tell whether bundles, and parts that keep their users, are as large at all instants."""
    if (window.present != window.users[:, None]).any():
        return False
    if not window.keeps_members:
        return True
    counts = window.counts
    if (counts != counts[:, :1]).any():
        return False
    num_rows = counts.sum(axis=1)
    origin = np.repeat(np.cumsum(num_rows) - num_rows, num_rows)
    part = (np.arange(len(origin)) - origin) % np.repeat(counts[:, 0], num_rows)
    return bool((window.sizes == window.sizes[origin + part]).all())


def _find_first_parts(file: Path, table: pa.Table) -> Numbers:
    """Find the row of the first part of each bundle and instant."""
    part = table.column("part").to_numpy()
    is_first = part == 0
    is_first[:1] = True
    first = np.flatnonzero(is_first)
    before = np.repeat(first, np.diff(first, append=len(part)))
    is_good = part == np.arange(len(part)) - before
    for name in KEYS:
        key = table.column(name).to_numpy()
        is_good &= key == key[before]
    if not is_good.all():
        raise damage_error(file, OUT_OF_ORDER)
    return first


def _check_rectangles(file: Path, edges: Edges, users: Numbers, manifest: Manifest) -> None:
    """Raise unless all rows have a rectangle inside the region, and users."""
    region = manifest["region"]
    x_min, y_min, x_max, y_max = edges
    # Edges are edges of cells, so that no rectangle is thinner than a cell, but for rounding.
    least = build_cell_grid(manifest).cell / 2
    is_good = (region["x_min"] <= x_min) & (x_max - x_min > least)
    is_good &= (region["y_min"] <= y_min) & (y_max - y_min > least)
    is_good &= (x_max <= region["x_min"] + region["side"]) & (users > 0)
    is_good &= y_max <= region["y_min"] + region["side"]
    if not is_good.all():
        rows = len(is_good) - int(is_good.sum())
        raise damage_error(file, f"{rows:,} rows have no users, or no rectangle of the region")


def read_times(published: PublishedTable, windows: Sequence[PublishedWindow]) -> PublishedTimes:
    """Read off the first row at which moments instants are."""
    ranges = [(window.start, window.stop) for window in windows]
    if "t_start" not in published.schema.names:
        return PublishedTimes(ranges, None, None)
    file, type_ = published.file, published.schema.field("t_start").type
    if type_ not in MOMENT_TYPES:
        raise damage_error(file, "column 't_start' has no timestamps in microseconds")
    published.check_types({"t_end": type_})
    first = published.read_first(["t_start", "t_end"])
    t_start, t_end = (column[0].value for column in first.columns)
    if t_start is None or t_end is None or t_end <= t_start:
        raise damage_error(file, "the first instant has no duration")
    every = t_end - t_start
    origin = t_start - windows[0].start * every
    if not -MAX_TICKS <= origin <= origin + windows[-1].stop * every <= MAX_TICKS:
        raise damage_error(file, "instants are at moments beyond all calendars")
    return PublishedTimes(ranges, (origin, every), type_.tz)


def list_request_attributes(published: PublishedTable, manifest: Manifest) -> list[str]:
    """List the request attributes of a release."""
    published.check_types(KEYS)
    file, schema = published.file, published.schema
    if schema.names != [*KEYS, *manifest["parameters"]["requests"]]:
        raise damage_error(file, "its columns are not those that the manifest lists")
    if any(pa.types.is_nested(type_) for type_ in schema.types):
        raise damage_error(file, "a column has lists or records")
    return list(manifest["parameters"]["requests"])


def read_request_table(
    published: PublishedTable, attributes: Sequence[str], windows: Sequence[PublishedWindow]
) -> tuple[pa.Table, Numbers]:
    """Read the bundle, the instant and some attributes of each request, and find its set."""
    file = published.file
    table = published.read(["bundle_id", "instant", *attributes])
    if table.column("bundle_id").null_count or table.column("instant").null_count:
        raise damage_error(file, "values are missing")
    bundle = table.column("bundle_id").to_numpy()
    instant = table.column("instant").to_numpy().astype(np.int64)
    edges = [w.first_id for w in windows] + [windows[-1].first_id + len(windows[-1].users)]
    stops = np.searchsorted(bundle, edges)
    of_set = np.full(len(bundle), -1)
    for window, (start, stop) in zip(windows, pairwise(stops), strict=True):
        here = slice(start, stop)
        if ((instant[here] < window.start) | (instant[here] >= window.stop)).any():
            raise damage_error(file, "requests are at instants that their bundle does not have")
        of_set[here] = window.to_sets(bundle[here] - window.first_id, instant[here])
    if (np.diff(of_set, prepend=0) < 0).any():
        raise damage_error(file, "requests are out of order, or of unknown bundles")
    return table, of_set


def read_request_rows(
    published: PublishedTable, attribute: str, windows: Sequence[PublishedWindow]
) -> RequestRows:
    """Count how often each value of an attribute stands in each set of requests."""
    table, of_set = read_request_table(published, [attribute], windows)
    code, values = encode_values(published.file, table.column(attribute))
    size = max(len(values), 1)
    key, num_entries = np.unique(of_set * size + code, return_counts=True)
    of_set, code = np.divmod(key, size)
    num_sets = windows[-1].first_set + windows[-1].counts.size
    first = np.searchsorted(of_set, np.arange(num_sets + 1))
    return RequestRows(first, code, num_entries, values)


def encode_values(file: Path, column: pa.ChunkedArray) -> tuple[Numbers, list[Any]]:
    """Number the values of a column; null is the last of them, if it occurs."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = column.unify_dictionaries().chunks
    try:
        values = chunks[0].dictionary.to_pylist() if chunks else []
    except (ValueError, OverflowError) as error:
        raise damage_error(file, "a column has values that Python cannot hold") from error
    parts = [chunk.indices.fill_null(len(values)).to_numpy() for chunk in chunks]
    code = np.concatenate([np.empty(0, np.int64), *parts])
    return code, [*values, None] if column.null_count else values
