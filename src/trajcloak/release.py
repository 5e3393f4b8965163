"""Bundles to a release folder: the one place that writes the file format.

The format is described in ``docs/data-model.md``; ``published.py`` reads it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyproj

from trajcloak.bundles import Bundles
from trajcloak.cloaks import X_START, X_STOP, Y_START, Y_STOP
from trajcloak.errors import OptionError
from trajcloak.kernels.threads import default_threads
from trajcloak.output import PRIVATE, check_new, new_file, new_folder
from trajcloak.parquet import write_row_groups
from trajcloak.progress import Progress, silent
from trajcloak.published import (
    BUNDLES_FILE,
    MANIFEST_FILE,
    NUM_KEYS,
    REQUESTS_FILE,
    Manifest,
)
from trajcloak.space import Region

ROWS_PER_GROUP = 1 << 17
"""Rows in a row group, of several windows if need be."""

RowGroup: TypeAlias = Callable[[], pa.RecordBatch]
"""Builds the rows of a row group."""

Piece = tuple[int, slice]
"""Some rows of a window, which is given by its place in the release."""


@dataclass(frozen=True, repr=False)
class Release:
    """What is published: bundles with their requests, and how they were made.

    Attributes
    ----------
    manifest : dict
        The content of ``manifest.json``.
    windows : sequence of Bundles
    kinds : pyarrow.Table
        The distinct requests that the bundles refer to.
    region : Region
    moments : (int, int) or None
        Origin and step of the instants in microseconds; None without timestamps.
    zone : str or None
        "UTC" or None.
    first_ids, box
        For a part of a release whose other parts are elsewhere: the id of the first bundle
        of each of ``windows``, and the box around all cloaks of the whole release.
    """

    manifest: Manifest
    windows: Sequence[Bundles]
    kinds: pa.Table
    region: Region
    moments: tuple[int, int] | None
    zone: str | None
    first_ids: Sequence[int] | None = None
    box: Sequence[float] | None = None

    def __repr__(self) -> str:
        """Say how much there is, and of nobody: notebooks keep what they show."""
        names = "k", "windows", "bundles", "users", "requests"
        return f"Release({', '.join(f'{name}={self.manifest[name]}' for name in names)})"

    def write(
        self, path: str | Path, *, threads: int | None = None, progress: Progress = silent
    ) -> None:
        """Write the release folder, complete or not at all.

        ``threads``, by default all cores, changes the time and the memory, never the bytes.

        Raises
        ------
        OutputError
            If the path exists already or cannot be written.

        Examples
        --------
        >>> import trajcloak as tc
        >>> result = tc.anonymize(tc.read_log("log.parquet"), k=50)
        >>> result.release.write("new-release")
        """
        progress("writing release", 0, 1)
        threads = threads or default_threads()
        with new_folder(Path(path)) as folder:
            for name in (BUNDLES_FILE, REQUESTS_FILE):
                groups = cut_groups(self.count_rows(name), ROWS_PER_GROUP)
                write_row_groups(
                    folder / name,
                    (partial(self.build_group, name, pieces) for pieces in groups),
                    store_schema=self.stores_schema(name),
                    threads=threads,
                )
            write_manifest(self.manifest, folder)
        progress("writing release", 1, 1)

    def count_rows(self, name: str) -> list[int]:
        """Count the rows of each window in a file."""
        if name == REQUESTS_FILE:
            return [len(bundles.request_kind) for bundles in self.windows]
        return [len(bundles.sizes) * (bundles.stop - bundles.start) for bundles in self.windows]

    def stores_schema(self, name: str) -> bool:
        """Whether a file needs Arrow's own schema, for types that Parquet does not have."""
        return name == BUNDLES_FILE or not self._is_all_text()

    def build_group(self, name: str, pieces: Sequence[Piece]) -> pa.RecordBatch:
        """Build a row group of a file, window by window."""
        schema, build_rows = self._builders[name]
        batches = []
        for window, rows in pieces:
            columns = build_rows(self.windows[window], self._first_ids[window], rows)
            arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)]
            batches.append(pa.record_batch(arrays, schema=schema))
        return pa.concat_batches(batches)

    @cached_property
    def _builders(self) -> dict[str, tuple[pa.Schema, Callable[[Bundles, int, slice], list[Any]]]]:
        """Of each file, its schema and what builds some rows of a window."""
        schema = self._requests_schema_in_memory()
        kinds = [
            column.combine_chunks().cast(field.type)
            for column, field in zip(self.kinds.columns, list(schema)[NUM_KEYS:], strict=True)
        ]
        return {
            BUNDLES_FILE: (bundles_schema(self), self._bundle_rows),
            REQUESTS_FILE: (schema, partial(self._request_rows, kinds)),
        }

    @cached_property
    def _first_ids(self) -> list[int]:
        """The id of the first bundle of each window: no two windows share one (invariant 7)."""
        if self.first_ids is not None:
            return list(self.first_ids)
        return [0, *accumulate(len(bundles.sizes) for bundles in self.windows)]

    def _bundle_rows(self, bundles: Bundles, first_id: int, rows: slice) -> list[Any]:
        """Build some rows of a window: its bundles in order, each instant by instant."""
        length = bundles.stop - bundles.start
        row = np.arange(rows.start, rows.stop)
        bundle = row // length
        instant = bundles.start + row % length
        cloaks = bundles.cloaks.reshape(-1, 4)[rows]
        edges = [
            self.region.edges(axis, cloaks[:, side])
            for axis, side in ((0, X_START), (1, Y_START), (0, X_STOP), (1, Y_STOP))
        ]
        times = []
        if self.moments is not None:
            origin, every = self.moments
            times = [origin + instant * every, origin + (instant + 1) * every]
        return [
            np.full(len(row), bundles.window, np.int32),
            first_id + bundle,
            instant,
            *times,
            *edges,
            bundles.sizes[bundle],
            build_rectangles(*edges),
        ]

    def _request_rows(
        self, kinds: Sequence[pa.Array], bundles: Bundles, first_id: int, rows: slice
    ) -> list[Any]:
        """Build some rows of a window: its requests by bundle, instant and kind."""
        kind = pa.array(bundles.request_kind[rows])
        return [
            np.full(len(kind), bundles.window, np.int32),
            first_id + bundles.request_bundle[rows].astype(np.int64),
            bundles.start + bundles.request_instant[rows],
            *(column.take(kind) for column in kinds),
        ]

    def _requests_schema_in_memory(self) -> pa.Schema:
        """Text as dictionaries, which are written several times faster, and read as text."""
        schema = requests_schema(self)
        if not self._is_all_text():
            return schema
        encoded = pa.dictionary(pa.int32(), pa.string())
        return pa.schema(
            [*list(schema)[:NUM_KEYS], *((n, encoded) for n in self.kinds.column_names)]
        )

    def _is_all_text(self) -> bool:
        """Whether the types of all attributes are known without Arrow's own schema in the file."""
        return all(type_ == pa.string() for type_ in self.kinds.schema.types)


def cut_groups(counts: Sequence[int], size: int) -> Iterator[list[Piece]]:
    """Cut the rows of all windows, one after the other, into groups of ``size``.

    The last group may be smaller, and there is at least one.

    Examples
    --------
    >>> list(cut_groups([3, 0, 2], size=4))
    [[(0, slice(0, 3, None)), (2, slice(0, 1, None))], [(2, slice(1, 2, None))]]
    """
    pieces: list[Piece] = []
    free = size
    for window, count in enumerate(counts):
        start = 0
        while start < count:
            stop = min(count, start + free)
            pieces.append((window, slice(start, stop)))
            free -= stop - start
            start = stop
            if free == 0:
                yield pieces
                pieces, free = [], size
    if pieces or not sum(counts):
        yield pieces or [(0, slice(0, 0))]


def bundles_schema(release: Release) -> pa.Schema:
    """Build the schema of ``bundles.parquet``, with its GeoParquet metadata."""
    moment = pa.timestamp("us", release.zone)
    times = [("t_start", moment), ("t_end", moment)] if release.moments is not None else []
    edges = [(name, pa.float64()) for name in ("x_min", "y_min", "x_max", "y_max")]
    crs = release.manifest["crs"]
    geo = {
        "version": "1.1.0",
        "primary_column": "geometry",
        "columns": {
            "geometry": {
                "encoding": "WKB",
                "geometry_types": ["Polygon"],
                "crs": None if crs is None else pyproj.CRS(crs).to_json_dict(),
                "bbox": _bounding_box(release),
            }
        },
    }
    return pa.schema(
        [
            ("window", pa.int32()),
            ("bundle_id", pa.int64()),
            ("instant", pa.int32()),
            *times,
            *edges,
            ("users", pa.int32()),
            ("geometry", pa.binary()),
        ],
        metadata={"geo": json.dumps(geo, sort_keys=True)},
    )


def requests_schema(release: Release) -> pa.Schema:
    """Build the schema of ``requests.parquet``."""
    return pa.schema(
        [
            ("window", pa.int32()),
            ("bundle_id", pa.int64()),
            ("instant", pa.int32()),
            *((field.name, field.type) for field in release.kinds.schema),
        ]
    )


def build_rectangles(
    x_min: npt.NDArray[np.float64],
    y_min: npt.NDArray[np.float64],
    x_max: npt.NDArray[np.float64],
    y_max: npt.NDArray[np.float64],
) -> pa.Array:
    """Encode rectangles as WKB polygons, counter-clockwise from the lower left corner."""
    wkb = np.zeros(
        len(x_min),
        np.dtype([("order", "u1"), ("type", "<u4"), ("rings", "<u4"), ("points", "<u4"),
                  ("ring", "<f8", (5, 2))]),
    )  # fmt: skip
    wkb["order"] = 1
    wkb["type"] = 3
    wkb["rings"] = 1
    wkb["points"] = 5
    corners = ((x_min, y_min), (x_max, y_min), (x_max, y_max), (x_min, y_max), (x_min, y_min))
    for i, (x, y) in enumerate(corners):
        wkb["ring"][:, i, 0] = x
        wkb["ring"][:, i, 1] = y
    offsets = np.arange(len(wkb) + 1, dtype=np.int32) * wkb.dtype.itemsize
    return pa.Array.from_buffers(
        pa.binary(), len(wkb), [None, pa.py_buffer(offsets), pa.py_buffer(wkb)]
    )


def write_policy(policy: pa.Table, path: str | Path) -> None:
    """Write the private policy file, readable by its owner only.

    Raises
    ------
    OptionError
        If the path is inside a release (invariant 5 of ``docs/guarantee.md``).
    """
    path = Path(path)
    check_outside_releases(path)
    with new_policy_file(cut_policy(policy), path):
        pass


@contextmanager
def new_policy_file(groups: Iterable[RowGroup], path: Path) -> Iterator[None]:
    """Write a policy file that appears, private, when the block ends well."""
    with new_file(path, PRIVATE) as file:
        write_row_groups(file, groups, store_schema=False, threads=1)
        yield


def cut_policy(policy: pa.Table) -> Iterator[RowGroup]:
    """Yield what builds each row group of a policy file."""
    for start in range(0, max(policy.num_rows, 1), ROWS_PER_GROUP):
        yield partial(to_batch, policy.slice(start, ROWS_PER_GROUP))


def to_batch(table: pa.Table) -> pa.RecordBatch:
    """Put the rows of a table into one batch."""
    columns = [column.combine_chunks() for column in table.columns]
    return pa.record_batch(columns, schema=table.schema)


def check_outside_releases(
    path: Path, what: str = "the policy file", option: str = "policy"
) -> None:
    """Raise if a file that is no part of a release would stand inside one."""
    for folder in path.resolve().parents:
        if (folder / MANIFEST_FILE).exists() and (folder / BUNDLES_FILE).exists():
            raise OptionError(
                f"{path}: {what} would stand inside the release {folder}; expected a "
                f"private place outside it; pass another --{option}"
            )


def check_outputs(release: Path, policy: Path | None) -> None:
    """Raise early if the outputs of a run cannot be written where the caller wants them."""
    check_new(release)
    if policy is None:
        return
    check_outside_releases(policy)
    if release.resolve() in (policy.resolve(), *policy.resolve().parents):
        raise OptionError(
            f"{policy}: the policy file would stand inside the release {release}; expected a "
            f"private place outside it; pass another --policy"
        )
    check_new(policy)


def check_outside_log(sources: Sequence[Path], outputs: Sequence[Path]) -> None:
    """Raise if an output would stand inside a folder of the log.

    The next run would read it as a part of the log; and a release is to be given away.
    """
    for folder in sources:
        for output in outputs:
            if folder.is_dir() and folder.resolve() in output.resolve().parents:
                raise OptionError(
                    f"{output}: would stand inside the folder of the log {folder}; expected a "
                    f"place outside it; pass another path"
                )


def _bounding_box(release: Release) -> list[float]:
    """Bound all cloaks of a release: x_min, y_min, x_max, y_max."""
    if release.box is not None:
        return list(release.box)
    low = [w.cloaks[..., :2].reshape(-1, 2).min(axis=0) for w in release.windows]
    high = [w.cloaks[..., 2:].reshape(-1, 2).max(axis=0) for w in release.windows]
    return place_box(release.region, np.min(low, axis=0), np.max(high, axis=0))


def place_box(
    region: Region, low: npt.NDArray[np.uint32], high: npt.NDArray[np.uint32]
) -> list[float]:
    """Turn the corners of a box of cells into x_min, y_min, x_max, y_max."""
    return [float(region.edges(axis, corner[axis])) for corner in (low, high) for axis in (0, 1)]


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write ``manifest.json``."""
    text = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False)
    (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")
