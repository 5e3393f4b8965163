"""Points of one user that repeat a time.

A receiver that writes two places for one moment leaves it open which holds, and
a log must not (``docs/data-model.md``). The first is kept.
"""

import numpy as np
import pyarrow as pa

from trajcloak.movement.source import Source

REPEATED_TIME = "repeated_time"


class RepeatFilter:
    """Skips and counts each point whose time is that of the point before it in the file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._last: int | None = None

    def filter(self, table: pa.Table) -> pa.Table:
        """Keep the points of the next part of the file that do not repeat a time."""
        if not table.num_rows:
            return table
        times = table["time"].cast(pa.int64()).to_numpy()
        is_new = np.empty(len(times), np.bool_)
        is_new[0] = self._last is None or times[0] != self._last
        np.not_equal(times[1:], times[:-1], out=is_new[1:])
        self._last = int(times[-1])
        num_repeats = len(times) - int(np.count_nonzero(is_new))
        self._source.skip(REPEATED_TIME, num_repeats)
        return table.filter(pa.array(is_new)) if num_repeats else table
