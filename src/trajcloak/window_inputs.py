"""Participants of a window, on their way from the shards to where they are bundled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.kernels.intern import sort_ids
from trajcloak.kernels.sort import group_by_number
from trajcloak.log import RequestLog
from trajcloak.progress import Progress
from trajcloak.trajectories import Layout, Located, Window, WindowCutter, join_marks

BUILDING = "building trajectories"


@dataclass(frozen=True)
class WindowInput:
    """Some or all participants of a window, with their trajectories and requests."""

    window: Window  # ``user`` is a position in the shard that the user is in.
    ids: pa.Array  # Ids of the participants, ascending.
    shard: npt.NDArray[np.int32]  # (n,): the shard that each participant is in.

    @property
    def num_users(self) -> int:
        """How many participants there are."""
        return len(self.shard)


class WindowPresence(NamedTuple):
    """Who of a shard takes part in a window, and what is withheld of the others."""

    participants: npt.NDArray[np.uint8]  # A bit for each user of the shard.
    num_participants: int
    reported: int  # Participants who have a report in the window.
    requests: int  # Requests of participants.
    left_out_users: int
    left_out_requests: int
    located: Located  # As in :class:`trajcloak.trajectories.Window`.


class ShardPresence(NamedTuple):
    """Who of a shard takes part in which window."""

    num_users: int
    windows: list[WindowPresence]

    def count_users(self) -> tuple[list[int], Located]:
        """Count the participants of each window, and how users are located in all of them."""
        counts = [window.num_participants for window in self.windows]
        return counts, reduce(Located.plus, (w.located for w in self.windows), Located())


def cut_input(
    log: RequestLog, cutter: WindowCutter, number: int, shard: int, threads: int
) -> tuple[WindowInput, WindowPresence]:
    """Cut a window out of a shard."""
    window = cutter.cut(number, threads)
    is_in = np.zeros(log.num_users, np.bool_)
    is_in[window.user] = True
    presence = WindowPresence(
        np.packbits(is_in),
        len(window.user),
        int(window.reported.sum()),
        len(window.request_user),
        window.left_out_users,
        window.left_out_requests,
        window.located,
    )
    ids = log.users if len(window.user) == log.num_users else log.users.take(pa.array(window.user))
    return WindowInput(window, ids, np.full(len(window.user), shard, np.int32)), presence


def cut_shard(
    log: RequestLog,
    shard: int,
    layout: Layout,
    runs: Sequence[range],
    threads: int,
    progress: Progress,
) -> Iterator[list[Any]]:
    """Cut a shard into the inputs of each run; at last a :class:`ShardPresence` and its counts."""
    cutter = WindowCutter(log, layout)
    inputs: list[list[WindowInput]] = []
    presence = ShardPresence(log.num_users, [])
    for run in runs:
        inputs.append([])
        for number in run:
            progress(BUILDING, number, len(layout.ranges))
            given, of_window = cut_input(log, cutter, number, shard, threads)
            inputs[-1].append(given)
            presence.windows.append(of_window)
    progress(BUILDING, len(layout.ranges), len(layout.ranges))
    yield [*inputs, presence, presence.count_users()]


def split_input(whole: WindowInput, number: npt.NDArray[np.int32], count: int) -> list[WindowInput]:
    """Cut an input into ``count`` parts; ``number`` says which each participant is in."""
    window = whole.window
    grouped, first = group_by_number(number, count)
    grouped_requests, first_request = group_by_number(number[window.request_user], count)
    # Of each participant, within its part.
    position = np.empty(whole.num_users, np.int32)
    position[grouped] = np.arange(len(grouped)) - np.repeat(first[:-1], np.diff(first))
    parts = []
    for i in range(count):
        members = grouped[first[i] : first[i + 1]]
        requests = grouped_requests[first_request[i] : first_request[i + 1]]
        taken = replace(
            window,
            user=window.user[members],
            reported=window.reported[members],
            has_row=None if window.has_row is None else window.has_row[members],
            cells=window.cells[members],
            request_user=position[window.request_user[requests]],
            request_instant=window.request_instant[requests],
            request_kind=window.request_kind[requests],
        )
        parts.append(WindowInput(taken, whole.ids.take(pa.array(members)), whole.shard[members]))
    return parts


def order_inputs(parts: Sequence[WindowInput]) -> npt.NDArray[np.int64]:
    """List the participants of several parts, one part after another, in order of ids."""
    return sort_ids(pa.concat_arrays([part.ids for part in parts]))


def join_inputs(parts: Sequence[WindowInput]) -> WindowInput:
    """Put parts of a window together, in order of ids."""
    if len(parts) == 1:
        return parts[0]
    order = order_inputs(parts)
    windows = [part.window for part in parts]
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    has_row = join_marks([w.has_row for w in windows], [part.num_users for part in parts])
    starts = np.cumsum([0] + [part.num_users for part in parts[:-1]])
    sender = [rank[w.request_user + start] for w, start in zip(windows, starts, strict=True)]
    cells = np.empty((len(order), *windows[0].cells.shape[1:]), np.uint32)
    for w, start in zip(windows, starts, strict=True):
        # One after another: joined before they are ordered, they would take twice the memory.
        cells[rank[start : start + len(w.cells)]] = w.cells
    return WindowInput(
        replace(
            windows[0],
            user=np.concatenate([w.user for w in windows])[order],
            reported=np.concatenate([w.reported for w in windows])[order],
            has_row=None if has_row is None else has_row[order],
            cells=cells,
            request_user=np.concatenate(sender),
            request_instant=np.concatenate([w.request_instant for w in windows]),
            request_kind=np.concatenate([w.request_kind for w in windows]),
        ),
        pa.concat_arrays([part.ids for part in parts]).take(pa.array(order)),
        np.concatenate([part.shard for part in parts])[order],
    )
