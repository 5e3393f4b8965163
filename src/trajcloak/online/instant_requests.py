"""Choose the requests of an instant that are published."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.log.request_values import merge_kinds
from trajcloak.online.online_options import OnlineOptions
from trajcloak.options import DROP
from trajcloak.requests.decide import find_known


class InstantRequests(NamedTuple):
    """The distinct requests that each group shows at an instant, by group, then by kind.

    Attributes
    ----------
    group, kind : int32
        The group's number, and a row of ``kinds``.
    kinds : pyarrow.Table
        The distinct requests, sorted, null first.
    """

    group: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int32]
    kinds: pa.Table

    def to_table(self) -> pa.Table:
        """List what is shown, one request of a group a row: ``bundle_id`` and the attributes."""
        return self.kinds.take(pa.array(self.kind)).add_column(0, "bundle_id", pa.array(self.group))


def build_no_requests(names: Sequence[str]) -> InstantRequests:
    """Return what is shown where nothing was sent."""
    nothing = np.empty(0, np.int32)
    return InstantRequests(
        nothing, nothing, pa.table({name: pa.array([], pa.string()) for name in names})
    )


def decide_instant(
    sent: pa.Table, group: npt.NDArray[np.int32], asked: OnlineOptions
) -> tuple[InstantRequests, int]:
    """Choose the requests that are published, by groups, never by senders.

    See invariant 8 of ``docs/guarantee.md``.

    Parameters
    ----------
    sent : pyarrow.Table
        The attributes of the requests of an instant.
    group : (requests,) int32
        The group in which each may be shown; -1: in none.
    asked : OnlineOptions

    Returns
    -------
    InstantRequests
    int
        How many of ``sent`` are not shown, repetitions of shown ones not counted; private.
    """
    is_empty = np.all([sent[name].is_null().to_numpy() for name in sent.column_names], axis=0)
    is_shown = (group >= 0) & ~is_empty
    num_sent = len(is_empty) - int(is_empty.sum())
    if not is_shown.any():
        return build_no_requests(sent.column_names), num_sent
    kinds, (number,) = merge_kinds([sent.filter(pa.array(is_shown))])
    entries = np.unique(np.column_stack([group[is_shown], number]), axis=0)
    is_good = find_known(kinds, asked.vocabulary)
    if asked.rare == DROP:
        is_good &= np.bincount(entries[:, 1], minlength=kinds.num_rows) >= asked.rare_below
    entries = entries[is_good[entries[:, 1]]].astype(np.int32)
    rank = np.cumsum(is_good, dtype=np.int32) - 1
    shown = InstantRequests(entries[:, 0], rank[entries[:, 1]], kinds.filter(pa.array(is_good)))
    return shown, num_sent - int(is_good[number].sum())
