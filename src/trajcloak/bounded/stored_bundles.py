"""The bundles of windows, on disk until their release is written."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.bounded.arrays import read_arrays, write_arrays
from trajcloak.bounded.work import WorkFolder
from trajcloak.bundles import Bundles
from trajcloak.pipeline import build_policy_rows
from trajcloak.release import ROWS_PER_GROUP, RowGroup, cut_groups, to_batch
from trajcloak.trajectories import Located, Window

HELD = 2
"""Windows in memory at a time while a release is written: row groups may span two."""

Record = TypeVar("Record", Window, Bundles)


def save_window(work: WorkFolder, window: Window, bundles: Bundles | None) -> None:
    """Keep what became of a window, but for its trajectories."""
    counted = replace(window, cells=np.empty((0, 0, 2), np.uint32))
    arrays = {f"window_{name}": value for name, value in _fields(counted)}
    if bundles is not None:
        arrays |= {f"bundles_{name}": value for name, value in _fields(bundles)}
    with work.new_file(_name(window.number), is_synced=False) as path:
        write_arrays(path, arrays)


def has_window(work: WorkFolder, number: int) -> bool:
    """Whether a window is done."""
    return read_arrays(work.path / _name(number)) is not None


def load_window(work: WorkFolder, number: int) -> tuple[Window, Bundles | None]:
    """Read what became of a window; its bundles are None if too few users took part."""
    arrays = read_arrays(work.path / _name(number))
    assert arrays is not None
    window = _build(Window, "window_", arrays)
    if "bundles_window" not in arrays:
        return window, None
    return window, _build(Bundles, "bundles_", arrays)


class StoredBundles(Sequence[Bundles]):
    """The bundles of the windows that are published, read when they are asked for.

    Parameters
    ----------
    work
    windows
        Numbers of the windows.
    number : optional
        What to number the kinds of requests by.
    """

    def __init__(
        self,
        work: WorkFolder,
        windows: Sequence[int],
        number: npt.NDArray[np.int32] | None = None,
    ) -> None:
        self._work = work
        self._windows = windows
        self._number = number
        self._load = lru_cache(HELD)(self._read)

    def __len__(self) -> int:
        return len(self._windows)

    @overload
    def __getitem__(self, place: int) -> Bundles: ...
    @overload
    def __getitem__(self, place: slice) -> "StoredBundles": ...
    def __getitem__(self, place: int | slice) -> "Bundles | StoredBundles":
        if isinstance(place, slice):
            return StoredBundles(self._work, self._windows[place], self._number)
        return self._load(place)

    def _read(self, place: int) -> Bundles:
        _, bundles = load_window(self._work, self._windows[place])
        assert bundles is not None
        if self._number is None:
            return bundles
        return replace(bundles, request_kind=self._number[bundles.request_kind])

    def renumbered(self, number: npt.NDArray[np.int32]) -> "StoredBundles":
        """Give the requests the numbers of the kinds that are left."""
        return StoredBundles(self._work, self._windows, number)


def cut_stored_policy(users: pa.Array, published: StoredBundles) -> Iterator[RowGroup]:
    """Yield what builds each row group of the policy file."""
    counts = [int((bundles.bundle >= 0).sum()) for bundles in published]
    first_ids = [0, *accumulate(len(bundles.sizes) for bundles in published)]

    def build(pieces: Sequence[tuple[int, slice]]) -> pa.RecordBatch:
        tables = [
            build_policy_rows(users, published[window], first_ids[window])[rows]
            for window, rows in pieces
        ]
        return to_batch(pa.concat_tables(tables))

    for pieces in cut_groups(counts, ROWS_PER_GROUP):
        yield partial(build, pieces)


def _name(number: int) -> str:
    return f"window-{number}.arrays"


def _fields(record: Window | Bundles) -> list[tuple[str, Any]]:
    return [(field.name, getattr(record, field.name)) for field in fields(record)]


def _build(kind: type[Record], prefix: str, arrays: Any) -> Record:
    values: dict[str, Any] = {}
    for field in fields(kind):
        array = arrays[prefix + field.name]
        values[field.name] = array if array.ndim else array.item()
    if kind is Window:
        values["located"] = Located(*values["located"].tolist())
    return kind(**values)
