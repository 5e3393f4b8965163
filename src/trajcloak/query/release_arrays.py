"""The files of a release as arrays: bundles by window, requests by value, the grid of cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.query.questions import PublishedTimes
from trajcloak.release.manifest_schema import MAX_TICKS, Manifest
from trajcloak.release.reading import REQUESTS_FILE, PublishedTable, damage_error, open_table

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
MOMENT_TYPES = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
"""Of ``t_start`` and ``t_end``, in files that have them."""


@dataclass(frozen=True)
class CellGrid:
    """The grid of cells that the edges of cloaks lie on.

    Attributes
    ----------
    low : (float, float)
        Its lower left corner.
    cell : float
        Side of a cell.
    """

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

    Attributes
    ----------
    first_id, first_row : int
        Its first bundle, and its first row of ``bundles.parquet``.
    start, stop : int
        Half-open range of instants.
    users : (bundles,) int64
    cloaks : (4, bundles, instants) float64
        Least x and y, greatest x and y.
    """

    first_id: int
    first_row: int
    start: int
    stop: int
    users: Numbers
    cloaks: Edges

    def to_rows(self, bundle: Numbers, instant: Numbers) -> Numbers:
        """Find the rows of ``bundles.parquet`` of bundles, counted from the first, at instants."""
        rows: Numbers = self.first_row + bundle * (self.stop - self.start) + instant - self.start
        return rows


@dataclass(frozen=True)
class RequestRows:
    """How often each value of an attribute stands in each set of requests.

    Attributes
    ----------
    first : (rows of ``bundles.parquet`` + 1,) int64
        Where the values of each bundle and instant start in ``code``.
    code : int64
        The distinct values of each bundle and instant, as places in ``values``.
    num_entries : int64
        How many requests have the value.
    values : list
        The attribute's values; None where it is null.
    """

    first: Numbers
    code: Numbers
    num_entries: Numbers
    values: list[Any]


def read_windows(published: PublishedTable, manifest: Manifest) -> list[PublishedWindow]:
    """Read the bundles, and put them into one block of numbers per window."""
    file = published.file
    published.check_types(BUNDLE_TYPES)
    table = published.read([*KEYS, *EDGES, "users"])
    if any(column.null_count for column in table.columns):
        raise damage_error(file, "values are missing")
    number, bundle, instant, users = (table.column(name).to_numpy() for name in (*KEYS, "users"))
    cloaks = np.stack([table.column(name).to_numpy() for name in EDGES])
    _check_cloaks(file, cloaks, users, manifest)
    stops = [*np.flatnonzero(np.diff(number)) + 1, len(number)]
    windows: list[PublishedWindow] = []
    start = first_id = next_instant = 0
    for stop in map(int, stops):
        length = int(instant[stop - 1]) - int(instant[start]) + 1 if stop else 0
        if length < 1 or (stop - start) % length or instant[start] < next_instant:
            raise damage_error(file, "rows are missing or out of order")
        shape = (stop - start) // length, length
        ids, instants = bundle[start:stop].reshape(shape), instant[start:stop].reshape(shape)
        expected = np.arange(first_id, first_id + shape[0])[:, None]
        in_order = (ids == expected).all()
        if not (in_order and (instants == instant[start] + np.arange(length)).all()):
            raise damage_error(file, "rows are missing or out of order")
        windows.append(
            PublishedWindow(
                first_id=first_id,
                first_row=start,
                start=int(instant[start]),
                stop=int(instant[start]) + length,
                users=users[start:stop].reshape(shape)[:, 0].astype(np.int64),
                cloaks=cloaks[:, start:stop].reshape(4, *shape),
            )
        )
        first_id += shape[0]
        next_instant = windows[-1].stop
        start = stop
    return windows


def _check_cloaks(file: Path, cloaks: Edges, users: Numbers, manifest: Manifest) -> None:
    """Raise unless all cloaks are rectangles inside the region, and have users."""
    region = manifest["region"]
    x_min, y_min, x_max, y_max = cloaks
    is_good = (region["x_min"] <= x_min) & (x_min < x_max)
    is_good &= (region["y_min"] <= y_min) & (y_min < y_max)
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


def list_request_attributes(path: Path, manifest: Manifest) -> list[str]:
    """List the request attributes of a release."""
    published = open_table(path / REQUESTS_FILE)
    published.check_types(KEYS)
    file, schema = published.file, published.schema
    if schema.names != [*KEYS, *manifest["parameters"]["requests"]]:
        raise damage_error(file, "its columns are not those that the manifest lists")
    if any(pa.types.is_nested(type_) for type_ in schema.types):
        raise damage_error(file, "a column has lists or records")
    return list(manifest["parameters"]["requests"])


def read_request_table(
    path: Path, attributes: Sequence[str], windows: Sequence[PublishedWindow]
) -> tuple[pa.Table, Numbers]:
    """Read the requests of a release with some attributes.

    Returns ``bundle_id``, ``instant`` and the attributes, and for each request the row of
    ``bundles.parquet`` that it belongs to.
    """
    file = path / REQUESTS_FILE
    table = open_table(file).read(["bundle_id", "instant", *attributes])
    if table.column("bundle_id").null_count or table.column("instant").null_count:
        raise damage_error(file, "values are missing")
    return table, _find_rows(file, table, windows)


def read_request_rows(
    release: Path, attribute: str, windows: Sequence[PublishedWindow]
) -> RequestRows:
    """Count how often each value of an attribute stands in each set of requests."""
    table, row = read_request_table(release, [attribute], windows)
    code, values = encode_values(release / REQUESTS_FILE, table.column(attribute))
    size = max(len(values), 1)
    key, num_entries = np.unique(row * size + code, return_counts=True)
    row, code = np.divmod(key, size)
    num_rows = windows[-1].first_row + windows[-1].cloaks[0].size
    first = np.searchsorted(row, np.arange(num_rows + 1))
    return RequestRows(first, code, num_entries, values)


def _find_rows(file: Path, table: pa.Table, windows: Sequence[PublishedWindow]) -> Numbers:
    """Find the row of ``bundles.parquet`` that each request belongs to."""
    bundle = table.column("bundle_id").to_numpy()
    instant = table.column("instant").to_numpy().astype(np.int64)
    edges = [w.first_id for w in windows] + [windows[-1].first_id + len(windows[-1].users)]
    stops = np.searchsorted(bundle, edges)
    row = np.full(len(bundle), -1)
    for window, (start, stop) in zip(windows, pairwise(stops), strict=True):
        part = slice(start, stop)
        if ((instant[part] < window.start) | (instant[part] >= window.stop)).any():
            raise damage_error(file, "requests are at instants that their bundle does not have")
        row[part] = window.to_rows(bundle[part] - window.first_id, instant[part])
    if (np.diff(row, prepend=0) < 0).any():
        raise damage_error(file, "requests are out of order, or of unknown bundles")
    return row


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
