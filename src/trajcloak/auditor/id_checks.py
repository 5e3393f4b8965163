"""User ids in a release: in its text, its metadata, its manifest and its request attributes.

Ids that are long enough to tell from chance are searched for in all text. Short ids, and
numbers in columns of numbers, occur by chance: such a column is a leak if its values are ids
of members of the row's own bundle far more often than chance explains.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyproj

from trajcloak.auditor.audited_log import Log
from trajcloak.auditor.audited_manifest import FIELDS, REASONS, RULES, Manifest
from trajcloak.auditor.audited_parquet import ARROW_SCHEMA, ParquetContents, list_bundle_columns
from trajcloak.auditor.audited_values import decode_column, decode_text, decoded_type, may_be_text
from trajcloak.auditor.bundle_checks import GEO_WORDS, BundleLayout, Members
from trajcloak.auditor.search import Words, find_runs, pick

Ints = npt.NDArray[np.int64]

LONG = 6
"""Characters of an id that is searched for in text."""

BY_CHANCE = 0.01
"""If at most this many numbers of a text are expected to be ids by chance, one id is a leak."""

FEW = 3
ABOVE_CHANCE = 4
"""Otherwise more than ``FEW``, and this many times more than expected by chance, are a leak."""

UUID = "^([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})$"

FORMAT_WORDS = """
users requests why user_windows side origin every max_gap length missing tree
suppress_above max_suppressed withhold hold quad mbr trajcloak traj-anon refined
baseline fast-clustering slow-clustering hilbert-clustering exact
usb usb-instant us effort low normal high seed blocks allow rare rare_below keep drop other
tz align none day windows UTC
rows dropped repeated start end instants interval long_gaps user_instants zone crs
log_crs clip max_speed drop empty out-of-range null-island swapped conflict teleport
reported interpolated held ambiguous nonexistent OGC:CRS84
bundles.parquet requests.parquet manifest.json geometry Polygon WKB planar spherical
counterclockwise +proj=laea +datum=WGS84 +units=m +no_defs 6378137
parquet-cpp-arrow version org.apache.arrow ARROW:schema PARQUET:field_id
"""
"""Words of the format and the software."""

TIMED = ("origin", "every", "max_gap", "start", "end", "interval")
"""Fields whose values are checked as moments or durations, so that their digits are no ids."""

SIGNIFICANT = 21.0
"""Natural logarithm of the odds against chance, about 10^9."""

ROWS_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class PublishedText:
    """Everything of a release that could name a user."""

    names: list[str]
    manifest: Manifest
    bundles: ParquetContents
    requests: ParquetContents


def find_text_problems(published: PublishedText, log: Log) -> list[str]:
    """Search all text of a release for the ids that are long enough."""
    words, numbers = list_ids(log)
    problems = []
    table = published.requests.table
    for number, name in enumerate(table.column_names, 1):
        text = _join_text(table.column(number - 1))
        # Values that were sent but not published also count for what chance explains.
        sent = _join_text(log.requests[name]) if text and name in log.requests else b""
        num_found = int(words.find_in(text).sum()) + count_numbers(numbers, text, sent)
        if num_found:
            problems.append(
                f"column {number} of requests.parquet holds the ids of {num_found:,} users"
            )
    vocabulary = _list_vocabulary(published.manifest, log).lower()
    raw = b"\0".join(_list_raw(published)).lower()
    found = words.find_in(raw) & ~words.find_in(vocabulary)
    strings = "\0".join(_list_strings(published)).encode("utf-8", "surrogatepass")
    num_found = int(found.sum()) + count_numbers(numbers, strings, b"", vocabulary)
    if num_found:
        problems.append(f"the metadata or the manifest holds the ids of {num_found:,} users")
    return problems


def list_ids(log: Log) -> tuple[Words, Words]:
    """List the long ids: names, in lower case, and numbers without their sign."""
    ids = pc.cast(log.ids, pa.string())
    is_number = pc.match_substring_regex(ids, "^-?[0-9]+$")
    names = pc.utf8_lower(ids.filter(pc.invert(is_number)))
    names = names.filter(pc.greater_equal(pc.utf8_length(names), LONG))
    tokens = names.filter(pc.match_substring_regex(names, UUID))
    spelled = [
        pc.replace_substring_regex(tokens, UUID, parts)
        for parts in (r"\1\2\3\4\5", r"\1-\2-\3-\4-\5")
    ]
    digits = pc.utf8_ltrim(ids.filter(is_number), characters="-")
    digits = digits.filter(pc.greater_equal(pc.utf8_length(digits), LONG))
    return Words(pa.concat_arrays([names, *spelled]).unique()), Words(digits.unique())


def count_numbers(numbers: Words, text: bytes, more: bytes = b"", vocabulary: bytes = b"") -> int:
    """Count the ids among the numbers of a text, or 0 if chance explains them.

    Chance is that of the numbers of the text and of ``more``; what stands in the vocabulary
    is no id.
    """
    found, _ = numbers.find_numbers_in(text)
    num_found = int((found & ~numbers.find_numbers_in(vocabulary)[0]).sum())
    if not num_found:
        return 0
    _, by_chance = numbers.find_numbers_in(text + b"\0" + more)
    if by_chance > BY_CHANCE and num_found <= max(FEW, ABOVE_CHANCE * by_chance):
        return 0
    return num_found


def _join_text(column: Any) -> bytes:
    """Join the distinct values of a column of text or bytes, in lower case; nothing for others."""
    if not may_be_text(decoded_type(column.type)):
        return b""
    distinct = decode_column(column).unique()
    distinct = pc.utf8_lower(decode_text(distinct.drop_null())).cast(pa.large_binary())
    _, offsets, data = distinct.buffers()
    if not len(distinct) or data is None:
        return b""
    ends = np.frombuffer(offsets, np.int64)[distinct.offset : distinct.offset + len(distinct) + 1]
    text = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return np.insert(text, ends[1:-1] - ends[0], 0).tobytes()


def _list_vocabulary(manifest: Manifest, log: Log) -> bytes:
    """List the words that every such release has: an id among them names nobody."""
    columns = [name for name, _ in list_bundle_columns(log.stamped, log.zoned)]
    words = [*columns, *log.requests, *FIELDS, *RULES, *REASONS, *GEO_WORDS]
    words += [FORMAT_WORDS, log.clock or ""]
    # Moments and durations are compared with the log's own, so one that equals an id is no leak.
    for part in (manifest["parameters"], manifest["ingest"]):
        words += _walk([part.get(name) for name in TIMED])
    if manifest["crs"] is not None:
        words.append(pyproj.CRS.from_user_input(manifest["crs"]).to_json())
    return "\0".join(words).encode()


def _list_raw(published: PublishedText) -> Iterator[bytes]:
    """List all bytes in which a text id could hide."""
    yield published.manifest.raw
    strings = _list_strings(published)
    yield from (string.lower().encode("utf-8", "surrogatepass") for string in strings)
    for part in (published.bundles, published.requests):
        # The schema is there in base64, in which short ids occur by chance.
        yield b"\0".join(part.outside).replace(part.metadata.get(ARROW_SCHEMA) or b"\0", b"\0")
        yield part.schema_bytes


def _list_strings(published: PublishedText) -> Iterator[str]:
    """List the strings of the metadata, without numbers and what is made of them."""
    yield from published.names
    fields = dict(published.manifest.fields)
    for name in ("parameters", "ingest"):
        fields[name] = {key: None if key in TIMED else value for key, value in fields[name].items()}
    yield from _walk(fields)
    for part in (published.bundles, published.requests):
        yield part.created_by
        yield from part.table.column_names
        for key, value in [*part.metadata.items(), *part.field_metadata]:
            if key != ARROW_SCHEMA:
                yield key.decode("latin-1")
                yield from _walk_json(value)


def _walk_json(raw: bytes) -> Iterator[str]:
    try:
        yield from _walk(json.loads(raw))
    except (ValueError, RecursionError):
        yield raw.decode("latin-1")


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from _walk(part)
    elif isinstance(value, list):
        for part in value:
            yield from _walk(part)


def find_own_ids(
    requests: ParquetContents, log: Log, members: Members, layout: BundleLayout, num_windows: int
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
    # With few bundles many ids match by chance; there the number of users decides.
    surprise = share * math.log(share / expected)
    if share < 1:
        surprise += (1 - share) * math.log((1 - share) / (1 - expected))
    return share > expected and distinct * surprise > SIGNIFICANT


@dataclass(frozen=True)
class _Mentions:
    """The users whose ids equal, or occur in, each of some values.

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
        return np.zeros(0, np.int64), pa.array([], decoded_type(column.type))
    encoded = decode_column(column).dictionary_encode()
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
        return decode_text(values)
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
