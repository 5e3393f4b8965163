"""User ids in all text of a release, its metadata and its manifest.

Only ids that are long enough to tell from chance are searched for; the others are the
business of ``own_ids.py``.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyproj

from trajcloak.auditor.cloaks import GEO_WORDS
from trajcloak.auditor.files import may_be_text, plain, plain_type, to_text
from trajcloak.auditor.logs import Log
from trajcloak.auditor.manifest import FIELDS, REASONS, Manifest
from trajcloak.auditor.parameters import RULES
from trajcloak.auditor.parts import ARROW_SCHEMA, Part, bundle_columns
from trajcloak.auditor.search import Words

LONG = 6
"""Characters of an id that is searched for in text."""

BY_CHANCE = 0.01
"""Where at most so many numbers of a text would be ids by chance, a single id is no chance."""

FEW = 3
ABOVE_CHANCE = 4
"""Otherwise more than ``FEW`` must be, and so many times more than by chance."""

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
    words, numbers = list_ids(log)
    problems = []
    table = published.requests.table
    for number, name in enumerate(table.column_names, 1):
        text = _join_text(table.column(number - 1))
        # What was sent and is not published tells what chance would do, too.
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
    kind = plain_type(column.type)
    if not may_be_text(kind):
        return b""
    distinct = pa.chunked_array([plain(chunk) for chunk in column.chunks], kind).unique()
    distinct = pc.utf8_lower(to_text(distinct.drop_null())).cast(pa.large_binary())
    _, offsets, data = distinct.buffers()
    if not len(distinct) or data is None:
        return b""
    ends = np.frombuffer(offsets, np.int64)[distinct.offset : distinct.offset + len(distinct) + 1]
    text = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return np.insert(text, ends[1:-1] - ends[0], 0).tobytes()


def _list_vocabulary(manifest: Manifest, log: Log) -> bytes:
    """List the words that every such release has: an id among them names nobody."""
    columns = [name for name, _ in bundle_columns(log.stamped, log.zoned)]
    words = [*columns, *log.requests, *FIELDS, *RULES, *REASONS, *GEO_WORDS]
    words += [FORMAT_WORDS, log.clock or ""]
    # Moments and durations are compared with the log's own; an id that looks like one is none.
    for part in (manifest["parameters"], manifest["ingest"]):
        words += _walk([part.get(name) for name in TIMED])
    if manifest["crs"] is not None:
        words.append(pyproj.CRS.from_user_input(manifest["crs"]).to_json())
    return "\0".join(words).encode()


def _list_raw(published: Published) -> Iterator[bytes]:
    """List all bytes in which a text id could hide."""
    yield published.manifest.raw
    strings = _list_strings(published)
    yield from (string.lower().encode("utf-8", "surrogatepass") for string in strings)
    for part in (published.bundles, published.requests):
        # The schema is there in base64, in which short ids occur by chance.
        yield b"\0".join(part.outside).replace(part.metadata.get(ARROW_SCHEMA) or b"\0", b"\0")
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
