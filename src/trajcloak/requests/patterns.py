"""Patterns of text that identify people or places, such as e-mail addresses and coordinates."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class Pattern(NamedTuple):
    """A pattern of text.

    Attributes
    ----------
    name : str
        Its name in messages, in the plural.
    regex : str
        Matches anywhere in a value; case is ignored.
    """

    name: str
    regex: str


_OCTET = r"(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_DEGREES = r"[-+]?[0-9]{1,3}\.[0-9]{2,}"

PATTERNS = (
    Pattern("e-mail addresses", r"[a-z0-9._%+-]+@[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}"),
    Pattern(
        "phone numbers",
        r"^\s*(\+[0-9][0-9 ()./-]{6,}[0-9]"
        r"|\(?[0-9]{3}\)?[ .-]?[0-9]{3}[ .-][0-9]{4}"
        r"|0[0-9]{2,4}[ /-][0-9][0-9 -]{4,}[0-9]"
        r"|0[0-9]{9,13})\s*$",
    ),
    Pattern(
        "network addresses",
        rf"(^|[^0-9.])({_OCTET}\.){{3}}{_OCTET}($|[^0-9.])"
        r"|^([0-9a-f]{0,4}:){2,7}:[0-9a-f:.]*$|^[0-9a-f]{0,4}::[0-9a-f:.]*$"
        r"|^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$"
        r"|^([0-9a-f]{2}[:-]){5}[0-9a-f]{2}$",
    ),
    Pattern(
        "tokens",
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
        r"|(^|[^0-9a-z])[0-9a-f]{16,}($|[^0-9a-z])",
    ),
    Pattern("web addresses with ids", r"^\s*[a-z][a-z0-9+.-]*://\S*([?&][^=\s]+=|[0-9]{4,}|@)"),
    Pattern(
        "coordinates",
        rf"(^|[^0-9.]){_DEGREES}\s*(°?\s*[NS])?\s*[,;/ ]\s*{_DEGREES}($|[^0-9.])"
        rf"|[0-9]\s*°\s*[0-9NSEW]|^\s*(POINT|POLYGON|LINESTRING)\s*Z?\s*\(",
    ),
    Pattern("JSON", r'^\s*\{\s*("|\})|^\s*\[\s*(["{[]|-?[0-9.]+\s*,)'),
)

FREE_TEXT = "free text"
MANY_WORDS = r"\S\s+\S+\s+\S+\s+\S+\s+\S"
"""At least five words."""

MIN_TEXTS = 50
"""At least this many distinct values of many words are free text, not names of categories."""

TEXT_SHARE = 0.1
LONG_TEXT = 200
"""Characters; a value this long is free text even if it is the only one."""


def is_text(type_: pa.DataType) -> bool:
    """Whether values of a type are text."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def is_bytes(type_: pa.DataType) -> bool:
    """Whether values of a type are bytes that may mean anything."""
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


def match_patterns(values: pa.Array) -> list[tuple[str, npt.NDArray[np.bool_]]]:
    """List the patterns that some value matches, each with a mask of those values.

    Parameters
    ----------
    values
        Distinct text, without null.
    """
    found = [
        (pattern.name, _to_mask(pc.match_substring_regex(values, pattern.regex, ignore_case=True)))
        for pattern in PATTERNS
    ]
    wordy = _to_mask(pc.match_substring_regex(values, MANY_WORDS))
    is_long = _to_mask(pc.greater_equal(pc.utf8_length(values), LONG_TEXT))
    if is_long.any() or wordy.sum() >= max(MIN_TEXTS, TEXT_SHARE * len(values)):
        found.append((FREE_TEXT, wordy | is_long))
    return [(name, mask) for name, mask in found if mask.any()]


def _to_mask(matches: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = matches.to_numpy(zero_copy_only=False)
    return mask
