"""Split rows by user, and join the pieces to shards, which hold all rows of some users.

Requests of a second input are split in the same way, and join the shard of their user.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.kernels.intern import IntegerIds, TextIds, hash_ids, rank_ids
from trajcloak.kernels.sort import group_by_number
from trajcloak.log.request_values import Requests, SentRequests, drop_unsent, merge_kinds
from trajcloak.log.sharded_log import Change, RequestLog, measure_rows


def split_log(log: RequestLog, parts: int, first_row: int) -> list[RequestLog | None]:
    """Split some rows of a log by a hash of the user id, so that a user's rows go to one shard.

    ``first_row`` is the number of the first row, from 0, if none was dropped. Returns None for a
    shard that gets no rows. Steps, bounds and time ranges are still those of ``log``.
    """
    if parts == 1 and first_row == 0:
        return [log]
    part = _choose_parts(log.users, parts)
    users, number = _split(part, parts)
    rows, position = _split(part[log.user], parts)
    sent, _ = _split(part[log.request_user], parts)
    return [
        _take_rows(log, *chosen, number, position, first_row) if len(chosen[1]) else None
        for chosen in zip(users, rows, sent, strict=True)
    ]


def keep_rows(log: RequestLog, keep: npt.NDArray[np.bool_]) -> RequestLog:
    """Keep some rows of a shard, and only the users and distinct requests that they have.

    Requires: at least one row is kept; requests of a second input are not there yet.
    """
    if keep.all():
        return log
    rows = np.flatnonzero(keep)
    present = np.zeros(log.num_users, np.bool_)
    present[log.user[rows]] = True
    sent = np.flatnonzero(keep[log.requests.row])
    number = (np.cumsum(present) - 1).astype(np.int32)
    kept = _take_rows(log, np.flatnonzero(present), rows, sent, number, np.cumsum(keep) - 1, 0)
    measured = measure_rows(kept.time, kept.x, kept.y)
    return replace(kept, requests=drop_unsent(kept.requests), **measured)


def _take_rows(
    log: RequestLog,
    users: npt.NDArray[np.integer],
    rows: npt.NDArray[np.integer],
    sent: npt.NDArray[np.integer],
    number: npt.NDArray[np.int32],
    position: npt.NDArray[np.integer],
    first_row: int,
) -> RequestLog:
    """Take users, rows and requests of a log; users get a new ``number``, rows a ``position``."""
    requests = log.requests
    assert requests.row is not None
    return replace(
        log,
        users=log.users.take(pa.array(users)),
        user=number[log.user[rows]],
        time=log.time[rows],
        x=log.x[rows],
        y=log.y[rows],
        requests=replace(
            requests,
            kind=requests.kind[sent],
            row=position[requests.row[sent]].astype(np.int64),
        ),
        file_row=rows.astype(np.int64) + first_row if log.file_row is None else log.file_row[rows],
    )


def find_part(log: RequestLog, parts: int) -> int:
    """Find which shard, of ``parts`` that rows were split into, a shard is."""
    return int(_choose_parts(log.users[:1], parts)[0])


def _choose_parts(users: pa.Array, parts: int) -> npt.NDArray[np.int32]:
    return (hash_ids(users) % np.uint64(parts)).astype(np.int32)


def _split(
    part: npt.NDArray[np.int32], parts: int
) -> tuple[list[npt.NDArray[np.int32]], npt.NDArray[np.int32]]:
    """List the positions of each part, and number the positions within their part, from 0."""
    members, first = group_by_number(part, parts)
    number = np.empty(len(members), np.int32)
    number[members] = np.arange(len(members)) - np.repeat(first[:-1], np.diff(first))
    return np.split(members, first[1:-1]), number


def join_rows(pieces: Sequence[RequestLog | None]) -> RequestLog | None:
    """Join the pieces of a shard, in the order of their rows; None if there are no rows."""
    logs = [piece for piece in pieces if piece is not None]
    if not logs:
        return None
    one = logs[0]
    if len(pieces) == 1:
        return one
    ends = np.cumsum([log.num_rows for log in logs])
    users, numbers = _merge_users(logs)
    kinds, kind_numbers = merge_kinds([log.requests.kinds for log in logs])
    user = np.empty(ends[-1], np.int32)
    kind, row, file_row = [], [], []
    for log, number, kind_number, end in zip(logs, numbers, kind_numbers, ends, strict=True):
        assert log.requests.row is not None
        start = end - log.num_rows
        np.take(number, log.user, out=user[start:end])
        kind.append(kind_number[log.requests.kind])
        row.append(log.requests.row + start)
        file_row.append(np.arange(log.num_rows) if log.file_row is None else log.file_row)
    time = np.concatenate([log.time for log in logs])
    x, y = np.concatenate([log.x for log in logs]), np.concatenate([log.y for log in logs])
    return replace(
        one,
        users=users,
        user=user,
        time=time,
        x=x,
        y=y,
        **measure_rows(time, x, y),
        file_row=np.concatenate(file_row),
        # A piece still lists the distinct requests of all pieces that were read with it.
        requests=drop_unsent(Requests(np.concatenate(kind), kinds, np.concatenate(row))),
    )


def _merge_users(logs: Sequence[RequestLog]) -> tuple[pa.Array, list[npt.NDArray[np.int32]]]:
    """Number the users of all pieces; returns them, and the number of each user of each piece."""
    interner = IntegerIds() if pa.types.is_integer(logs[0].users.type) else TextIds()
    numbers = [interner.intern(log.users) for log in logs]
    users, rank = rank_ids(interner.distinct())
    return users, [rank[number] for number in numbers]


def split_requests(sent: SentRequests, parts: int) -> list[SentRequests]:
    """Split requests as :func:`split_log` splits rows: by a hash of the user id."""
    part = _choose_parts(sent.users, parts)
    users, number = _split(part, parts)
    positions, _ = _split(part[sent.user], parts)
    pieces = [
        SentRequests(
            sent.users.take(pa.array(ids)),
            number[sent.user[mine]],
            sent.time[mine],
            sent.kind[mine],
            sent.kinds,
        )
        for ids, mine in zip(users, positions, strict=True)
    ]
    return [drop_unsent(piece) for piece in pieces]


def match_requests(
    log: RequestLog, pieces: Sequence[SentRequests], names: Sequence[str], has_text: bool
) -> Change:
    """Give a shard the requests of its users; those of users without a row are left out.

    ``pieces`` are the requests of the same part of all users, ``names`` the request attributes.
    ``has_text``: whether their values were read from text.
    """
    # Nothing is known about the attributes where a file has no rows at all.
    pieces = [sent for sent in pieces if sent.kinds.num_columns]
    kinds = pa.table({name: pa.array([], pa.string()) for name in names})
    numbers: list[npt.NDArray[np.int32]] = []
    if pieces:
        kinds, numbers = merge_kinds([sent.kinds for sent in pieces])
    ids = [log.users, *(sent.users for sent in pieces if len(sent.users))]
    are_numbers = all(pa.types.is_integer(users.type) for users in ids)
    # The users of the shard are numbered first, so that all higher numbers are unknown users.
    interner = IntegerIds() if are_numbers else TextIds()
    interner.intern(log.users)
    user, time, kind = [np.empty(0, np.int32)], [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for sent, number in zip(pieces, numbers, strict=True):
        if not len(sent.users):
            continue
        sender = interner.intern(sent.users)[sent.user]
        is_known = sender < log.num_users
        user.append(sender[is_known])
        time.append(sent.time[is_known])
        kind.append(number[sent.kind[is_known]])
    requests = Requests(
        np.concatenate(kind), kinds, user=np.concatenate(user), time=np.concatenate(time)
    )
    return {"requests": drop_unsent(requests), "has_text_requests": has_text}
