"""Rows that are probably wrong, and can be dropped: for whoever looks at a log."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trajcloak.log.clean import DEFAULT_SPEED, find_teleports
from trajcloak.log.misplaced import (
    find_bulk,
    find_null_island,
    find_swapped,
    may_be_at_zero,
    may_be_swapped,
)
from trajcloak.log.request_log import RequestLog
from trajcloak.log.sharded_log import hold_in_memory
from trajcloak.options import NULL_ISLAND, SWAPPED, TELEPORT


@dataclass(frozen=True)
class Suspect:
    """Rows that have the same thing wrong with them.

    Attributes
    ----------
    reason : str
        What ``--drop`` calls them.
    rows : (rows,) int64
        Positions in the log, ascending.
    named : str
        The first of them as messages name them: ``3 rows (4, 7, 9) are``.
    """

    reason: str
    rows: npt.NDArray[np.int64]
    named: str


def list_suspects(log: RequestLog) -> list[Suspect]:
    """List rows at 0, 0, with swapped axes, and too far from the user's report before.

    The last only where there are metres and seconds. A row is listed once.
    """
    whole = hold_in_memory(log)
    bulk = None
    if may_be_swapped(whole.facts) or may_be_at_zero(whole.facts):
        bulk = find_bulk(whole)
    masks = {NULL_ISLAND: find_null_island(log, bulk), SWAPPED: find_swapped(log, bulk)}
    listed = masks[NULL_ISLAND] | masks[SWAPPED]
    if log.has_timestamps and log.crs is not None:
        masks[TELEPORT] = find_teleports(log, DEFAULT_SPEED, ~listed)
    return [
        Suspect(reason, rows, log.name_rows(rows))
        for reason, rows in ((reason, np.flatnonzero(mask)) for reason, mask in masks.items())
        if len(rows)
    ]
