"""The manifest of a release: its fields, the public parameters, and what each may be."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyproj

REASONS_TO_DROP = (
    "clip", "empty", "out-of-range", "null-island", "swapped", "conflict", "teleport"
)  # fmt: skip

FORMAT_VERSION = 1
MAX_HEIGHT = 32
REASONS = ("outside_windows", "missing_location", "window_below_k", "suppressed", "rare_value")
ALGORITHMS = (
    "traj-anon", "refined", "baseline", "fast-clustering", "slow-clustering",
    "hilbert-clustering", "exact",
)  # fmt: skip
SOFTWARE = re.compile(r"trajcloak [0-9]{1,3}(\.[0-9]{1,3}){1,3}((a|b|rc|\.dev|\.post)[0-9]{1,3})?")

FieldRule = tuple[str, Callable[[Any], bool]]


def is_integer(value: Any) -> bool:
    """Whether a value of JSON is an integer that every machine can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number."""
    return math.isfinite(value) if isinstance(value, float) else is_integer(value)


def _find_parameter_problems(parameters: dict[str, Any]) -> list[str]:
    """Find parameters that are missing, or of the wrong type."""
    problems = []
    for name, is_right in RULES.items():
        if name not in parameters:
            if name not in OPTIONAL:
                problems.append(f"parameter '{name}' is missing")
        elif not is_right(parameters[name]):
            problems.append(f"parameter '{name}' is not as documented")
    return problems


def _or_null(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or is_right(value)


def _one_of(*known: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in known


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _is_at_least_one(value: Any) -> bool:
    return is_integer(value) and value >= 1


def _is_time(value: Any) -> bool:
    """Whether a value may be a moment or a duration; its form is checked against the log."""
    return isinstance(value, str) or is_integer(value)


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value < 1


def _is_seed(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_zone(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        pc.assume_timezone(pa.array([0], pa.timestamp("us")), value)
    except (pa.ArrowException, ValueError):
        return False
    return True


def _is_system(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(pyproj.CRS.from_user_input(value))
    except pyproj.exceptions.CRSError:
        return False


def _is_rectangle(value: Any) -> bool:
    try:
        edges = list(map(float, value.split(",")))
    except (ValueError, AttributeError):
        return False
    return (
        len(edges) == 4
        and all(map(math.isfinite, edges))
        and edges[0] <= edges[2]
        and edges[1] <= edges[3]
        and value == ",".join(map(repr, edges))
    )


def _is_list_of_reasons(value: Any) -> bool:
    """Whether a value lists what is dropped; a rectangle to clip to is said elsewhere."""
    if not isinstance(value, str):
        return False
    reasons = value.split(",")
    return reasons == sorted(set(reasons)) and set(reasons) <= {*REASONS_TO_DROP} - {"clip"}


def _is_list_of_names(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


RULES: dict[str, Callable[[Any], bool]] = {
    "origin": _is_time,
    "every": _is_time,
    "max_gap": _is_time,
    "length": _or_null(_is_at_least_one),
    "missing": _one_of("withhold", "hold"),
    "tz": _or_null(_is_zone),
    "log_crs": _or_null(_is_system),
    "clip": _or_null(_is_rectangle),
    "max_speed": _or_null(_is_positive),
    "drop": _or_null(_is_list_of_reasons),
    "align": _one_of("none", "day"),
    "windows": _or_null(lambda value: isinstance(value, str)),
    "requests": _is_list_of_names,
    "allow": lambda value: _is_list_of_names(value) and value == sorted(value),
    "rare": _one_of("keep", "drop", "other"),
    "rare_below": _is_at_least_one,
    "suppress_above": _or_null(_is_positive),
    "max_suppressed": _or_null(_is_share),
    "tree": _one_of("usb", "usb-instant", "us", "u"),
    "effort": _one_of("normal", "low", "high"),
    "seed": _is_seed,
    "blocks": _is_at_least_one,
}
"""Every parameter, and whether a value can be one."""

OPTIONAL = {"blocks"}
"""Parameters that are there only where they mean something."""


def _is_count(value: Any) -> bool:
    return is_integer(value) and value >= 0


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | bool) or is_number(value)


def _is_crs(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, str):
        return False
    try:
        return bool(pyproj.CRS.from_user_input(value).is_projected)
    except pyproj.exceptions.CRSError:
        return False


def _has_fields(value: Any, rules: dict[str, FieldRule]) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == rules.keys()
        and all(is_right(value[name]) for name, (_, is_right) in rules.items())
    )


COUNT: FieldRule = ("a count", _is_count)
TEXT: FieldRule = ("text", lambda value: isinstance(value, str))
NUMBER: FieldRule = ("a finite number", is_number)
REASON: dict[str, FieldRule] = {"user_windows": COUNT, "requests": COUNT}
REGION: dict[str, FieldRule] = {
    "x_min": NUMBER,
    "y_min": NUMBER,
    "side": ("a positive number", lambda value: is_number(value) and value > 0),
}
WHY: dict[str, FieldRule] = {
    reason: ("counts", lambda value: _has_fields(value, REASON)) for reason in REASONS
}
WITHHELD: dict[str, FieldRule] = {
    "users": COUNT,
    "requests": COUNT,
    "why": ("counts by reason", lambda value: _has_fields(value, WHY)),
}
LOCATED: dict[str, FieldRule] = dict.fromkeys(
    ("reported", "interpolated", "held", "missing"), COUNT
)
SCALAR: FieldRule = ("a plain value", _is_scalar)
QUANTILES: dict[str, FieldRule] = dict.fromkeys(("p5", "median", "p95"), SCALAR)
DROPPED: dict[str, FieldRule] = dict.fromkeys(REASONS_TO_DROP, COUNT)
INGEST: dict[str, FieldRule] = {
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
FIELDS: dict[str, FieldRule] = {
    "format_version": (
        f"{FORMAT_VERSION}",
        lambda value: is_integer(value) and value == FORMAT_VERSION,
    ),
    "software": TEXT,
    "k": ("an integer, at least 2", lambda value: is_integer(value) and value >= 2),
    "algorithm": TEXT,
    "parameters": ("an object", lambda value: isinstance(value, dict)),
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


def read_manifest_file(path: Path) -> tuple[Manifest | None, list[str]]:
    """Read a manifest; returns it if it can be used, and what is wrong with it.

    Unknown fields are counted, not quoted: a name could be a user's.
    """
    try:
        raw = path.read_bytes()
        fields = json.loads(
            raw.decode("utf-8"), object_pairs_hook=no_duplicates, parse_constant=_no_constants
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
    if not problems:
        problems = _find_parameter_problems(fields["parameters"])
    if problems:
        return None, problems
    return Manifest(fields, raw), _find_foreign(fields, raw.decode("utf-8"))


def _find_foreign(fields: dict[str, Any], text: str) -> list[str]:
    """Look for what the format does not have, in a manifest that can be used."""
    problems = []
    for what, known, found in (
        ("fields", FIELDS, fields),
        ("parameters", RULES, fields["parameters"]),
    ):
        unknown = len(found.keys() - known.keys())
        if unknown:
            problems.append(f"{unknown} {what} that the format does not have")
    if not SOFTWARE.fullmatch(fields["software"]):
        problems.append("field 'software' is not trajcloak and its version")
    if fields["algorithm"] not in ALGORITHMS:
        problems.append("field 'algorithm' is no algorithm of trajcloak")
    spelled = json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if text != spelled:
        problems.append("keys are not sorted, or not indented by two blanks each on its own line")
    return problems


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of JSON, or raise if a key occurs twice."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice")
    return fields


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
