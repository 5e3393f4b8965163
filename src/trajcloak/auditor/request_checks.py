"""The published requests against those of the log, as sets per bundle and instant."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajcloak.auditor.audited_instants import InstantGrid
from trajcloak.auditor.audited_log import Log
from trajcloak.auditor.audited_manifest import Manifest
from trajcloak.auditor.audited_parquet import (
    KEYS,
    ParquetContents,
    find_nulls,
    find_schema_problems,
)
from trajcloak.auditor.audited_values import decode_column, decoded_type, unify_zeros_and_nans
from trajcloak.auditor.bundle_checks import BundleLayout
from trajcloak.auditor.findings import first_few, first_rows
from trajcloak.auditor.search import find_runs, find_sorted, list_distinct

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_WHOLE_NUMBER = "^-?[0-9]+$"

FROM_TEXT = (pa.int64(), pa.float64(), pa.string())
"""Types that attributes of a log that is text may have."""

OTHER = "other"
"""What a rare text is published as; any other rare value becomes null."""


@dataclass(frozen=True)
class RareRule:
    """What is done with rare values: ``keep``, ``drop`` or ``other``.

    Attributes
    ----------
    name
    below
        A value is rare if fewer users of the log sent it.
    """

    name: str
    below: int

    @property
    def keeps(self) -> bool:
        """Whether rare values are published as they are."""
        return self.name == "keep"


def find_request_file_problems(part: ParquetContents, log: Log) -> list[str]:
    """Check the columns of ``requests.parquet``; the attributes are as in the log.

    A log that is text leaves open which of a few types they have.
    """
    file = "requests.parquet"
    # Without a request there is no value whose type could be wrong.
    sent = len(log.request_row) or part.table.num_rows
    attributes = [(name, kind if sent else None) for name, kind in log.request_types.items()]
    problems = find_schema_problems(part, [*KEYS, *attributes], file, as_in_log=list(log.requests))
    if sent and not problems:
        problems = [
            f"column '{name}' of {file} is neither text nor a number of 64 bits, as text becomes"
            for name, kind in attributes
            if kind is None and decoded_type(part.table.schema.field(name).type) not in FROM_TEXT
        ]
    return problems or find_nulls(part, [name for name, _ in KEYS], file)


@dataclass(frozen=True)
class EncodedRequests:
    """Requests as numbers: equal numbers, equal name-value pairs.

    Attributes
    ----------
    of_row
        Of each row of the log (by its number in the files), its request; -1: none.
    published
        Of each row of ``requests.parquet``.
    num_codes
        All are less.
    withheld, changed
        Of each row of the log, whether its request must not be published because of a
        rare value, or must be published with one replaced.
    """

    of_row: Ints
    published: Ints
    num_codes: int
    withheld: Mask
    changed: Mask


def encode_requests(
    part: ParquetContents, log: Log, rule: RareRule
) -> tuple[EncodedRequests, list[str]]:
    """Number the requests of the log, with rare values replaced, and of the release.

    An attribute of the log that does not have the published type is a problem; it is
    then left out of the comparison.
    """
    problems = []
    sent = np.zeros(len(log.request_row), dtype=np.int64)
    published = np.zeros(part.table.num_rows, dtype=np.int64)
    num_codes = 1
    sender = sent if rule.keeps else _list_senders(log)
    holds_rare = np.zeros(len(sent), dtype=bool)
    is_left = np.zeros(len(sent), dtype=bool)
    for name, column in log.requests.items():
        kind = decoded_type(part.table.schema.field(name).type)
        values = _convert(column, kind)
        is_text = log.request_types[name] is None
        if values is None or (is_text and len(values.unique()) < len(column.unique())):
            # Text becomes numbers only where no two values become one.
            problems.append(f"attribute '{name}' of the log cannot be read as {kind}")
            continue
        values = unify_zeros_and_nans(values)
        if not rule.keeps:
            values, is_rare = _replace_rare(values, _list_rare(values, sender, rule.below))
            holds_rare |= is_rare
            is_left |= np.asarray(values.is_valid())
        chunks = [*values.chunks, *decode_column(part.table[name]).chunks]
        encoded = pa.chunked_array(chunks, kind).dictionary_encode("encode")
        codes = _join_codes(encoded, 0)
        num_values = int(codes.max()) + 1 if len(codes) else 1
        if num_codes * num_values >= 2**62:
            sent, published, num_codes = _renumber(sent, published)
        sent = sent * num_values + codes[: len(sent)]
        published = published * num_values + codes[len(sent) :]
        num_codes *= num_values
    if num_codes >= 2**31:
        sent, published, num_codes = _renumber(sent, published)
    of_row = np.full(len(log.row), -1, dtype=np.int64)
    of_row[log.request_row] = sent
    withheld, changed = np.zeros((2, len(log.row)), dtype=bool)
    if not rule.keeps:
        is_withheld = holds_rare & ~is_left if rule.name == "other" else holds_rare
        withheld[log.request_row] = is_withheld
        changed[log.request_row] = holds_rare & ~is_withheld
    return EncodedRequests(of_row, published, num_codes, withheld, changed), problems


def _renumber(sent: Ints, published: Ints) -> tuple[Ints, Ints, int]:
    distinct, codes = np.unique(np.concatenate([sent, published]), return_inverse=True)
    return codes[: len(sent)], codes[len(sent) :], len(distinct)


def _convert(column: Any, kind: Any) -> Any:
    if column.type == kind:
        return column
    is_text = pa.types.is_string(column.type)
    if is_text and pa.types.is_integer(kind):
        # A cast from text would also take hexadecimal numbers.
        plain_numbers = pc.all(pc.match_substring_regex(column, _WHOLE_NUMBER)).as_py()
        if plain_numbers is False:
            return None
    try:
        return pc.cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def place_requests(
    part: ParquetContents, grid: InstantGrid, layout: BundleLayout
) -> tuple[Ints, list[str]]:
    """Find the cloak (row of the layout) of each published request; -1: there is none."""
    table = part.table
    window = table["window"].to_numpy().astype(np.int64)
    instant = table["instant"].to_numpy().astype(np.int64)
    bundle = layout.find(table["bundle_id"].to_numpy())
    right = (bundle >= 0) & (layout.window[bundle] == window)
    within = instant - grid.window_starts(window)
    right &= (within >= 0) & (within < grid.window_sizes(window))
    slot = np.where(right, layout.first[bundle] + within, -1)
    if right.all():
        return slot, []
    wrong = first_rows(np.flatnonzero(~right))
    return slot, [f"no such bundle and instant of that window: {wrong} of requests.parquet"]


def find_request_order_problems(part: ParquetContents, attributes: list[str]) -> list[str]:
    """Check that requests are in ascending order, null first, and each is there once."""
    columns = [part.table[name].to_numpy() for name in ("bundle_id", "instant")]
    columns += [_rank(part.table[name]) for name in attributes]
    if part.table.num_rows < 2:
        return []
    step = np.zeros(part.table.num_rows - 1, dtype=np.int64)
    for column in columns:
        sign = (column[1:] > column[:-1]).astype(np.int64) - (column[1:] < column[:-1])
        step = np.where(step == 0, sign, step)
    problems = [
        f"attribute '{name}' has values of 0 with a sign, or NaNs other than one"
        for name in attributes
        if _has_other_zeros_or_nans(part.table[name])
    ]
    for wrong, what in ((step < 0, "out of order"), (step == 0, "duplicates")):
        if wrong.any():
            rows = first_rows(np.flatnonzero(wrong) + 1)
            problems.append(f"{what}: {rows} of requests.parquet")
    return problems


def _has_other_zeros_or_nans(column: Any) -> bool:
    kind = decoded_type(column.type)
    if not pa.types.is_floating(kind):
        return False
    bits = pa.int32() if kind == pa.float32() else pa.int64()
    chunks = decode_column(column).chunks
    return any(
        not chunk.view(bits).equals(unify_zeros_and_nans(chunk).view(bits)) for chunk in chunks
    )


def _rank(column: Any) -> Ints:
    """Replace values by their rank; null is 0. Arrow sorts text by its bytes."""
    if not len(column):
        return np.zeros(0, np.int64)
    encoded = decode_column(column).dictionary_encode()
    distinct = encoded.chunk(0).dictionary
    rank = np.zeros(len(distinct) + 1, dtype=np.int64)
    rank[pc.sort_indices(distinct).to_numpy()] = np.arange(1, len(distinct) + 1)
    return rank[_join_codes(encoded, len(distinct))]


def _join_codes(encoded: Any, null: int) -> Ints:
    """Take the codes of a dictionary-encoded column, with one for null."""
    codes = [pc.fill_null(chunk.indices, null).to_numpy() for chunk in encoded.chunks]
    return np.concatenate([np.zeros(0, np.int32), *codes])


def find_request_problems(
    sent: Ints, published: Ints, num_codes: int, layout: BundleLayout
) -> list[str]:
    """Compare two sets of requests; each is ``slot * num_codes + code``."""
    expected, found = list_distinct(sent), list_distinct(published)
    if np.array_equal(expected, found):
        return []
    problems = []
    missing = expected[find_sorted(found, expected) < 0]
    if len(missing):
        bundles = layout.ids[np.unique(layout.bundle[missing // num_codes])]
        problems.append(
            f"{len(missing):,} requests that were sent are not published "
            f"(bundles {first_few(bundles)})"
        )
    added = np.flatnonzero(find_sorted(expected, published) < 0)
    if len(added):
        problems.append(f"published but never sent: {first_rows(added)} of requests.parquet")
    return problems


def read_rule(manifest: Manifest) -> RareRule:
    """Read the rule from the parameters."""
    parameters = manifest.parameters
    return RareRule(parameters["rare"], parameters["rare_below"])


def _list_senders(log: Log) -> npt.NDArray[np.int64]:
    """List the user of each request of the log, in the order of ``log.request_row``."""
    user = np.empty(len(log.row), np.int64)
    user[log.row] = log.user
    return user[log.request_row]


def _list_rare(values: Any, sender: npt.NDArray[np.int64], below: int) -> Any:
    """List the values that fewer than ``below`` users sent, as an Arrow array."""
    encoded = values.combine_chunks().dictionary_encode()
    distinct = encoded.dictionary
    code = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64)
    sent = code >= 0
    num_users = int(sender.max()) + 1 if len(sender) else 1
    pairs, _ = find_runs(np.sort(code[sent] * num_users + sender[sent]))
    users = np.bincount(pairs // num_users, minlength=len(distinct))
    return distinct.filter(pa.array(users < below))


def _replace_rare(values: Any, rare: Any) -> tuple[Any, Mask]:
    """Replace rare values of a column; also returns a mask of them."""
    is_rare = pc.is_in(values, value_set=rare, skip_nulls=True)
    other = OTHER if pa.types.is_string(values.type) else None
    replaced = pc.if_else(is_rare, pa.scalar(other, values.type), values)
    return replaced, np.asarray(is_rare)


def find_rare_problems(part: ParquetContents, log: Log, rule: RareRule) -> list[str]:
    """Check that no published value is rare in the log."""
    if rule.keeps:
        return []
    problems = []
    sender = _list_senders(log)
    for name, column in log.requests.items():
        kind = decoded_type(part.table.schema.field(name).type)
        try:
            rare = _list_rare(unify_zeros_and_nans(pc.cast(column, kind)), sender, rule.below)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            # The comparison of the requests themselves finds that.
            continue
        if rule.name == "other" and pa.types.is_string(kind):
            rare = rare.filter(pc.not_equal(rare, OTHER))
        published = decode_column(part.table[name])
        num_found = pc.sum(pc.is_in(published.unique(), value_set=rare, skip_nulls=True)).as_py()
        if num_found:
            problems.append(
                f"attribute '{name}' has {num_found:,} published values that fewer than "
                f"{rule.below:,} users of the log sent"
            )
    return problems
