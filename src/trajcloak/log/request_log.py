"""The rows of a log, or of a shard of it, in memory, as columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.log.bad_rows import FileRows, SomeRows
from trajcloak.log.request_values import Requests


@dataclass(frozen=True, repr=False)
class RequestLog:
    """A checked log; row numbers count from 0 here, from 1 in messages.

    Attributes
    ----------
    users : pyarrow.Array
        The distinct user ids, ascending: integers or text. The order decides
        ties between identical trajectories, and nothing else.
    user : (rows,) int32
        Position of each row's user in ``users``.
    time : (rows,) int64
        Instants, or microseconds since 1970.
    x, y : (rows,) float64
        Longitude and latitude in degrees, or planar coordinates.
    requests : Requests
    has_timestamps : bool
        Whether ``time`` is in microseconds.
    zone : str or None
        "UTC" where the log's timestamps have a zone.
    clock : str or None
        Zone of the clock that windows can follow; None: the zone of ``time`` itself.
    geographic : bool
        Whether ``x`` and ``y`` are longitude and latitude.
    step : int
        Greatest common divisor of all time differences; 0 if all times are equal.
    time_range : (int, int)
        The earliest and the latest time.
    bounds : (float, float, float, float)
        Least x and y, greatest x and y.
    crs : str or None
        Coordinate system of ``x`` and ``y``; None if it is not known.
    unknown_requests : int
        Two inputs: how many requests were left out, because their user is not in ``users``.
    dropped_requests : int
        How many requests were left out with rows that were dropped.
    has_text_requests : bool
        Whether requests were read from a text file, so that their values are all text.
    dropped : dict
        How many rows of the files were dropped, by reason.
    file_row : (rows,) int64 or None
        The number, from 0, of each row in the files; None if none was dropped.
    files : FileRows
        Which rows are in which file.
    refusals : tuple of str
        What is wrong with rows that were left out: messages about a log that is refused.
    shifted : dict
        How many local times are ``ambiguous`` or ``nonexistent`` in their zone.
    reading : dict
        How the log was read, in the words of the manifest.
    plane_x, plane_y : (rows,) float64 or None
        Planar coordinates, if ``x`` and ``y`` had to be projected.
    """

    users: pa.Array
    user: npt.NDArray[np.int32]
    time: npt.NDArray[np.int64]
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    requests: Requests
    has_timestamps: bool
    zone: str | None
    geographic: bool
    step: int
    time_range: tuple[int, int]
    bounds: tuple[float, float, float, float]
    clock: str | None = None
    crs: str | None = None
    unknown_requests: int = 0
    dropped_requests: int = 0
    has_text_requests: bool = False
    dropped: Mapping[str, int] = field(default_factory=dict)
    file_row: npt.NDArray[np.int64] | None = None
    files: FileRows = field(default_factory=FileRows)
    refusals: tuple[str, ...] = ()
    shifted: Mapping[str, int] = field(default_factory=dict)
    reading: Mapping[str, object] = field(default_factory=dict)
    plane_x: npt.NDArray[np.float64] | None = None
    plane_y: npt.NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        """Show counts only: notebook output gets saved, so no ids."""
        return (
            f"{type(self).__name__}(rows={self.num_rows}, users={self.num_users}, "
            f"requests={self.num_requests})"
        )

    @property
    def num_rows(self) -> int:
        """How many rows the log has."""
        return len(self.user)

    @property
    def num_requests(self) -> int:
        """How many requests the log has."""
        return len(self.requests.kind)

    @property
    def is_one_log(self) -> bool:
        """Whether requests came with rows of the log, not from a second input."""
        return self.requests.row is not None

    @property
    def request_user(self) -> npt.NDArray[np.int32]:
        """Position of each request's user in ``users``: (requests,) int32."""
        requests = self.requests
        if requests.row is not None:
            return self.user[requests.row]
        assert requests.user is not None
        return requests.user

    @property
    def request_time(self) -> npt.NDArray[np.int64]:
        """When each request was sent, as in ``time``: (requests,) int64."""
        requests = self.requests
        if requests.row is not None:
            return self.time[requests.row]
        assert requests.time is not None
        return requests.time

    @property
    def num_users(self) -> int:
        """How many users the log has."""
        return len(self.users)

    def number_rows(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Number rows as messages do: from 1, over the files in order."""
        return (rows if self.file_row is None else self.file_row[rows]) + 1

    @property
    def plane(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Planar coordinates of the rows: projected ones, or ``x`` and ``y`` of a planar log."""
        if self.plane_x is None or self.plane_y is None:
            return self.x, self.y
        return self.plane_x, self.plane_y

    def find_ends(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Find the earliest and the latest time, each with the number of its first row."""
        ends = np.array([self.time.argmin(), self.time.argmax()])
        (early, late), (one, other) = self.time[ends].tolist(), self.number_rows(ends).tolist()
        return (early, one), (late, other)

    def name_rows(self, rows: npt.NDArray[np.int64]) -> str:
        """Count rows and name the first few, for a message: ``3 rows (4, 7, 9) are``."""
        return str(SomeRows([self.number_rows(rows)], self.files))
