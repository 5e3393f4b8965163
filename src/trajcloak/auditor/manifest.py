"""The manifest of a release: its fields and the parameters in it."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyproj

FORMAT_VERSION = 1
MAX_HEIGHT = 32
REASONS_TO_DROP = (
    "clip", "empty", "out-of-range", "null-island", "swapped", "conflict", "teleport"
)  # fmt: skip
REASONS = ("outside_windows", "missing_location", "window_below_k", "suppressed", "rare_value")
RARE = ("keep", "drop", "other")

Rule = tuple[str, Callable[[Any], bool]]


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return _is_integer(value)


def _is_count(value: Any) -> bool:
    return _is_integer(value) and value >= 0


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | bool) or _is_number(value)


def _is_crs(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, str):
        return False
    try:
        return bool(pyproj.CRS.from_user_input(value).is_projected)
    except pyproj.exceptions.CRSError:
        return False


def _has_fields(value: Any, rules: dict[str, Rule]) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == rules.keys()
        and all(is_right(value[name]) for name, (_, is_right) in rules.items())
    )


def _is_zone(value: Any) -> bool:
    try:
        return value is None or (isinstance(value, str) and bool(ZoneInfo(value)))
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return False


def _is_reading(value: dict[str, Any]) -> bool:
    """Whether what is said of how the log was read can be used to read it."""
    speed = value.get("max_speed")
    drop = value.get("drop")
    return (
        (value.get("log_crs") is None or _is_system(value["log_crs"]))
        and (value.get("clip") is None or _is_rectangle(value["clip"]))
        and (speed is None or (_is_number(speed) and speed > 0))
        and (drop is None or (isinstance(drop, str) and set(drop.split(",")) <= {*REASONS_TO_DROP}))
    )


def _is_system(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(pyproj.CRS.from_user_input(value))
    except pyproj.exceptions.CRSError:
        return False


def _is_rectangle(value: Any) -> bool:
    try:
        edges = list(map(float, str(value).split(",")))
    except ValueError:
        return False
    return len(edges) == 4 and all(map(math.isfinite, edges)) and edges[:2] <= edges[2:]


def _is_names(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(name, str) for name in value)
        and value == sorted(set(value))
    )


def _is_parameters(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and {"origin", "every", "max_gap", "length", "missing"} <= value.keys()
        and value.get("align", "none") in ("none", "day")
        and isinstance(value.get("windows"), str | None)
        and _is_zone(value.get("tz"))
        and _is_reading(value)
        and (value["length"] is None or (_is_integer(value["length"]) and value["length"] >= 1))
        and value["missing"] in ("withhold", "hold")
        and value.get("rare", "keep") in RARE
        and (
            value.get("rare", "keep") == "keep"
            or (_is_integer(value.get("rare_below")) and value["rare_below"] >= 1)
        )
        and _is_names(value.get("allow"))
        and all(_is_scalar(part) for name, part in value.items() if name != "allow")
    )


COUNT: Rule = ("a count", _is_count)
TEXT: Rule = ("text", lambda value: isinstance(value, str))
NUMBER: Rule = ("a finite number", _is_number)
REASON: dict[str, Rule] = {"user_windows": COUNT, "requests": COUNT}
REGION: dict[str, Rule] = {
    "x_min": NUMBER,
    "y_min": NUMBER,
    "side": ("a positive number", lambda value: _is_number(value) and value > 0),
}
WHY: dict[str, Rule] = {
    reason: ("counts", lambda value: _has_fields(value, REASON)) for reason in REASONS
}
WITHHELD: dict[str, Rule] = {
    "users": COUNT,
    "requests": COUNT,
    "why": ("counts by reason", lambda value: _has_fields(value, WHY)),
}
LOCATED: dict[str, Rule] = dict.fromkeys(("reported", "interpolated", "held", "missing"), COUNT)
SCALAR: Rule = ("a plain value", _is_scalar)
QUANTILES: dict[str, Rule] = dict.fromkeys(("p5", "median", "p95"), SCALAR)
DROPPED: dict[str, Rule] = dict.fromkeys(REASONS_TO_DROP, COUNT)
INGEST: dict[str, Rule] = {
    "rows": COUNT,
    "dropped": ("counts by reason", lambda value: _has_fields(value, DROPPED)),
    "repeated": COUNT,
    "requests": COUNT,
    "users": COUNT,
    "start": SCALAR,
    "end": SCALAR,
    "instants": COUNT,
    "interval": (
        "durations, or null",
        lambda value: value is None or _has_fields(value, QUANTILES),
    ),
    "long_gaps": COUNT,
    "user_instants": ("counts", lambda value: _has_fields(value, LOCATED)),
    "crs": SCALAR,
    "zone": SCALAR,
    "ambiguous": COUNT,
    "nonexistent": COUNT,
}
FIELDS: dict[str, Rule] = {
    "format_version": (
        f"{FORMAT_VERSION}",
        lambda value: _is_integer(value) and value == FORMAT_VERSION,
    ),
    "software": TEXT,
    "k": ("an integer, at least 2", lambda value: _is_integer(value) and value >= 2),
    "algorithm": TEXT,
    "parameters": (
        "an object with origin, every, max_gap, length, missing and allow, a sorted list of names, "
        "all others plain values",
        _is_parameters,
    ),
    "cloak": ("'quad' or 'mbr'", lambda value: value in ("quad", "mbr")),
    "crs": ("a PROJ string of a projection, or null", _is_crs),
    "region": ("x_min, y_min and a positive side", lambda value: _has_fields(value, REGION)),
    "height": (f"0..{MAX_HEIGHT}", lambda value: _is_count(value) and value <= MAX_HEIGHT),
    "windows": COUNT,
    "instants": COUNT,
    "users": COUNT,
    "bundles": COUNT,
    "smallest_bundle": COUNT,
    "cost": NUMBER,
    "mean_cloak_area": NUMBER,
    "requests": COUNT,
    "withheld": ("users, requests and why", lambda value: _has_fields(value, WITHHELD)),
    "suppressed": COUNT,
    "generalised": COUNT,
    "ingest": ("a report on the log", lambda value: _has_fields(value, INGEST)),
}
"""Every field of a manifest, with what is expected of it."""


@dataclass(frozen=True)
class Manifest:
    """A manifest that has every field, each of the right type.

    ``raw`` is the file itself.
    """

    fields: dict[str, Any]
    raw: bytes

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def parameters(self) -> dict[str, Any]:
        """The public parameters."""
        return dict(self.fields["parameters"])

    @property
    def may_suppress(self) -> bool:
        """Whether users may be left out on purpose."""
        return any(
            self.parameters.get(name) is not None for name in ("suppress_above", "max_suppressed")
        )


def read_manifest(path: Path) -> tuple[Manifest | None, list[str]]:
    """Read a manifest; returns it if it is whole, and what is wrong with it.

    Unknown fields are counted, not quoted: a name could be a user's.
    """
    try:
        raw = path.read_bytes()
        fields = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constants
        )
    except (OSError, ValueError, RecursionError):
        return None, ["manifest.json cannot be read as JSON in UTF-8 with each key once"]
    if not isinstance(fields, dict):
        return None, ["manifest.json holds no JSON object"]
    problems = [
        f"field '{name}' is not {expected}" if name in fields else f"field '{name}' is missing"
        for name, (expected, is_right) in FIELDS.items()
        if name not in fields or not is_right(fields[name])
    ]
    whole = None if problems else Manifest(fields, raw)
    unknown = len(fields.keys() - FIELDS.keys())
    if unknown:
        problems.append(f"{unknown} fields that the format does not have")
    return whole, problems


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice")
    return fields


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
