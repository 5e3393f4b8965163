"""The private files of an epoch: what was used, who was in which bundle, and what was shown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from trajcloak.online.published_instant import CORNERS, NO_GROUP, PublishedInstant
from trajcloak.online.stream_state import sync
from trajcloak.release.reading import PARTS_FILE, POLICY_FILE
from trajcloak.release.row_groups import encode_row_group
from trajcloak.space import Region

LOCATIONS_FILE, SENT_FILE = "locations.parquet", "requests.parquet"
"""The log in the form of two inputs: where users were, and what they sent."""

SHOWN_CLOAKS_FILE, SHOWN_REQUESTS_FILE = "shown-cloaks.parquet", "shown-requests.parquet"

MOMENT = pa.timestamp("us", "UTC")
LOCATION_SCHEMA = pa.schema(
    [("user_id", pa.string()), ("time", MOMENT), ("x", pa.float64()), ("y", pa.float64())]
)


class EpochFiles:
    """Writes the files of an epoch, instant by instant, into an empty folder.

    The policy files are one row group each, which can be joined with those of other epochs.
    ``names`` are the request attributes; ``moments`` are origin and step of the instants, in
    microseconds.
    """

    def __init__(
        self, folder: Path, names: Sequence[str], region: Region, moments: tuple[int, int]
    ) -> None:
        self._folder = folder
        self._region = region
        self._origin, self._every = moments
        text = [(name, pa.string()) for name in names]
        self._locations = _open(folder / LOCATIONS_FILE, LOCATION_SCHEMA)
        self._sent = _open(
            folder / SENT_FILE, pa.schema([("user_id", pa.string()), ("time", MOMENT), *text])
        )
        self._shown = _open(
            folder / SHOWN_REQUESTS_FILE,
            pa.schema([("bundle", pa.int32()), ("instant", pa.int32()), *text]),
        )
        self._cloaks: list[pa.Table] = []
        self._parts: list[pa.Table] = []

    def write_policy(self, instant: PublishedInstant, first_id: int) -> None:
        """Write who is in which bundle; it is on disk when this returns.

        ``instant`` is the first of the epoch; ``first_id`` is the number of the first bundle, as
        all epochs number them.
        """
        private = instant.private
        member = np.flatnonzero(private.group != NO_GROUP)
        member = member[np.argsort(private.group[member], kind="stable")]
        rows = pa.record_batch(
            {
                "window": np.full(len(member), instant.window, np.int32),
                "user_id": private.ids.take(pa.array(member)),
                "bundle_id": first_id + private.group[member].astype(np.int64),
            }
        )
        file = self._folder / POLICY_FILE
        file.write_bytes(encode_row_group(rows, store_schema=False))
        sync(file)
        sync(self._folder)

    def add(self, instant: PublishedInstant) -> None:
        """Add an instant."""
        private, number = instant.private, instant.instant
        time = self._origin + number * self._every
        # Its cell is all that was used of a location.
        corner = np.array([self._region.x_min, self._region.y_min])
        x, y = (corner + (private.cells + 0.5) * self._region.cell).T
        moment = pa.array(np.full(len(x), time)).cast(MOMENT)
        self._locations.write_table(
            pa.table([private.ids.cast(pa.string()), moment, x, y], schema=LOCATION_SCHEMA)
        )
        if private.sent is not None:
            self._sent.write_table(private.sent.cast(self._sent.schema))
        if len(instant.requests.kind):
            bundle, *values = instant.requests.to_table().columns
            at = np.full(len(bundle), number, np.int32)
            self._shown.write_table(pa.table([bundle, at, *values], schema=self._shown.schema))
        self._cloaks.append(instant.list_cells())
        if private.part is not None:
            member = np.flatnonzero(private.group != NO_GROUP)
            self._parts.append(
                pa.table(
                    {
                        "window": np.full(len(member), instant.window, np.int32),
                        "instant": np.full(len(member), number, np.int32),
                        "user_id": private.ids.take(pa.array(member)).cast(pa.string()),
                        "part": private.part[member],
                    }
                )
            )

    def close(self) -> None:
        """Write what is left; all files are on disk when this returns."""
        for writer in (self._locations, self._sent, self._shown):
            writer.close()
        cloaks = pa.concat_tables(self._cloaks).sort_by(
            [(name, "ascending") for name in ("bundle", "instant", "part")]
        )
        pq.write_table(cloaks, self._folder / SHOWN_CLOAKS_FILE)
        if self._parts:
            rows = pa.concat_tables(self._parts).combine_chunks().to_batches()[0]
            (self._folder / PARTS_FILE).write_bytes(encode_row_group(rows, store_schema=False))
        for file in self._folder.iterdir():
            sync(file)


def _open(file: Path, schema: pa.Schema) -> Any:
    return pq.ParquetWriter(file, schema, compression="zstd", compression_level=1)


def read_cloaks(folder: Path) -> tuple[dict[str, Any], npt.NDArray[np.uint32]]:
    """Read the rectangles of an epoch; returns the other columns, and the cells of each."""
    table = pq.read_table(folder / SHOWN_CLOAKS_FILE)
    columns = {name: table[name].to_numpy() for name in ("bundle", "instant", "part", "users")}
    cells = np.column_stack([table[name].to_numpy() for name in CORNERS])
    return columns, cells
