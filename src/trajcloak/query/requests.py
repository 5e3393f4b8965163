"""How often requests were sent by the users in question: proved in ``docs/queries.md``."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.errors import OptionError
from trajcloak.query.answers import Answer, RequestAnswer, add, unite
from trajcloak.query.bounds import Bounds, Numbers
from trajcloak.query.windows import PublishedWindow, damaged
from trajcloak.release.reading import NUM_KEYS, REQUESTS_FILE, read_columns, read_schema

MARKS_PER_KEY = 16
"""Up to so many bytes per key, marking the ones seen is faster than sorting them."""


@dataclass(frozen=True)
class Presence:
    """Which users of a window are in question, instant by instant.

    Attributes
    ----------
    window : PublishedWindow
    instants : list of int
        Those at which requests count.
    bounds : list of Bounds
        For each of these instants.
    most : (bundles,) int64
        Most users of each bundle who can be in question at any of the instants.
    """

    window: PublishedWindow
    instants: list[int]
    bounds: list[Bounds]
    most: Numbers


@dataclass(frozen=True)
class RequestRows:
    """How often each value of an attribute stands in each set of requests.

    Attributes
    ----------
    first : (rows of ``bundles.parquet`` + 1,) int64
        Where the values of each bundle and instant start in ``code``.
    code : int64
        The distinct values of each bundle and instant, as places in ``values``.
    num_entries : int64
        How many requests have the value.
    values : list
        The attribute's values; None where it is null.
    """

    first: Numbers
    code: Numbers
    num_entries: Numbers
    values: list[Any]


def list_attributes(path: Path) -> list[str]:
    """List the request attributes of a release."""
    return list(read_schema(path / REQUESTS_FILE).names[NUM_KEYS:])


def read_request_rows(
    path: Path, attribute: str, windows: Sequence[PublishedWindow]
) -> RequestRows:
    """Read the requests of a release with one attribute.

    Raises
    ------
    OptionError
        If the release has no such attribute.
    """
    known = list_attributes(path)
    if attribute not in known:
        raise OptionError(
            f"{path}: the requests have no attribute '{attribute}'; expected one of "
            f"{', '.join(known) or '(none is published)'}; pass another --by"
        )
    file = path / REQUESTS_FILE
    table = read_columns(file, ["bundle_id", "instant", attribute])
    code, values = _encode(table.column(attribute))
    row = _find_rows(file, table, windows)
    size = max(len(values), 1)
    key, num_entries = np.unique(row * size + code, return_counts=True)
    row, code = np.divmod(key, size)
    num_rows = windows[-1].first_row + windows[-1].cloaks[0].size
    first = np.searchsorted(row, np.arange(num_rows + 1))
    return RequestRows(first, code, num_entries, values)


def _find_rows(file: Path, table: pa.Table, windows: Sequence[PublishedWindow]) -> Numbers:
    """Find the row of ``bundles.parquet`` that each request belongs to."""
    bundle = table.column("bundle_id").to_numpy()
    instant = table.column("instant").to_numpy().astype(np.int64)
    edges = [w.first_id for w in windows] + [windows[-1].first_id + len(windows[-1].users)]
    stops = np.searchsorted(bundle, edges)
    row = np.full(len(bundle), -1)
    for window, (start, stop) in zip(windows, pairwise(stops), strict=True):
        part = slice(start, stop)
        if ((instant[part] < window.start) | (instant[part] >= window.stop)).any():
            raise damaged(file)
        row[part] = window.to_rows(bundle[part] - window.first_id, instant[part])
    if (np.diff(row, prepend=0) < 0).any():
        raise damaged(file)
    return row


def _encode(column: pa.ChunkedArray) -> tuple[Numbers, list[Any]]:
    """Number the values of a column."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = column.unify_dictionaries().chunks
    values = chunks[0].dictionary.to_pylist() if chunks else []
    parts = [chunk.indices.fill_null(len(values)).to_numpy() for chunk in chunks]
    code = np.concatenate([np.empty(0, np.int64), *parts])
    return code, [*values, None] if column.null_count else values


def count_by_value(
    rows: RequestRows, windows: list[Presence], most_users: int
) -> dict[Any, RequestAnswer]:
    """Count requests and their senders, value by value, those that none can have sent left out.

    Parameters
    ----------
    rows : RequestRows
    windows : list of Presence
        Who is in question, window by window.
    most_users : int
        Most users who can be in question, over all windows.
    """
    parts = [_count_in_window(rows, window) for window in windows]
    found = {}
    for code, value in enumerate(rows.values):
        entries = add([part[0][code] for part in parts])
        if entries.upper:
            users = unite([part[1][code] for part in parts], most_users)
            found[value] = RequestAnswer(entries, users)
    return dict(sorted(found.items(), key=lambda item: -item[1].requests.estimate))


def _count_in_window(rows: RequestRows, presence: Presence) -> tuple[list[Answer], list[Answer]]:
    """Count, for each value, the entries and the users of a window."""
    users = presence.window.users
    bundle, column, code, num_entries = _select(rows, presence)
    certain = np.stack([b.lower == users for b in presence.bounds])[column, bundle]
    share = np.stack([b.estimate / users for b in presence.bounds])[column, bundle]
    upper = np.stack([b.upper for b in presence.bounds])[column, bundle]
    senders = np.minimum(num_entries, users[bundle]) * share
    weights = certain * num_entries, share * num_entries, num_entries
    entries = _sum_by_code(code, weights, len(rows.values))

    group, distinct = _number(bundle * len(rows.values) + code, len(users) * len(rows.values))
    bundle, code = np.divmod(distinct, max(len(rows.values), 1))
    add_up = partial(np.bincount, group, minlength=len(distinct))
    least = np.minimum(add_up(certain), 1)
    most = np.minimum(add_up(upper), presence.most[bundle])
    estimate = np.clip(add_up(senders), least, most)
    return entries, _sum_by_code(code, (least, estimate, most), len(rows.values))


def _select(rows: RequestRows, presence: Presence) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Select the values that users in question can have sent.

    Returns the bundle, the place of the instant, the code and the number of entries of each.
    """
    is_possible = np.stack([b.upper > 0 for b in presence.bounds])
    bundle, column = np.nonzero(is_possible.T)
    row = presence.window.to_rows(bundle, np.array(presence.instants)[column])
    start, count = rows.first[row], rows.first[row + 1] - rows.first[row]
    shift = start - np.cumsum(count) + count
    chosen = np.repeat(shift, count) + np.arange(int(count.sum()))
    return (
        np.repeat(bundle, count),
        np.repeat(column, count),
        rows.code[chosen],
        rows.num_entries[chosen],
    )


def _number(key: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Number the distinct keys below ``size``; returns the number of each, and the keys."""
    if size > max(MARKS_PER_KEY * len(key), 1 << 16):
        distinct, number = np.unique(key, return_inverse=True)
        return number, distinct
    is_seen = np.zeros(size, np.bool_)
    is_seen[key] = True
    return (np.cumsum(is_seen) - 1)[key], np.flatnonzero(is_seen)


def _sum_by_code(
    code: Numbers, weights: tuple[npt.NDArray[Any], ...], num_codes: int
) -> list[Answer]:
    """Add up bounds, value by value: lower, estimate and upper."""
    sums = [np.bincount(code, weight, minlength=num_codes).tolist() for weight in weights]
    return [Answer(int(low), about, int(high)) for low, about, high in zip(*sums, strict=True)]
