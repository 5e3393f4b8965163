"""Instants of a release, and the moments that they stand for."""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from trajcloak.errors import OptionError

SHOWN_RANGES = 5


@dataclass(frozen=True)
class Times:
    """The published instants.

    Attributes
    ----------
    ranges : list of (int, int)
        Half-open ranges of instants, one for each window.
    moments : (int, int) or None
        Origin and step in microseconds since 1970; None without timestamps.
    zone : str or None
        "UTC" or None.
    """

    ranges: list[tuple[int, int]]
    moments: tuple[int, int] | None
    zone: str | None

    def find_instant(self, time: int | str) -> int:
        """Find the instant that a time falls into.

        Parameters
        ----------
        time : int or str
            Number of an instant, or a timestamp in ISO 8601.

        Raises
        ------
        OptionError
            If it is neither, or not published.
        """
        instant = self._read(time)
        if not any(start <= instant < stop for start, stop in self.ranges):
            raise OptionError(
                f"time '{time}' is not published; expected {self._describe()}; pass another time"
            )
        return instant

    def between(self, first: int | str | None, last: int | str | None) -> list[int]:
        """List the published instants from one to another, both included."""
        low = self.ranges[0][0] if first is None else self.find_instant(first)
        high = self.ranges[-1][1] - 1 if last is None else self.find_instant(last)
        if high < low:
            raise OptionError(
                f"the time from '{first}' to '{last}' is empty; expected the earlier one first; "
                f"exchange --from and --to"
            )
        return [
            instant
            for start, stop in self.ranges
            for instant in range(max(start, low), min(stop, high + 1))
        ]

    def describe_instant(self, instant: int) -> str | None:
        """Write the moment of an instant; None where there are no timestamps."""
        if self.moments is None:
            return None
        origin, every = self.moments
        moment = np.datetime64(origin + instant * every, "us")
        return str(moment) + ("Z" if self.zone else "")

    def _read(self, time: int | str) -> int:
        try:
            return int(time)
        except ValueError:
            pass
        expected = "the number of an instant"
        if self.moments is None:
            raise OptionError(f"time is '{time}'; expected {expected}; pass another time")
        try:
            moment = datetime.fromisoformat(str(time))
        except ValueError:
            raise OptionError(
                f"time is '{time}'; expected {expected}, or a timestamp such as "
                f"{self.describe_instant(self.ranges[0][0])}; pass another time"
            ) from None
        if moment.tzinfo is not None and self.zone is None:
            raise OptionError(
                f"time is '{time}', which has a zone, and the release has none; expected a time "
                f"without a zone; leave it out"
            )
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        origin, every = self.moments
        microseconds: int = pa.scalar(moment, pa.timestamp("us", "UTC")).value
        return (microseconds - origin) // every

    def _describe(self) -> str:
        """Say which instants are published."""
        shown = ", ".join(f"{start}..{stop - 1}" for start, stop in self.ranges[:SHOWN_RANGES])
        more = ", ..." if len(self.ranges) > SHOWN_RANGES else ""
        first, last = self.ranges[0][0], self.ranges[-1][1] - 1
        if self.moments is None:
            return f"an instant of {shown}{more}"
        return (
            f"an instant of {shown}{more}, or a timestamp from {self.describe_instant(first)} "
            f"until {self.describe_instant(last + 1)}"
        )
