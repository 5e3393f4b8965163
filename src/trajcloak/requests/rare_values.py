"""Rare values, which few users sent: count them, and keep, withhold or replace them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.log import RequestLog, ShardedLog
from trajcloak.log.request_values import number_kinds
from trajcloak.options import DROP, KEEP
from trajcloak.requests.attributes import Attribute
from trajcloak.requests.patterns import is_text

OTHER_TEXT = "other"
"""What a rare text becomes; any other rare value becomes null."""

Masks = Sequence[npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class RareColumn:
    """How many values of an attribute few users sent.

    Attributes
    ----------
    column : str
    values : int
        Distinct rare values.
    requests : int
        Requests of the log with one of them.
    recurring : int
        Rare values that were sent in more than one window, and so may link windows.
    """

    column: str
    values: int
    requests: int
    recurring: int


@dataclass(frozen=True)
class Treatment:
    """What becomes of each distinct request of a log.

    Attributes
    ----------
    kinds : pyarrow.Table
        The distinct requests that may be published, sorted, null first.
    number : (kinds of the log,) int32
        Row of ``kinds`` that each request becomes; -1: it is withheld.
    is_changed : (kinds of the log,) bool
        Whether one of its values was replaced.
    """

    kinds: pa.Table
    number: npt.NDArray[np.int32]
    is_changed: npt.NDArray[np.bool_]


def find_rare(attributes: Sequence[Attribute], below: int) -> Masks:
    """Mark, for each attribute, the values that fewer than ``below`` users sent."""
    return [attribute.users < below for attribute in attributes]


def count_rare(
    log: ShardedLog,
    attributes: Sequence[Attribute],
    rare: Masks,
    windows: npt.NDArray[np.int64],
) -> tuple[RareColumn, ...]:
    """Count rare values, and those that recur across windows.

    Parameters
    ----------
    log : ShardedLog
    attributes, rare
        From :func:`find_rare`.
    windows : (windows, 2) int64
        When each window starts and ends, in the log's unit, ascending.
    """
    return tuple(
        RareColumn(
            column=attribute.name,
            values=int(is_rare.sum()),
            requests=int(attribute.sent[is_rare].sum()),
            recurring=_count_recurring(log.ask(list_sent, attribute, is_rare, windows)),
        )
        for attribute, is_rare in zip(attributes, rare, strict=True)
        if is_rare.any()
    )


def treat_rare(
    kinds: pa.Table, attributes: Sequence[Attribute], rare: Masks, rule: str
) -> Treatment | None:
    """Withhold requests with a rare value, or replace the value; None: nothing to do.

    A request without any value left is withheld, too. ``kinds`` are the distinct requests.
    """
    holds_rare = np.zeros(kinds.num_rows, np.bool_)
    for attribute, is_rare in zip(attributes, rare, strict=True):
        # Null, with code -1, is never rare: it takes the appended entry.
        holds_rare |= np.append(is_rare, False)[attribute.code]
    if rule == KEEP or not holds_rare.any():
        return None
    if rule == DROP:
        kept = np.flatnonzero(~holds_rare)
        return Treatment(
            kinds=kinds.take(pa.array(kept)),
            number=_number(kept, np.arange(len(kept), dtype=np.int32), kinds.num_rows),
            is_changed=np.zeros(kinds.num_rows, np.bool_),
        )
    replaced = [_replace(a, is_rare) for a, is_rare in zip(attributes, rare, strict=True)]
    left = np.zeros(kinds.num_rows, np.bool_)
    for column in replaced:
        left |= column.is_valid().to_numpy(zero_copy_only=False)
    kept = np.flatnonzero(left)
    columns = {
        attribute.name: [column.take(pa.array(kept)).dictionary_encode()]
        for attribute, column in zip(attributes, replaced, strict=True)
    }
    number, new_kinds = number_kinds(columns, {f.name: f.type for f in kinds.schema})
    return Treatment(new_kinds, _number(kept, number, kinds.num_rows), holds_rare & left)


def _number(
    kept: npt.NDArray[np.int64], number: npt.NDArray[np.int32], size: int
) -> npt.NDArray[np.int32]:
    all_numbers = np.full(size, -1, np.int32)
    all_numbers[kept] = number
    return all_numbers


def _replace(attribute: Attribute, is_rare: npt.NDArray[np.bool_]) -> pa.Array:
    """List the value of each distinct request, with rare values replaced."""
    values = attribute.values
    other = OTHER_TEXT if is_text(values.type) else None
    values = pc.if_else(pa.array(is_rare), pa.scalar(other, values.type), values)
    return values.take(pa.array(attribute.code, mask=attribute.code < 0))


def list_sent(
    log: RequestLog,
    attribute: Attribute,
    is_rare: npt.NDArray[np.bool_],
    windows: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """List the pairs of a rare value and a window in which the shard sent it: (pairs, 2)."""
    if len(windows) <= 1:
        return np.empty((0, 2), np.int64)
    code = attribute.code[log.requests.kind]
    chosen = np.flatnonzero(np.append(is_rare, False)[code])
    time = log.request_time[chosen]
    window = np.searchsorted(windows[:, 0], time, side="right") - 1
    inside = (window >= 0) & (time < windows[window, 1])
    pairs = np.unique(code[chosen[inside]].astype(np.int64) * len(windows) + window[inside])
    return np.column_stack(np.divmod(pairs, len(windows)))


def _count_recurring(sent: Sequence[npt.NDArray[np.int64]]) -> int:
    """Count the values that were sent in several windows, from the lists of all shards."""
    values = np.unique(np.concatenate(sent), axis=0)[:, 0]
    return int((np.unique(values, return_counts=True)[1] > 1).sum())
