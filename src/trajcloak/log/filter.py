"""Drop single rows as they are read, each for its own values."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.options import EMPTY, NULL_ISLAND, OUT_OF_RANGE, LogColumns

CLIP = "clip"
DEGREES = (180.0, 90.0)


class RowFilter:
    """Drops rows batch by batch, and remembers which rows of the latest batch are left.

    Parameters
    ----------
    columns
        What to drop.
    geographic
        Whether places are longitude and latitude.
    """

    def __init__(self, columns: LogColumns, *, geographic: bool) -> None:
        self._columns = columns
        self._geographic = geographic
        self.num_read = 0
        self.dropped: dict[str, int] = {}
        self.is_needed = columns.clip is not None or bool(
            {EMPTY, OUT_OF_RANGE, NULL_ISLAND} & set(columns.drop)
        )
        self._first = 0
        self._latest: npt.NDArray[np.int64] | None = None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Drop rows of a batch, whose first columns are user, time and the two coordinates."""
        self._latest = None
        self._first = self.num_read
        self.num_read += batch.num_rows
        if not self.is_needed or not batch.num_rows:
            return batch
        keep = np.ones(batch.num_rows, np.bool_)
        if EMPTY in self._columns.drop:
            for column in batch.columns[:4]:
                self._drop(EMPTY, keep, column.is_null().to_numpy(zero_copy_only=False))
        x, y = (_to_floats(column) for column in batch.columns[2:4])
        if OUT_OF_RANGE in self._columns.drop:
            limits = DEGREES if self._geographic else (np.inf, np.inf)
            for values, limit, column in zip((x, y), limits, batch.columns[2:4], strict=True):
                wrong = ~(np.isfinite(values) & (np.abs(values) <= limit))
                # Empty cells are counted under another reason.
                wrong &= column.is_valid().to_numpy(zero_copy_only=False)
                self._drop(OUT_OF_RANGE, keep, wrong)
        if NULL_ISLAND in self._columns.drop:
            self._drop(NULL_ISLAND, keep, (x == 0) & (y == 0))
        if self._columns.clip is not None:
            left, bottom, right, top = self._columns.clip
            # NaN coordinates are not clipped.
            self._drop(CLIP, keep, (x < left) | (x > right) | (y < bottom) | (y > top))
        self._latest = np.flatnonzero(keep) + self._first
        return batch if keep.all() else batch.filter(pa.array(keep))

    def _drop(self, reason: str, keep: npt.NDArray[np.bool_], wrong: npt.NDArray[np.bool_]) -> None:
        wrong = wrong & keep
        self.dropped[reason] = self.dropped.get(reason, 0) + int(wrong.sum())
        keep &= ~wrong

    def number_row(self, position: int) -> int:
        """Number a row of the latest batch as messages do, from its position among those left."""
        row = self._first + position if self._latest is None else int(self._latest[position])
        return row + 1

    def list_rows(self) -> npt.NDArray[np.int64]:
        """List the rows that are left of the latest batch, numbered from 0 over the files."""
        return np.arange(self._first, self.num_read) if self._latest is None else self._latest


def _to_floats(column: pa.Array) -> npt.NDArray[np.float64]:
    """Convert a column to numbers; NaN for empty cells and for columns of other types."""
    try:
        values: npt.NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(
            zero_copy_only=False
        )
    except pa.ArrowException:
        return np.full(len(column), np.nan)
    return values
