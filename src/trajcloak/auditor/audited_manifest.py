"""The manifest of a release: what each of its parameters may be."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc
import pyproj

from trajcloak.options import ALGORITHMS, DROPPABLE, EFFORTS, RARE, TREES

FORMAT_VERSION = 1
MAX_HEIGHT = 24
MAX_COORDINATE = 1e100
MOST = 2**31 - 1

IsRight = Callable[[Any], bool]


def _is_integer(least: int, most: int) -> IsRight:
    return lambda value: type(value) is int and least <= value <= most


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) <= MAX_COORDINATE


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_one_of(*known: Any) -> IsRight:
    return lambda value: isinstance(value, str) and value in known


def _or_null(is_right: IsRight) -> IsRight:
    return lambda value: value is None or is_right(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_zone(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(
            ZoneInfo(value) and pc.assume_timezone(pa.array([0], pa.timestamp("us")), value)
        )
    except (pa.ArrowException, ValueError, OSError, ZoneInfoNotFoundError):
        return False


def _is_system(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(pyproj.CRS.from_user_input(value))
    except pyproj.exceptions.CRSError:
        return False


def _is_rectangle(value: Any) -> bool:
    try:
        left, bottom, right, top = map(float, value.split(","))
    except (ValueError, AttributeError):
        return False
    edges = left, bottom, right, top
    is_box = all(map(math.isfinite, edges)) and left <= right and bottom <= top
    return is_box and bool(value == ",".join(map(repr, edges)))


def _is_list_of_reasons(value: Any) -> bool:
    reasons = value.split(",") if isinstance(value, str) else []
    return bool(reasons) and reasons == sorted(set(reasons)) and set(reasons) <= set(DROPPABLE)


def _is_list_of_names(value: Any) -> bool:
    is_list = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return is_list and len(set(value)) == len(value)


PARAMETERS: dict[str, IsRight] = {
    "origin": lambda value: _is_text(value) or _is_integer(-(2**62), 2**62)(value),
    "every": lambda value: _is_text(value) or _is_integer(1, 2**62)(value),
    "max_gap": lambda value: _is_text(value) or _is_integer(1, 2**62)(value),
    "length": _or_null(_is_integer(1, MOST)),
    "missing": _is_one_of("withhold", "hold"),
    "tz": _or_null(_is_zone),
    "log_crs": _or_null(_is_system),
    "clip": _or_null(_is_rectangle),
    "max_speed": _or_null(_is_positive),
    "drop": _or_null(_is_list_of_reasons),
    "align": _is_one_of("none", "day"),
    "windows": _or_null(_is_text),
    "tree": _is_one_of(*TREES),
    "effort": _is_one_of(*EFFORTS),
    "seed": _is_integer(0, 2**63 - 1),
    "suppress_above": _or_null(_is_positive),
    "max_suppressed": _or_null(lambda value: _is_number(value) and 0 <= value < 1),
    "members": _or_null(_is_integer(2, MOST)),
    "rows_alike": _is_flag,
    "requests": _is_list_of_names,
    "vocabulary": _is_flag,
    "rare": _is_one_of(*RARE),
    "rare_below": _is_integer(1, MOST),
    "link_safe": _is_flag,
    "allow": lambda value: _is_list_of_names(value) and value == sorted(value),
    "blocks": _is_integer(1, MOST),
}
"""Every parameter, and whether a value can be one."""

OPTIONAL = {"blocks"}
"""Parameters that are there only where they mean something."""

REGION: dict[str, IsRight] = {"x_min": _is_number, "y_min": _is_number, "side": _is_positive}

PARTS: dict[str, IsRight] = {
    "users": _is_integer(2, MOST),
    "per": _is_one_of("window", "instant"),
}

FIELDS: dict[str, IsRight] = {
    "format_version": _is_integer(FORMAT_VERSION, FORMAT_VERSION),
    "software": _is_text,
    "k": _is_integer(2, MOST),
    "algorithm": _is_one_of(*ALGORITHMS),
    "cloak": _is_one_of("mbr", "quad"),
    "crs": _or_null(_is_system),
    "height": _is_integer(1, MAX_HEIGHT),
    "parts": _or_null(
        lambda value: (
            isinstance(value, dict)
            and value.keys() == PARTS.keys()
            and all(is_right(value[name]) for name, is_right in PARTS.items())
        )
    ),
}
"""The fields that the others are computed from, besides parameters and region."""


def read_manifest_file(path: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """Read a manifest; returns it if it can be used, and what is wrong with it.

    Only what the other fields are computed from is looked at here.
    """
    try:
        found = json.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None, ["manifest.json cannot be read as JSON in UTF-8"]
    if not isinstance(found, dict):
        return None, ["manifest.json holds no JSON object"]
    problems = _find_wrong(found, FIELDS, "field")
    for name, rules in (("region", REGION), ("parameters", PARAMETERS)):
        inner = found.get(name)
        if not isinstance(inner, dict):
            problems.append(f"field '{name}' is missing, or no object")
            continue
        problems += _find_wrong(inner, rules, f"'{name}': field")
        unknown = len(inner.keys() - rules.keys())
        if unknown:
            # They are counted, not quoted: a name could be a user's.
            problems.append(f"'{name}' has {unknown} fields that the format does not have")
    if not problems:
        least = found["parameters"]["members"] or found["k"]
        if least < found["k"]:
            problems.append("parameter 'members' is less than k")
        if found["parts"] is not None and found["parts"]["users"] >= least:
            problems.append("field 'parts' asks for parts as large as bundles")
    return (None, problems) if problems else (found, [])


def _find_wrong(fields: dict[str, Any], rules: dict[str, IsRight], what: str) -> list[str]:
    return [
        f"{what} '{name}' cannot be what it is" if name in fields else f"{what} '{name}' is missing"
        for name, is_right in rules.items()
        if (name in fields and not is_right(fields[name]))
        or (name not in fields and name not in OPTIONAL)
    ]
