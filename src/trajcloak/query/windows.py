"""The bundles of a release, window by window."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trajcloak.errors import InputError
from trajcloak.query.bounds import Edges, Numbers
from trajcloak.release.reading import BUNDLES_FILE, read_columns

EDGES = ("x_min", "y_min", "x_max", "y_max")


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
            raise damaged(file)
        shape = (stop - start) // length, length
        ids, instants = bundle[start:stop].reshape(shape), instant[start:stop].reshape(shape)
        first_id = windows[-1].first_id + len(windows[-1].users) if windows else 0
        expected = np.arange(first_id, first_id + shape[0])[:, None]
        in_order = (ids == expected).all()
        if not (in_order and (instants == instant[start] + np.arange(length)).all()):
            raise damaged(file)
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


def damaged(file: Path) -> InputError:
    """Build the error for a file whose rows are not those of a release."""
    return InputError(
        f"{file}: rows are missing or out of order; expected them as docs/data-model.md says; "
        f"audit the release"
    )
