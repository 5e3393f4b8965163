"""Split rows of a log by user, and join the pieces to shards, which hold all rows of some users."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.kernels.group import group_by_number
from trajcloak.kernels.intern import IntegerIds, TextIds, hash_ids, intern_array
from trajcloak.log.request_log import RequestLog
from trajcloak.log.request_values import Requests, drop_unsent, merge_kinds
from trajcloak.log.row_checks import copy_place, copy_times, mixed_times
from trajcloak.log.sharded_log import add_counts
from trajcloak.log.user_ids import mixed_ids, sort_ids


def split_log(log: RequestLog, parts: int, first_row: int) -> list[RequestLog | None]:
    """Split rows by a hash of the user id, so that a user's rows all go to the same shard.

    Parameters
    ----------
    log
        Some rows of a log.
    parts
        How many shards there are.
    first_row
        The number of its first row, from 0, if no row was dropped.

    Returns
    -------
    list of RequestLog or None
        The rows of each shard; None for a shard that gets none. Steps, bounds and time
        ranges are still those of ``log``; counts of dropped rows and shifted times are empty.
    """
    if parts == 1 and first_row == 0:
        return [log]
    part = (hash_ids(log.users) % np.uint64(parts)).astype(np.int32)
    users, first_user = group_by_number(part, parts)
    rows, first = group_by_number(part[log.user], parts)
    sent, first_sent = group_by_number(part[log.user[log.requests.row]], parts)
    number = _count_from_first(users, first_user)
    position = _count_from_first(rows, first)
    pieces: list[RequestLog | None] = []
    for p in range(parts):
        mine = rows[first[p] : first[p + 1]]
        if not len(mine):
            pieces.append(None)
            continue
        requests = sent[first_sent[p] : first_sent[p + 1]]
        pieces.append(
            replace(
                log,
                users=log.users.take(pa.array(users[first_user[p] : first_user[p + 1]])),
                user=number[log.user[mine]],
                time=log.time[mine],
                x=log.x[mine],
                y=log.y[mine],
                requests=Requests(
                    position[log.requests.row[requests]].astype(np.int64),
                    log.requests.kind[requests],
                    log.requests.kinds,
                ),
                dropped={},
                shifted={},
                file_row=mine.astype(np.int64) + first_row
                if log.file_row is None
                else log.file_row[mine],
            )
        )
    return pieces


def _count_from_first(
    members: npt.NDArray[np.int32], first: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Number the members of each group from 0; returns the number at each position."""
    rank = np.empty(len(members), np.int32)
    rank[members] = np.arange(len(members)) - np.repeat(first[:-1], np.diff(first))
    return rank


def join_logs(
    pieces: Sequence[RequestLog | None], user: str, time: str, *, from_text: bool = False
) -> RequestLog | None:
    """Join pieces of a log, in the order of their rows; None if all pieces are None.

    Parameters
    ----------
    pieces
    user, time
        Names of the columns, for messages.
    from_text
        Whether a file of the log is text, so that request values of several types become text.

    Raises
    ------
    InputError
        If the pieces are of different types.
    """
    logs = [piece for piece in pieces if piece is not None]
    if not logs:
        return None
    one = logs[0]
    if len(pieces) == 1:
        return one
    is_integer = pa.types.is_integer(one.users.type)
    if any(pa.types.is_integer(log.users.type) != is_integer for log in logs):
        raise mixed_ids(user)
    if any((log.has_timestamps, log.zone) != (one.has_timestamps, one.zone) for log in logs):
        raise mixed_times(time, [(log.has_timestamps, log.zone) for log in logs])
    ends = np.cumsum([log.num_rows for log in logs])
    users, numbers = _merge_users(logs)
    kinds, kind_numbers = merge_kinds([log.requests.kinds for log in logs], from_text=from_text)
    columns = (
        np.empty(ends[-1], np.int32),
        np.empty(ends[-1], np.int64),
        np.empty(ends[-1], np.float64),
        np.empty(ends[-1], np.float64),
        np.empty(ends[-1], np.int64),
    )
    step, low, high = 0, 2**63 - 1, -(2**63)
    bounds = [np.inf, np.inf, -np.inf, -np.inf]
    for log, number, end in zip(logs, numbers, ends.tolist(), strict=True):
        into = slice(end - log.num_rows, end)
        user_out, time_out, x_out, y_out, row_out = (column[into] for column in columns)
        np.take(number, log.user, out=user_out)
        least, greatest, step = map(int, copy_times(log.time, one.time[0], step, time_out))
        low, high = min(low, least), max(high, greatest)
        for axis, (values, out) in enumerate(((log.x, x_out), (log.y, y_out))):
            left, right, _ = copy_place(values, np.inf, out)
            bounds[axis] = min(bounds[axis], left)
            bounds[2 + axis] = max(bounds[2 + axis], right)
        row_out[:] = np.arange(log.num_rows) if log.file_row is None else log.file_row
    return replace(
        one,
        users=users,
        user=columns[0],
        time=columns[1],
        x=columns[2],
        y=columns[3],
        file_row=columns[4],
        # A piece still lists the distinct requests of all pieces that were read with it.
        requests=drop_unsent(
            Requests(
                np.concatenate(
                    [
                        log.requests.row + (end - log.num_rows)
                        for log, end in zip(logs, ends, strict=True)
                    ]
                ),
                np.concatenate(
                    [n[log.requests.kind] for log, n in zip(logs, kind_numbers, strict=True)]
                ),
                kinds,
            )
        ),
        step=step,
        time_range=(low, high),
        bounds=(bounds[0], bounds[1], bounds[2], bounds[3]),
        dropped=add_counts([log.dropped for log in logs]),
        shifted=add_counts([log.shifted for log in logs]),
    )


def _merge_users(logs: Sequence[RequestLog]) -> tuple[pa.Array, list[npt.NDArray[np.int32]]]:
    """Number the users of all pieces; returns them, and the number of each user of each piece."""
    interner = IntegerIds() if pa.types.is_integer(logs[0].users.type) else TextIds()
    numbers = []
    for log in logs:
        number = np.empty(log.num_users, np.int32)
        intern_array(interner, log.users, number)
        numbers.append(number)
    users = interner.distinct()
    order = sort_ids(users)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return users.take(pa.array(order)), [rank[number] for number in numbers]
