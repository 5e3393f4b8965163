"""Request attributes that hold the ids of their senders.

Short ids, and numbers in columns of numbers, occur by chance. A column is a leak if its
values are ids of members of the row's own bundle far more often than chance has it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.arrays import find_runs, pick
from trajcloak.auditor.files import may_be_text, plain, plain_type, to_text
from trajcloak.auditor.layout import Layout
from trajcloak.auditor.logs import Log
from trajcloak.auditor.members import Members
from trajcloak.auditor.parts import Part

SIGNIFICANT = 21.0
"""Natural logarithm of the odds against chance, about 10^9."""

ROWS_AT_ONCE = 1 << 21

Ints = npt.NDArray[np.int64]


def find_own_ids(
    requests: Part, log: Log, members: Members, layout: Layout, num_windows: int
) -> list[str]:
    """Compare the values of each request attribute with the ids of the row's bundle."""
    table = requests.table
    window = table["window"].to_numpy().astype(np.int64)
    bundle = layout.find(table["bundle_id"].to_numpy())
    in_window = np.bincount(layout.window, weights=members.sizes, minlength=num_windows)
    share = members.sizes / np.maximum(in_window[layout.window], 1)
    ids = pc.cast(log.ids, pa.string())
    problems = []
    for name in log.requests:
        codes, values = _encode(table[name])
        for mentions in _list_mentions(values, ids):
            num_own = num_rows = 0
            expected = 0.0
            is_own = np.zeros(log.num_users, dtype=bool)
            for start in range(0, len(codes), ROWS_AT_ONCE):
                part = slice(start, start + ROWS_AT_ONCE)
                row, user = mentions.expand(codes[part])
                row += start
                row, user = row[bundle[row] >= 0], user[bundle[row] >= 0]
                position = members.find(user * num_windows + window[row])
                own = pick(members.bundle, position) == bundle[row]
                is_own[user[own]] = True
                num_own += len(find_runs(row[own])[0])
                rows, counts = find_runs(row)
                num_rows += len(rows)
                expected += float((1 - (1 - share[bundle[rows]]) ** counts).sum())
            if num_rows and _is_leak(num_own, num_rows, int(is_own.sum()), expected / num_rows):
                problems.append(
                    f"request attribute '{name}' holds users' ids: in {num_own:,} of the "
                    f"{num_rows:,} rows with one it is that of a member of the row's own bundle"
                )
                break
    return problems


def _is_leak(num_own: int, num_rows: int, distinct: int, expected: float) -> bool:
    if num_own < 3 or 2 * num_own < num_rows or expected >= 1:
        return False
    share = num_own / num_rows
    if share > 10 * expected:
        return True
    # In a release of few bundles chance alone has many; there the number of users tells.
    surprise = share * math.log(share / expected)
    if share < 1:
        surprise += (1 - share) * math.log((1 - share) / (1 - expected))
    return share > expected and distinct * surprise > SIGNIFICANT


@dataclass(frozen=True)
class _Mentions:
    """The users whose ids are, or stand in, each of some values.

    Attributes
    ----------
    first
        Of each value, its first user in ``user``; one more at the end, and one for null.
    user
    """

    first: Ints
    user: Ints

    def expand(self, codes: Ints) -> tuple[Ints, Ints]:
        """List the rows with a user, and the user, for rows given by their values."""
        counts = self.first[codes + 1] - self.first[codes]
        row = np.repeat(np.arange(len(codes)), counts)
        within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        return row, self.user[np.repeat(self.first[codes], counts) + within]


def _encode(column: Any) -> tuple[Ints, Any]:
    """Replace values by codes; null has the code after the last. Also lists the values."""
    if not len(column):
        return np.zeros(0, np.int64), pa.array([], plain_type(column.type))
    encoded = pa.chunked_array([plain(chunk) for chunk in column.chunks]).dictionary_encode()
    values = encoded.chunk(0).dictionary
    codes = [pc.fill_null(chunk.indices, len(values)).to_numpy() for chunk in encoded.chunks]
    return np.concatenate(codes).astype(np.int64), values


def _list_mentions(values: Any, ids: Any) -> Iterator[_Mentions]:
    """Find the users whose ids are values, and whose ids are numbers in values that are text.

    Moments and durations may have been sent in a coarser unit than Parquet has.
    """
    texts = _spell(values)
    if texts is None:
        return
    every = np.arange(len(values), dtype=np.int64)
    yield _match(every, texts, ids, len(values))
    if may_be_text(values.type):
        yield _match(*_list_numbers(texts), ids, len(values))
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        counts = values.view(pa.int64())
        for unit in (10**3, 10**6, 10**9):
            coarser = pc.divide(counts, unit)
            if pc.multiply(coarser, unit).equals(counts):
                yield _match(every, pc.cast(coarser, pa.string()), ids, len(values))


def _spell(values: Any) -> Any:
    """Spell values as ids are spelled; None if they cannot be ids."""
    kind = values.type
    if may_be_text(kind):
        return to_text(values)
    if pa.types.is_floating(kind):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        whole = np.isfinite(numbers) & (np.rint(numbers) == numbers) & (abs(numbers) < 2**53)
        values = pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=~whole)
    elif pa.types.is_decimal(kind):
        return pc.replace_substring_regex(pc.cast(values, pa.string()), r"\.0*$", "")
    elif pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not pa.types.is_integer(kind):
        return None
    return pc.cast(values, pa.string())


def _list_numbers(texts: Any) -> tuple[Ints, Any]:
    """List all numbers (stretches of digits) in texts without nulls, and the text of each."""
    texts = pc.cast(texts, pa.large_binary())
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if not len(texts) or data is None:
        return np.zeros(0, np.int64), pa.array([], pa.string())
    signs = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    at = np.flatnonzero((signs >= ord("0")) & (signs <= ord("9")))
    of_text = np.searchsorted(ends - ends[0], at, side="right") - 1
    is_next = (at[1:] == at[:-1] + 1) & (of_text[1:] == of_text[:-1])
    starts = np.flatnonzero(np.append(True, ~is_next)[: len(at)])
    edges = np.append(starts, len(at)).astype(np.int64)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(signs[at])]
    numbers = pa.Array.from_buffers(pa.large_string(), len(starts), buffers)
    return of_text[starts].astype(np.int64), numbers


def _match(value: Ints, texts: Any, ids: Any, num_values: int) -> _Mentions:
    """Find the user of each text, first with regard to case; ``value`` ascends."""
    texts = pc.cast(texts, pa.string())
    folded = pc.index_in(pc.utf8_lower(texts), value_set=pc.utf8_lower(ids))
    user = pc.fill_null(pc.coalesce(pc.index_in(texts, value_set=ids), folded), -1).to_numpy()
    num_users = len(ids)
    pairs = np.unique((value * num_users + user)[user >= 0])
    first = np.searchsorted(pairs // num_users, np.arange(num_values + 2))
    return _Mentions(first, pairs % num_users)
