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

from trajcloak.errors import InputError, OptionError
from trajcloak.release.reading import (
    BUNDLES_FILE,
    NUM_KEYS,
    REQUESTS_FILE,
    Manifest,
    read_columns,
    read_schema,
)

Numbers = npt.NDArray[np.int64]
Edges = npt.NDArray[np.float64]

EDGES = ("x_min", "y_min", "x_max", "y_max")


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
    cell = math.ldexp(float(region["side"]), -int(manifest["height"]))
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


def read_windows(path: Path) -> list[PublishedWindow]:
    """Read the bundles, and put them into one block of numbers per window."""
    file = path / BUNDLES_FILE
    table = read_columns(file, ["window", "bundle_id", "instant", *EDGES, "users"])
    number, bundle, instant, users = (
        table.column(name).to_numpy() for name in ("window", "bundle_id", "instant", "users")
    )
    cloaks = np.stack([table.column(name).to_numpy() for name in EDGES])
    is_empty = any(column.null_count for column in table.columns)
    if is_empty or not np.isfinite(cloaks).all() or (users < 1).any():
        raise InputError(
            f"{file}: a bundle has no users, or a cloak no bounds; expected numbers in all rows; "
            f"audit the release"
        )
    stops = [*np.flatnonzero(np.diff(number)) + 1, len(number)]
    windows: list[PublishedWindow] = []
    start = 0
    for stop in map(int, stops):
        length = int(instant[stop - 1] - instant[start]) + 1 if stop else 0
        if length < 1 or (stop - start) % length:
            raise damage_error(file)
        shape = (stop - start) // length, length
        ids, instants = bundle[start:stop].reshape(shape), instant[start:stop].reshape(shape)
        first_id = windows[-1].first_id + len(windows[-1].users) if windows else 0
        expected = np.arange(first_id, first_id + shape[0])[:, None]
        in_order = (ids == expected).all()
        if not (in_order and (instants == instant[start] + np.arange(length)).all()):
            raise damage_error(file)
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
        start = stop
    return windows


def list_request_attributes(path: Path) -> list[str]:
    """List the request attributes of a release."""
    return list(read_schema(path / REQUESTS_FILE).names[NUM_KEYS:])


def read_request_rows(
    path: Path, attribute: str, windows: Sequence[PublishedWindow]
) -> RequestRows:
    """Read the requests of a release with one attribute.

    Raises
    ------
    OptionError
        If the release has no such attribute.
    """
    known = list_request_attributes(path)
    if attribute not in known:
        raise OptionError(
            f"{path}: the requests have no attribute '{attribute}'; expected one of "
            f"{', '.join(known) or '(none is published)'}; pass another --by"
        )
    file = path / REQUESTS_FILE
    table = read_columns(file, ["bundle_id", "instant", attribute])
    code, values = _encode(table.column(attribute))
    row = _find_rows(file, table, windows)
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
            raise damage_error(file)
        row[part] = window.to_rows(bundle[part] - window.first_id, instant[part])
    if (np.diff(row, prepend=0) < 0).any():
        raise damage_error(file)
    return row


def _encode(column: pa.ChunkedArray) -> tuple[Numbers, list[Any]]:
    """Number the values of a column."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = column.unify_dictionaries().chunks
    values = chunks[0].dictionary.to_pylist() if chunks else []
    parts = [chunk.indices.fill_null(len(values)).to_numpy() for chunk in chunks]
    code = np.concatenate([np.empty(0, np.int64), *parts])
    return code, [*values, None] if column.null_count else values


def damage_error(file: Path) -> InputError:
    """Build the error for a file whose rows are not those of a release."""
    return InputError(
        f"{file}: rows are missing or out of order; expected them as docs/data-model.md says; "
        f"audit the release"
    )
