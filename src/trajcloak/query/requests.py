"""How often requests were sent by the users in question: proved in ``docs/queries.md``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trajcloak.errors import OptionError
from trajcloak.published import NUM_KEYS, REQUESTS_FILE, read_columns, read_schema
from trajcloak.query.answers import NONE, Answer, RequestAnswer, add, unite
from trajcloak.query.bounds import Bounds, Numbers


@dataclass(frozen=True)
class Presence:
    """Which users of a window are in question, instant by instant.

    Attributes
    ----------
    first_id : int
        The window's first bundle.
    instants : list of int
        Those at which requests count.
    bounds : list of Bounds
        For each of these instants.
    users : (bundles,) int64
    most : (bundles,) int64
        Most users of each bundle who can be in question at any of the instants.
    """

    first_id: int
    instants: list[int]
    bounds: list[Bounds]
    users: Numbers
    most: Numbers


@dataclass(frozen=True)
class RequestRows:
    """The rows of ``requests.parquet`` with one of their attributes.

    Attributes
    ----------
    bundle, instant : (rows,) int32
        Ascending by bundle, then instant.
    code : (rows,) int32
        Which of ``values`` the row has.
    values : list
        The attribute's values; None where it is null.
    """

    bundle: npt.NDArray[np.int32]
    instant: npt.NDArray[np.int32]
    code: npt.NDArray[np.int32]
    values: list[Any]


def list_attributes(path: Path) -> list[str]:
    """List the request attributes of a release."""
    return list(read_schema(path / REQUESTS_FILE).names[NUM_KEYS:])


def read_request_rows(path: Path, attribute: str) -> RequestRows:
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
    table = read_columns(path / REQUESTS_FILE, ["bundle_id", "instant", attribute])
    code, values = _encode(table.column(attribute))
    return RequestRows(
        bundle=table.column("bundle_id").to_numpy().astype(np.int32),
        instant=table.column("instant").to_numpy(),
        code=code,
        values=values,
    )


def _encode(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], list[Any]]:
    """Number the values of a column."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = column.unify_dictionaries().chunks
    values = chunks[0].dictionary.to_pylist() if chunks else []
    parts = [chunk.indices.fill_null(len(values)).to_numpy() for chunk in chunks]
    code = np.concatenate([np.empty(0, np.int32), *parts]).astype(np.int32)
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


def _count_in_window(rows: RequestRows, window: Presence) -> tuple[list[Answer], list[Answer]]:
    """Count, for each value, the entries and the users of a window."""
    bundle, column, code = _select(rows, window)
    if not len(code):
        return [NONE] * len(rows.values), [NONE] * len(rows.values)
    place = column, bundle
    certain = np.stack([b.lower == window.users for b in window.bounds])
    share = np.stack([b.estimate / window.users for b in window.bounds])
    upper = np.stack([b.upper for b in window.bounds])
    entries = _sum_by_code(code, certain[place], share[place], None, len(rows.values))

    # One row for each bundle, value and instant; then one for each bundle and value.
    key = (bundle * len(rows.values) + code) * len(window.instants) + column
    key, num_entries = np.unique(key, return_counts=True)
    group, column = np.divmod(key, len(window.instants))
    bundle, code = np.divmod(group, len(rows.values))
    place = column, bundle
    first = np.flatnonzero(np.diff(group, prepend=-1))
    least = np.maximum.reduceat(certain[place].astype(np.int64), first)
    most = np.minimum(np.add.reduceat(upper[place], first), window.most[bundle[first]])
    senders = np.minimum(num_entries, window.users[bundle]) * share[place]
    estimate = np.clip(np.add.reduceat(senders, first), least, most)
    return entries, _sum_by_code(code[first], least, estimate, most, len(rows.values))


def _select(rows: RequestRows, window: Presence) -> tuple[Numbers, Numbers, Numbers]:
    """Select the rows that users in question can have sent: bundle, place of the instant, code."""
    ends = np.array([window.first_id, window.first_id + len(window.users)], np.int32)
    start, stop = np.searchsorted(rows.bundle, ends)
    instants = np.array(window.instants)
    # Instants of other rows find no place.
    number = np.full(int(max(instants.max(), rows.instant[start:stop].max(initial=0))) + 1, -1)
    number[instants] = np.arange(len(instants))
    column = number[rows.instant[start:stop]]
    kept = np.flatnonzero(column >= 0)
    bundle = rows.bundle[start:stop][kept].astype(np.int64) - window.first_id
    column = column[kept]
    upper = np.stack([b.upper for b in window.bounds])
    possible = upper[column, bundle] > 0
    code = rows.code[start:stop][kept[possible]].astype(np.int64)
    return bundle[possible], column[possible], code


def _sum_by_code(
    code: Numbers,
    lower: npt.NDArray[Any],
    estimate: npt.NDArray[np.float64],
    upper: Numbers | None,
    num_codes: int,
) -> list[Answer]:
    """Add up bounds value by value; without ``upper`` every row counts once."""
    sums = [
        np.bincount(code, weights, minlength=num_codes).tolist()
        for weights in (lower, estimate, upper)
    ]
    return [Answer(int(low), about, int(high)) for low, about, high in zip(*sums, strict=True)]
