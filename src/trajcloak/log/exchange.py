"""Split rows by user, and join the pieces to shards, which hold all rows of some users.

Requests of a second input are split in the same way, and join the shard of their user.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.kernels.intern import IntegerIds, TextIds, hash_ids, intern_array, sort_ids
from trajcloak.kernels.sort import group_by_number
from trajcloak.log.request_log import RequestLog
from trajcloak.log.request_values import Requests, drop_unsent, merge_kinds
from trajcloak.log.row_checks import copy_place, copy_times, mixed_ids, mixed_times
from trajcloak.log.sharded_log import Change, add_counts
from trajcloak.options import LogColumns


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
    part = _choose_parts(log.users, parts)
    users, first_user = group_by_number(part, parts)
    rows, first = group_by_number(part[log.user], parts)
    assert log.requests.row is not None
    sent, first_sent = group_by_number(part[log.request_user], parts)
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
                    log.requests.kind[requests],
                    log.requests.kinds,
                    position[log.requests.row[requests]].astype(np.int64),
                ),
                dropped={},
                shifted={},
                file_row=mine.astype(np.int64) + first_row
                if log.file_row is None
                else log.file_row[mine],
            )
        )
    return pieces


def find_part(log: RequestLog, parts: int) -> int:
    """Find which shard, of ``parts`` that rows were split into, a shard is."""
    return int(_choose_parts(log.users[:1], parts)[0])


def _choose_parts(users: pa.Array, parts: int) -> npt.NDArray[np.int32]:
    return (hash_ids(users) % np.uint64(parts)).astype(np.int32)


def _count_from_first(
    members: npt.NDArray[np.int32], first: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Number the members of each group from 0; returns the number at each position."""
    rank = np.empty(len(members), np.int32)
    rank[members] = np.arange(len(members)) - np.repeat(first[:-1], np.diff(first))
    return rank


def join_rows(pieces: Sequence[RequestLog | None], columns: LogColumns) -> RequestLog | None:
    """Join the pieces of a shard, in the order of their rows; None if there are no rows.

    Raises
    ------
    InputError
        If the pieces are of different types; names the columns.
    """
    logs = [piece for piece in pieces if piece is not None]
    if not logs:
        return None
    one = logs[0]
    if len(pieces) == 1:
        return one
    is_integer = pa.types.is_integer(one.users.type)
    if any(pa.types.is_integer(log.users.type) != is_integer for log in logs):
        raise mixed_ids(columns.user)
    if any((log.has_timestamps, log.zone) != (one.has_timestamps, one.zone) for log in logs):
        raise mixed_times(columns.time, [(log.has_timestamps, log.zone) for log in logs])
    ends = np.cumsum([log.num_rows for log in logs])
    users, numbers = _merge_users(logs)
    kinds, kind_numbers = merge_kinds([log.requests.kinds for log in logs])
    joined = (
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
        user_out, time_out, x_out, y_out, row_out = (column[into] for column in joined)
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
        user=joined[0],
        time=joined[1],
        x=joined[2],
        y=joined[3],
        file_row=joined[4],
        # A piece still lists the distinct requests of all pieces that were read with it.
        requests=drop_unsent(
            Requests(
                np.concatenate(
                    [n[log.requests.kind] for log, n in zip(logs, kind_numbers, strict=True)]
                ),
                kinds,
                np.concatenate(
                    [
                        log.requests.row + (end - log.num_rows)
                        for log, end in zip(logs, ends, strict=True)
                    ]
                ),
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


@dataclass(frozen=True)
class SentRequests:
    """Requests of a second input, not matched to the users of the log yet.

    Attributes
    ----------
    users : pyarrow.Array
        The distinct ids of their users.
    requests : Requests
        ``user`` is the position in ``users``.
    """

    users: pa.Array
    requests: Requests


def split_requests(sent: SentRequests, parts: int) -> list[SentRequests]:
    """Split requests as :func:`split_log` splits rows: by a hash of the user id."""
    requests = sent.requests
    assert requests.user is not None
    assert requests.time is not None
    part = _choose_parts(sent.users, parts)
    users, first_user = group_by_number(part, parts)
    order, first = group_by_number(part[requests.user], parts)
    number = _count_from_first(users, first_user)
    pieces = []
    for p in range(parts):
        mine = order[first[p] : first[p + 1]]
        of_part = Requests(
            requests.kind[mine],
            requests.kinds,
            user=number[requests.user[mine]],
            time=requests.time[mine],
        )
        ids = sent.users.take(pa.array(users[first_user[p] : first_user[p + 1]]))
        pieces.append(SentRequests(ids, drop_unsent(of_part)))
    return pieces


def match_requests(
    log: RequestLog, pieces: Sequence[SentRequests], names: Sequence[str], has_text: bool
) -> Change:
    """Give a shard the requests of its users; those of users without a row are left out.

    Parameters
    ----------
    log
        A shard, without requests.
    pieces
        The requests of the same part of all users.
    names
        The request attributes.
    has_text
        Whether their values were read from text.
    """
    # Nothing is known about the attributes where a file has no rows at all.
    pieces = [sent for sent in pieces if sent.requests.kinds.num_columns]
    kinds = pa.table({name: pa.array([], pa.string()) for name in names})
    numbers: list[npt.NDArray[np.int32]] = []
    if pieces:
        kinds, numbers = merge_kinds([sent.requests.kinds for sent in pieces])
    ids = [log.users, *(sent.users for sent in pieces if len(sent.users))]
    are_numbers = all(pa.types.is_integer(users.type) for users in ids)
    # The users of the shard are numbered first, so that all higher numbers are unknown users.
    interner = IntegerIds() if are_numbers else TextIds()
    intern_array(interner, log.users, np.empty(log.num_users, np.int32))
    user, time, kind = [np.empty(0, np.int32)], [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for sent, number in zip(pieces, numbers, strict=True):
        if not len(sent.users):
            continue
        position = np.empty(len(sent.users), np.int32)
        intern_array(interner, sent.users, position)
        assert sent.requests.user is not None
        assert sent.requests.time is not None
        sender = position[sent.requests.user]
        is_known = sender < log.num_users
        user.append(sender[is_known])
        time.append(sent.requests.time[is_known])
        kind.append(number[sent.requests.kind[is_known]])
    requests = Requests(
        np.concatenate(kind), kinds, user=np.concatenate(user), time=np.concatenate(time)
    )
    return {"requests": drop_unsent(requests), "has_text_requests": has_text}
