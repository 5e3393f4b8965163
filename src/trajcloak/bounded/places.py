"""Planar places of the rows of a stored log, which are projected once."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from trajcloak.bounded.stored_log import StoredLog
from trajcloak.bounded.work import WorkFolder
from trajcloak.log import RequestLog
from trajcloak.space import Projection

PLACE_BYTES = 16
"""Of the two coordinates of a row."""


class StoredPlaces:
    """Where the rows of a stored log are, in planar coordinates.

    Parameters
    ----------
    work
        Where projected places are kept.
    log
    projection
    threads
    """

    def __init__(
        self, work: WorkFolder, log: StoredLog, projection: Projection, threads: int
    ) -> None:
        self._work = work
        self._log = log
        self._projection = projection
        self._threads = threads

    def parts(
        self,
    ) -> Iterator[tuple[RequestLog, npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
        """Yield the parts of the log, each with the coordinates of its rows."""
        for number, part in self._log.numbered_parts():
            if self._projection.is_needed:
                x, y = self._load(number, part)
                yield part, x, y
            else:
                yield part, part.x, part.y

    def _load(self, number: int, part: RequestLog) -> npt.NDArray[np.float64]:
        """Read the projected places of a part, or compute and keep them."""
        name = f"places-{number}"
        path = self._work.path / name
        if not path.exists() or path.stat().st_size != PLACE_BYTES * part.num_rows:
            with self._work.new_file(name, is_synced=False) as staging:
                np.stack(self._projection.place(part, self._threads)).tofile(staging)
        return np.fromfile(path).reshape(2, -1)
