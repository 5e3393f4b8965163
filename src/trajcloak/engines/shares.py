"""Some of the participants of a window, on their way from one worker to another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.kernels.group import group_by_number
from trajcloak.log.user_ids import sort_ids
from trajcloak.trajectories import Window


@dataclass(frozen=True)
class Share:
    """Some participants of a window, with their trajectories and requests.

    Attributes
    ----------
    window : Window
        ``user`` is a position in the part of the log that the user is in.
    ids : pyarrow.Array
        Ids of the participants, ascending.
    part : (n,) int32
        The part of the log that each participant is in.
    """

    window: Window
    ids: pa.Array
    part: npt.NDArray[np.int32]

    @property
    def num_users(self) -> int:
        """How many participants there are."""
        return len(self.part)


def split_share(share: Share, number: npt.NDArray[np.int32], count: int) -> list[Share]:
    """Cut a share into ``count`` shares; ``number`` says which each participant is in."""
    members, first = group_by_number(number, count)
    requests, first_request = group_by_number(number[share.window.request_user], count)
    return [
        _take(
            share,
            members[first[i] : first[i + 1]],
            requests[first_request[i] : first_request[i + 1]],
        )
        for i in range(count)
    ]


def _take(share: Share, members: npt.NDArray[np.int32], requests: npt.NDArray[np.int32]) -> Share:
    window = share.window
    position = np.empty(share.num_users, np.int32)
    position[members] = np.arange(len(members), dtype=np.int32)
    return Share(
        replace(
            window,
            user=window.user[members],
            reported=window.reported[members],
            cells=window.cells[members],
            request_user=position[window.request_user[requests]],
            request_instant=window.request_instant[requests],
            request_kind=window.request_kind[requests],
        ),
        share.ids.take(pa.array(members)),
        share.part[members],
    )


def join_shares(shares: Sequence[Share]) -> Share:
    """Put shares of a window together, in order of ids, as a log has its users."""
    return shares[0] if len(shares) == 1 else _join(shares, order_shares(shares))


def order_shares(shares: Sequence[Share]) -> npt.NDArray[np.int64]:
    """List the participants of several shares, one share after the other, in order of ids."""
    return sort_ids(pa.concat_arrays([share.ids for share in shares]))


def _join(shares: Sequence[Share], order: npt.NDArray[np.int64]) -> Share:
    windows = [share.window for share in shares]
    ids = pa.concat_arrays([share.ids for share in shares])
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    starts = np.cumsum([0] + [share.num_users for share in shares[:-1]])
    sender = [rank[w.request_user + start] for w, start in zip(windows, starts, strict=True)]
    return Share(
        replace(
            windows[0],
            user=np.concatenate([w.user for w in windows])[order],
            reported=np.concatenate([w.reported for w in windows])[order],
            cells=_scatter([w.cells for w in windows], rank),
            request_user=np.concatenate(sender),
            request_instant=np.concatenate([w.request_instant for w in windows]),
            request_kind=np.concatenate([w.request_kind for w in windows]),
        ),
        ids.take(pa.array(order)),
        np.concatenate([share.part for share in shares])[order],
    )


def _scatter(
    parts: Sequence[npt.NDArray[np.uint32]], rank: npt.NDArray[np.int32]
) -> npt.NDArray[np.uint32]:
    """Put rows of several arrays where they belong, without a copy of all of them."""
    whole = np.empty((len(rank), *parts[0].shape[1:]), np.uint32)
    start = 0
    for part in parts:
        whole[rank[start : start + len(part)]] = part
        start += len(part)
    return whole
