"""Local times to UTC."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Moments = npt.NDArray[np.int64]
"""Microseconds since 1970."""


def to_utc(local: Moments, zone: str) -> tuple[Moments, int, int]:
    """Turn local times into UTC.

    A time that comes twice, where clocks are put back, is the first. A time that is
    skipped, where they are put forward, is as much later: 02:30 becomes 03:30.

    Returns
    -------
    utc
    num_ambiguous, num_nonexistent
        How many times come twice, or are skipped.
    """
    times = pa.array(local).cast(pa.timestamp("us"))

    def assume(choice: str) -> Moments:
        zoned = pc.assume_timezone(times, zone, ambiguous=choice, nonexistent=choice)
        moments: Moments = zoned.cast(pa.int64()).to_numpy()
        return moments

    earliest, latest = assume("earliest"), assume("latest")
    differing = np.flatnonzero(earliest != latest)
    if not len(differing):
        return earliest, 0, 0
    # What is one moment before the gap and one after it in the other case is two hours here.
    before = pa.array(earliest[differing]).cast(pa.timestamp("us", zone))
    there = pc.local_timestamp(before).cast(pa.int64()).to_numpy()
    skipped = there != local[differing]
    utc = earliest.copy()
    rows = differing[skipped]
    utc[rows] = local[rows] - (there[skipped] - earliest[rows])
    num_skipped = int(skipped.sum())
    return utc, len(differing) - num_skipped, num_skipped
