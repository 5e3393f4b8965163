"""Choose which rows to read, and drop or refuse single ones, each for its own values."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log.bad_rows import BadRows, Trouble
from trajcloak.log.geometry import DEGREES
from trajcloak.log.request_values import find_sent
from trajcloak.options import EMPTY, NULL_ISLAND, OUT_OF_RANGE, LogColumns

CLIP = "clip"
TRUE, FALSE = pa.array(["true", "1"]), pa.array(["false", "0"])


class RowFilter:
    """Drops rows batch by batch, and remembers which rows of the latest batch are left.

    If rows have no place, only those with a request are chosen. Rows that could not be read are
    left out; those that are refused are noted in ``bad``, and left out, too, so that all that is
    wrong with a log is found in one pass.
    """

    def __init__(self, columns: LogColumns, bad: BadRows, *, geographic: bool) -> None:
        self._columns = columns
        self._bad = bad
        self._geographic = geographic
        self._has_place = columns.place is not None
        self.num_read = 0
        self.num_chosen = 0  # Location reports, or requests; dropped ones included.
        self.has_left_out = False
        self.dropped: dict[str, int] = {}  # Rows that were chosen, and then dropped, by reason.
        self.dropped_requests = 0
        self._is_needed = (
            not self._has_place
            or columns.is_report is not None
            or columns.clip is not None
            or bool({EMPTY, OUT_OF_RANGE, NULL_ISLAND} & set(columns.drop))
        )
        # The rows that are left of the latest batch, numbered from 0 over the files.
        self.rows: range | npt.NDArray[np.int64] = range(0)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Choose and drop rows of a batch, whose first columns are user, time and place."""
        first = self.num_read
        self.num_read += batch.num_rows
        self.rows = range(first, self.num_read)
        fixed = batch.schema.names[: 4 if self._has_place else 2]
        unreadable = self._bad.find_unreadable(first, self.num_read)
        has_empty = any(batch.column(name).null_count for name in fixed)
        if not (self._is_needed or has_empty or unreadable is not None) or not batch.num_rows:
            self.num_chosen += batch.num_rows
            return batch
        keep = np.ones(batch.num_rows, np.bool_) if unreadable is None else ~unreadable
        chosen = self._choose(batch, keep)
        keep = chosen.copy()
        self.num_chosen += int(keep.sum())
        empty = {
            name: batch.column(name).is_null().to_numpy(zero_copy_only=False) for name in fixed
        }
        if EMPTY in self._columns.drop:
            for wrong in empty.values():
                self._drop(EMPTY, keep, wrong)
        if self._has_place:
            self._drop_places(batch, keep)
        for name, wrong in empty.items():
            trouble = Trouble(
                f"column '{name}' is empty",
                "a value in every row",
                "fill or remove such rows, or drop them with --drop=empty",
            )
            self._bad.add(trouble, to_array(self.rows)[wrong & keep])
            keep &= ~wrong
        gone = chosen & ~keep
        if gone.any():
            sent = find_sent(batch, self._columns.requests).to_numpy(zero_copy_only=False)
            self.dropped_requests += int((sent & gone).sum())
        return self._keep(batch, keep)

    def refuse(
        self,
        batch: pa.RecordBatch,
        wrong: npt.NDArray[np.bool_],
        trouble: Trouble,
        example: str | None,
    ) -> pa.RecordBatch:
        """Note rows of the batch that :meth:`apply` returned, and leave them out."""
        self._bad.add(trouble, to_array(self.rows)[wrong], example)
        return self._keep(batch, ~wrong)

    def _keep(self, batch: pa.RecordBatch, keep: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        self.rows = to_array(self.rows)[keep]
        if keep.all():
            return batch
        self.has_left_out = True
        return batch.filter(pa.array(keep))

    def _choose(self, batch: pa.RecordBatch, among: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Choose the rows that count: location reports, or those with a request."""
        if not self._has_place:
            sent = find_sent(batch, self._columns.requests)
            return among & np.array(sent.to_numpy(zero_copy_only=False), np.bool_)
        name = self._columns.is_report
        if name is None:
            return among
        column = batch.column(name)
        try:
            # Numbers other than 0 and 1 are no truths, so all types are compared as text.
            texts = pc.utf8_lower(column.cast(pa.string()))
        except pa.ArrowException:
            texts = pa.nulls(len(column), pa.string())
        is_true, is_false = (
            np.array(pc.is_in(texts, words).to_numpy(zero_copy_only=False), np.bool_)
            for words in (TRUE, FALSE)
        )
        unknown = ~is_true & ~is_false & among
        if unknown.any():
            trouble = Trouble(
                f"column '{name}' does not say whether the row is a location report",
                "true or false, or 1 or 0",
                "correct the row, or name another column with --is-report",
            )
            self._bad.add(trouble, to_array(self.rows)[unknown])
        return among & is_true

    def _drop_places(self, batch: pa.RecordBatch, keep: npt.NDArray[np.bool_]) -> None:
        """Drop rows for their coordinates."""
        x, y = (to_floats(batch.column(name), name) for name in batch.schema.names[2:4])
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

    def _drop(self, reason: str, keep: npt.NDArray[np.bool_], wrong: npt.NDArray[np.bool_]) -> None:
        wrong = wrong & keep
        self.dropped[reason] = self.dropped.get(reason, 0) + int(wrong.sum())
        keep &= ~wrong


def to_array(rows: range | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Convert numbers of rows to an array."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def to_floats(column: pa.Array, name: str) -> npt.NDArray[np.float64]:
    """Convert coordinates to numbers; NaN for empty cells."""
    type_ = column.type
    if not (
        pa.types.is_floating(type_) or pa.types.is_integer(type_) or pa.types.is_decimal(type_)
    ):
        raise InputError(
            f"column '{name}' is of type {type_}; expected numbers; convert it, or name another "
            f"column with --lon and --lat, or with --x and --y"
        )
    numbers = column.cast(pa.float64(), safe=False)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)
