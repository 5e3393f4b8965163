"""Shared by all formats: reading of files, counts of skipped points, checks of coordinates."""

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.errors import InputError
from trajcloak.log.file_columns import unreadable
from trajcloak.log.geometry import DEGREES
from trajcloak.progress import Progress, silent

STAGE = "converting"
ZIPPED = ".gz"
REPEATED_TIME = "repeated_time"
"""Reason to skip a point: its file has another point of that time."""


class MovementSource:
    """The files of one conversion, in the order in which they are read.

    ``geographic``: whether the caller says that x and y are longitude and latitude. ``skipped``
    counts the points that were skipped, for each reason.
    """

    def __init__(
        self, files: Sequence[Path], *, geographic: bool = False, progress: Progress = silent
    ) -> None:
        self.files = tuple(files)
        self.geographic = geographic
        self.skipped: Counter[str] = Counter()
        self._progress = progress
        self._total = sum(file.stat().st_size for file in files)
        self._done = 0

    def skip(self, reason: str, count: int = 1) -> None:
        """Count points that are not read."""
        if count:
            self.skipped[reason] += count

    def read_chunks(self, file: Path, size: int) -> Iterator[bytes]:
        """Yield the bytes of a file, decompressed, in chunks of ``size``."""
        is_zipped = file.name.lower().endswith(ZIPPED)
        try:
            with file.open("rb") as raw, gzip.open(raw) if is_zipped else raw as stream:
                while chunk := stream.read(size):
                    yield chunk
                    self._progress(STAGE, self._done + raw.tell(), self._total)
        except PermissionError as error:
            raise unreadable(file, error) from None
        except (OSError, EOFError, zlib.error):
            raise InputError(
                f"{file}: cannot be read to its end; expected a whole file; it is damaged or cut "
                f"off: fetch or make it again"
            ) from None
        self._done += file.stat().st_size

    def finish(self) -> None:
        """Report that everything has been read."""
        self._progress(STAGE, self._total, self._total)


def strip_suffixes(file: Path) -> str:
    """Return the name of a file without ``.gz`` and without the ending before that."""
    name = file.name
    if name.lower().endswith(ZIPPED):
        name = name[: -len(ZIPPED)]
    return Path(name).stem


def check_one_file_per_user(files: Sequence[Path], name_user: Callable[[Path], str]) -> None:
    """Raise if two files, in different folders, name the same user."""
    seen: dict[str, Path] = {}
    for file in files:
        other = seen.setdefault(name_user(file), file)
        if other is not file:
            raise InputError(
                f"{file}: names the same user as {other}; expected one file per user; rename one "
                f"of them, or join them if the user is the same"
            )


def name_axes(geographic: bool) -> tuple[str, str]:
    """Name the two coordinate columns of a log."""
    return ("lon", "lat") if geographic else ("x", "y")


def find_bad_place(table: Any, geographic: bool) -> tuple[int, str] | None:
    """Find the first row of a table or batch with unusable coordinates, and say why."""
    found = []
    for name, limit in zip(name_axes(geographic), DEGREES, strict=True):
        column = table.column(name)
        if geographic:
            # False also where the number is not finite.
            is_good = pc.less_equal(pc.abs(column), limit)
            why = (
                f"'{name}' is out of range; expected -{limit:.0f}..{limit:.0f} degrees (are "
                f"longitude and latitude swapped?)"
            )
        else:
            is_good = pc.is_finite(column)
            why = f"'{name}' is not finite; expected a coordinate"
        row = pc.index(is_good, False).as_py()
        if row >= 0:
            found.append((row, why))
    return min(found, default=None)


def add_user(
    source: MovementSource, user: str, tables: Iterable[pa.Table]
) -> Iterator[pa.RecordBatch]:
    """Yield the points of one user's file, with their id and without repeated times.

    A log must not have two places of a user at one time (``docs/data-model.md``), but some
    receivers write them. The first is kept, the others are skipped and counted.
    """
    last = None
    for table in tables:
        if not table.num_rows:
            continue
        times = table["time"].cast(pa.int64()).to_numpy()
        is_new = np.ones(len(times), np.bool_)
        is_new[1:] = times[1:] != times[:-1]
        is_new[0] = times[0] != last
        last = times[-1]
        source.skip(REPEATED_TIME, len(times) - int(np.count_nonzero(is_new)))
        kept = table if is_new.all() else table.filter(pa.array(is_new))
        ids = pa.repeat(pa.scalar(user), kept.num_rows)
        yield from kept.add_column(0, "user_id", ids).to_batches()
