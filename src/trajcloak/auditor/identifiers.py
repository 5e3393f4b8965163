"""User ids in the contents and metadata of a release.

Ids that are long enough to tell from chance must not occur in any text. Short ones,
and numbers in columns of numbers, occur by chance; there a column is a leak if its
values are ids of members of the row's own bundle far more often than chance has it.
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

from trajcloak.auditor.arrays import list_distinct, pick
from trajcloak.auditor.cloaks import GEO_COLUMN_KEYS, GEO_KEYS
from trajcloak.auditor.files import plain, plain_type
from trajcloak.auditor.layout import Layout
from trajcloak.auditor.logs import Log
from trajcloak.auditor.manifest import FIELDS, REASONS, Manifest
from trajcloak.auditor.members import Members
from trajcloak.auditor.parts import ARROW_SCHEMA, Part, bundle_columns
from trajcloak.auditor.search import Words

LONG = 6
"""Characters of an id that is searched for in text."""

BY_CHANCE = 0.01
"""Numbers in a text that may coincide with ids before the search means nothing."""

SIGNIFICANT = 21.0
"""Natural logarithm of the odds against chance, about 10^9."""

FORMAT_WORDS = """
users requests why user_windows side origin every max_gap length missing tree
suppress_above max_suppressed withhold hold quad mbr trajcloak traj-anon refined
baseline fast-clustering slow-clustering hilbert-clustering exact
usb usb-instant us effort low normal high seed allow rare rare_below keep drop other
tz align none day windows UTC
rows dropped repeated start end instants interval long_gaps user_instants zone crs
log_crs clip max_speed drop empty out-of-range null-island swapped conflict teleport
reported interpolated held ambiguous nonexistent OGC:CRS84
bundles.parquet requests.parquet manifest.json geometry Polygon WKB planar spherical
counterclockwise +proj=laea +datum=WGS84 +units=m +no_defs 6378137
parquet-cpp-arrow version org.apache.arrow ARROW:schema PARQUET:field_id
"""
"""Words that the format and the software have of their own."""

TIMED = ("origin", "every", "max_gap", "start", "end", "interval")
"""Values that are checked to be a moment or durations; their digits mean just that."""


@dataclass(frozen=True)
class Published:
    """Everything of a release that could name a user."""

    names: list[str]
    manifest: Manifest
    bundles: Part
    requests: Part


def find_text_problems(published: Published, log: Log) -> list[str]:
    """Search all text of a release for the ids that are long enough."""
    ids = pc.cast(log.ids, pa.string())
    is_number = pc.match_substring_regex(ids, "^-?[0-9]+$")
    is_long = pc.greater_equal(pc.utf8_length(ids), LONG)
    words = Words(ids.filter(pc.and_(is_long, pc.invert(is_number))))
    digits = pc.utf8_ltrim(ids.filter(is_number), characters="-")
    numbers = Words(digits.filter(pc.greater_equal(pc.utf8_length(digits), LONG)).unique())
    problems = []
    for number, column in enumerate(published.requests.table.columns):
        text = _join_text(column)
        num_found = int(words.find_in(text).sum()) + _count_numbers(numbers, text, b"")
        if num_found:
            problems.append(
                f"column {number + 1} of requests.parquet holds the ids of {num_found:,} users"
            )
    vocabulary = _list_vocabulary(published.manifest, log)
    found = words.find_in(b"\0".join(_list_raw(published))) & ~words.find_in(vocabulary)
    strings = "\0".join(_list_strings(published)).encode("utf-8", "surrogatepass")
    num_found = int(found.sum()) + _count_numbers(numbers, strings, vocabulary)
    if num_found:
        problems.append(f"the metadata or the manifest holds the ids of {num_found:,} users")
    return problems


def _count_numbers(numbers: Words, text: bytes, vocabulary: bytes) -> int:
    found, by_chance = numbers.find_numbers_in(text)
    if by_chance > BY_CHANCE:
        return 0
    return int((found & ~numbers.find_numbers_in(vocabulary)[0]).sum())


def _join_text(column: Any) -> bytes:
    """Join the distinct values of a text column; nothing for other columns."""
    kind = plain_type(column.type)
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return b""
    distinct = pa.chunked_array([plain(chunk) for chunk in column.chunks], kind).unique()
    distinct = distinct.drop_null().cast(pa.large_binary())
    _, offsets, data = distinct.buffers()
    if not len(distinct) or data is None:
        return b""
    ends = np.frombuffer(offsets, np.int64)[distinct.offset : distinct.offset + len(distinct) + 1]
    text = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return np.insert(text, ends[1:-1] - ends[0], 0).tobytes()


def _list_vocabulary(manifest: Manifest, log: Log) -> bytes:
    """List the words that every such release has: an id among them names nobody."""
    columns = [name for name, _ in bundle_columns(log.stamped, log.zoned)]
    words = [*columns, *log.requests, *FIELDS, *REASONS, *GEO_KEYS, *GEO_COLUMN_KEYS]
    words.append(FORMAT_WORDS)
    # Moments and durations are compared with the log's own; an id that looks like one is none.
    for part in (manifest["parameters"], manifest["ingest"]):
        words += _walk([part.get(name) for name in TIMED])
    if manifest["crs"] is not None:
        words.append(pyproj.CRS.from_user_input(manifest["crs"]).to_json())
    return "\0".join(words).encode()


def _list_raw(published: Published) -> Iterator[bytes]:
    """List all bytes in which a text id could hide."""
    yield published.manifest.raw
    yield from (string.encode("utf-8", "surrogatepass") for string in _list_strings(published))
    for part in (published.bundles, published.requests):
        # The schema is there in base64, in which short ids occur by chance.
        yield part.outside.replace(part.metadata.get(ARROW_SCHEMA) or b"\0", b"\0")
        yield part.schema_bytes


def _list_strings(published: Published) -> Iterator[str]:
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


def find_column_problems(
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
        for user in _list_users(table[name], ids):
            rows = np.flatnonzero((user >= 0) & (bundle >= 0))
            position = members.find(user[rows] * num_windows + window[rows])
            own = pick(members.bundle, position) == bundle[rows]
            num_own = int(own.sum())
            expected = float(share[bundle[rows]].mean()) if len(rows) else 0.0
            distinct = len(list_distinct(user[rows[own]]))
            if _is_leak(num_own, len(rows), distinct, expected):
                problems.append(
                    f"request attribute '{name}' holds users' ids: in {num_own:,} of the "
                    f"{len(rows):,} rows with one it is that of a member of the row's own bundle"
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


def _list_users(column: Any, ids: Any) -> Iterator[npt.NDArray[np.int64]]:
    """Tell of each row the user whose id is its value; -1: none.

    Text is taken as a whole, and by the number in it if it holds just one.
    """
    kind = plain_type(column.type)
    if not len(column):
        return
    encoded = pa.chunked_array([plain(chunk) for chunk in column.chunks]).dictionary_encode()
    values = encoded.chunk(0).dictionary
    if pa.types.is_floating(kind):
        numbers = values.to_numpy(zero_copy_only=False)
        whole = np.isfinite(numbers) & (np.rint(numbers) == numbers) & (abs(numbers) < 2**53)
        values = pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=~whole)
    elif not (pa.types.is_integer(kind) or pa.types.is_string(kind)):
        return
    codes = np.concatenate(
        [pc.fill_null(chunk.indices, len(values)).to_numpy() for chunk in encoded.chunks]
    )
    texts = [pc.cast(values, pa.string())]
    if pa.types.is_string(kind):
        single = pc.extract_regex(values, r"^[^0-9]*(?P<number>[0-9]+)[^0-9]*$")
        texts.append(single.field("number"))
    for text in texts:
        user = pc.fill_null(pc.index_in(text, value_set=ids), -1).to_numpy().astype(np.int64)
        yield pick(user, codes)
