"""Bundles to the rows of a release's files: the one place that knows their columns.

The format is described in ``docs/data-model.md``; :mod:`.reading` reads it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyproj

from trajcloak.bundles import Bundles
from trajcloak.options import PER_WINDOW
from trajcloak.release.reading import (
    BUNDLES_FILE,
    NUM_KEYS,
    PARTS_FILE,
    POLICY_FILE,
    REQUESTS_FILE,
)
from trajcloak.release.row_groups import encode_row_group
from trajcloak.space import Region, list_edges

RangeRows = tuple[int, slice]
"""Some rows of a range of bundles, which is given by its place in the release."""


@dataclass(frozen=True)
class ReleaseHead:
    """What all rows of a release share."""

    crs: str | None  # Coordinate system of the cloaks.
    kinds: pa.Table  # The distinct requests that are published.
    region: Region
    # Origin and step of the instants in microseconds; None without timestamps.
    moments: tuple[int, int] | None
    zone: str | None  # "UTC" or None.
    box: Sequence[float]  # Around all cloaks: x_min, y_min, x_max, y_max.
    parts_per: str | None = None  # What a part keeps its members for; None without parts.

    def encode_group(
        self,
        runs: Sequence[Sequence[Bundles]],
        name: str,
        parts: Sequence[tuple[int, int, int, slice]],
    ) -> pa.Buffer:
        """Encode a row group of a file.

        ``parts`` are: which of the runs, the place in it, the id of the first bundle, the rows.
        """
        build = {
            BUNDLES_FILE: self._build_bundle_rows,
            REQUESTS_FILE: self._build_request_rows,
            POLICY_FILE: self._build_policy_rows,
            PARTS_FILE: self._build_membership_rows,
        }[name]
        return self.encode_rows(
            name, [build(runs[run][place], first_id, rows) for run, place, first_id, rows in parts]
        )

    def encode_rows(self, name: str, pieces: Sequence[list[Any]]) -> pa.Buffer:
        """Encode the columns of some rows, piece by piece, as a row group of a file."""
        batches = []
        for columns in pieces:
            arrays = [pa.array(column) for column in columns]
            if name in self._private_columns:
                batches.append(pa.record_batch(arrays, self._private_columns[name]))
            else:
                schema = self._schemas[name]
                arrays = [c.cast(f.type) for c, f in zip(arrays, schema, strict=True)]
                batches.append(pa.record_batch(arrays, schema=schema))
        stores_schema = name == BUNDLES_FILE or (name == REQUESTS_FILE and not self._is_all_text)
        return encode_row_group(pa.concat_batches(batches), store_schema=stores_schema)

    @property
    def _private_columns(self) -> dict[str, list[str]]:
        """Names only: the type of ids is that of the log."""
        part = ["part"] if self.parts_per == PER_WINDOW else []
        return {
            POLICY_FILE: ["window", "user_id", "bundle_id", *part],
            PARTS_FILE: ["window", "instant", "user_id", "part"],
        }

    @cached_property
    def _schemas(self) -> dict[str, pa.Schema]:
        # Text as dictionaries, which are written several times faster, and read as text.
        encoded = pa.dictionary(pa.int32(), pa.string())
        fields = [
            (field.name, encoded if self._is_all_text else field.type)
            for field in self.kinds.schema
        ]
        keys = [("window", pa.int32()), ("bundle_id", pa.int64()), ("instant", pa.int32())]
        return {
            BUNDLES_FILE: build_bundles_schema(self),
            REQUESTS_FILE: pa.schema([*keys, *fields]),
        }

    @cached_property
    def _kind_columns(self) -> list[pa.Array]:
        types = self._schemas[REQUESTS_FILE].types[NUM_KEYS:]
        columns = [column.combine_chunks() for column in self.kinds.columns]
        return [column.cast(type_) for column, type_ in zip(columns, types, strict=True)]

    @cached_property
    def _is_all_text(self) -> bool:
        """Whether the types of all attributes are known without Arrow's own schema in the file."""
        return all(type_ == pa.string() for type_ in self.kinds.schema.types)

    def _build_bundle_rows(self, bundles: Bundles, first_id: int, rows: slice) -> list[Any]:
        """Build rows of bundles: in order, each instant by instant, there part by part."""
        length = bundles.stop - bundles.start
        row = np.arange(rows.start, rows.stop)
        parts = bundles.parts
        if parts is None:
            place, part = row, []
            cloaks = bundles.cloaks.reshape(-1, 4)[rows]
            sizes = bundles.sizes[row // length]
        else:
            # Bundles times instants; each has one part or more.
            first = parts.first
            place = np.searchsorted(first, row, side="right") - 1
            part = [row - first[place]]
            cloaks, sizes = parts.cloaks[rows], parts.sizes[rows]
        return self.build_bundle_columns(
            bundles.window,
            first_id + place // length,
            bundles.start + place % length,
            part,
            cloaks,
            sizes,
        )

    def build_bundle_columns(
        self,
        window: int,
        bundle_id: npt.NDArray[np.int64],
        instant: npt.NDArray[np.integer],
        part: Sequence[npt.NDArray[np.integer]],
        cloaks: npt.NDArray[np.uint32],
        users: npt.NDArray[np.int32],
    ) -> list[Any]:
        """Build the columns of ``bundles.parquet`` for rows of one window.

        ``part`` is empty without parts; ``cloaks`` are in cells.
        """
        edges = list_edges(self.region, cloaks)
        times = []
        if self.moments is not None:
            origin, every = self.moments
            times = [origin + instant * every, origin + (instant + 1) * every]
        return [
            np.full(len(users), window, np.int32),
            bundle_id,
            instant,
            *part,
            *times,
            *edges,
            users,
            build_rectangles(edges),
        ]

    def _build_request_rows(self, bundles: Bundles, first_id: int, rows: slice) -> list[Any]:
        """Build rows of requests: by bundle, instant and kind."""
        return self.build_request_columns(
            bundles.window,
            first_id + bundles.request_bundle[rows].astype(np.int64),
            bundles.start + bundles.request_instant[rows],
            bundles.request_kind[rows],
        )

    def build_request_columns(
        self,
        window: int,
        bundle_id: npt.NDArray[np.int64],
        instant: npt.NDArray[np.int32],
        kind: npt.NDArray[np.int32],
    ) -> list[Any]:
        """Build the columns of ``requests.parquet`` for rows of one window."""
        return [
            np.full(len(kind), window, np.int32),
            bundle_id,
            instant,
            *(column.take(pa.array(kind)) for column in self._kind_columns),
        ]

    def _build_policy_rows(self, bundles: Bundles, first_id: int, rows: slice) -> list[Any]:
        """Build rows of the private policy file: the members of each bundle, and their parts."""
        bundle = np.repeat(np.arange(len(bundles.sizes)), bundles.sizes)[rows]
        part = []
        if bundles.parts is not None and self.parts_per == PER_WINDOW:
            part = [bundles.parts.part[rows, 0]]
        return [
            np.full(len(bundle), bundles.window, np.int32),
            bundles.ids[rows.start : rows.stop],
            first_id + bundle,
            *part,
        ]

    def _build_membership_rows(self, bundles: Bundles, first_id: int, rows: slice) -> list[Any]:
        """Build rows of the private file of parts per instant: each member, instant by instant."""
        assert bundles.parts is not None
        member, instant = np.divmod(np.arange(rows.start, rows.stop), bundles.stop - bundles.start)
        return [
            np.full(len(member), bundles.window, np.int32),
            (bundles.start + instant).astype(np.int32),
            bundles.ids.take(pa.array(member)),
            bundles.parts.part.reshape(-1)[rows],
        ]


def cut_groups(counts: Sequence[int], size: int) -> Iterator[list[RangeRows]]:
    """Cut the rows of all ranges of bundles, one after another, into groups of ``size``.

    The last group may be smaller, and there is at least one.

    Examples
    --------
    >>> list(cut_groups([3, 0, 2], size=4))
    [[(0, slice(0, 3, None)), (2, slice(0, 1, None))], [(2, slice(1, 2, None))]]
    """
    pieces: list[RangeRows] = []
    free = size
    for place, count in enumerate(counts):
        start = 0
        while start < count:
            stop = min(count, start + free)
            pieces.append((place, slice(start, stop)))
            free -= stop - start
            start = stop
            if free == 0:
                yield pieces
                pieces, free = [], size
    if pieces or not sum(counts):
        yield pieces or [(0, slice(0, 0))]


def build_bundles_schema(head: ReleaseHead) -> pa.Schema:
    """Build the schema of ``bundles.parquet``, with its GeoParquet metadata."""
    moment = pa.timestamp("us", head.zone)
    times = [("t_start", moment), ("t_end", moment)] if head.moments is not None else []
    edges = [(name, pa.float64()) for name in ("x_min", "y_min", "x_max", "y_max")]
    crs = head.crs
    geo = {
        "version": "1.1.0",
        "primary_column": "geometry",
        "columns": {
            "geometry": {
                "encoding": "WKB",
                "geometry_types": ["Polygon"],
                "crs": None if crs is None else pyproj.CRS(crs).to_json_dict(),
                "bbox": list(head.box),
            }
        },
    }
    return pa.schema(
        [
            ("window", pa.int32()),
            ("bundle_id", pa.int64()),
            ("instant", pa.int32()),
            *([] if head.parts_per is None else [("part", pa.int32())]),
            *times,
            *edges,
            ("users", pa.int32()),
            ("geometry", pa.binary()),
        ],
        metadata={"geo": json.dumps(geo, sort_keys=True)},
    )


def build_rectangles(edges: Sequence[npt.NDArray[np.float64]]) -> pa.Array:
    """Encode rectangles as WKB polygons, counter-clockwise from the lower left corner."""
    x_min, y_min, x_max, y_max = edges
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


def place_box(
    region: Region, low: npt.NDArray[np.uint32], high: npt.NDArray[np.uint32]
) -> list[float]:
    """Turn the corners of a box of cells into x_min, y_min, x_max, y_max."""
    return [float(edge) for edge in list_edges(region, np.append(low, high))]
